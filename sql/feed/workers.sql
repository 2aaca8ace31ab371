-- Several workers can process a feed at once, each with its own batch.
--
-- The position of a feed includes the unfinished batches of its workers. The next batch, ended(now) - position, is
-- therefore disjoint from all unfinished batches. Finishing a batch deletes it from the unfinished batches, and does
-- not move the position. The transactions that have been read are those of the position, except the transactions of
-- unfinished batches: see unfinished_totals(). The functions in batches.sql decide which worker gets a batch.

-- Return the given interval. Raise an error unless it is in the allowed range.
CREATE FUNCTION inorder_internal.checked_lease(what text, lease interval, least_lease interval)
RETURNS interval
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF lease IS NULL THEN
        RAISE '% must not be null', what USING ERRCODE = 'null_value_not_allowed';
    ELSIF lease NOT BETWEEN least_lease AND '1 day' THEN
        RAISE '% must be between % and 1 day, not %', what,
              CASE least_lease WHEN '0' THEN '0' ELSE '1 second' END, lease
        USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN lease;
END $$;

-- Return the current state of a feed for workers. If the feed is divided, its table is locked and checked.
CREATE FUNCTION inorder_internal.read_state_for_worker(feed inorder_internal.feed, caller oid)
RETURNS inorder_internal.feed_view
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f inorder_internal.feed_view := inorder_internal.read_state(feed.id, feed.relation, caller, true);
BEGIN
    IF (f.shared_by).shares IS NOT NULL THEN
        f.next.members := inorder_internal.proved_members(inorder_internal.lock_table(f.t, caller), caller);
        f := inorder_internal.prove_share_key(f);
    END IF;
    RETURN f;
END $$;

-- Return the current state of a feed, and lock the feed if there may be rows for a worker. The result includes the
-- batch that follows the position if three conditions are met: the feed was not locked at first, there is no unfinished
-- batch for the worker, and no other reader had its turn in the meantime.
CREATE FUNCTION inorder_internal.open_feed_for_worker(
    feed inorder_internal.feed, caller oid, worker text, max_rows int
) RETURNS inorder_internal.feed_view
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    locked boolean := inorder_internal.begin_turn(feed.id);
    f inorder_internal.feed_view := inorder_internal.read_state_for_worker(feed, caller);
BEGIN
    IF locked THEN
        RETURN f;
    ELSIF NOT inorder_internal.has_free(inorder_internal.state_of(feed.id), (f.shared_by).shares, worker) THEN
        IF inorder_internal.is_held(f) THEN
            f.next.has_rows := false;
            f.is_found := true;
            RETURN f;
        END IF;
        f := inorder_internal.add_next_batch(f, max_rows);
        IF NOT (f.next).has_rows THEN
            RETURN inorder_internal.pass_rest(f);
        END IF;
    END IF;
    RETURN CASE WHEN inorder_internal.take_turn(feed.id, f.version) THEN f
                ELSE inorder_internal.read_state_for_worker(feed, caller) END;
END $$;

-- Give a worker a batch of a feed that is locked: an unfinished batch, or a new batch.
CREATE FUNCTION inorder_internal.take_any_batch(
    f inorder_internal.feed_view, worker text, max_rows int, lease interval, max_tries int
) RETURNS inorder_internal.worker_batch
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    b inorder_internal.worker_batch;
BEGIN
    IF f.shared THEN
        b := inorder_internal.take_unfinished_batch(f.feed_id, worker, lease, max_tries, NULL);
        IF b.number IS NOT NULL THEN
            f.next.members := inorder_internal.proved_members(inorder_internal.lock_table(f.t, f.caller), f.caller);
            RETURN b;
        ELSIF inorder_internal.is_held(f) THEN
            RETURN NULL;
        END IF;
    END IF;
    f := inorder_internal.pass_rest(inorder_internal.add_next_batch(f, max_rows));
    IF (f.next).has_rows THEN
        f.next.members := inorder_internal.unchanged_members(f.t, (f.next).members);
        b.feed := f.feed_id;
        b.number := inorder_internal.move_feed(f, (f.next).batch, (f.next).is_all, true);
        b.relation := f.relation::regclass;
        b.batch := (f.next).batch;
        b := inorder_internal.keep_batch(inorder_internal.given(b, worker, lease, max_tries));
    END IF;
    RETURN b;
END $$;

CREATE FUNCTION inorder_internal.feed_take_batch(
    caller oid, name text, worker text, max_rows int, lease interval, max_tries int, owner regrole,
    OUT number bigint, OUT token bigint, OUT tries int, OUT lease_end timestamptz
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    feed inorder_internal.feed;
    f inorder_internal.feed_view;
    b inorder_internal.worker_batch;
BEGIN
    IF worker IS NULL THEN
        RAISE 'the name of a worker must not be null' USING ERRCODE = 'null_value_not_allowed';
    ELSIF char_length(worker) NOT BETWEEN 1 AND 200 THEN
        RAISE 'the name of a worker must have 1 to 200 characters, not %', char_length(worker)
        USING ERRCODE = 'invalid_parameter_value';
    ELSIF max_tries < 1 THEN
        RAISE 'max_tries must be 1 or more, not %', max_tries USING ERRCODE = 'invalid_parameter_value';
    END IF;
    lease := inorder_internal.checked_lease('lease', lease, '1 second');
    feed := inorder_internal.find_feed(name, owner, caller);
    f := inorder_internal.open_feed_for_worker(feed, caller, worker, max_rows);
    IF NOT f.is_found OR (f.next).has_rows THEN
        b := CASE WHEN (f.shared_by).shares IS NOT NULL
                  THEN inorder_internal.take_share_batch(f, worker, max_rows, lease, max_tries)
                  ELSE inorder_internal.take_any_batch(f, worker, max_rows, lease, max_tries) END;
    END IF;
    IF b.number IS NULL AND inorder_internal.namesake(f.t) IS NOT NULL THEN
        PERFORM inorder_internal.refuse_swapped(f);
    END IF;
    IF b.number IS NOT NULL AND inorder_internal.make_durable(true) THEN
        number := b.number;
        token := b.token;
        tries := b.tries;
        lease_end := b.lease_end;
    END IF;
END $$;

CREATE FUNCTION inorder_internal.feed_renew_batch(
    caller oid, name text, number bigint, token bigint, lease interval, owner regrole
) RETURNS timestamptz
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    f inorder_internal.feed_view := inorder_internal.open_feed(caller, name, owner, false);
    new_lease_end timestamptz;
BEGIN
    lease := inorder_internal.checked_lease('lease', lease, '1 second');
    UPDATE inorder_internal.worker_batch AS b SET lease_end = clock_timestamp() + lease
    WHERE b.feed = f.feed_id AND b.number = number AND b.token = token AND b.written_here
    RETURNING b.lease_end INTO new_lease_end;
    IF NOT FOUND THEN
        PERFORM inorder_internal.say_lost(name, f.feed_id, number, token);
    END IF;
    PERFORM inorder_internal.checked_feed(f.feed_id, caller, false, true);
    -- Flush the commit, because the worker relies on the new lease even after a crash of the server.
    RETURN CASE WHEN inorder_internal.make_durable(true) THEN new_lease_end END;
END $$;

CREATE FUNCTION inorder_internal.feed_fail_batch(
    caller oid, name text, number bigint, token bigint, reason text, retry_after interval, owner regrole
) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    f inorder_internal.feed_view := inorder_internal.open_feed(caller, name, owner, false);
    is_dead boolean;
BEGIN
    IF reason IS NULL THEN
        RAISE 'reason must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    retry_after := inorder_internal.checked_lease('retry_after', retry_after, '0');
    UPDATE inorder_internal.worker_batch AS b
    SET worker = NULL, token = NULL, reason = left(reason, 2000), failed = clock_timestamp(),
        lease_end = CASE WHEN retry_after > '0'::interval THEN clock_timestamp() + retry_after ELSE '-infinity' END,
        dead_since = CASE WHEN b.tries >= b.max_tries THEN clock_timestamp() END
    WHERE b.feed = f.feed_id AND b.number = number AND b.token = token AND b.written_here
    RETURNING b.dead_since IS NOT NULL INTO is_dead;
    IF NOT FOUND THEN
        PERFORM inorder_internal.say_lost(name, f.feed_id, number, token);
    END IF;
    PERFORM inorder_internal.checked_feed(f.feed_id, caller, false, true);
    RETURN is_dead;
END $$;

CREATE FUNCTION inorder_internal.feed_retry_batch(caller oid, name text, number bigint, owner regrole)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    feed bigint := inorder_internal.lock_named_feed(caller, name, owner);
BEGIN
    PERFORM inorder_internal.checked_feed(feed, caller, false, false);
    UPDATE inorder_internal.worker_batch AS b SET dead_since = NULL, tries = 0, lease_end = '-infinity'
    WHERE b.feed = feed AND b.number = number AND b.worker IS NULL AND NOT b.is_open AND b.written_here;
    IF NOT FOUND THEN
        RAISE 'feed "%" has no batch % that waits for a worker', name, number
        USING ERRCODE = 'invalid_parameter_value',
              DETAIL = coalesce((SELECT format('Worker "%s" has the batch.', b.worker)
                                 FROM inorder_internal.worker_batch AS b
                                 WHERE b.feed = feed AND b.number = number AND b.worker IS NOT NULL AND b.written_here),
                                'The batch was finished, or never existed.'),
              HINT = 'The view feed_batches shows the batches.';
    END IF;
    -- The state is updated even if first_batch stays the same. If the batch is dead in the older snapshot of another
    -- caller, that caller then gets an error instead of moving past the batch.
    UPDATE inorder_internal.feed_state AS s
    SET first_batch = CASE WHEN s.first_batch > number THEN number ELSE s.first_batch END,
        seq = inorder_internal.next_seq(s.seq, s.page, s.ctid), page = inorder_internal.page_of(s.ctid)
    WHERE s.feed = feed AND s.seq = (SELECT max(n.seq) FROM inorder_internal.feed_state AS n WHERE n.feed = feed);
    PERFORM inorder_internal.checked_feed(feed, caller, false, true);
END $$;

CREATE FUNCTION @extschema@.feed_take_batch(
    name text, worker text, max_rows int DEFAULT NULL, lease interval DEFAULT '5 minutes', max_tries int DEFAULT 5,
    owner regrole DEFAULT NULL, OUT number bigint, OUT token bigint, OUT tries int, OUT lease_end timestamptz
)
AS 'MODULE_PATHNAME', 'take_as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_take_batch(text, text, int, interval, int, regrole) IS
'Give a batch to a worker, for sinks outside the database; one or several workers can share a feed.';

CREATE FUNCTION @extschema@.feed_renew_batch(
    name text, number bigint, token bigint, lease interval DEFAULT '5 minutes', owner regrole DEFAULT NULL
) RETURNS timestamptz
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_renew_batch(text, bigint, bigint, interval, regrole) IS
'Set the end of the lease of a worker''s batch to the current time plus lease, and return the new end.';

CREATE FUNCTION @extschema@.feed_fail_batch(
    name text, number bigint, token bigint, reason text, retry_after interval DEFAULT '0', owner regrole DEFAULT NULL
) RETURNS boolean
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_fail_batch(text, bigint, bigint, text, interval, regrole) IS
'Give back a batch that a worker could not process, with the reason.';

CREATE FUNCTION @extschema@.feed_retry_batch(name text, number bigint, owner regrole DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_retry_batch(text, bigint, regrole) IS
'Let workers immediately take a dead batch, or a batch that waits for its retry_after.';
