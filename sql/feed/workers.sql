-- Batches of workers: several of one feed at once, each in the hands of one worker.
--
-- The position of a feed includes the batches that its workers have not finished, so that the next batch is disjoint
-- from all of them: ended(now) - position. Finishing a batch deletes it here, and moves nothing. What has been read is
-- the position without these batches: see unfinished().
--
-- A batch is given to a worker with a token. Only who has the token finishes it, returns it, or prolongs the lease.
-- It may be given to another worker, with another token, once it was returned, the lease is over, or the session that
-- asked for it has ended. After so many tries it is set aside.

-- An interval; error unless it is in its range.
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

-- Leave the unfinished batch of a feed to its workers, under its number.
CREATE FUNCTION inorder_internal.share_pending(feed bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    state inorder_internal.feed_state := inorder_internal.state_of(feed);
    b inorder_internal.worker_batch;
BEGIN
    b.feed := feed;
    b.number := state.batch;
    b.relation := state.relation;
    b.batch := state.pending;
    b := inorder_internal.keep_batch(b);
    UPDATE inorder_internal.feed_state AS s
    SET position = inorder_internal.advance(state.position, state.pending), pending = NULL,
        seq = inorder_internal.next_seq(s.seq, s.page, s.ctid), page = inorder_internal.page_of(s.ctid)
    WHERE s.feed = share_pending.feed AND s.seq = state.seq;
END $$;

-- Whether a worker that asks would get a batch that it has, that another one had, or that waits for one.
CREATE FUNCTION inorder_internal.has_free(state inorder_internal.feed_state, shares int, worker text)
RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    IF shares IS NOT NULL THEN
        RETURN EXISTS (SELECT FROM inorder_internal.first_batches(state.feed, shares, state.places) AS b
                       WHERE b.worker = has_free.worker OR inorder_internal.is_free(b));
    END IF;
    RETURN EXISTS (SELECT FROM inorder_internal.worker_batch AS b
                   WHERE b.feed = state.feed AND b.set_aside IS NULL AND b.written_here
                     AND b.number >= coalesce(state.first_batch, -9223372036854775808)
                     AND (b.worker = has_free.worker OR inorder_internal.is_free(b)));
END $$;

-- The batch that a worker has, otherwise the first one that it may have; null if there is none. Of a feed that is
-- divided, see share_batch().
CREATE FUNCTION inorder_internal.free_batch(feed bigint, worker text, least_rows bigint)
RETURNS inorder_internal.worker_batch
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_batch inorder_internal.worker_batch;
    lowest bigint;
BEGIN
    IF least_rows IS NOT NULL THEN
        RETURN inorder_internal.share_batch(feed, worker, least_rows);
    END IF;
    -- A transaction that is open for long keeps those that were finished since it began: each look would meet all.
    lowest := coalesce((inorder_internal.state_of(feed)).first_batch, -9223372036854775808);
    -- One that is locked is being finished or returned at this moment.
    SELECT * INTO found_batch FROM inorder_internal.worker_batch AS b
    WHERE b.feed = free_batch.feed AND b.set_aside IS NULL AND b.written_here AND b.worker = free_batch.worker
      AND b.number >= lowest
    ORDER BY b.number LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        SELECT * INTO found_batch FROM inorder_internal.worker_batch AS b
        WHERE b.feed = free_batch.feed AND b.set_aside IS NULL AND b.written_here AND b.number >= lowest
          AND inorder_internal.is_free(b)
        ORDER BY b.number LIMIT 1 FOR UPDATE SKIP LOCKED;
    END IF;
    RETURN found_batch;
END $$;

-- A batch as a worker gets it.
CREATE FUNCTION inorder_internal.given(
    b inorder_internal.worker_batch, worker text, lease interval, max_tries int, holder oid
) RETURNS inorder_internal.worker_batch
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    b.worker := given.worker;
    b.holder := given.holder;
    b.holder_pid := pg_backend_pid();
    -- 60 random bits.
    b.token := concat('x', right(replace(gen_random_uuid()::text, '-', ''), 15))::bit(60)::bigint;
    b.tries := coalesce(b.tries, 0) + 1;
    b.max_tries := given.max_tries;
    b.lease_end := clock_timestamp() + lease;
    RETURN b;
END $$;

-- Give an unfinished batch to a worker, which is one that it has or that is free; null if there is none. Sets aside
-- those that were tried too often.
CREATE FUNCTION inorder_internal.take_batch(
    feed bigint, worker text, lease interval, max_tries int, holder oid, least_rows bigint
) RETURNS inorder_internal.worker_batch
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    b inorder_internal.worker_batch;
    before bigint;
BEGIN
    LOOP
        b := inorder_internal.free_batch(feed, worker, least_rows);
        EXIT WHEN b.number IS NULL OR b.tries >= max_tries IS NOT TRUE;
        UPDATE inorder_internal.worker_batch AS w
        SET set_aside = clock_timestamp(), worker = NULL, token = NULL, holder = NULL, holder_pid = NULL,
            max_tries = take_batch.max_tries
        WHERE w.feed = take_batch.feed AND w.number = b.number;
    END LOOP;
    IF b.number IS NOT NULL THEN
        before := b.number;
        -- It gets its number when its first worker gets it. A copy of the server that was made before, and that takes
        -- its place, knows the batch without that number, perhaps with fewer rows: so it is not the same there.
        IF b.is_open THEN
            UPDATE inorder_internal.feed_state AS s
            SET batch = inorder_internal.next_number(s.batch, s.batch_origin),
                batch_origin = inorder_internal.server_origin(), places[b.share + 1] = b.place,
                seq = inorder_internal.next_seq(s.seq, s.page, s.ctid), page = inorder_internal.page_of(s.ctid)
            WHERE s.feed = b.feed
              AND s.seq = (SELECT max(n.seq) FROM inorder_internal.feed_state AS n WHERE n.feed = b.feed)
            RETURNING s.batch INTO b.number;
        END IF;
        b := inorder_internal.given(b, worker, lease, max_tries, holder);
        UPDATE inorder_internal.worker_batch AS w
        SET (number, worker, token, holder, holder_pid, tries, max_tries, lease_end)
            = ROW(b.number, b.worker, b.token, b.holder, b.holder_pid, b.tries, b.max_tries, b.lease_end)
        WHERE w.feed = b.feed AND w.number = before;
        IF b.share IS NOT NULL THEN
            PERFORM inorder_internal.note_turn(b);
        END IF;
    END IF;
    RETURN b;
END $$;

CREATE FUNCTION inorder_internal.say_lost(feed_name text, feed bigint, batch bigint) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    b inorder_internal.worker_batch;
BEGIN
    SELECT * INTO b FROM inorder_internal.worker_batch AS w
    WHERE w.feed = say_lost.feed AND w.number = say_lost.batch AND w.written_here;
    RAISE 'batch % of feed % does not belong to the worker with this token', batch, quote_literal(feed_name)
    USING ERRCODE = 'invalid_parameter_value',
          DETAIL = CASE WHEN b.number IS NULL
                            THEN 'It was finished or discarded, or a promotion or a restore took it back.'
                        WHEN b.set_aside IS NOT NULL THEN format('It was set aside after %s tries.', b.tries)
                        WHEN b.worker IS NULL THEN 'It was returned, and no worker has it.'
                        ELSE format('Worker %s has it.', quote_literal(b.worker)) END,
          HINT = 'The lease was over, or the session that asked for it ended. Ask for another batch by '
                 'feed_take_batch().';
END $$;

---------------------------------------------------------------------------
-- Bodies of public functions, which run as the owner of the state (as_owner.c), or in the SQL edition as the caller
---------------------------------------------------------------------------

CREATE FUNCTION inorder_internal.feed_fail_batch(
    caller oid, name text, number bigint, token bigint, reason text, retry_after interval, owner regrole
) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    k inorder_internal.taken := inorder_internal.opened_feed(caller, name, owner, false);
    aside boolean;
BEGIN
    IF reason IS NULL THEN
        RAISE 'reason must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    retry_after := inorder_internal.checked_lease('retry_after', retry_after, '0');
    UPDATE inorder_internal.worker_batch AS b
    SET worker = NULL, token = NULL, holder = NULL, holder_pid = NULL, reason = left(reason, 2000),
        failed = clock_timestamp(), lease_end = clock_timestamp() + retry_after,
        set_aside = CASE WHEN b.tries >= b.max_tries THEN clock_timestamp() END
    WHERE b.feed = k.feed AND b.number = number AND b.token = token AND b.written_here
    RETURNING b.set_aside IS NOT NULL INTO aside;
    IF NOT FOUND THEN
        PERFORM inorder_internal.say_lost(name, k.feed, number);
    END IF;
    RETURN aside;
END $$;

CREATE FUNCTION inorder_internal.feed_retry_batch(caller oid, name text, number bigint, owner regrole)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    feed bigint := inorder_internal.taken_feed(caller, name, owner);
BEGIN
    PERFORM inorder_internal.checked_feed(feed, caller, false, false);
    UPDATE inorder_internal.worker_batch AS b SET set_aside = NULL, tries = 0, lease_end = clock_timestamp()
    WHERE b.feed = feed AND b.number = number AND b.set_aside IS NOT NULL AND b.written_here;
    IF NOT FOUND THEN
        RAISE 'feed % has no batch % that is set aside', quote_literal(name), number
        USING ERRCODE = 'invalid_parameter_value', HINT = 'The view feed_batches shows those that are.';
    END IF;
    -- Always: who has an older snapshot, in which the batch is set aside, fails instead of passing it.
    UPDATE inorder_internal.feed_state AS s
    SET first_batch = CASE WHEN s.first_batch > number THEN number ELSE s.first_batch END,
        seq = inorder_internal.next_seq(s.seq, s.page, s.ctid), page = inorder_internal.page_of(s.ctid)
    WHERE s.feed = feed AND s.seq = (SELECT max(n.seq) FROM inorder_internal.feed_state AS n WHERE n.feed = feed);
END $$;

---------------------------------------------------------------------------
-- Public functions
---------------------------------------------------------------------------

CREATE FUNCTION @extschema@.feed_take_batch(
    name text, worker text, max_rows int DEFAULT NULL, lease interval DEFAULT '5 minutes', max_tries int DEFAULT 5,
    owner regrole DEFAULT NULL, OUT number bigint, OUT token bigint, OUT tries int, OUT lease_end timestamptz
)
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_take_batch(text, text, int, interval, int, regrole) IS
'For several workers of one feed at once: give a worker a batch of its own, of at most max_rows rows (all if null). '
'Returns its number, the token with which this worker finishes it, how often it was given to a worker, and the end of '
'the lease; nulls if there is none. Then commit, read the batch by feed_batch_rows, and call feed_finish_batch, or '
'feed_fail_batch, with the token.
A worker that has a batch gets that again, with another token: after a crash, or in another process of the same name. '
'Otherwise it gets the first batch that another worker has returned or lost, with the same number and rows, or a new '
'one. A worker loses its batch when the lease is over by the clock of the server, or the session that asked for it has '
'ended, and another worker asks; its token is then an error. A batch that was given to workers max_tries times without '
'being finished is set aside instead: see the view feed_batches.
In a feed with partition_by each batch has rows of one share, and the next one of that share is given to a worker '
'once it is finished; a worker gets the share that it had last, if that has rows. Nulls also mean that all rows that '
'are left are of shares that others have, or that wait.
Numbers are those of feed_next_batch, whose unfinished batch is given to the first worker.
Requires the privileges to move the feed and to read its table. Range: worker 1 to 200 characters, lease 1 second to '
'1 day, max_tries 1 to 2147483647 (null for no limit), max_rows 1 to 2147483647, ignored for a batch that exists. '
'Errors as feed_read; and null_value_not_allowed (worker, lease), feature_not_supported for a feed with an order '
'column without partition_by, object_in_use if a session has an unfinished batch of feed_next_batch.';

CREATE FUNCTION @extschema@.feed_renew_batch(
    name text, number bigint, token bigint, lease interval DEFAULT '5 minutes', owner regrole DEFAULT NULL
) RETURNS timestamptz
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_renew_batch(text, bigint, bigint, interval, regrole) IS
'Let the lease of a worker''s batch end this long from now, and return when that is. Possible after its end, too, '
'until another worker has the batch.
Requires the privilege to move the feed. Range: lease 1 second to 1 day. Errors: undefined_object, '
'insufficient_privilege, object_not_in_prerequisite_state (restored feed), null_value_not_allowed, '
'invalid_parameter_value (lease; the batch does not belong to the worker with this token).';

CREATE FUNCTION @extschema@.feed_fail_batch(
    name text, number bigint, token bigint, reason text, retry_after interval DEFAULT '0', owner regrole DEFAULT NULL
) RETURNS boolean
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_fail_batch(text, bigint, bigint, text, interval, regrole) IS
'Return a worker''s batch that cannot be processed. After the given time the next worker that asks gets it. Returns '
'true if it was set aside instead, since it has been tried max_tries times. The view feed_batches shows the reason.
Requires the privilege to move the feed. Range: reason is truncated to 2000 characters; retry_after 0 to 1 day. '
'Errors: undefined_object, insufficient_privilege, object_not_in_prerequisite_state (restored feed), '
'null_value_not_allowed, invalid_parameter_value (retry_after; the batch does not belong to the worker with this '
'token).';

CREATE FUNCTION @extschema@.feed_retry_batch(name text, number bigint, owner regrole DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_retry_batch(text, bigint, regrole) IS
'Let workers have a batch again that was set aside; its tries count from 0.
Requires the privilege to move the feed. Errors: undefined_object, insufficient_privilege, '
'object_not_in_prerequisite_state (restored feed), invalid_parameter_value (no such batch is set aside).';
