-- Batches of workers, in the SQL edition: src/workers.c.
--
-- Who finishes, returns or keeps a batch changes nothing but the row of that batch. Who asks for one locks the feed, but
-- looks first whether there is anything to take: a lock writes.

-- Error unless workers can share a feed.
CREATE FUNCTION inorder_internal.refuse_workers(k inorder_internal.taken)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (k.shared_by).shares IS NULL THEN
        PERFORM inorder_internal.check_unordered(k.name, k.at_position);
    ELSE
        PERFORM inorder_internal.lock_tree((k.t).relation, 'ACCESS SHARE');
        PERFORM inorder_internal.prove_share_key(k);
    END IF;
END $$;

-- Whether there is an unfinished batch for a worker: its own, or a free one.
CREATE FUNCTION inorder_internal.has_batch(feed bigint, worker text)
RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN EXISTS (SELECT FROM inorder_internal.worker_batch AS b
                   WHERE b.feed = has_batch.feed AND b.worker = has_batch.worker AND b.set_aside IS NULL
                     AND b.written_here)
        OR inorder_internal.has_free(feed);
END $$;

-- A feed as it is now, and what follows its position, unless there is an unfinished batch for a worker. A poll that
-- finds nothing is noted.
CREATE FUNCTION inorder_internal.look_for_work(feed bigint, caller oid, worker text, max_rows int)
RETURNS inorder_internal.taken
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    k inorder_internal.taken := inorder_internal.look_at(feed, caller, true);
BEGIN
    PERFORM inorder_internal.refuse_workers(k);
    IF (k.pending).transactions IS NOT NULL OR inorder_internal.has_batch(feed, worker) THEN
        RETURN k;
    END IF;
    k := inorder_internal.find_after(k, max_rows);
    IF NOT (k.next).has_rows THEN
        k := inorder_internal.pass_rest(k);
        PERFORM inorder_internal.note_empty_poll(feed, k.is_poll_due, (k.next).batch, k.asked);
    END IF;
    RETURN k;
END $$;

-- A feed with what follows its position, if that was not found yet.
CREATE FUNCTION inorder_internal.found_after(k inorder_internal.taken, max_rows int)
RETURNS inorder_internal.taken
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN CASE WHEN (k.next).has_rows IS NULL THEN inorder_internal.find_after(k, max_rows) ELSE k END;
END $$;

-- Give a worker a batch of a feed that is locked: one that a worker has or had, or a new one.
CREATE FUNCTION inorder_internal.take_any(
    k inorder_internal.taken, worker text, max_rows int, lease interval, max_tries int, session oid
)
RETURNS TABLE (batch bigint, token bigint, tries int, lease_end timestamptz)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    number bigint;
BEGIN
    RETURN QUERY SELECT * FROM inorder_internal.take_batch(k.feed, worker, lease, max_tries, session, pg_backend_pid(),
                                                           NULL);
    IF FOUND THEN
        PERFORM inorder_internal.lock_tree((k.t).relation, 'ACCESS SHARE');
        PERFORM inorder_internal.prove_ground(k.t, k.caller);
        RETURN;
    END IF;
    k := inorder_internal.found_after(k, max_rows);
    IF NOT (k.next).has_rows THEN
        PERFORM inorder_internal.note_empty_poll(k.feed, k.is_poll_due, (k.next).batch, k.asked);
        RETURN;
    END IF;
    PERFORM inorder_internal.check_members(k.t, (k.next).members);
    number := inorder_internal.add_batch(k.feed, (k.next).batch, k.asked, (k.next).is_all);
    RETURN QUERY SELECT * FROM inorder_internal.give_batch(k.feed, worker, lease, max_tries, session, pg_backend_pid(),
                                                           number);
END $$;

---- keep_batch: plpgsql keys
BEGIN
    DELETE FROM inorder_internal.worker_batch AS b
    WHERE b.feed = keep_batch.feed AND b.number = keep_batch.number AND b.written_here IS NOT TRUE;
    INSERT INTO inorder_internal.worker_batch (feed, number, relation, batch, lease_end)
    VALUES (keep_batch.feed, keep_batch.number, keep_batch.relation, keep_batch.batch, clock_timestamp());
END
---- finish_batch: plpgsql keys
BEGIN
    PERFORM FROM inorder_internal.worker_batch AS b
    WHERE b.feed = finish_batch.feed AND b.number = finish_batch.batch AND b.token = finish_batch.token
      AND b.written_here
    FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM inorder_internal.say_lost(feed_name, feed, batch);
    END IF;
    DELETE FROM inorder_internal.worker_batch AS b WHERE b.feed = finish_batch.feed AND b.number = finish_batch.batch;
END
---- session_lives: plpgsql
DECLARE
    key bigint := inorder_internal.session_key(number);
BEGIN
    IF pg_is_in_recovery() THEN
        RETURN false;
    ELSIF number::text = current_setting('inorder.session', true) THEN
        -- this_session() has looked at it, before a batch is given away.
        RETURN true;
    ELSIF pg_try_advisory_lock_shared(key) THEN
        PERFORM pg_advisory_unlock_shared(key);
        RETURN false;
    END IF;
    RETURN true;
END
---- feed_take_batch: plpgsql writes
DECLARE
    o record;
    k inorder_internal.taken;
    version text;
    session oid;
BEGIN
    PERFORM inorder_internal.check_worker(worker, lease, max_tries);
    SELECT * INTO o FROM inorder_internal.open_feed(name, owner);
    version := inorder_internal.version_of(o.feed);
    k := inorder_internal.look_for_work(o.feed, o.caller, worker, max_rows);
    IF NOT (k.next).has_rows THEN
        RETURN;
    ELSIF NOT inorder_internal.lock_unchanged(o.feed, version) THEN
        k := inorder_internal.look_at(o.feed, o.caller, true);
        PERFORM inorder_internal.refuse_workers(k);
    END IF;
    session := inorder_internal.this_session();
    IF (k.shared_by).shares IS NOT NULL THEN
        SELECT g.* INTO batch, token, tries, lease_end
        FROM inorder_internal.take_share(k, worker, max_rows, lease, max_tries, session) AS g;
    ELSE
        -- An unfinished batch of feed_next_batch() becomes theirs, unless a session has it.
        IF (k.pending).transactions IS NOT NULL THEN
            PERFORM inorder_internal.refuse_held(k, session), inorder_internal.share_pending(k.feed);
        END IF;
        SELECT g.* INTO batch, token, tries, lease_end
        FROM inorder_internal.take_any(k, worker, max_rows, lease, max_tries, session) AS g;
    END IF;
    IF batch IS NOT NULL THEN
        PERFORM inorder_internal.make_durable(true);
    END IF;
END
---- feed_renew_batch: plpgsql writes
DECLARE
    o record;
    k inorder_internal.taken;
BEGIN
    SELECT * INTO o FROM inorder_internal.open_feed(name, owner);
    k := inorder_internal.look_at(o.feed, o.caller, false);
    RETURN inorder_internal.renew_batch(k.name, k.feed, batch, token, lease);
END
