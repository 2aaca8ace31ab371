-- The commit of a transaction that gives a batch to a worker must flush the WAL: a crash then cannot undo the
-- transaction. A deferred trigger ensures this. Changing the setting before the commit would not be enough. If the
-- caller is a function with a SET clause for synchronous_commit, the previous value is restored when this function
-- ends. A cursor WITH HOLD would need no trigger, but a transaction with such a cursor cannot be prepared.
CREATE FUNCTION inorder_internal.keep_commit() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    context text;
BEGIN
    GET DIAGNOSTICS context = PG_CONTEXT;
    IF strpos(context, chr(10)) > 0 THEN
        -- SET CONSTRAINTS was executed in a function. The end of this function may undo a change of the setting.
        PERFORM inorder_internal.force_commit();
    ELSIF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'local', true);
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER keep_commit AFTER INSERT OR UPDATE OF token, lease_end ON inorder_internal.worker_batch
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (new.token IS NOT NULL) EXECUTE FUNCTION inorder_internal.keep_commit();

-- Raise an error unless row_type is the row type of the table.
CREATE FUNCTION inorder_internal.check_row_type(t inorder_internal.feed_table, row_type regtype) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class AS c WHERE c.oid = t.relation AND c.reltype = row_type) THEN
        PERFORM inorder_internal.say_row_type(t, row_type);
    END IF;
END $$;

-- Return the attribute numbers of a row type, in the snapshot of the caller.
CREATE FUNCTION inorder_internal.columns_of(row_type regtype) RETURNS smallint[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT array_agg(a.attnum) FROM pg_type AS y JOIN pg_attribute AS a ON a.attrelid = y.typrelid
            WHERE y.oid = row_type AND a.attnum > 0 AND NOT a.attisdropped);
END $$;

-- Raise an error if one of these columns no longer exists. In a query that was parsed before the column was dropped,
-- other columns would take its place, because the columns of rows are returned by position.
CREATE FUNCTION inorder_internal.refuse_dropped(relation oid, columns smallint[]) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- has_column_privilege() examines the current columns, and returns null for a column that does not exist.
    IF EXISTS (SELECT FROM unnest(columns) AS c WHERE has_column_privilege(relation, c, 'SELECT') IS NULL) THEN
        PERFORM inorder_internal.say_columns_changed(relation, 'A column was dropped.');
    END IF;
END $$;

-- Return the rows of a batch that this transaction has found. The table is locked. With these settings, no code of the
-- table's owner is executed. The planner can inline a query that calls a STABLE function.
CREATE FUNCTION inorder_internal.rows_of_batch(
    t inorder_internal.feed_table, b @extschema@.feed_batch, row_type anyelement
) RETURNS SETOF anyelement
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET @reads@ AS $$
BEGIN
    PERFORM inorder_internal.check_row_type(t, pg_typeof(row_type));
    RETURN QUERY EXECUTE inorder_internal.text_for_rows(t, b, true);
EXCEPTION WHEN datatype_mismatch THEN
    PERFORM inorder_internal.say_columns_changed(t.relation, SQLERRM);
END $$;

-- Raise an error unless the plan of a statement reads the batch, and does not stop after some rows.
CREATE FUNCTION inorder_internal.check_statement(
    statement text, t inorder_internal.feed_table, b @extschema@.feed_batch, feed_name text
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    -- The types are qualified, because the search_path of the caller may find other types with these names.
    line pg_catalog.record;
    plan pg_catalog.jsonb;
BEGIN
    -- The statement is written for the search_path of the caller, and is planned with it. The loop opens a cursor,
    -- which is an error for a string with several statements, before any of them is executed.
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF, FORMAT JSON) ' OPERATOR(pg_catalog.||) statement USING t, b LOOP
        plan := pg_catalog.to_jsonb(line);
    END LOOP;
    IF pg_catalog.jsonb_path_exists(plan, 'strict $.**."Node Type" ? (@ == "Limit")', '{}', true) THEN
        RAISE 'the statement has LIMIT, OFFSET or FETCH FIRST, or is planned with a limit' USING
            ERRCODE = 'feature_not_supported',
            DETAIL = 'The position moves past the whole batch, including the rows that are left out.',
            HINT = 'Limit the rows with max_rows, as in feed_apply(name, statement, 10).';
    ELSIF NOT pg_catalog.jsonb_path_exists(
              plan, 'strict $.**."Function Name" ? (@ == "rows_of_batch")', '{}', true) THEN
        PERFORM inorder_internal.say_not_read(feed_name);
    END IF;
EXCEPTION WHEN invalid_cursor_definition THEN
    RAISE 'cannot run several statements over one batch' USING ERRCODE = 'syntax_error',
          HINT = 'Run the other statements separately, in the same transaction.';
END $$;

-- Run a statement that reads the rows of a batch, with the search_path of the caller. "row_type" is the name of the
-- table. If there are no rows, the statement is only checked, and the result is null.
CREATE FUNCTION inorder_internal.apply_rows(
    f inorder_internal.feed_view, row_type text, statement text, path text
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The statement itself keeps the settings of the caller. The name of the table may now be the name of a domain.
    -- NULL::domain would evaluate the conditions of the domain; a null array does not evaluate them.
    text_over_batch text := format(
        'WITH batch AS (SELECT * FROM inorder_internal.rows_of_batch($1, $2, (NULL::%s[])[1])) %s', row_type, statement);
    processed bigint;
BEGIN
    PERFORM set_config('enable_seqscan', 'on', true), set_config('search_path', path, true);
    PERFORM inorder_internal.check_statement(text_over_batch, f.t, (f.next).batch, f.name);
    IF (f.next).has_rows THEN
        EXECUTE text_over_batch USING f.t, (f.next).batch;
        GET DIAGNOSTICS processed = ROW_COUNT;
    END IF;
    RETURN processed;
END $$;

-- The body of feed_apply(). "path" is the search_path of the caller.
CREATE FUNCTION inorder_internal.apply_batch(name text, statement text, max_rows int, owner regrole, path text)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET @pinned@
AS $$
DECLARE
    f inorder_internal.feed_view;
    setting text;
    hash text;
    processed bigint;
BEGIN
    IF statement IS NULL THEN
        RAISE 'statement must not be null' USING ERRCODE = 'null_value_not_allowed';
    ELSIF statement ~ '(?ip)^([[:space:]]|[-]{2}.*(?!.)|/[*]((?!/[*]|[*]/)(.|[[:space:]]))*[*]/)*with[[:space:]/"-]' THEN
        PERFORM inorder_internal.say_with();
    END IF;
    f := inorder_internal.open_next_batch(
        inorder_internal.caller(), name COLLATE "default", owner, max_rows, false, true);
    -- A session checks a statement only once while there are no rows.
    setting := format('inorder.applied_%s', f.feed_id);
    hash := hashtextextended(statement, 0)::text;
    IF (f.next).has_rows THEN
        PERFORM inorder_internal.move_feed(f, (f.next).batch, (f.next).is_all);
    ELSIF current_setting(setting, true) = hash THEN
        RETURN NULL;
    END IF;
    processed := inorder_internal.apply_rows(f, (f.t).relation::text, statement, path);
    PERFORM set_config(setting, hash, false);
    IF (f.next).has_rows THEN
        PERFORM inorder_internal.unchanged_members(f.t, (f.next).members);
    END IF;
    RETURN processed;
END $$;

---- feed_apply: sql
BEGIN ATOMIC
    SELECT inorder_internal.apply_batch(name, statement, max_rows, owner, current_setting('search_path'::text));
END;
---- feed_read: plpgsql keys
BEGIN
    -- The position would move past rows that the caller does not fetch, because this function cannot find out which
    -- rows the caller fetches.
    RAISE 'the SQL edition has no feed_read' USING ERRCODE = 'feature_not_supported',
          HINT = 'Call feed_apply(name, statement, max_rows), or feed_take_batch(), feed_batch_rows() and feed_finish_batch() '
                 'in one transaction.';
END
---- feed_peek: plpgsql reads
DECLARE
    columns smallint[] := inorder_internal.columns_of(pg_typeof(row_type));
    k record;
BEGIN
    SELECT * INTO k FROM inorder_internal.next_rows(inorder_internal.caller(), name COLLATE "default", owner, max_rows, false);
    PERFORM inorder_internal.check_row_type(k.t, pg_typeof(row_type));
    IF k.batch IS DISTINCT FROM NULL THEN
        BEGIN
            RETURN QUERY EXECUTE inorder_internal.text_for_rows(k.t, k.batch, true);
        EXCEPTION WHEN datatype_mismatch THEN
            PERFORM inorder_internal.say_columns_changed((k.t).relation, SQLERRM);
        END;
        PERFORM inorder_internal.refuse_dropped((k.t).relation, columns),
                inorder_internal.unchanged_members(k.t, k.members);
    END IF;
END
---- feed_batch_rows: plpgsql reads
DECLARE
    columns smallint[] := inorder_internal.columns_of(pg_typeof(row_type));
    k inorder_internal.found_rows := inorder_internal.unfinished_rows(
        inorder_internal.caller(), name COLLATE "default", number, owner);
BEGIN
    PERFORM inorder_internal.check_row_type(k.t, pg_typeof(row_type));
    BEGIN
        RETURN QUERY EXECUTE inorder_internal.text_for_rows(k.t, k.batch, true);
    EXCEPTION WHEN datatype_mismatch THEN
        PERFORM inorder_internal.say_columns_changed((k.t).relation, SQLERRM);
    END;
    PERFORM inorder_internal.refuse_dropped((k.t).relation, columns),
            inorder_internal.unchanged_members(k.t, k.members), inorder_internal.make_durable(false);
END
