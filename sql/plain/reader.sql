CREATE FUNCTION inorder_internal.checked_timeout(timeout interval)
RETURNS interval
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF timeout IS NULL THEN
        RAISE 'timeout must not be null' USING ERRCODE = 'null_value_not_allowed';
    ELSIF timeout NOT BETWEEN '0' AND '1 second' THEN
        RAISE 'timeout must be between 0 and 1 second, not %', timeout
        USING ERRCODE = 'invalid_parameter_value',
              HINT = 'Call the function again: while it runs, its snapshot keeps VACUUM from removing rows.';
    END IF;
    PERFORM inorder_internal.require_read_committed('waiting for rows', 'Rows that come later would not be seen.');
    RETURN timeout;
END $$;

-- A position to begin with, in the order of a column if one is given.
CREATE FUNCTION inorder_internal.first_position(
    t inorder_internal.feed_table, start text, order_column name
)
RETURNS @extschema@.feed_position
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF order_column IS NOT NULL THEN
        PERFORM inorder_internal.type_of_column(t.relation, order_column),
                inorder_internal.prove_order_column(t, order_column);
    END IF;
    RETURN inorder_internal.start_position(t, start, order_column);
END $$;

CREATE FUNCTION inorder_internal.next_after(
    relation regclass, from_position @extschema@.feed_position, max_rows int, whole boolean
)
RETURNS inorder_internal.next_found
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    caller oid := inorder_internal.caller();
BEGIN
    PERFORM inorder_internal.check_reader(caller, relation),
            inorder_internal.check_position(from_position);
    RETURN inorder_internal.find_next(inorder_internal.table_of(relation), from_position, max_rows, whole, caller);
END $$;

-- The query for the rows of a batch kept by a reader, and whether it reads a btree.
CREATE FUNCTION inorder_internal.rows_query(
    relation regclass, batch @extschema@.feed_batch, OUT query text, OUT ordered boolean
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET row_security = on
AS $$
DECLARE
    caller oid := inorder_internal.caller();
    t inorder_internal.feed_table;
BEGIN
    PERFORM inorder_internal.check_reader(caller, relation);
    t := inorder_internal.table_of(relation);
    PERFORM inorder_internal.check_kept_batch(batch), inorder_internal.lock_tree(relation, 'ACCESS SHARE');
    query := inorder_internal.readers_query(t, inorder_internal.batch_text(t, batch, inorder_internal.members(t), caller));
    ordered := t.ordered;
END $$;

---- feed_start: plpgsql
DECLARE
    caller oid := inorder_internal.caller();
    t inorder_internal.feed_table;
    p @extschema@.feed_position;
BEGIN
    PERFORM inorder_internal.check_reader(caller, relation);
    t := inorder_internal.table_of(relation);
    PERFORM inorder_internal.lock_tree(relation, 'ACCESS SHARE'), inorder_internal.prove_ground(t, caller);
    p := inorder_internal.first_position(t, start, order_column);
    PERFORM inorder_internal.make_durable(false);
    RETURN p;
END
---- feed_batch_after: plpgsql
DECLARE
    t inorder_internal.feed_table;
    n inorder_internal.next_found := inorder_internal.next_after(relation, from_position, max_rows,
                                                                 coalesce(whole_transactions, false));
BEGIN
    -- A batch without rows is not passed, so that a poll that finds nothing has nothing to flush; but what is left of a
    -- set is, since the next batch follows it.
    IF (n.rest).transactions IS NOT NULL THEN
        n.batch := n.rest;
    ELSIF NOT n.has_rows THEN
        RETURN inorder_internal.no_batch(from_position);
    END IF;
    t := inorder_internal.table_of(relation);
    PERFORM inorder_internal.check_members(t, n.members), inorder_internal.make_durable(false);
    RETURN n.batch;
END
---- feed_rows: plpgsql reads
DECLARE
    caller oid := inorder_internal.caller();
    t inorder_internal.feed_table;
    members @extschema@.feed_member[];
    query text;
BEGIN
    PERFORM inorder_internal.check_reader(caller, relation);
    t := inorder_internal.table_of(relation);
    PERFORM inorder_internal.check_row_type(relation, pg_typeof(row_type)), inorder_internal.check_kept_batch(batch),
            inorder_internal.lock_tree(relation, 'ACCESS SHARE');
    members := inorder_internal.members(t);
    query := inorder_internal.batch_text(t, batch, members, caller);
    PERFORM inorder_internal.allow_bitmaps(t);
    BEGIN
        RETURN QUERY EXECUTE query;
    EXCEPTION WHEN datatype_mismatch THEN
        PERFORM inorder_internal.say_columns_changed(t.relation, SQLERRM);
    END;
    PERFORM inorder_internal.check_members(t, members);
END
---- feed_wait_after: plpgsql
DECLARE
    ends timestamptz := clock_timestamp() + inorder_internal.checked_timeout(timeout);
    found boolean;
BEGIN
    LOOP
        -- An error takes back the locks of the look, and this one is no error of the caller's.
        BEGIN
            found := (inorder_internal.next_after(relation, from_position, NULL, false)).has_rows;
            RAISE SQLSTATE 'IOLOK';
        EXCEPTION WHEN SQLSTATE 'IOLOK' THEN
            IF found THEN
                RETURN true;
            END IF;
        END;
        IF clock_timestamp() >= ends THEN
            RETURN false;
        END IF;
        PERFORM pg_sleep(least(0.01, extract(epoch FROM ends - clock_timestamp())));
    END LOOP;
END
---- feed_backlog: plpgsql
DECLARE
    caller oid := inorder_internal.caller();
    t inorder_internal.feed_table;
BEGIN
    PERFORM inorder_internal.check_reader(caller, relation), inorder_internal.check_position(from_position);
    t := inorder_internal.table_of(relation);
    PERFORM inorder_internal.lock_tree(relation, 'ACCESS SHARE'), inorder_internal.prove_ground(t, caller);
    SELECT b.transactions, b.rows INTO transactions, rows_estimated FROM inorder_internal.backlog(t, from_position) AS b;
END
---- feed_rows_query: plpgsql keys
DECLARE
    found record;
BEGIN
    IF current_setting('transaction_isolation') = 'read committed' THEN
        RAISE 'feed_rows_query needs REPEATABLE READ or SERIALIZABLE, not READ COMMITTED'
        USING ERRCODE = 'active_sql_transaction';
    END IF;
    SELECT * INTO found FROM inorder_internal.rows_query(relation, batch);
    PERFORM set_config(s.name, s.value, true)
    FROM (VALUES ('jit', 'off'), ('enable_memoize', 'off'), ('constraint_exclusion', 'off'),
                 ('max_parallel_workers_per_gather', '0'), ('enable_seqscan', 'off'),
                 ('enable_bitmapscan', CASE WHEN found.ordered THEN 'off' ELSE 'on' END)) AS s(name, value);
    RETURN found.query;
END
