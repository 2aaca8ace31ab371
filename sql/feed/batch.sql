-- Functions that generate the query for the rows of a batch, by number or in the order of a column (order.sql). Other
-- functions find single rows of a batch, or restrict a batch to one transaction.

CREATE FUNCTION inorder_internal.whole_transactions(b @extschema@.feed_batch) RETURNS int8multirange
LANGUAGE sql IMMUTABLE
RETURN inorder_internal.minus(inorder_internal.minus((b).transactions, inorder_internal.one_number((b).resumed)),
                              inorder_internal.one_number((b).cut));

-- Return the query for the rows of a batch, with or without ORDER BY. The query selects the remaining rows of the
-- transaction in which the previous batch ended, the rows of whole transactions, and the first rows of the transaction
-- in which this batch ends.
CREATE FUNCTION inorder_internal.batch_query(
    t inorder_internal.feed_table, parts text, b @extschema@.feed_batch, columns text, in_order boolean
) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- "parts" is a condition that all rows of the batch satisfy, derived from their partitions (parts.c); null to read
    -- all partitions.
    source text := inorder_internal.whole_table(t) || coalesce('(' || parts || ') AND ', '');
    query text;
BEGIN
    IF (b.ordering).column_name IS NOT NULL AND NOT isempty(b.transactions) THEN
        RETURN format('(SELECT %s %s%s)', columns,
                      inorder_internal.piece(t, b, (b.ordering).walked_from,
                                             coalesce((b.ordering).up_to, 9223372036854775807), NULL),
                      CASE WHEN in_order THEN format(' ORDER BY e.%I', (b.ordering).column_name) ELSE '' END);
    ELSIF b.resumed IS NULL AND b.cut IS NULL THEN
        query := inorder_internal.ranges(t, source, b.transactions, columns, in_order);
    ELSE
        query := concat_ws(' UNION ALL ',
            CASE WHEN b.resumed IS NOT NULL
                 THEN inorder_internal.slice(t, source, b.resumed, b.resumed_after,
                                             CASE WHEN b.cut = b.resumed THEN b.cut_after END, columns, in_order) END,
            inorder_internal.ranges(t, source, inorder_internal.whole_transactions(b), columns, in_order),
            CASE WHEN b.cut IS NOT NULL AND b.cut IS DISTINCT FROM b.resumed
                 THEN inorder_internal.slice(t, source, b.cut, NULL, b.cut_after, columns, in_order) END);
    END IF;
    RETURN coalesce(query, format('SELECT %s FROM %sfalse', columns, inorder_internal.whole_table(t)));
END $$;

-- Run a query on a table, and return the number that it selects; null if the query returns no row.
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

-- Return the query for rows of a batch. If indexes show which partitions have rows, the query is limited to these
-- partitions.
CREATE FUNCTION inorder_internal.found_query(
    t inorder_internal.feed_table, b @extschema@.feed_batch, columns text, in_order boolean
) RETURNS text
LANGUAGE sql STABLE
RETURN inorder_internal.batch_query(t, inorder_internal.parts_with_rows(t, (b).transactions), b, columns, in_order);

-- Return the part of a batch that belongs to one transaction. The result is a batch that resumes this transaction, so
-- that the query for its rows finds the rows by their key.
CREATE FUNCTION inorder_internal.rest_of_one(b @extschema@.feed_batch, number bigint)
RETURNS @extschema@.feed_batch
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    b.resumed_after := CASE WHEN b.resumed = number THEN b.resumed_after END;
    b.resumed := number;
    b.transactions := inorder_internal.one_number(number);
    RETURN b;
END $$;

-- Return the query for the n-th row of a batch. The query returns the key of this row, the key of the next row (empty
-- if there is no next row), and the columns that distinguish this row from other rows of its transaction. The caller
-- extracts the number from a key with number_of(), because planning this conversion as part of the query would take
-- longer.
CREATE FUNCTION inorder_internal.place_query(
    t inorder_internal.feed_table, parts text, b @extschema@.feed_batch, place int
) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- The key is converted by the output function of the type instead of a cast, because any role may create a cast for
    -- its own type. The outer query converts the key of one row only.
    RETURN format('SELECT ARRAY[%s] FROM (SELECT e.*, pg_catalog.lead(e.%I) OVER () AS cmin '
                  'FROM (SELECT e.* FROM (%s) AS e OFFSET %s LIMIT 2) AS e) AS e LIMIT 1',
        inorder_internal.column_list(ARRAY[t.key_column, 'cmin'] || t.order_columns, 'pg_catalog.concat(e.%I)'),
        t.key_column,
        inorder_internal.batch_query(t, parts, b, inorder_internal.column_list(inorder_internal.known_columns(t)),
                                     true),
        place - 1);
END $$;
