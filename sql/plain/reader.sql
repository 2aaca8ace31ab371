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

---- reader_batch_rows: plpgsql reads
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
---- reader_wait: plpgsql
DECLARE
    ends timestamptz := clock_timestamp() + inorder_internal.checked_timeout(timeout);
    found boolean;
BEGIN
    LOOP
        -- An error takes back the locks of the look, and this one is no error of the caller's.
        BEGIN
            found := inorder_internal.has_rows_after(inorder_internal.caller(), relation, from_position);
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
---- reader_batch_query: plpgsql keys
DECLARE
    found record;
BEGIN
    IF current_setting('transaction_isolation') = 'read committed' THEN
        RAISE 'reader_batch_query needs REPEATABLE READ or SERIALIZABLE, not READ COMMITTED'
        USING ERRCODE = 'active_sql_transaction';
    END IF;
    SELECT * INTO found FROM inorder_internal.rows_query(relation, batch);
    PERFORM set_config(s.name, s.value, true)
    FROM (VALUES ('jit', 'off'), ('enable_memoize', 'off'), ('constraint_exclusion', 'off'),
                 ('max_parallel_workers_per_gather', '0'), ('enable_seqscan', 'off'),
                 ('enable_bitmapscan', CASE WHEN found.ordered THEN 'off' ELSE 'on' END)) AS s(name, value);
    RETURN found.query;
END
