-- Positions kept by the reader, without state in the database. Rows are returned by feed.c.

-- Raise an error if the numbers in a position or batch belong to another server or timeline.
CREATE FUNCTION inorder_internal.check_origin(origin text) RETURNS void
LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF origin <> inorder_internal.server_origin() THEN
        RAISE 'this position is of another server or timeline' USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = format('The position was made on %s, and this server is %s (system identifier/timeline). '
                              'Transactions that were read there may be missing here, and their numbers may be used '
                              'again.',
                              origin, inorder_internal.server_origin()),
              HINT = 'If no transaction was lost, as in a switchover or pg_upgrade, set the origin of the position to '
                     'null and continue.';
    END IF;
END $$;

-- Check a position that a reader keeps. Raise an error if it cannot be from this server.
CREATE FUNCTION inorder_internal.check_position(p @extschema@.feed_position) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF p.transactions IS NULL THEN
        RAISE 'from_position must not be null' USING ERRCODE = 'null_value_not_allowed',
              HINT = 'Call reader_start() for an initial position.';
    ELSIF NOT inorder_internal.are_numbers(p.transactions) THEN
        RAISE 'the position holds transactions %, which must be between 0 and 281474976710655',
            inorder_internal.few_of(p.transactions)
        USING ERRCODE = 'numeric_value_out_of_range';
    ELSIF p.partial NOT BETWEEN 0 AND 281474976710655 OR p.transactions @> p.partial THEN
        RAISE 'the position is inside transaction %, which must be between 0 and 281474976710655 and not read yet',
            p.partial USING ERRCODE = 'numeric_value_out_of_range';
    ELSIF NOT inorder_internal.is_place(p) THEN
        RAISE 'invalid position: ordering is %', left(p.ordering::text, 200)
        USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = 'Attributes of the ordering are missing, or its column or set is not valid.',
              HINT = 'Call feed_seek() or, for a new position, reader_start().';
    END IF;
    PERFORM inorder_internal.check_origin(p.origin);
END $$;

-- Raise an error unless a batch that a reader keeps could be from this server.
CREATE FUNCTION inorder_internal.check_kept_batch(b @extschema@.feed_batch) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF b.transactions IS NULL THEN
        RAISE 'batch must not be null' USING ERRCODE = 'null_value_not_allowed',
              HINT = 'Call reader_next_batch() for a batch.';
    END IF;
    PERFORM inorder_internal.check_origin(b.origin);
END $$;

-- Return an initial position, in the order of order_column unless it is null.
CREATE FUNCTION inorder_internal.first_position(
    t inorder_internal.feed_table, start text, order_column name, OUT at_position @extschema@.feed_position
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF order_column IS NOT NULL THEN
        PERFORM inorder_internal.prove_column(t, order_column, false);
    END IF;
    IF start IS NULL OR start NOT IN ('beginning', 'now') THEN
        RAISE 'start must be ''beginning'' or ''now'', not %', coalesce(quote_literal(start), 'null')
        USING ERRCODE = 'invalid_parameter_value';
    END IF;
    at_position.format := inorder_internal.position_format();
    at_position.transactions := CASE start WHEN 'now' THEN inorder_internal.ended_everywhere(t.base) ELSE '{}' END;
    at_position.ordering := inorder_internal.new_order(t.relation, order_column);
    at_position.members := inorder_internal.members(t);
    at_position.origin := inorder_internal.server_origin();
END $$;

-- Return the description of a table that the caller may read.
CREATE FUNCTION inorder_internal.readable_table(caller oid, relation regclass)
RETURNS inorder_internal.feed_table
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF inorder_internal.lock_readable(relation, caller) IS NOT TRUE THEN
        PERFORM inorder_internal.check_reader(caller, relation);
    END IF;
    RETURN inorder_internal.table_of(relation);
END $$;

-- Lock and check a table that the caller may read, and return its description.
CREATE FUNCTION inorder_internal.open_table(caller oid, relation regclass)
RETURNS inorder_internal.feed_table
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t inorder_internal.feed_table := inorder_internal.lock_table(
        inorder_internal.readable_table(caller, relation), caller);
BEGIN
    PERFORM inorder_internal.proved_members(t, caller);
    RETURN t;
END $$;

CREATE FUNCTION inorder_internal.reader_start(caller oid, relation regclass, start text, order_column name)
RETURNS @extschema@.feed_position
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    origin text := inorder_internal.server_origin();
    t inorder_internal.feed_table := inorder_internal.open_table(caller, relation);
    p inorder_internal.feed_view.at_position%TYPE := inorder_internal.first_position(t, start, order_column);
BEGIN
    PERFORM inorder_internal.make_durable(false), inorder_internal.expect_origin(origin);
    RETURN p;
END $$;

CREATE FUNCTION inorder_internal.reader_next_batch(
    caller oid, relation regclass, from_position @extschema@.feed_position, max_rows int, whole_transactions boolean
) RETURNS @extschema@.feed_batch
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    origin text := inorder_internal.server_origin();
    t inorder_internal.feed_table;
    n inorder_internal.found_batch;
BEGIN
    -- The position is checked first, because the server may be promoted during the wait for the table. The position
    -- would then belong to another timeline.
    PERFORM inorder_internal.check_position(from_position);
    t := inorder_internal.readable_table(caller, relation);
    n := inorder_internal.find_next_batch(
        t, from_position, max_rows, coalesce(whole_transactions, false), true, caller);
    -- The unread part of a set is returned first, because a batch belongs to one set.
    IF (n.rest).transactions IS NOT NULL THEN
        n.batch := n.rest;
    ELSIF NOT n.has_rows AND ((n.batch).transactions IS NULL OR NOT inorder_internal.passes_empty_batches()) THEN
        RETURN inorder_internal.no_batch(from_position);
    END IF;
    PERFORM inorder_internal.unchanged_members(t, n.members), inorder_internal.make_durable(false),
            inorder_internal.expect_origin(origin);
    RETURN n.batch;
END $$;

CREATE FUNCTION inorder_internal.reader_seek(
    caller oid, relation regclass, from_position @extschema@.feed_position, OUT at_position @extschema@.feed_position
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    origin text := inorder_internal.server_origin();
    t inorder_internal.feed_table;
BEGIN
    PERFORM inorder_internal.check_position(from_position);
    t := inorder_internal.open_table(caller, relation);
    PERFORM inorder_internal.check_same(t, from_position.members, 'position'), inorder_internal.expect_origin(origin);
    at_position := inorder_internal.with_table(t, from_position);
    PERFORM inorder_internal.prove_known_order(t, at_position);
END $$;

CREATE FUNCTION inorder_internal.reader_backlog(
    caller oid, relation regclass, from_position @extschema@.feed_position,
    OUT transactions bigint, OUT rows bigint
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t inorder_internal.feed_table;
BEGIN
    PERFORM inorder_internal.check_reader(caller, relation), inorder_internal.check_position(from_position);
    t := inorder_internal.open_table(caller, relation);
    SELECT b.transactions, b.rows INTO transactions, rows
    FROM inorder_internal.backlog(t, from_position, '{}', true) AS b;
END $$;

CREATE FUNCTION inorder_internal.kept_rows(caller oid, relation regclass, batch @extschema@.feed_batch)
RETURNS inorder_internal.found_rows
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t inorder_internal.feed_table := inorder_internal.readable_table(caller, relation);
BEGIN
    PERFORM inorder_internal.check_kept_batch(batch);
    RETURN inorder_internal.rows_of(inorder_internal.lock_table(t, caller), batch, caller);
END $$;

-- Return the query for the rows of a batch.
CREATE FUNCTION inorder_internal.query_of_batch(
    caller oid, relation regclass, batch @extschema@.feed_batch
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    origin text := inorder_internal.server_origin();
    k inorder_internal.found_rows;
BEGIN
    -- All lookups use one snapshot, which must also be the snapshot of the query.
    IF current_setting('transaction_isolation') = 'read committed' THEN
        RAISE 'a query for the rows of a batch needs REPEATABLE READ, not READ COMMITTED'
        USING ERRCODE = 'active_sql_transaction',
              HINT = 'Use BEGIN ISOLATION LEVEL REPEATABLE READ, or call reader_batch_rows() to read the rows.';
    END IF;
    k := inorder_internal.kept_rows(caller, relation, batch);
    -- The rows are returned as this snapshot sees them; they may have been updated since the batch was found.
    PERFORM inorder_internal.make_durable(false), inorder_internal.expect_origin(origin);
    RETURN format('SELECT e.* FROM (%s) AS e WHERE %strue', inorder_internal.text_for_rows(k.t, k.batch, true),
                  inorder_internal.typed(relation, NULL));
END $$;

-- Wait until a feed has new rows, or until rows follow a position that a reader keeps.
CREATE FUNCTION inorder_internal.wait_for_rows(
    caller oid, timeout interval, feed text, owner oid, relation regclass, from_position @extschema@.feed_position,
    is_feed boolean
) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The interval 12 months -360 days is equal to 0 in the comparison below, but its epoch is 5.25 days.
    seconds float8 := least(extract(epoch FROM timeout)::float8, 1);
    has_rows boolean;
    f inorder_internal.feed_view;
    t inorder_internal.feed_table;
BEGIN
    IF timeout IS NULL THEN
        RAISE 'timeout must not be null' USING ERRCODE = 'null_value_not_allowed';
    ELSIF timeout NOT BETWEEN '0' AND '1 second' THEN
        RAISE 'timeout must be between 0 and 1 second, not %', timeout
        USING ERRCODE = 'invalid_parameter_value',
              HINT = 'Call the function in a loop: during a call, its snapshot keeps VACUUM from removing rows.';
    END IF;
    PERFORM inorder_internal.require_read_committed('waiting for rows', 'Rows committed later would not be seen.');
    WHILE has_rows IS NOT TRUE AND inorder_internal.await_look(seconds, has_rows IS NULL) LOOP
        -- The error with this SQLSTATE causes a rollback to a savepoint, which releases the locks of the search.
        -- Otherwise ALTER TABLE with a lock_timeout would never get its lock.
        BEGIN
            IF NOT is_feed THEN
                t := inorder_internal.readable_table(caller, relation);
                PERFORM inorder_internal.check_position(from_position);
                has_rows := (inorder_internal.find_next_batch(
                    t, from_position, NULL, false, false, caller)).has_rows IS TRUE;
            ELSE
                f := inorder_internal.open_next_batch(caller, feed, owner, NULL, true, false);
                -- True if feed_take_batch() would return a batch.
                has_rows := ((f.next).has_rows AND NOT inorder_internal.is_held(f)) IS TRUE
                    OR inorder_internal.has_free(inorder_internal.state_of(f.feed_id), (f.shared_by).shares, NULL);
                IF NOT has_rows AND inorder_internal.namesake(f.t) IS NOT NULL THEN
                    PERFORM inorder_internal.refuse_swapped(f);
                END IF;
            END IF;
            RAISE SQLSTATE 'IOLOK';
        EXCEPTION WHEN SQLSTATE 'IOLOK' THEN
            NULL;
        END;
    END LOOP;
    RETURN has_rows;
END $$;

CREATE FUNCTION inorder_internal.reader_wait(
    caller oid, relation regclass, from_position @extschema@.feed_position, timeout interval
) RETURNS boolean
LANGUAGE sql VOLATILE
RETURN inorder_internal.wait_for_rows(caller, timeout, NULL::text, NULL::oid, relation, from_position, false);

CREATE FUNCTION inorder_internal.feed_wait(caller oid, name text, timeout interval, owner regrole)
RETURNS boolean
LANGUAGE sql VOLATILE
RETURN inorder_internal.wait_for_rows(
    caller, timeout, name, owner::oid, NULL::regclass, NULL::@extschema@.feed_position, true);

CREATE FUNCTION @extschema@.reader_start(
    relation regclass, start text DEFAULT 'beginning', order_column name DEFAULT NULL
) RETURNS @extschema@.feed_position
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.reader_start(regclass, text, name) IS
'Return the initial position for a reader that keeps its position itself.';

CREATE FUNCTION @extschema@.reader_next_batch(
    relation regclass, from_position @extschema@.feed_position, max_rows int DEFAULT NULL,
    whole_transactions boolean DEFAULT false
) RETURNS @extschema@.feed_batch
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.reader_next_batch(regclass, @extschema@.feed_position, int, boolean) IS
'Return the batch that follows a position kept by the reader.';

CREATE FUNCTION @extschema@.reader_batch_rows(relation regclass, batch @extschema@.feed_batch, row_type anyelement)
RETURNS SETOF anyelement
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.reader_batch_rows(regclass, @extschema@.feed_batch, anyelement) IS
'Return the rows of a batch, ordered by transaction number, then by key, or by the order column.';
-- The tool calls this function: see inorder_text.feed_batch_rows().
CREATE FUNCTION inorder_text.reader_batch_rows(relation regclass, batch @extschema@.feed_batch, row_type anyelement)
RETURNS SETOF anyelement
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION inorder_internal.query_of_batch(relation regclass, batch @extschema@.feed_batch) RETURNS text
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- Return a query that the caller will execute. Until the transaction ends, settings make the query use the index.
CREATE FUNCTION inorder_internal.by_index(query text) RETURNS text
LANGUAGE sql VOLATILE
RETURN CASE WHEN concat(set_config('jit'::text, 'off'::text, true),
                        set_config('enable_memoize'::text, 'off'::text, true),
                        set_config('constraint_exclusion'::text, 'off'::text, true),
                        set_config('max_parallel_workers_per_gather'::text, '0'::text, true),
                        set_config('enable_seqscan'::text, 'off'::text, true),
                        set_config('enable_bitmapscan'::text, 'off'::text, true)) IS NOT NULL
            THEN query END;

CREATE FUNCTION @extschema@.reader_batch_query(relation regclass, batch @extschema@.feed_batch) RETURNS text
LANGUAGE sql VOLATILE
RETURN inorder_internal.by_index(inorder_internal.query_of_batch(relation, batch));
COMMENT ON FUNCTION @extschema@.reader_batch_query(regclass, @extschema@.feed_batch) IS
'Return a query for the rows of a batch in order; run it with COPY or a cursor in the same transaction.';

CREATE FUNCTION @extschema@.reader_seek(relation regclass, from_position @extschema@.feed_position)
RETURNS @extschema@.feed_position
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.reader_seek(regclass, @extschema@.feed_position) IS
'Adapt a position kept by the reader to the current state of the table, like feed_seek with ''here'', and return it.';

CREATE FUNCTION @extschema@.reader_wait(
    relation regclass, from_position @extschema@.feed_position, timeout interval DEFAULT '1 second'
) RETURNS boolean
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.reader_wait(regclass, @extschema@.feed_position, interval) IS
'Wait until the batch that follows a position kept by the reader has rows, or until the timeout has passed.';

CREATE FUNCTION @extschema@.reader_backlog(
    relation regclass, from_position @extschema@.feed_position,
    OUT transactions bigint, OUT rows bigint
)
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.reader_backlog(regclass, @extschema@.feed_position) IS
'Return the numbers of transactions and of rows that follow a position kept by the reader.';
