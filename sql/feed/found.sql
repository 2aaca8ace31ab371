-- What is found by queries of what follows a position: next_batch.sql decides, and ports.sql looks up.

CREATE TYPE inorder_internal.next_found AS (
    batch @extschema@.feed_batch, has_rows boolean, is_all boolean, members @extschema@.feed_member[],
    rest @extschema@.feed_batch, query text, ends_in bigint
);
COMMENT ON TYPE inorder_internal.next_found IS
'Internal type. What follows a position: the batch, null if no transaction has ended; whether it has rows, and all '
'that were committed; the tables that were proved; the rest of a set that has no rows any more, which comes first; '
'and, if the batch is limited by reading it, the query for its rows, empty if none is needed, and the transaction '
'after which it ends if these are fewer than the limit: see move_over().';

-- The number that a query over a table finds; null if it has no row.
CREATE FUNCTION inorder_internal.find_number(
    t inorder_internal.feed_table, query text, walks boolean, caller oid
) RETURNS bigint
LANGUAGE sql STABLE
RETURN nullif((inorder_internal.as_caller(
    t, format('SELECT ARRAY[pg_catalog.concat(e.number)] FROM (%s) AS e(number)', query), walks, caller))[1],
    ''::text)::bigint;

CREATE FUNCTION inorder_internal.has_row(t inorder_internal.feed_table, query text, caller oid)
RETURNS boolean
LANGUAGE sql STABLE
RETURN inorder_internal.find_number(t, query || ' LIMIT 1'::text, false, caller) IS NOT NULL;

-- A batch of many ranges of transactions, reduced to the first so many that have rows, where an index shows which have.
CREATE FUNCTION inorder_internal.without_empty(t inorder_internal.feed_table, b @extschema@.feed_batch, most bigint)
RETURNS @extschema@.feed_batch
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    numbers int8multirange := inorder_internal.ranges_with_rows(t, b.transactions, most);
BEGIN
    RETURN CASE WHEN numbers IS NULL THEN b ELSE inorder_internal.restricted(b, numbers) END;
END $$;

-- The query for rows of a batch. Where indexes show which have any, only of the first so many ranges, and of
-- partitions.
CREATE FUNCTION inorder_internal.found_query(
    t inorder_internal.feed_table, b @extschema@.feed_batch, most bigint, columns text, in_order boolean
) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN inorder_internal.batch_query(
        t, inorder_internal.parts_with_rows(t, b.transactions),
        inorder_internal.without_empty(t, b, coalesce(most, 9223372036854775807)), columns, in_order);
END $$;
