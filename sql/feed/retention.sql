-- Retention: the transaction numbers and the partitions that no feed of a table needs any more.

CREATE FUNCTION inorder_internal.first_gap(numbers int8multirange) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN coalesce((SELECT upper(r) FROM unnest(numbers) AS r WHERE lower(r) = 0), 0);
END $$;

-- Return the lowest transaction number that at least one feed of the table has not read, or whose transaction has not
-- ended.
CREATE FUNCTION inorder_internal.passed(t inorder_internal.feed_table) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f record;
    number bigint := inorder_internal.first_gap(inorder_internal.ended_transactions(t.base));
BEGIN
    FOR f IN SELECT k AS feed, s.position, s.written_here, k.id
             FROM inorder_internal.feed AS k CROSS JOIN LATERAL inorder_internal.state_of(k.id) AS s
             WHERE k.relation = t.relation LOOP
        IF f.written_here IS NOT TRUE THEN
            PERFORM inorder_internal.say_restored(f.feed);
        END IF;
        -- The position includes unfinished batches of workers, although their rows are not read yet.
        number := least(number, inorder_internal.first_gap((f.position).transactions), (
            SELECT min(lower((b.batch).transactions)) FROM inorder_internal.unfinished_batches(f.id) AS b));
    END LOOP;
    RETURN number;
END $$;

-- Return the query for the partitions whose rows every feed has read, except empty partitions; null for a table without
-- partitions.
CREATE FUNCTION inorder_internal.passed_parts_query(t inorder_internal.feed_table, caller oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bound text := inorder_internal.bound(t, inorder_internal.passed(t));
BEGIN
    RETURN (SELECT 'SELECT pg_catalog.array_agg(pg_catalog.concat(p.part)) FROM (' || string_agg(format(
                'SELECT %L::pg_catalog.oid AS part WHERE EXISTS (SELECT FROM %strue)'
                ' AND NOT EXISTS (SELECT FROM %2$se.%3$I OPERATOR(pg_catalog.>=) %4$s)',
                part::oid, inorder_internal.part_source(t.relation, part, caller), t.key_column, bound), ' UNION ALL ')
                || ') AS p'
            FROM unnest(inorder_internal.leaves(t.relation)) AS part WHERE part <> t.relation);
END $$;

-- Lock and check a table, and return its description. Raise an error in REPEATABLE READ and SERIALIZABLE and on a
-- standby, because recent rows and feeds may not be visible.
CREATE FUNCTION inorder_internal.open_latest(caller oid, relation regclass, function text)
RETURNS inorder_internal.feed_table
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM inorder_internal.require_read_committed(
        function, 'Rows and feeds that were added since this transaction began would not be seen.');
    IF pg_is_in_recovery() THEN
        RAISE '% needs the primary', function USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = 'Rows and feeds that have not reached this standby would not be seen.';
    END IF;
    RETURN inorder_internal.open_table(caller, relation);
END $$;

CREATE FUNCTION inorder_internal.feed_passed(caller oid, relation regclass) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t inorder_internal.feed_table := inorder_internal.open_latest(caller, relation, 'feed_passed');
BEGIN
    -- This call uses a new snapshot, because the snapshot before the wait does not show a feed that was created during
    -- the wait.
    RETURN inorder_internal.passed(t);
END $$;

CREATE FUNCTION inorder_internal.feed_passed_partitions(caller oid, relation regclass) RETURNS SETOF regclass
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t inorder_internal.feed_table := inorder_internal.open_latest(caller, relation, 'feed_passed_partitions');
    members inorder_internal.found_batch.members%TYPE := inorder_internal.proved_members(t, caller);
    -- The positions are looked up first, and the rows in a later snapshot. A row that is committed in between therefore
    -- counts as unread.
    query text := inorder_internal.passed_parts_query(t, caller);
BEGIN
    IF query IS NOT NULL THEN
        RETURN QUERY SELECT unnest(inorder_internal.as_caller(t, query, false, caller)::oid[])::regclass;
    END IF;
    PERFORM inorder_internal.unchanged_members(t, members);
END $$;

CREATE FUNCTION @extschema@.feed_passed(relation regclass) RETURNS bigint
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_passed(regclass) IS
'Return the transaction number below which all feeds of a table have read and finished all rows.';

CREATE FUNCTION @extschema@.feed_passed_partitions(relation regclass) RETURNS SETOF regclass
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_passed_partitions(regclass) IS
'Return the partitions that no feed needs any more: they have rows, all with numbers below feed_passed.';
