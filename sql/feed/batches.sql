-- Functions that give the unfinished batches of a feed to workers, functions that change the batches when the feed
-- changes, and the view feed_batches.
--
-- A worker is identified by a name, and gets each batch together with a token. The token is needed to finish the batch,
-- to return it, or to extend the lease. After a restart, a worker with the same name, in any session, gets its batch
-- again immediately, with a new token. If two processes use one name, the process that asked last has the batch.
-- Another worker gets the batch after the batch was returned, or after the lease has expired by the clock of the
-- server. If the clock jumps, leases only expire early or late. The token, and not the clock, decides which worker may
-- finish the batch. After a limited number of tries a batch is dead, and no worker gets it until feed_retry_batch() is
-- called.

-- Return the unfinished batches of the workers of a feed. The search begins at the first unfinished batch, because row
-- versions of finished batches remain in the table as long as an older transaction is open.
CREATE FUNCTION inorder_internal.unfinished_batches(feed bigint) RETURNS SETOF inorder_internal.worker_batch
-- Few feeds have unfinished batches. With the default estimate of 1000 rows for each feed, JIT would compile the
-- queries of the views, which takes a second.
LANGUAGE plpgsql STABLE ROWS 1 SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    state inorder_internal.feed_state := inorder_internal.state_of(feed);
    shares int := (SELECT (f.shared_by).shares FROM inorder_internal.feed AS f WHERE f.id = state.feed);
BEGIN
    IF shares IS NOT NULL THEN
        RETURN QUERY SELECT b.* FROM generate_series(0, shares - 1) AS s(share)
            CROSS JOIN LATERAL (SELECT w.* FROM inorder_internal.worker_batch AS w
                                WHERE w.feed_share = state.feed * 1024 + s.share AND w.written_here
                                  AND w.place >= coalesce(state.places[s.share + 1], -9223372036854775808)
                                ORDER BY w.place) AS b;
    ELSE
        RETURN QUERY SELECT b.* FROM inorder_internal.worker_batch AS b
            WHERE b.feed = state.feed AND b.dead_since IS NOT NULL AND b.written_here
            UNION ALL SELECT b.* FROM inorder_internal.worker_batch AS b
            WHERE b.feed = state.feed AND b.dead_since IS NULL AND b.written_here
              AND b.number >= coalesce(state.first_batch, -9223372036854775808);
    END IF;
END $$;

-- Give unfinished batches to workers

-- Return true if the batch was given to a worker in this transaction. Repeated calls in one transaction return this
-- batch. The worker may also have another batch, which the first call skipped because a session was finishing that
-- other batch, or extending its lease.
CREATE FUNCTION inorder_internal.is_given_now(b inorder_internal.worker_batch) RETURNS boolean
LANGUAGE sql STABLE
RETURN coalesce((b).taken = pg_current_xact_id_if_assigned(), false);

-- Return the first unfinished batch of each share of a feed, unless this batch is dead. Workers get no other batch of
-- the share before this first batch is finished.
CREATE FUNCTION inorder_internal.first_batches(feed bigint, shares int, places bigint[])
RETURNS SETOF inorder_internal.worker_batch
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT f.*
    FROM generate_series(0, shares - 1) AS s(share)
    CROSS JOIN LATERAL (SELECT b.* FROM inorder_internal.worker_batch AS b
                        WHERE b.feed_share = first_batches.feed * 1024 + s.share AND b.written_here
                          AND b.place >= coalesce(places[s.share + 1], -9223372036854775808)
                        ORDER BY b.place LIMIT 1::bigint) AS f
    WHERE f.dead_since IS NULL;
END;

-- Return true if a divided feed has rows that no worker has got yet. These rows count even if other rows of their share
-- must be finished first.
CREATE FUNCTION inorder_internal.has_open(feed bigint, shares int, places bigint[]) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT EXISTS (SELECT FROM generate_series(0, shares - 1) AS s(share)
                   CROSS JOIN LATERAL (SELECT b.is_open FROM inorder_internal.worker_batch AS b
                                       WHERE b.feed_share = has_open.feed * 1024 + s.share AND b.written_here
                                         AND b.place >= coalesce(places[s.share + 1], -9223372036854775808)
                                       ORDER BY b.place DESC LIMIT 1::bigint) AS last
                   WHERE last.is_open);
END;

-- Return true if a worker could get an unfinished batch: its own batch, a batch whose lease has expired, or a batch
-- that waits for a worker.
CREATE FUNCTION inorder_internal.has_free(state inorder_internal.feed_state, shares int, worker text)
RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    IF shares IS NOT NULL THEN
        RETURN EXISTS (SELECT FROM inorder_internal.first_batches(state.feed, shares, state.places) AS b
                       WHERE b.worker = has_free.worker OR inorder_internal.is_free(b));
    END IF;
    RETURN EXISTS (SELECT FROM inorder_internal.worker_batch AS b
                   WHERE b.feed = state.feed AND b.dead_since IS NULL AND b.written_here
                     AND b.number >= coalesce(state.first_batch, -9223372036854775808)
                     AND (b.worker = has_free.worker OR inorder_internal.is_free(b)));
END $$;

-- Return the batch that a worker of a divided feed has. If the worker has no batch, return one that it may get,
-- preferably from its last share. If there is none, return null. An open batch, to which rows may still be added,
-- counts only if it has at least least_rows rows.
CREATE FUNCTION inorder_internal.share_batch(feed bigint, worker text, least_rows bigint)
RETURNS inorder_internal.worker_batch
-- Without this setting the queries would be planned again in each call, because a plan seems cheaper if the number of
-- shares is known.
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    shares int;
    places bigint[];
    candidate bigint;
    batch inorder_internal.worker_batch;
BEGIN
    SELECT (f.shared_by).shares, n.places INTO shares, places
    FROM inorder_internal.feed AS f JOIN inorder_internal.feed_state AS n ON n.feed = f.id
    WHERE f.id = share_batch.feed ORDER BY n.seq DESC LIMIT 1;
    -- A share stays with its last worker until other workers have had twice as many turns as there are shares.
    FOR candidate IN
        SELECT b.number FROM inorder_internal.first_batches(feed, shares, places) AS b
        LEFT JOIN LATERAL (SELECT s.worker, s.turn FROM inorder_internal.share_worker AS s
                           WHERE s.feed = b.feed AND s.share = b.share ORDER BY s.seq DESC LIMIT 1) AS w ON true
        WHERE b.worker = share_batch.worker
           OR (b.rows >= least_rows OR NOT b.is_open) AND inorder_internal.is_free(b)
        ORDER BY inorder_internal.is_given_now(b) DESC, coalesce(b.worker = share_batch.worker, false) DESC,
                 coalesce(w.turn, 0) + CASE WHEN w.worker <> share_batch.worker THEN 2 * shares ELSE 0 END, b.place
    LOOP
        -- A locked batch is skipped, because another session is finishing or returning it, or extending its lease.
        SELECT * INTO batch FROM inorder_internal.worker_batch AS b
        WHERE b.feed = share_batch.feed AND b.number = candidate AND b.dead_since IS NULL
          AND (b.worker = share_batch.worker OR inorder_internal.is_free(b)) FOR UPDATE SKIP LOCKED;
        EXIT WHEN FOUND;
    END LOOP;
    RETURN batch;
END $$;

-- Return the batch that a worker has. If the worker has no batch, return the first one that it may get, or null. For a
-- divided feed, see share_batch().
CREATE FUNCTION inorder_internal.free_batch(feed bigint, worker text, least_rows bigint)
RETURNS inorder_internal.worker_batch
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    batch inorder_internal.worker_batch;
    lowest bigint;
BEGIN
    IF least_rows IS NOT NULL THEN
        RETURN inorder_internal.share_batch(feed, worker, least_rows);
    END IF;
    -- As long as an older transaction is open, row versions of finished batches remain in the table. Without a lower
    -- bound each search would read all of these versions.
    lowest := coalesce((inorder_internal.state_of(feed)).first_batch, -9223372036854775808);
    -- A locked batch is skipped, because another session is finishing or returning it, or extending its lease.
    SELECT * INTO batch FROM inorder_internal.worker_batch AS b
    WHERE b.feed = free_batch.feed AND b.dead_since IS NULL AND b.written_here AND b.worker = free_batch.worker
      AND b.number >= lowest
    ORDER BY inorder_internal.is_given_now(b) DESC, b.number LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        SELECT * INTO batch FROM inorder_internal.worker_batch AS b
        WHERE b.feed = free_batch.feed AND b.dead_since IS NULL AND b.written_here AND b.number >= lowest
          AND inorder_internal.is_free(b)
        ORDER BY b.number LIMIT 1 FOR UPDATE SKIP LOCKED;
    END IF;
    RETURN batch;
END $$;

-- Return true if a worker asks for its batch again before the first lease of the current try has expired. This request
-- is not counted as another try. Otherwise two processes with one name, which take the batch from each other, would use
-- up all tries. A worker that crashes each time it gets the batch uses up one try per lease.
CREATE FUNCTION inorder_internal.is_in_try(b inorder_internal.worker_batch, worker text) RETURNS boolean
LANGUAGE sql STABLE
RETURN coalesce((b).worker = worker AND (b).tried > clock_timestamp(), false);

-- Return a batch with a new token and a new lease, as the worker gets it.
CREATE FUNCTION inorder_internal.given(
    b inorder_internal.worker_batch, worker text, lease interval, max_tries int
) RETURNS inorder_internal.worker_batch
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_in_try boolean := inorder_internal.is_in_try(b, worker);
BEGIN
    b.worker := given.worker;
    -- The token has 48 random bits, because JSON numbers are exact only up to 2^53.
    b.token := concat('x', right(gen_random_uuid()::text, 12))::bit(48)::bigint;
    b.taken := pg_current_xact_id();
    b.max_tries := given.max_tries;
    b.lease_end := clock_timestamp() + lease;
    IF NOT is_in_try THEN
        b.tries := coalesce(b.tries, 0) + 1;
        b.tried := b.lease_end;
    END IF;
    RETURN b;
END $$;

-- Store the worker that last got a batch of a share, and the turn in which it got the batch.
CREATE FUNCTION inorder_internal.note_turn(b inorder_internal.worker_batch) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE inorder_internal.share_worker AS s
    SET worker = b.worker,
        turn = (SELECT f.batch FROM inorder_internal.feed_state AS f WHERE f.feed = b.feed ORDER BY f.seq DESC LIMIT 1),
        seq = inorder_internal.next_seq(s.seq, s.page, s.ctid), page = inorder_internal.page_of(s.ctid)
    WHERE s.feed = b.feed AND s.share = b.share
      AND s.seq = (SELECT max(n.seq) FROM inorder_internal.share_worker AS n
                   WHERE n.feed = b.feed AND n.share = b.share);
    IF NOT FOUND THEN
        INSERT INTO inorder_internal.share_worker (feed, share, relation, worker, turn)
        VALUES (b.feed, b.share, b.relation, b.worker, (inorder_internal.state_of(b.feed)).batch)
        ON CONFLICT DO NOTHING;
    END IF;
END $$;

-- Give a worker an unfinished batch, either the worker's own batch or a free batch. Return null if there is no such
-- batch. A batch becomes dead after max_tries tries. A batch that the worker got in this transaction stays unchanged,
-- because (feed_take_batch(...)).* calls the function once for each column of the result.
CREATE FUNCTION inorder_internal.take_unfinished_batch(
    feed bigint, worker text, lease interval, max_tries int, least_rows bigint
) RETURNS inorder_internal.worker_batch
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    b inorder_internal.worker_batch;
    stored_number bigint;
BEGIN
    LOOP
        b := inorder_internal.free_batch(feed, worker, least_rows);
        IF b.worker = take_unfinished_batch.worker AND inorder_internal.is_given_now(b) THEN
            RETURN b;
        END IF;
        EXIT WHEN b.number IS NULL OR b.tries >= max_tries IS NOT TRUE OR inorder_internal.is_in_try(b, worker);
        UPDATE inorder_internal.worker_batch AS w
        SET dead_since = clock_timestamp(), worker = NULL, token = NULL, max_tries = take_unfinished_batch.max_tries
        WHERE w.feed = take_unfinished_batch.feed AND w.number = b.number;
    END LOOP;
    IF b.number IS NOT NULL THEN
        stored_number := b.number;
        -- An open batch gets its number when it is first given to a worker. A copy of the server that was made earlier
        -- has the batch without a number, and perhaps with fewer rows. If this copy replaces the server, the batch must
        -- not get the same number again.
        IF b.is_open THEN
            UPDATE inorder_internal.feed_state AS s
            SET batch = inorder_internal.next_number(s.batch, s.batch_origin),
                batch_origin = inorder_internal.server_origin(), places[b.share + 1] = b.place,
                seq = inorder_internal.next_seq(s.seq, s.page, s.ctid), page = inorder_internal.page_of(s.ctid)
            WHERE s.feed = b.feed
              AND s.seq = (SELECT max(n.seq) FROM inorder_internal.feed_state AS n WHERE n.feed = b.feed)
            RETURNING s.batch INTO b.number;
        END IF;
        b := inorder_internal.given(b, worker, lease, max_tries);
        UPDATE inorder_internal.worker_batch AS w
        SET (number, worker, token, taken, tries, tried, max_tries, lease_end)
            = ROW(b.number, b.worker, b.token, b.taken, b.tries, b.tried, b.max_tries, b.lease_end)
        WHERE w.feed = b.feed AND w.number = stored_number;
        IF b.share IS NOT NULL THEN
            PERFORM inorder_internal.note_turn(b);
        END IF;
    END IF;
    RETURN b;
END $$;

-- Raise the error about a token that does not match a batch. The detail explains what has happened to the batch.
CREATE FUNCTION inorder_internal.say_lost(feed_name text, feed bigint, batch bigint, token bigint) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    b inorder_internal.worker_batch;
    batch_of_token bigint;
    detail text;
    hint text := 'Call feed_take_batch() for another batch.';
BEGIN
    SELECT * INTO b FROM inorder_internal.worker_batch AS w
    WHERE w.feed = say_lost.feed AND w.number = say_lost.batch AND w.written_here;
    SELECT w.number INTO batch_of_token FROM inorder_internal.worker_batch AS w
    WHERE w.feed = say_lost.feed AND w.token = say_lost.token AND w.written_here;
    IF batch_of_token IS NOT NULL THEN
        detail := format('The token belongs to batch %s.', batch_of_token);
        hint := 'Pass a number and a token of one call of feed_take_batch().';
    ELSIF batch > (inorder_internal.state_of(feed)).batch IS NOT FALSE THEN
        detail := 'The feed has no batch of this number yet.';
        hint := 'If a promotion or a restore undid the batch, its rows are delivered in another batch. ' || hint;
    ELSIF b.number IS NULL THEN
        detail := 'The batch was finished, or feed_seek() has discarded it.';
        hint := 'An earlier call, whose answer was lost, may have finished the batch. ' || hint;
    ELSIF b.dead_since IS NOT NULL THEN
        detail := format('The batch is dead after %s tries.', b.tries);
        hint := 'Call feed_retry_batch() to let workers take the batch again, or finish the batch without a token.';
    ELSIF b.worker IS NULL THEN
        detail := 'The batch was returned, and no worker has it.';
        hint := 'An earlier call of feed_fail_batch() may have returned the batch, or feed_seek() or feed_rebase() may '
                'have taken the batch from its worker. ' || hint;
    ELSE
        detail := format('A later call of feed_take_batch() gave the batch to worker "%s".', b.worker);
        hint := format('If this worker has another name, its lease has expired: pass a longer lease, or call '
                       'feed_renew_batch(). If this is worker "%s", it has asked for a batch again, or another process '
                       'has the same name: give each process its own name.', b.worker);
    END IF;
    RAISE 'batch % of feed "%" does not belong to the worker with this token', batch, feed_name
    USING ERRCODE = 'invalid_parameter_value', DETAIL = detail, HINT = hint;
END $$;

-- Discard or renumber the batches when the position of the feed is set

-- Return totals of the unfinished batches of workers, for the view "feeds".
--
--  amount             number of batches that are not dead
--  first_number       lowest number of the batches that are not dead, and were given to a worker
--  first_worker       worker of the batch with that number
--  transactions       transactions of the batches that are not dead; these transactions count as not read
--  dead               number of dead batches
--  dead_transactions  transactions of dead batches
--  blocked            number of shares that dead batches hold back
--  is_small           true if the sets are small enough to be combined each time a role reads the view
CREATE FUNCTION inorder_internal.unfinished_totals(
    feed bigint, OUT amount bigint, OUT first_number bigint, OUT first_worker text, OUT transactions int8multirange,
    OUT dead bigint, OUT dead_transactions int8multirange, OUT blocked bigint, OUT is_small boolean
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    SELECT count(*) FILTER (WHERE b.dead_since IS NULL),
           min(b.number) FILTER (WHERE b.dead_since IS NULL AND NOT b.is_open),
           (array_agg(b.worker ORDER BY b.number) FILTER (WHERE b.dead_since IS NULL AND NOT b.is_open))[1],
           coalesce(range_agg((b.batch).transactions) FILTER (WHERE b.dead_since IS NULL AND b.bytes <= 262144::bigint),
                    '{}'::int8multirange),
           count(*) FILTER (WHERE b.dead_since IS NOT NULL),
           coalesce(range_agg((b.batch).transactions)
                        FILTER (WHERE b.dead_since IS NOT NULL AND b.bytes <= 262144::bigint), '{}'::int8multirange),
           count(DISTINCT b.share) FILTER (WHERE b.dead_since IS NOT NULL),
           coalesce(max(b.bytes) <= 262144::bigint, true)
    INTO amount, first_number, first_worker, transactions, dead, dead_transactions, blocked, is_small
    FROM (SELECT w.*, sum(pg_column_size((w.batch).transactions)) OVER () AS bytes
          FROM inorder_internal.unfinished_batches(unfinished_totals.feed) AS w) AS b;
END $$;

-- Warn if a feed has unfinished batches, which the caller is about to discard. Open batches do not count, because no
-- worker has them yet.
CREATE FUNCTION inorder_internal.warn_of_unfinished(f inorder_internal.feed) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    batches record;
BEGIN
    SELECT count(*) AS unfinished, count(b.dead_since) AS dead INTO batches
    FROM inorder_internal.worker_batch AS b WHERE b.feed = f.id AND NOT b.is_open;
    IF batches.unfinished > 0 THEN
        RAISE WARNING 'discarding unfinished batches of feed "%": %', f.name, batches.unfinished
        USING DETAIL = format('Dead batches among them: %s.', batches.dead);
    END IF;
END $$;

-- Discard the batches of workers, because the position of the feed is being set to the given transactions. Raise an
-- error if a dead batch has rows of these transactions, because these rows would then count as read.
CREATE FUNCTION inorder_internal.discard_batches(
    f inorder_internal.feed, written_here boolean, read int8multirange
) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    dead_batch bigint;
BEGIN
    -- In a state that was restored from another server, the transactions have the numbers of that server.
    IF written_here THEN
        SELECT min(b.number) INTO dead_batch FROM inorder_internal.worker_batch AS b
        WHERE b.feed = f.id AND b.dead_since IS NOT NULL AND b.written_here AND (b.batch).transactions && read;
        IF dead_batch IS NOT NULL THEN
            RAISE 'feed "%" has dead batches, whose rows would count as read', f.name
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = format('The first dead batch is %s.', dead_batch),
                  HINT = 'Call feed_finish_batch() or feed_retry_batch() for these batches first. '
                         'The view feed_batches shows them.';
        END IF;
    END IF;
    PERFORM inorder_internal.warn_of_unfinished(f);
    DELETE FROM inorder_internal.worker_batch AS b WHERE b.feed = f.id;
    UPDATE inorder_internal.feed_state AS s SET first_batch = NULL WHERE s.feed = f.id AND s.first_batch IS NOT NULL;
END $$;

-- Take the batches from their workers, and give the batches new numbers and the current partitions.
CREATE FUNCTION inorder_internal.renew_batches(state inorder_internal.feed_state, t inorder_internal.feed_table)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    b inorder_internal.worker_batch;
BEGIN
    DELETE FROM inorder_internal.worker_batch AS w WHERE w.feed = state.feed AND w.written_here IS NOT TRUE;
    -- The batches get new numbers, because they may now include rows of partitions that were attached.
    FOR b IN SELECT * FROM inorder_internal.worker_batch AS w WHERE w.feed = state.feed ORDER BY w.number
             FOR UPDATE LOOP
        IF coalesce((b.batch).resumed, (b.batch).cut) IS NOT NULL THEN
            PERFORM inorder_internal.check_order(t, (b.batch).members,
                                                 coalesce((b.batch).resumed, (b.batch).cut));
        END IF;
        IF NOT b.is_open THEN
            state.batch := inorder_internal.next_number(state.batch, state.batch_origin);
            state.batch_origin := inorder_internal.server_origin();
        END IF;
        UPDATE inorder_internal.worker_batch AS w
        SET number = CASE WHEN b.is_open THEN b.number ELSE state.batch END,
            batch.members = inorder_internal.members(t), worker = NULL, token = NULL, lease_end = '-infinity'
        WHERE w.feed = state.feed AND w.number = b.number;
    END LOOP;
    UPDATE inorder_internal.feed_state AS s SET batch = state.batch, batch_origin = state.batch_origin
    WHERE s.feed = state.feed;
END $$;

-- The view feed_batches

-- A row of the view feed_batches.
CREATE TYPE inorder_internal.seen_batch AS (
    name text, owner name, relation regclass, number bigint, worker text, tries int, max_tries int,
    lease_end timestamptz, failed timestamptz, reason text, dead_since timestamptz, transactions int8multirange,
    share int, rows bigint
);

CREATE FUNCTION inorder_internal.seen_batches(caller oid) RETURNS SETOF inorder_internal.seen_batch
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT (s.f).name, inorder_internal.shown_owner(s.f),
           (SELECT c.oid::regclass FROM pg_class AS c WHERE c.oid = (s.f).relation),
           CASE WHEN NOT b.is_open THEN b.number END, b.worker, b.tries, b.max_tries,
           nullif(b.lease_end, '-infinity'::timestamptz), b.failed,
           -- The reason may quote rows.
           CASE WHEN inorder_internal.may_move(caller, s.f) OR inorder_internal.may_read(caller, (s.f).relation)
                THEN b.reason END,
           b.dead_since, (b.batch).transactions, b.share, b.rows
    FROM (SELECT k FROM inorder_internal.feed AS k WHERE inorder_internal.may_see(caller, k) ORDER BY k.id) AS s(f)
    CROSS JOIN LATERAL inorder_internal.unfinished_batches((s.f).id) AS b;
END;

-- Return the unfinished batches of workers that the current role may see, which are the source of the view
-- feed_batches.
CREATE FUNCTION inorder_internal.seen_batches() RETURNS SETOF inorder_internal.seen_batch
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C STABLE PARALLEL UNSAFE;

CREATE VIEW @extschema@.feed_batches WITH (security_barrier = true) AS
SELECT * FROM inorder_internal.seen_batches();
COMMENT ON VIEW @extschema@.feed_batches IS 'Unfinished batches of workers, including dead batches.';
COMMENT ON COLUMN @extschema@.feed_batches.number IS 'number of the batch';
COMMENT ON COLUMN @extschema@.feed_batches.worker IS
'worker that has the batch; null if the batch was returned or is dead';
COMMENT ON COLUMN @extschema@.feed_batches.tries IS 'number of tries so far';
COMMENT ON COLUMN @extschema@.feed_batches.max_tries IS
'number of tries after which the batch is dead; null for no limit';
COMMENT ON COLUMN @extschema@.feed_batches.lease_end IS
'time from which another worker (any worker, if the batch was returned) can get the batch; null means immediately';
COMMENT ON COLUMN @extschema@.feed_batches.failed IS 'when the batch last failed; null if never';
COMMENT ON COLUMN @extschema@.feed_batches.reason IS
'reason given to feed_fail_batch; null for roles that can neither move the feed nor read its table';
COMMENT ON COLUMN @extschema@.feed_batches.dead_since IS 'when the batch became dead; null if it is not dead';
COMMENT ON COLUMN @extschema@.feed_batches.transactions IS
'transactions whose rows are in the batch, in whole or in part';
COMMENT ON COLUMN @extschema@.feed_batches.share IS
'number of the share that has the rows, from 0; null without partition_by';
COMMENT ON COLUMN @extschema@.feed_batches.rows IS 'number of rows; null without partition_by';
