-- Feeds: positions that the database keeps.
--
-- The public functions find the feed, check the caller's privileges, and lock the feed. The state of the feed is read
-- after the lock is granted, because another reader may have changed the state in the meantime: see take.sql.

-- Raise an error unless the name is a valid feed name.
CREATE FUNCTION inorder_internal.check_name(feed_name text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF feed_name IS NULL THEN
        RAISE 'the name of a feed must not be null' USING ERRCODE = 'null_value_not_allowed';
    ELSIF char_length(feed_name) NOT BETWEEN 1 AND 200 THEN
        RAISE 'the name of a feed must have 1 to 200 characters, not %', char_length(feed_name)
        USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

CREATE FUNCTION inorder_internal.say_exists(feed_name text, owner oid) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE 'feed "%" of role % already exists', feed_name,
          coalesce(quote_ident(inorder_internal.role_name(owner)), owner::text)
    USING ERRCODE = 'duplicate_object';
END $$;

CREATE FUNCTION inorder_internal.create_feed(
    feed_name text, caller oid, relation regclass, from_position @extschema@.feed_position, whole_transactions boolean,
    partition_by name, shares int
) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    feed bigint;
BEGIN
    PERFORM inorder_internal.sweep();
    FOR feed IN SELECT f.id FROM inorder_internal.feed AS f
                WHERE f.name = feed_name AND f.owner = caller AND f.system = inorder_internal.server_system()
                  AND NOT EXISTS (SELECT FROM pg_class AS c WHERE c.oid = f.relation) LOOP
        RAISE WARNING 'dropping the existing feed "%", whose table was dropped', feed_name;
        PERFORM inorder_internal.drop_feed(feed, caller);
    END LOOP;
    -- The id is random. With a counter, sessions that create feeds would wait for each other's transactions.
    LOOP
        feed := concat('x', left(gen_random_uuid()::text, 8))::bit(32)::bigint;
        EXIT WHEN feed > 0 AND NOT EXISTS (SELECT FROM inorder_internal.feed AS f WHERE f.id = feed);
    END LOOP;
    INSERT INTO inorder_internal.feed (id, name, owner, owner_name, system, relation, whole_transactions, shared_by)
    VALUES (feed, feed_name, caller, inorder_internal.role_name(caller),
            inorder_internal.server_system(), create_feed.relation, create_feed.whole_transactions,
            CASE WHEN partition_by IS NOT NULL
                 THEN inorder_internal.new_share_key(create_feed.relation, partition_by::text,
                                                     coalesce(shares, 16)) END);
    INSERT INTO inorder_internal.feed_state (feed, relation, position, batch, batch_origin)
    VALUES (feed, create_feed.relation, from_position, inorder_internal.first_number(), from_position.origin);
EXCEPTION WHEN unique_violation THEN
    PERFORM inorder_internal.say_exists(feed_name, caller);
END $$;

-- Return a feed. Raise an error unless the caller owns the feed or its table.
CREATE FUNCTION inorder_internal.given_feed(feed bigint, caller oid) RETURNS inorder_internal.feed
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f inorder_internal.feed;
BEGIN
    SELECT * INTO f FROM inorder_internal.feed AS k WHERE k.id = feed;
    IF f.id IS NULL THEN
        RAISE 'the feed was dropped' USING ERRCODE = 'undefined_object';
    ELSIF NOT inorder_internal.is_role(caller, f.owner, f.owner_name, f.system)
          AND NOT inorder_internal.owns(caller, f.relation) THEN
        RAISE 'must be owner of feed "%" or of its table', f.name
        USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN f;
END $$;

CREATE FUNCTION inorder_internal.drop_feed(feed bigint, caller oid) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM inorder_internal.warn_of_unfinished(inorder_internal.given_feed(feed, caller));
    DELETE FROM inorder_internal.worker_batch AS b WHERE b.feed = drop_feed.feed;
    DELETE FROM inorder_internal.share_worker AS w WHERE w.feed = drop_feed.feed;
    PERFORM inorder_internal.given_feed(feed, caller), inorder_internal.forget_feed(feed), inorder_internal.sweep();
END $$;

CREATE FUNCTION inorder_internal.say_no_batch(feed_name text, number bigint) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE 'feed "%" has no unfinished batch %', feed_name, number
    USING ERRCODE = 'invalid_parameter_value', DETAIL = 'The batch was finished or discarded, or never existed.',
          HINT = 'If the batch was discarded, or a promotion or a restore undid it, its rows are delivered in another '
                 'batch.';
END $$;

CREATE FUNCTION inorder_internal.seek_to(
    f inorder_internal.feed, t inorder_internal.feed_table, transactions int8multirange, written_here boolean
) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    unended int8multirange := transactions - inorder_internal.ended_transactions(t.base);
    ranges bigint := (SELECT count(*) FROM unnest(transactions));
BEGIN
    IF ranges > 100000 THEN
        RAISE 'a position must have at most 100000 ranges of transactions, not %', ranges
        USING ERRCODE = 'program_limit_exceeded';
    ELSIF NOT isempty(unended) THEN
        RAISE 'transactions % have not ended', inorder_internal.few_of(unended)
        USING ERRCODE = 'invalid_parameter_value',
              DETAIL = 'If these transactions counted as read, the feed would miss their rows.';
    END IF;
    PERFORM inorder_internal.discard_batches(f, seek_to.written_here, transactions);
    UPDATE inorder_internal.feed_state AS s
    SET position.transactions = seek_to.transactions, position.partial = NULL, position.last_key = NULL,
        position.ordering = inorder_internal.new_order(t.relation, (s.position).ordering.column_name),
        position.members = inorder_internal.members(t),
        position.origin = inorder_internal.server_origin(),
        batch_origin = CASE WHEN s.written_here THEN s.batch_origin END, moved = clock_timestamp(), caught_up_at = NULL
    WHERE s.feed = f.id;
END $$;

-- Set the position of a feed to these transactions or, if "transactions" is null, to the position that "start" names.
CREATE FUNCTION inorder_internal.seek(caller oid, name text, transactions int8multirange, start text, owner regrole)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    feed bigint := inorder_internal.lock_named_feed(caller, name, owner);
    t inorder_internal.feed_table := inorder_internal.lock_table(inorder_internal.table_of(
        (inorder_internal.checked_feed(feed, caller, true, true)).relation), caller);
    state inorder_internal.feed_state := inorder_internal.state_of(feed);
    f inorder_internal.feed;
    v inorder_internal.feed_view;
BEGIN
    PERFORM inorder_internal.proved_members(t, caller);
    SELECT * INTO f FROM inorder_internal.feed AS k WHERE k.id = feed;
    IF start NOT IN ('beginning', 'now', 'here') THEN
        RAISE 'start must be ''beginning'', ''now'' or ''here'', not %', quote_literal(start)
        USING ERRCODE = 'invalid_parameter_value';
    ELSIF start IS DISTINCT FROM 'here' THEN
        PERFORM inorder_internal.seek_to(f, t, CASE start
            WHEN 'beginning' THEN '{}'::int8multirange WHEN 'now' THEN inorder_internal.ended_transactions(t.base)
            ELSE transactions END, state.written_here);
    ELSIF state.written_here IS NOT TRUE THEN
        PERFORM inorder_internal.say_restored(f);
    ELSE
        UPDATE inorder_internal.feed_state AS s
        SET position = inorder_internal.with_table(t, s.position) WHERE s.feed = f.id;
        PERFORM inorder_internal.renew_batches(state, t);
    END IF;
    UPDATE inorder_internal.feed AS k
    SET shared_by = inorder_internal.new_share_key(t.relation, (f.shared_by).column_name, (f.shared_by).shares)
    WHERE k.id = f.id AND (f.shared_by).shares IS NOT NULL
      AND NOT EXISTS (SELECT FROM inorder_internal.worker_batch AS b WHERE b.feed = k.id AND b.written_here);
    f := inorder_internal.checked_feed(feed, caller, true, true);
    state := inorder_internal.state_of(feed);
    -- Without these checks, the next read would raise the error that the call was meant to resolve.
    PERFORM inorder_internal.prove_known_order(t, state.position);
    IF (f.shared_by).shares IS NOT NULL THEN
        v.name := f.name;
        v.t := t;
        v.shared_by := f.shared_by;
        v := inorder_internal.prove_share_key(v);
    END IF;
END $$;

-- Return the rows of an unfinished batch.
CREATE FUNCTION inorder_internal.unfinished_rows(caller oid, name text, number bigint, owner oid)
RETURNS inorder_internal.found_rows
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f inorder_internal.feed_view := inorder_internal.open_feed(caller, name, owner, true);
    t inorder_internal.feed_table := inorder_internal.lock_table(f.t, caller);
    w record;
BEGIN
    SELECT b.batch, b.share INTO w FROM inorder_internal.worker_batch AS b
    WHERE b.feed = f.feed_id AND b.number = unfinished_rows.number AND NOT b.is_open AND b.written_here;
    IF w.batch IS NULL THEN
        PERFORM inorder_internal.say_no_batch(f.name, number);
    ELSIF w.share IS NOT NULL AND (f.shared_by).shares IS NOT NULL THEN
        f := inorder_internal.prove_share_key(f);
        t.share_condition := format('%s OPERATOR(pg_catalog.=) %s::pg_catalog.int8 AND ',
                                    inorder_internal.share_text(f.shared_by), w.share);
    END IF;
    RETURN inorder_internal.rows_of(t, w.batch, caller);
END $$;

CREATE FUNCTION inorder_internal.feed_drop(caller oid, name text, owner regrole) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM inorder_internal.drop_feed(inorder_internal.lock_named_feed(caller, name, owner), caller);
END $$;

CREATE FUNCTION inorder_internal.feed_rename(caller oid, name text, new_name text, owner regrole)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    feed bigint := (inorder_internal.find_feed(name, owner, caller)).id;
    f inorder_internal.feed;
BEGIN
    PERFORM inorder_internal.check_name(new_name), inorder_internal.lock_feed(feed);
    f := inorder_internal.given_feed(feed, caller);
    -- The owner of the table must not rename a feed of another role, because readers of that role would find a feed
    -- that they did not create.
    IF NOT inorder_internal.is_role(caller, f.owner, f.owner_name, f.system) THEN
        RAISE 'must be owner of feed "%"', f.name USING ERRCODE = 'insufficient_privilege';
    END IF;
    UPDATE inorder_internal.feed AS k SET name = new_name WHERE k.id = feed;
    UPDATE inorder_internal.feed_state AS s SET batch = greatest(s.batch, inorder_internal.first_number())
    WHERE s.feed = feed;
EXCEPTION WHEN unique_violation THEN
    PERFORM inorder_internal.say_exists(new_name, f.owner);
END $$;

CREATE FUNCTION inorder_internal.change_mover(caller oid, name text, role oid, owner regrole, allowed boolean)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    feed bigint := inorder_internal.lock_named_feed(caller, name, owner);
    f inorder_internal.feed;
    new_movers inorder_internal.role_ref[];
BEGIN
    IF role IS NULL THEN
        RAISE 'the role must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    f := inorder_internal.given_feed(feed, caller);
    IF inorder_internal.role_name(role) IS NULL THEN
        RAISE 'role with OID % does not exist', role USING ERRCODE = 'undefined_object';
    END IF;
    -- Grants to dropped roles are also removed.
    new_movers := ARRAY(SELECT m FROM unnest(f.movers) AS m
                        WHERE m.id <> role AND inorder_internal.role_name(m.id) IS NOT NULL);
    IF allowed THEN
        new_movers := new_movers || ROW(role, inorder_internal.role_name(role))::inorder_internal.role_ref;
    END IF;
    UPDATE inorder_internal.feed AS k SET movers = new_movers WHERE k.id = feed;
END $$;

CREATE FUNCTION inorder_internal.feed_grant(caller oid, name text, to_role regrole, owner regrole) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM inorder_internal.change_mover(caller, name, to_role, owner, true);
END $$;

CREATE FUNCTION inorder_internal.feed_revoke(caller oid, name text, from_role regrole, owner regrole) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM inorder_internal.change_mover(caller, name, from_role, owner, false);
END $$;

CREATE FUNCTION inorder_internal.feed_finish_batch(caller oid, name text, number bigint, token bigint, owner regrole)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    feed inorder_internal.feed := inorder_internal.find_feed(name, owner, caller);
    f inorder_internal.feed_view;
BEGIN
    IF inorder_internal.delete_batch(feed.id, feed.relation, caller, number, token) THEN
        RETURN true;
    END IF;
    f := inorder_internal.read_state(feed.id, feed.relation, caller, false);
    IF token IS NOT NULL THEN
        PERFORM inorder_internal.say_lost(name, f.feed_id, number, token);
    ELSIF EXISTS (SELECT FROM inorder_internal.worker_batch AS w
                  WHERE w.feed = f.feed_id AND w.number = number AND w.written_here) THEN
        RAISE 'batch % of feed "%" was given to a worker', number, name
        USING ERRCODE = 'invalid_parameter_value',
              HINT = 'Pass the token that feed_take_batch() returned with the batch.';
    END IF;
    PERFORM inorder_internal.say_no_batch(name, number);
    RETURN NULL;
END $$;

CREATE FUNCTION inorder_internal.feed_seek(caller oid, name text, transactions int8multirange, owner regrole)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF transactions IS NULL THEN
        RAISE 'transactions must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    PERFORM inorder_internal.seek(caller, name, transactions, NULL, owner);
END $$;

CREATE FUNCTION inorder_internal.feed_seek(caller oid, name text, start text, owner regrole) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF start IS NULL THEN
        RAISE 'start must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    PERFORM inorder_internal.seek(caller, name, NULL, start, owner);
END $$;

CREATE FUNCTION @extschema@.feed_create(
    name text, relation regclass, start text DEFAULT 'beginning', key_column name DEFAULT NULL,
    order_column name DEFAULT NULL, whole_transactions boolean DEFAULT false, partition_by name DEFAULT NULL,
    shares int DEFAULT NULL
) RETURNS void
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_create(text, regclass, text, name, name, boolean, name, int) IS
'Create a feed: a named position in an insert-only table.';

CREATE FUNCTION @extschema@.feed_drop(name text, owner regrole DEFAULT NULL) RETURNS void
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_drop(text, regrole) IS 'Drop a feed of the current role, or of the given owner.';

CREATE FUNCTION @extschema@.feed_rename(name text, new_name text, owner regrole DEFAULT NULL) RETURNS void
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_rename(text, text, regrole) IS
'Rename a feed of the current role, or of the given owner.';

CREATE FUNCTION @extschema@.feed_grant(name text, to_role regrole, owner regrole DEFAULT NULL) RETURNS void
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_grant(text, regrole, regrole) IS 'Allow another role to move a feed.';

CREATE FUNCTION @extschema@.feed_revoke(name text, from_role regrole, owner regrole DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_revoke(text, regrole, regrole) IS
'Revoke the right to move a feed, which feed_grant has granted to a role.';

CREATE FUNCTION @extschema@.feed_seek(name text, transactions int8multirange, owner regrole DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_seek(text, int8multirange, regrole) IS
'Set the position of a feed: only the given transactions count as read.';

CREATE FUNCTION @extschema@.feed_seek(name text, start text, owner regrole DEFAULT NULL) RETURNS void
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_seek(text, text, regrole) IS
'Set the position of a feed to ''beginning'', ''now'' or ''here'', and discard or renumber its unfinished batches.';

CREATE FUNCTION @extschema@.feed_read(
    name text, row_type anyelement, max_rows int DEFAULT NULL, owner regrole DEFAULT NULL
) RETURNS SETOF anyelement
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_read(text, anyelement, int, regrole) IS
'Return the rows committed since the last read, and move the position in the current transaction.';

CREATE FUNCTION @extschema@.feed_peek(
    name text, row_type anyelement, max_rows int DEFAULT NULL, owner regrole DEFAULT NULL
) RETURNS SETOF anyelement
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_peek(text, anyelement, int, regrole) IS
'Return the rows that feed_read would return now, without moving the position or waiting for other readers.';

CREATE FUNCTION @extschema@.feed_apply(
    name text, statement text, max_rows int DEFAULT NULL, owner regrole DEFAULT NULL
) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_apply(text, text, int, regrole) IS
'Run a statement that reads the next rows of a feed as the table "batch", and move the position in the same '
'transaction.';

CREATE FUNCTION @extschema@.feed_batch_rows(
    name text, number bigint, row_type anyelement, owner regrole DEFAULT NULL
) RETURNS SETOF anyelement
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_batch_rows(text, bigint, anyelement, regrole) IS
'Return the rows of the unfinished batch with this number, in the order of feed_read.';
-- The command inorder tail calls this function. In the public schema, a function that another role has created with
-- the type of the table would match better than this function with anyelement.
CREATE FUNCTION inorder_text.feed_batch_rows(name text, number bigint, row_type anyelement, owner regrole)
RETURNS SETOF anyelement
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION @extschema@.feed_finish_batch(
    name text, number bigint, token bigint DEFAULT NULL, owner regrole DEFAULT NULL
) RETURNS boolean
AS 'MODULE_PATHNAME', 'finish_as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_finish_batch(text, bigint, bigint, regrole) IS
'Finish the unfinished batch with this number and the token that feed_take_batch returned.';

CREATE FUNCTION @extschema@.feed_wait(name text, timeout interval DEFAULT '1 second', owner regrole DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_wait(text, interval, regrole) IS
'Wait until feed_take_batch or feed_read would return rows, or until the timeout has passed.';
