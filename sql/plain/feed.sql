-- For a batch that leaves the database: a crash must not take it back, so the commit of this transaction flushes it. A
-- deferred trigger, since a function that sets synchronous_commit would undo what is set while it runs, and since a
-- transaction with a cursor WITH HOLD, which needs no trigger, cannot be prepared.
CREATE FUNCTION inorder_internal.keep_commit()
RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    context text;
BEGIN
    GET DIAGNOSTICS context = PG_CONTEXT;
    IF strpos(context, chr(10)) > 0 THEN
        -- SET CONSTRAINTS in a function, which may undo what is set while it runs.
        PERFORM inorder_internal.force_commit();
    ELSIF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'local', true);
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER keep_commit AFTER UPDATE OF holder ON inorder_internal.feed
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (new.holder IS NOT NULL) EXECUTE FUNCTION inorder_internal.keep_commit();
CREATE CONSTRAINT TRIGGER keep_commit AFTER UPDATE OF token, lease_end ON inorder_internal.worker_batch
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (new.token IS NOT NULL) EXECUTE FUNCTION inorder_internal.keep_commit();

CREATE FUNCTION inorder_internal.open_feed(name text, owner oid, OUT feed bigint, OUT caller oid)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    caller := inorder_internal.caller();
    feed := inorder_internal.find_feed(name, coalesce(owner, caller), caller);
END $$;

CREATE FUNCTION inorder_internal.version_of(feed bigint)
RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT concat(f.xmin, f.ctid) FROM inorder_internal.feed AS f WHERE f.id = feed);
END $$;

-- Make readers of one feed take turns; whether no other one had its turn since the row had this version, so that what
-- was found then is what follows.
CREATE FUNCTION inorder_internal.lock_unchanged(feed bigint, version text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM FROM inorder_internal.feed AS f WHERE f.id = feed AND concat(f.xmin, f.ctid) = version
    FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN
        RETURN true;
    END IF;
    PERFORM inorder_internal.lock_feed(feed);
    RETURN false;
END $$;

CREATE FUNCTION inorder_internal.session_key(number oid)
RETURNS bigint
LANGUAGE sql IMMUTABLE
-- The first 32 bits are ''inor'' in ASCII.
RETURN 1768845170::bigint << 32 | number::bigint;

-- A number by which this session is known while it lives, by an advisory lock on it.
CREATE FUNCTION inorder_internal.this_session()
RETURNS oid
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    number oid := nullif(current_setting('inorder.session', true), '')::oid;
BEGIN
    -- Who has the lock gets it once more, without a look at the locks of all sessions. It may be gone, after DISCARD ALL, or
    -- be that of another session, which a pooler has given this setting.
    IF number IS NULL OR NOT pg_try_advisory_lock(inorder_internal.session_key(number)) THEN
        LOOP
            number := (inorder_internal.random_bits(31) + 1)::oid;
            EXIT WHEN pg_try_advisory_lock(inorder_internal.session_key(number));
        END LOOP;
        PERFORM set_config('inorder.session', number::text, false);
    END IF;
    RETURN number;
END $$;

CREATE TYPE inorder_internal.taken AS (
    feed bigint, caller oid, name text, relation oid, t inorder_internal.feed_table,
    at_position @extschema@.feed_position, batch bigint, finished bigint, pending @extschema@.feed_batch,
    whole boolean, shared boolean, shared_by inorder_internal.share_key, is_poll_due boolean, asked timestamptz, next inorder_internal.next_found
);
COMMENT ON TYPE inorder_internal.taken IS
'Internal type. A feed as it is now, and what follows its position.';

-- Error if workers have batches of a feed that is read without them: its order would be another.
CREATE FUNCTION inorder_internal.refuse_shared(k inorder_internal.taken)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (k.shared_by).shares IS NOT NULL THEN
        PERFORM inorder_internal.say_divided(k.name, k.shared_by);
    ELSIF k.shared THEN
        PERFORM inorder_internal.say_shared(k.name, k.feed);
    END IF;
END $$;

CREATE FUNCTION inorder_internal.refuse_pending(k inorder_internal.taken)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (k.pending).transactions IS NOT NULL THEN
        PERFORM inorder_internal.say_pending(k.name, k.batch);
    END IF;
    PERFORM inorder_internal.refuse_shared(k);
END $$;

-- Error if another session that lives has the unfinished batch of a feed.
CREATE FUNCTION inorder_internal.refuse_held(k inorder_internal.taken, session oid)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    held record;
BEGIN
    SELECT f.holder, f.holder_pid INTO held FROM inorder_internal.feed AS f WHERE f.id = k.feed;
    IF held.holder <> session AND inorder_internal.session_lives(held.holder) THEN
        PERFORM inorder_internal.say_held(k.name, k.batch, held.holder_pid);
    END IF;
END $$;

CREATE FUNCTION inorder_internal.note_empty_poll(
    feed bigint, is_due boolean, past_batch @extschema@.feed_batch, asked timestamptz
)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET @writes@
AS $$
BEGIN
    IF is_due AND current_setting('transaction_read_only') = 'off'
       AND current_setting('transaction_isolation') = 'read committed' THEN
        PERFORM inorder_internal.lock_feed(feed);
        -- Only the rest of one transaction, or of an ordered set, is passed: who has moved the feed meanwhile has passed
        -- it, too.
        PERFORM inorder_internal.note_poll(feed, CASE
            WHEN (SELECT (f.position).partial IS NOT DISTINCT FROM past_batch.resumed
                         AND (f.position).last_key = past_batch.resumed_after
                         AND (past_batch.resumed IS NOT NULL OR cardinality(past_batch.resumed_after) = 6)
                         AND NOT (f.position).transactions && past_batch.transactions
                  FROM inorder_internal.feed AS f WHERE f.id = feed) THEN past_batch END, asked);
    END IF;
END $$;

CREATE FUNCTION inorder_internal.look_at(feed bigint, caller oid, reads boolean)
RETURNS inorder_internal.taken
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    s record;
    k inorder_internal.taken;
BEGIN
    SELECT * INTO s FROM inorder_internal.feed_state(feed, caller, reads, false);
    k.feed := feed;
    k.caller := caller;
    k.name := s.name;
    k.relation := s.relation;
    k.t := s.t;
    k.at_position := s.at_position;
    k.batch := s.batch;
    k.finished := s.finished;
    k.pending := s.pending;
    k.whole := s.whole_transactions;
    k.shared := s.shared;
    k.shared_by := s.shared_by;
    k.is_poll_due := s.is_poll_due;
    RETURN k;
END $$;

-- A feed with what follows its position now, and when that was asked for.
CREATE FUNCTION inorder_internal.find_after(k inorder_internal.taken, max_rows int)
RETURNS inorder_internal.taken
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- Not after the snapshot in which rows are looked for.
    k.asked := CASE current_setting('transaction_isolation') WHEN 'read committed' THEN clock_timestamp() ELSE now() END;
    k.next := inorder_internal.find_next(k.t, k.at_position, max_rows, k.whole, k.caller);
    RETURN k;
END $$;

-- Move a feed over what is left of a set and has no rows any more, before the batch that follows; the feed is locked if
-- there is one.
CREATE FUNCTION inorder_internal.pass_rest(k inorder_internal.taken)
RETURNS inorder_internal.taken
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    rest @extschema@.feed_batch := (k.next).rest;
BEGIN
    IF rest.transactions IS NOT NULL AND (k.next).has_rows THEN
        PERFORM inorder_internal.move_feed(k.feed, rest, k.asked, false);
        k.at_position := inorder_internal.advance(k.at_position, rest);
    ELSIF rest.transactions IS NOT NULL THEN
        -- An empty poll passes it, if it writes.
        k.next.batch := rest;
    END IF;
    RETURN k;
END $$;

-- What follows the position of a feed. If the caller is to move it, and there are rows, the feed is locked, and this is
-- what follows under the lock.
CREATE FUNCTION inorder_internal.take_next(
    name text, owner oid, max_rows int, reads boolean, moves boolean, row_type regtype
)
RETURNS inorder_internal.taken
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET @pinned@
AS $$
DECLARE
    o record;
    k inorder_internal.taken;
    version text;
    locked boolean := false;
BEGIN
    SELECT * INTO o FROM inorder_internal.open_feed(name, owner);
    LOOP
        version := inorder_internal.version_of(o.feed);
        k := inorder_internal.look_at(o.feed, o.caller, reads);
        IF reads THEN
            PERFORM inorder_internal.refuse_pending(k);
        ELSIF moves THEN
            PERFORM inorder_internal.refuse_shared(k);
        END IF;
        IF row_type IS NOT NULL THEN
            PERFORM inorder_internal.check_row_type((k.t).relation, row_type);
        END IF;
        IF (k.pending).transactions IS NOT NULL THEN
            EXIT WHEN locked OR NOT moves;
        ELSE
            k := inorder_internal.find_after(k, max_rows);
            EXIT WHEN locked OR NOT moves OR NOT (k.next).has_rows;
        END IF;
        -- There is something to move over, so writing is due: what another reader has left is looked at again.
        EXIT WHEN inorder_internal.lock_unchanged(o.feed, version);
        locked := true;
    END LOOP;
    RETURN CASE WHEN moves THEN inorder_internal.pass_rest(k) ELSE k END;
END $$;

-- Error unless the plan of a statement reads the batch, and ends nothing after some rows.
CREATE FUNCTION inorder_internal.check_statement(statement text, row_type anyelement)
RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    -- Of the server, whatever the search_path of the caller leads to.
    line pg_catalog.record;
    plan pg_catalog.jsonb;
BEGIN
    -- With the search_path of the caller, which the statement is for. A loop is a cursor, which refuses several statements
    -- before it executes one.
    FOR line IN EXECUTE 'EXPLAIN (FORMAT JSON) ' OPERATOR(pg_catalog.||) statement USING row_type LOOP
        plan := pg_catalog.to_jsonb(line);
    END LOOP;
    IF pg_catalog.jsonb_path_exists(plan, 'strict $.**."Node Type" ? (@ == "Limit")', '{}', true) THEN
        RAISE 'the statement has LIMIT, OFFSET or FETCH FIRST, or is planned as if it had' USING
            ERRCODE = 'feature_not_supported',
            DETAIL = 'The position moves over the whole batch, also over the rows that are left out.',
            HINT = 'Limit the rows by max_rows, as in feed_apply(name, statement, 10).';
    ELSIF NOT pg_catalog.jsonb_path_exists(plan, 'strict $.**."CTE Name" ? (@ == "rows of the batch")', '{}', true) THEN
        RAISE 'the statement does not read the batch' USING
            ERRCODE = 'feature_not_supported', DETAIL = 'The position moves over the whole batch.',
            HINT = 'Read it by its name without a schema, as in SELECT count(*) FROM batch. To skip all rows '
                   'so far, call feed_seek(name, ''now'').';
    END IF;
EXCEPTION WHEN invalid_cursor_definition THEN
    RAISE 'cannot run several statements over one batch' USING ERRCODE = 'syntax_error',
          HINT = 'Further statements can follow in the same transaction.';
END $$;

-- Run a statement over the rows of a batch, of the type of the first argument, with the settings of the caller:
-- search_path and row_security.
CREATE FUNCTION inorder_internal.apply_rows(
    row_type anyelement, relation oid, b @extschema@.feed_batch, statement text, path text, hides text
)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- The rows by a function, which executes nothing of the table's owner; the statement keeps its settings.
    text_over_batch text := format('WITH "rows of the batch" AS MATERIALIZED (SELECT * FROM @extschema@.feed_rows('
                                   '%L::pg_catalog.oid, %L::@extschema@.feed_batch, $1)), '
                                   'batch AS NOT MATERIALIZED (SELECT * FROM "rows of the batch") %s',
                                   relation, b, statement);
    processed bigint;
BEGIN
    PERFORM set_config('geqo_seed', '0', true), set_config('row_security', hides, true),
            set_config('search_path', path, true);
    -- From here on names are found by the path of the caller.
    PERFORM inorder_internal.check_statement(text_over_batch, row_type);
    EXECUTE text_over_batch USING row_type;
    GET DIAGNOSTICS processed = ROW_COUNT;
    RETURN processed;
END $$;

-- feed_apply(), with the search_path and the row_security of the caller.
CREATE FUNCTION inorder_internal.apply_batch(
    name text, statement text, max_rows int, owner regrole, path text, hides text
)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET row_security = on SET @writes@
AS $$
DECLARE
    k inorder_internal.taken;
    b @extschema@.feed_batch;
    processed bigint;
BEGIN
    IF statement IS NULL THEN
        RAISE 'statement must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    k := inorder_internal.take_next(name, owner, max_rows, true, true, NULL);
    b := (k.next).batch;
    IF NOT (k.next).has_rows THEN
        PERFORM inorder_internal.note_empty_poll(k.feed, k.is_poll_due, b, k.asked);
        RETURN NULL;
    END IF;
    PERFORM inorder_internal.move_feed(k.feed, b, k.asked, (k.next).is_all);
    -- The name of the table may have become that of a domain, of which this evaluates no condition, as NULL::domain does.
    EXECUTE format('SELECT inorder_internal.apply_rows((NULL::%s[])[1], $1, $2, $3, $4, $5)', (k.t).relation)
    INTO processed USING (k.t).relation::oid, b, statement, path, hides;
    PERFORM set_config('row_security', 'on', true), inorder_internal.check_members(k.t, (k.next).members);
    RETURN processed;
END $$;

---- lock_feed: plpgsql keys
BEGIN
    -- A row lock, which only those can take who may move the feed; any role could take an advisory lock. It writes, so it
    -- is taken when there is something to write.
    PERFORM FROM inorder_internal.feed AS f WHERE f.id = feed FOR NO KEY UPDATE;
END
---- feed_apply: sql
BEGIN ATOMIC
    SELECT inorder_internal.apply_batch(name, statement, max_rows, owner, current_setting('search_path'::text),
                                        current_setting('row_security'::text));
END;
---- feed_create: plpgsql writes
DECLARE
    caller oid := inorder_internal.caller();
    t inorder_internal.feed_table;
    p @extschema@.feed_position;
BEGIN
    PERFORM inorder_internal.refuse_whole(whole_transactions, order_column),
            inorder_internal.check_division(shares, partition_by, whole_transactions), inorder_internal.check_name(name),
            inorder_internal.check_reader(caller, relation),
            inorder_internal.ensure_enabled(relation, key_column);
    t := inorder_internal.table_of(relation);
    PERFORM inorder_internal.lock_tree(relation, 'ACCESS SHARE'), inorder_internal.prove_ground(t, caller);
    p := inorder_internal.first_position(t, coalesce(start, 'beginning'), order_column);
    IF partition_by IS NOT NULL THEN
        PERFORM inorder_internal.prove_new_share_column(t, partition_by);
    END IF;
    PERFORM inorder_internal.create_feed(name, caller, relation, p, coalesce(whole_transactions, false), partition_by,
                                         shares);
END
---- feed_claim: plpgsql
DECLARE
    o record;
    key bigint;
BEGIN
    SELECT * INTO o FROM inorder_internal.open_feed(name, owner);
    -- The first 32 bits are ''feed'' in ASCII.
    key := 1717921124::bigint << 32 | o.feed;
    RETURN pg_try_advisory_lock(key);
END
---- feed_seek_to: plpgsql writes
DECLARE
    o record;
    s record;
BEGIN
    IF transactions IS NULL THEN
        RAISE 'transactions must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    SELECT * INTO o FROM inorder_internal.open_feed(name, owner);
    PERFORM inorder_internal.lock_feed(o.feed);
    SELECT * INTO s FROM inorder_internal.feed_state(o.feed, o.caller, true, true);
    PERFORM inorder_internal.lock_tree(s.relation, 'ACCESS SHARE'), inorder_internal.prove_ground(s.t, o.caller);
    PERFORM inorder_internal.seek_to(o.feed, s.t, transactions);
END
---- feed_seek_start: plpgsql writes
DECLARE
    o record;
    s record;
BEGIN
    IF start IS NULL THEN
        RAISE 'start must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    SELECT * INTO o FROM inorder_internal.open_feed(name, owner);
    PERFORM inorder_internal.lock_feed(o.feed);
    SELECT * INTO s FROM inorder_internal.feed_state(o.feed, o.caller, true, true);
    PERFORM inorder_internal.lock_tree(s.relation, 'ACCESS SHARE'), inorder_internal.prove_ground(s.t, o.caller);
    PERFORM inorder_internal.seek_start(o.feed, s.t, start);
END
---- feed_read: plpgsql keys
BEGIN
    -- Its position would move over rows that the caller does not fetch, and what the caller fetches cannot be known here.
    RAISE 'the SQL edition has no feed_read' USING ERRCODE = 'feature_not_supported',
          HINT = 'Call feed_apply(name, statement, max_rows), or feed_next_batch(), feed_batch_rows() and feed_finish_batch() '
                 'in one transaction.';
END
---- feed_peek: plpgsql reads
DECLARE
    k inorder_internal.taken := inorder_internal.take_next(name, owner, max_rows, true, false, pg_typeof(row_type));
BEGIN
    IF (k.next).has_rows THEN
        PERFORM inorder_internal.allow_bitmaps(k.t);
        BEGIN
            RETURN QUERY EXECUTE inorder_internal.batch_query(k.t, NULL, (k.next).batch, 'e.*', true);
        EXCEPTION WHEN datatype_mismatch THEN
            PERFORM inorder_internal.say_columns_changed((k.t).relation, SQLERRM);
        END;
        PERFORM inorder_internal.check_members(k.t, (k.next).members);
    END IF;
END
---- feed_next_batch: plpgsql writes
DECLARE
    k inorder_internal.taken := inorder_internal.take_next(name, owner, max_rows, NULL, true, NULL);
    b @extschema@.feed_batch := (k.next).batch;
    session oid;
BEGIN
    IF (k.pending).transactions IS NOT NULL THEN
        session := inorder_internal.this_session();
        PERFORM inorder_internal.refuse_held(k, session), inorder_internal.hand_over(k.feed, session, pg_backend_pid());
    ELSIF NOT (k.next).has_rows THEN
        PERFORM inorder_internal.note_empty_poll(k.feed, k.is_poll_due, b, k.asked);
        RETURN NULL;
    ELSE
        PERFORM inorder_internal.check_members(k.t, (k.next).members);
        k.batch := inorder_internal.keep_pending(k.feed, b, inorder_internal.this_session(), pg_backend_pid(), k.asked,
                                                 (k.next).is_all);
    END IF;
    PERFORM inorder_internal.make_durable(true);
    RETURN k.batch;
END
---- feed_batch_rows: plpgsql reads
DECLARE
    o record;
    k inorder_internal.taken;
    w record;
    members @extschema@.feed_member[];
    query text;
BEGIN
    SELECT * INTO o FROM inorder_internal.open_feed(name, owner);
    k := inorder_internal.look_at(o.feed, o.caller, true);
    PERFORM inorder_internal.lock_tree((k.t).relation, 'ACCESS SHARE');
    SELECT * INTO w FROM inorder_internal.batch_of(o.feed, batch);
    IF w.batch IS NULL THEN
        PERFORM inorder_internal.check_pending(k.name, batch, k.batch, k.finished, k.pending);
        w.batch := k.pending;
    ELSIF w.share IS NOT NULL AND (k.shared_by).shares IS NOT NULL THEN
        PERFORM inorder_internal.prove_share_key(k);
        k.t := inorder_internal.of_share(k.t, k.shared_by, w.share);
    END IF;
    PERFORM inorder_internal.check_row_type((k.t).relation, pg_typeof(row_type));
    members := inorder_internal.members(k.t);
    query := inorder_internal.batch_text(k.t, w.batch, members, o.caller);
    PERFORM inorder_internal.allow_bitmaps(k.t);
    BEGIN
        RETURN QUERY EXECUTE query;
    EXCEPTION WHEN datatype_mismatch THEN
        PERFORM inorder_internal.say_columns_changed((k.t).relation, SQLERRM);
    END;
    PERFORM inorder_internal.check_members(k.t, members);
END
---- feed_wait: plpgsql
DECLARE
    ends timestamptz := clock_timestamp() + inorder_internal.checked_timeout(timeout);
    k inorder_internal.taken;
BEGIN
    LOOP
        -- An error takes back the locks of the look, and this one is no error of the caller's.
        BEGIN
            k := inorder_internal.take_next(name, owner, NULL, NULL, false, NULL);
            RAISE SQLSTATE 'IOLOK';
        EXCEPTION WHEN SQLSTATE 'IOLOK' THEN
            IF (k.next).has_rows OR (k.pending).transactions IS NULL AND inorder_internal.has_free(k.feed)
               OR (k.pending).transactions IS NOT NULL AND NOT EXISTS (
                   SELECT FROM inorder_internal.feed AS f
                   WHERE f.id = k.feed AND f.holder::text <> coalesce(current_setting('inorder.session', true), '')
                     AND inorder_internal.session_lives(f.holder)) THEN
                RETURN true;
            END IF;
        END;
        IF clock_timestamp() >= ends THEN
            RETURN false;
        END IF;
        PERFORM pg_sleep(least(0.01, extract(epoch FROM ends - clock_timestamp())));
    END LOOP;
END
