-- Calls that take what comes next of a feed: by one reader, by workers, and by workers that divide it.
--
-- Readers of a feed take turns. Where that writes nothing, the feed is locked first; otherwise a poll that finds
-- nothing would cost WAL, so it is locked once there is something to move over, and looked at again if another reader
-- had its turn meanwhile: see begin_turn().

-- Error for a reader who would pass over batches that others have; of workers, since its order would be another.
CREATE FUNCTION inorder_internal.refuse_taken(k inorder_internal.taken, reads boolean) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF reads AND (k.pending).transactions IS NOT NULL THEN
        RAISE 'feed % has an unfinished batch, %', quote_literal(k.name), k.batch
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = format('Read it by feed_batch_rows() and call feed_finish_batch(%L, %s), or forget it by '
                            'feed_seek(%1$L, ''here''): its rows come again, in batches of other numbers.',
                            k.name, k.batch);
    ELSIF (k.shared_by).shares IS NOT NULL THEN
        RAISE 'feed % is divided among workers by column %', quote_literal(k.name),
              quote_ident((k.shared_by).column_name)
        USING ERRCODE = 'feature_not_supported',
              DETAIL = 'A reader of all its rows would not know which of them workers have.',
              HINT = 'Call feed_take_batch(), also if there is one worker. Or read another feed of the table, without '
                     'partition_by.';
    END IF;
    RAISE 'workers of feed % have unfinished batches', quote_literal(k.name)
    USING ERRCODE = 'object_not_in_prerequisite_state',
          DETAIL = format('The first one is %s.', (SELECT min(b.number) FROM inorder_internal.worker_batch AS b
                                                   WHERE b.feed = k.feed AND b.set_aside IS NULL AND b.written_here)),
          HINT = 'Call feed_take_batch(). Or let workers finish them before the feed is read in another way: the view '
                 'feed_batches shows them.';
END $$;

-- Error if another session that lives has the unfinished batch of a feed.
CREATE FUNCTION inorder_internal.refuse_held(k inorder_internal.taken, session oid) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held inorder_internal.feed_state := inorder_internal.state_of(k.feed);
BEGIN
    IF held.holder <> session AND inorder_internal.session_lives(held.holder) THEN
        RAISE 'batch % of feed % is in use by another session', k.batch, quote_literal(k.name)
        USING ERRCODE = 'object_in_use',
              DETAIL = format('It belongs to the session with process ID %s.', held.holder_pid),
              HINT = 'It becomes available when it is finished by feed_finish_batch() or that session ends.';
    END IF;
END $$;

-- Record a poll that found nothing, now and then: the view feeds shall know of it. What is left of a transaction, or of
-- an ordered set, and has no rows is passed then, so that the next poll does not look for it again.
CREATE FUNCTION inorder_internal.note_empty_poll(k inorder_internal.taken) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    past_batch inorder_internal.next_found.batch%TYPE := (k.next).batch;
    is_rest boolean := past_batch.resumed IS NOT NULL OR (past_batch.ordering).from_value IS NOT NULL;
BEGIN
    IF k.is_poll_due AND current_setting('transaction_read_only') = 'off'
       AND current_setting('transaction_isolation') = 'read committed' THEN
        PERFORM inorder_internal.lock_feed(k.feed);
        UPDATE inorder_internal.feed_state AS s
        -- Who has moved the feed meanwhile has passed it, too.
        SET position = CASE WHEN is_rest AND inorder_internal.follows(s.position, past_batch)
                            THEN inorder_internal.advance(s.position, past_batch) ELSE s.position END,
            polled = k.asked,
            -- In a feed that is divided rows may wait for a worker.
            caught_up_at = CASE WHEN inorder_internal.has_open(s.feed, (k.shared_by).shares, s.places)
                                THEN s.caught_up_at ELSE k.asked END,
            seq = inorder_internal.next_seq(s.seq, s.page, s.ctid), page = inorder_internal.page_of(s.ctid)
        WHERE s.feed = k.feed
          AND s.seq = (SELECT max(n.seq) FROM inorder_internal.feed_state AS n WHERE n.feed = k.feed);
    END IF;
END $$;

-- Move a feed that is locked over what is left of a set and has no rows any more, before the batch that follows. Where
-- none does, the poll is noted, which passes that.
CREATE FUNCTION inorder_internal.pass_rest(k inorder_internal.taken) RETURNS inorder_internal.taken
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    rest inorder_internal.next_found.rest%TYPE := (k.next).rest;
BEGIN
    IF (k.next).has_rows THEN
        k.at_position := CASE WHEN rest.transactions IS NULL THEN k.at_position
                              ELSE inorder_internal.move_feed(k.feed, rest, k.asked, false) END;
    ELSE
        k.next.batch := CASE WHEN rest.transactions IS NULL THEN (k.next).batch ELSE rest END;
        IF k.is_poll_due THEN
            PERFORM inorder_internal.note_empty_poll(k);
        END IF;
    END IF;
    RETURN k;
END $$;

-- What follows the position of a feed. If the caller is to move it, and there are rows, the feed is locked, and this is
-- what follows under the lock; a poll that finds none is noted. at_once: the caller reads the rows at once.
CREATE FUNCTION inorder_internal.look_next(
    caller oid, name text, owner oid, max_rows int, reads boolean, moves boolean, at_once boolean
) RETURNS inorder_internal.taken
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f inorder_internal.feed := inorder_internal.find_feed(name, owner, caller);
    k inorder_internal.taken;
    version text;
    locked boolean := false;
BEGIN
    LOOP
        IF moves AND NOT locked THEN
            version := inorder_internal.begin_turn(f.id);
            locked := version IS NULL;
        END IF;
        k := inorder_internal.look_at(f.id, f.relation, caller, reads);
        IF reads AND (k.pending).transactions IS NOT NULL
           OR (reads OR moves) AND (k.shared OR (k.shared_by).shares IS NOT NULL) THEN
            PERFORM inorder_internal.refuse_taken(k, reads);
        ELSIF (k.pending).transactions IS NULL THEN
            k.next := inorder_internal.find_next(k.t, k.at_position, max_rows, k.whole, at_once, caller);
        END IF;
        -- If there is something to move over, writing is due: what another reader has left is looked at again.
        EXIT WHEN locked OR NOT moves OR NOT (k.next).has_rows OR inorder_internal.take_turn(f.id, version);
        locked := true;
    END LOOP;
    IF moves AND (k.next).has_rows IS NOT NULL THEN
        k := inorder_internal.pass_rest(k);
    END IF;
    RETURN k;
END $$;

-- The same. Most looks find nothing, and most of those nothing that could have changed since the last one: these are
-- not made.
CREATE FUNCTION inorder_internal.take_next(
    caller oid, name text, owner oid, max_rows int, reads boolean, moves boolean, at_once boolean
) RETURNS inorder_internal.taken
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asked text := CASE WHEN moves THEN format('%s %s %s %s %s', caller, owner, max_rows, reads, name) END;
    known bigint := inorder_internal.found_empty(asked, false);
    k inorder_internal.taken;
BEGIN
    IF known >= 0 THEN
        k.relation := known;
        k.t.relation := k.relation::regclass;
        k.t.ordered := false;  -- nobody asks
        k.next.has_rows := false;
        RETURN k;
    END IF;
    k := inorder_internal.look_next(caller, name, owner, max_rows, reads, moves, at_once);
    IF known < 0 AND NOT (k.next).has_rows THEN
        k.next.has_rows := inorder_internal.note_empty(asked, k, k.relation::bigint);
    END IF;
    RETURN k;
END $$;

-- What comes next of a feed, for a caller who reads the rows at once; if these come in order, perhaps by a query that
-- is limited: see move_over().
CREATE FUNCTION inorder_internal.next_rows(
    caller oid, name text, owner oid, max_rows int, moves boolean, in_order boolean,
    OUT feed inorder_internal.taken, OUT t inorder_internal.feed_table, OUT members @extschema@.feed_member[],
    OUT query text, OUT is_limited boolean
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    feed := inorder_internal.take_next(caller, name, owner, max_rows, true, moves, in_order);
    t := feed.t;
    members := (feed.next).members;
    is_limited := (feed.next).query IS NOT NULL;
    IF (feed.next).has_rows THEN
        query := coalesce((feed.next).query,
                          inorder_internal.found_query(t, (feed.next).batch, NULL, 'e.*', in_order));
    END IF;
END $$;

-- Move a feed over the rows that were read of what comes next: so many, of which the last one has this number and key
-- if they are as many as the limit.
CREATE FUNCTION inorder_internal.move_over(k inorder_internal.taken, amount bigint, number bigint, last_key text[])
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF amount = 0 THEN
        PERFORM inorder_internal.note_empty_poll(k);
        RETURN;
    ELSIF (k.next).query IS NOT NULL THEN
        k.next.is_all := number IS NULL AND (k.next).ends_in IS NULL;
        IF NOT (k.next).is_all THEN
            k.next.batch := inorder_internal.cut_batch(k.t, (k.next).batch, coalesce(number, (k.next).ends_in),
                                                       last_key);
        END IF;
    END IF;
    k.at_position := inorder_internal.move_feed(k.feed, (k.next).batch, k.asked, (k.next).is_all);
END $$;

---------------------------------------------------------------------------
-- A divided feed
---------------------------------------------------------------------------

-- A feed that is divided; error if its column is not what it was, or keys may have other hashes.
CREATE FUNCTION inorder_internal.prove_share_key(k inorder_internal.taken) RETURNS inorder_internal.taken
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    divided inorder_internal.share_key := k.shared_by;
BEGIN
    IF divided.fingerprint IS DISTINCT FROM inorder_internal.fingerprint(divided.kind) THEN
        RAISE 'feed % was divided by another hash function than that of this server', quote_literal(k.name)
        USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = format('The hash of a known key was %s, and is %s. Keys are in other shares than before, so '
                              'unfinished batches would have other rows.', divided.fingerprint,
                              inorder_internal.fingerprint(divided.kind)),
              HINT = 'It was restored into a database of another encoding, or on another architecture. Divide it anew '
                     'by feed_seek(), which discards unfinished batches.';
    -- Another feed may have proved the column since it has another type.
    ELSIF inorder_internal.column_is_proved(k.t, divided.column_name, divided.attnum, true)
          AND inorder_internal.share_kind(inorder_internal.type_of_column(
                  (k.t).relation, divided.column_name::name)) = divided.kind THEN
        RETURN k;
    -- A key that changed its share would be lost or repeated.
    ELSIF NOT EXISTS (SELECT FROM pg_attribute AS a
                      WHERE a.attrelid = (k.t).relation AND a.attname = divided.column_name
                        AND a.attnum = divided.attnum AND a.attnum > 0
                        AND inorder_internal.share_kind(a.atttypid) = divided.kind) THEN
        PERFORM inorder_internal.refuse_column(
            (k.t).relation, divided.column_name, true, 'is not the one by which its feed was divided',
            'It was renamed, dropped or made anew, or its type was changed: give the table that column back. Or go on '
            'by feed_seek(), which takes the column that has the name now.');
    END IF;
    PERFORM inorder_internal.prove_column(k.t, divided.column_name::name, true);
    RETURN k;
END $$;

-- A feed that is locked with what follows its position, which may have been found, after what is left of a set.
CREATE FUNCTION inorder_internal.next_for_worker(k inorder_internal.taken, max_rows int)
RETURNS inorder_internal.taken
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (k.next).has_rows IS NULL THEN
        k.next := inorder_internal.find_next(k.t, k.at_position, max_rows, k.whole, false, k.caller);
    END IF;
    RETURN inorder_internal.pass_rest(k);
END $$;

-- Give each share the rows that it has in the next piece of the feed, of at most so many rows, unless there is nothing
-- new.
CREATE FUNCTION inorder_internal.distribute_next(k inorder_internal.taken, max_rows int)
RETURNS inorder_internal.taken
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    pieces text;
    counts text[];
BEGIN
    k := inorder_internal.next_for_worker(k, max_rows);
    IF NOT (k.next).has_rows THEN
        RETURN k;
    END IF;
    pieces := inorder_internal.found_query(k.t, (k.next).batch, NULL, format(
        'CASE WHEN %strue THEN %s END AS share',
        inorder_internal.typed((k.t).relation, ARRAY[(k.shared_by).column_name::name]),
        inorder_internal.share_text(k.shared_by)), false);
    -- The shares that have rows in it, and how many.
    counts := inorder_internal.as_caller(k.t, format(
        'SELECT ARRAY[pg_catalog.concat(pg_catalog.array_agg(s.share ORDER BY s.share)), '
        'pg_catalog.concat(pg_catalog.array_agg(s.rows ORDER BY s.share))] '
        'FROM (SELECT e.share, pg_catalog.count(*) AS rows FROM (%s) AS e GROUP BY e.share) AS s', pieces), false,
        k.caller);
    k.next.members := inorder_internal.unchanged_members(k.t, (k.next).members);
    k.at_position := inorder_internal.move_feed(k.feed, (k.next).batch, k.asked, false);
    PERFORM inorder_internal.add_part(k.feed, inorder_internal.by_number((k.next).batch), c.share::int, c.rows,
                                      max_rows)
    FROM ROWS FROM (unnest(nullif(counts[1], '')::bigint[]), unnest(nullif(counts[2], '')::bigint[])) AS c(share, rows);
    k.next.has_rows := NULL;  -- what follows now is not known
    RETURN k;
END $$;

-- Give a worker a batch of a share, with at least half as many rows as are wanted if there are that many: until then
-- the feed is distributed, piece by piece.
CREATE FUNCTION inorder_internal.take_share(
    k inorder_internal.taken, worker text, max_rows int, lease interval, max_tries int, session oid
) RETURNS inorder_internal.worker_batch
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    enough bigint := coalesce((max_rows::bigint + 1) / 2, 0);
    pieces int := 0;
    b inorder_internal.worker_batch;
BEGIN
    LOOP
        b := inorder_internal.take_batch(k.feed, worker, lease, max_tries, session, enough);
        -- Others who ask wait, so the rest is for the next call.
        EXIT WHEN b.number IS NOT NULL OR pieces = 64;
        k := inorder_internal.distribute_next(k, max_rows);
        EXIT WHEN NOT (k.next).has_rows;
        pieces := pieces + 1;
    END LOOP;
    IF b.number IS NULL THEN
        b := inorder_internal.take_batch(k.feed, worker, lease, max_tries, session, 0);
    END IF;
    IF b.number IS NOT NULL AND pieces > 0 AND (k.next).is_all THEN
        -- Workers have been given all rows that were committed, unless batches wait for one.
        UPDATE inorder_internal.feed_state AS s
        SET caught_up_at = k.asked,
            seq = inorder_internal.next_seq(s.seq, s.page, s.ctid), page = inorder_internal.page_of(s.ctid)
        WHERE s.feed = k.feed
          AND s.seq = (SELECT max(n.seq) FROM inorder_internal.feed_state AS n WHERE n.feed = k.feed)
          AND NOT inorder_internal.has_open(k.feed, (k.shared_by).shares, s.places);
    END IF;
    RETURN b;
END $$;

---------------------------------------------------------------------------
-- Workers
---------------------------------------------------------------------------

-- A feed as it is now; error unless workers can share it. If it is divided, its table is locked and proved.
CREATE FUNCTION inorder_internal.look_for_workers(f inorder_internal.feed, caller oid)
RETURNS inorder_internal.taken
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    k inorder_internal.taken := inorder_internal.look_at(f.id, f.relation, caller, true);
BEGIN
    IF (k.shared_by).shares IS NOT NULL THEN
        k.next.members := inorder_internal.proved_members(inorder_internal.locked(k.t, caller), caller);
        k := inorder_internal.prove_share_key(k);
    ELSIF ((k.at_position).ordering).column_name IS NOT NULL THEN
        RAISE 'feed % has an order column, and cannot be shared by workers', quote_literal(k.name)
        USING ERRCODE = 'feature_not_supported',
              DETAIL = 'Workers process batches at the same time, so rows would not be processed in that order.',
              HINT = 'Call feed_next_batch() in one session. Or create a feed with partition_by, whose rows of one key '
                     'are processed in order.';
    END IF;
    RETURN k;
END $$;

-- A feed as it is now, locked if there may be something for a worker. Unless it was locked at once, also with what
-- follows its position, if there is no unfinished batch for the worker.
CREATE FUNCTION inorder_internal.look_for_work(
    f inorder_internal.feed, caller oid, worker text, max_rows int
) RETURNS inorder_internal.taken
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    version text := inorder_internal.begin_turn(f.id);
    k inorder_internal.taken := inorder_internal.look_for_workers(f, caller);
BEGIN
    IF version IS NULL THEN
        RETURN k;
    ELSIF (k.pending).transactions IS NULL
          AND NOT inorder_internal.has_free(inorder_internal.state_of(f.id), (k.shared_by).shares, worker) THEN
        k.next := inorder_internal.find_next(k.t, k.at_position, max_rows, k.whole, false, caller);
        IF NOT (k.next).has_rows THEN
            RETURN inorder_internal.next_for_worker(k, max_rows);
        END IF;
    END IF;
    RETURN CASE WHEN inorder_internal.take_turn(f.id, version) THEN k
                ELSE inorder_internal.look_for_workers(f, caller) END;
END $$;

-- Give a worker a batch of a feed that is locked: one that a worker has or had, or a new one.
CREATE FUNCTION inorder_internal.take_any(
    k inorder_internal.taken, worker text, max_rows int, lease interval, max_tries int, session oid
) RETURNS inorder_internal.worker_batch
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    b inorder_internal.worker_batch;
BEGIN
    IF k.shared OR (k.pending).transactions IS NOT NULL THEN
        b := inorder_internal.take_batch(k.feed, worker, lease, max_tries, session, NULL);
        IF b.number IS NOT NULL THEN
            k.next.members := inorder_internal.proved_members(inorder_internal.locked(k.t, k.caller), k.caller);
            RETURN b;
        END IF;
    END IF;
    k := inorder_internal.next_for_worker(k, max_rows);
    IF (k.next).has_rows THEN
        k.next.members := inorder_internal.unchanged_members(k.t, (k.next).members);
        b.feed := k.feed;
        UPDATE inorder_internal.feed_state AS s
        SET position = inorder_internal.advance(s.position, (k.next).batch), moved = clock_timestamp(),
            polled = k.asked, caught_up_at = CASE WHEN (k.next).is_all THEN k.asked ELSE s.caught_up_at END,
            batch = inorder_internal.next_number(s.batch, s.batch_origin), batch_origin = (k.next).batch.origin,
            -- Not at each end of a batch, for which the feed is not locked.
            first_batch = coalesce((SELECT w.number FROM inorder_internal.worker_batch AS w
                                    WHERE w.feed = k.feed AND w.set_aside IS NULL AND w.written_here
                                      AND w.number >= coalesce(s.first_batch, -9223372036854775808)
                                    ORDER BY w.number LIMIT 1), s.batch + 1),
            seq = inorder_internal.next_seq(s.seq, s.page, s.ctid), page = inorder_internal.page_of(s.ctid)
        WHERE s.feed = k.feed
          AND s.seq = (SELECT max(n.seq) FROM inorder_internal.feed_state AS n WHERE n.feed = k.feed)
        RETURNING s.batch INTO b.number;
        b.relation := k.relation::regclass;
        b.batch := (k.next).batch;
        b := inorder_internal.keep_batch(inorder_internal.given(b, worker, lease, max_tries, session));
    END IF;
    RETURN b;
END $$;

---------------------------------------------------------------------------
-- Bodies of public functions, which run as the owner of the state (as_owner.c), or in the SQL edition as the caller
---------------------------------------------------------------------------

CREATE FUNCTION inorder_internal.feed_next_batch(caller oid, name text, max_rows int, owner regrole)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    k inorder_internal.taken := inorder_internal.take_next(caller, name, owner, max_rows, NULL, true, false);
    session oid;
BEGIN
    IF (k.pending).transactions IS NULL AND NOT (k.next).has_rows THEN
        RETURN NULL;
    END IF;
    session := inorder_internal.this_session();
    IF (k.pending).transactions IS NULL THEN
        k.next.members := inorder_internal.unchanged_members(k.t, (k.next).members);
        UPDATE inorder_internal.feed_state AS s
        SET batch = inorder_internal.next_number(s.batch, s.batch_origin), batch_origin = (k.next).batch.origin,
            pending = (k.next).batch, holder = session, holder_pid = pg_backend_pid(), polled = k.asked,
            caught_up_at = CASE WHEN (k.next).is_all THEN k.asked ELSE s.caught_up_at END,
            seq = inorder_internal.next_seq(s.seq, s.page, s.ctid), page = inorder_internal.page_of(s.ctid)
        WHERE s.feed = k.feed
          AND s.seq = (SELECT max(n.seq) FROM inorder_internal.feed_state AS n WHERE n.feed = k.feed)
        RETURNING s.batch INTO k.batch;
    ELSIF session IS NOT NULL THEN  -- on a standby nobody has it
        PERFORM inorder_internal.refuse_held(k, session);
        UPDATE inorder_internal.feed_state AS s
        SET holder = session, holder_pid = pg_backend_pid(),
            seq = inorder_internal.next_seq(s.seq, s.page, s.ctid), page = inorder_internal.page_of(s.ctid)
        WHERE s.feed = k.feed
          AND s.seq = (SELECT max(n.seq) FROM inorder_internal.feed_state AS n WHERE n.feed = k.feed);
    END IF;
    RETURN CASE WHEN inorder_internal.make_durable(true) THEN k.batch END;
END $$;

CREATE FUNCTION inorder_internal.feed_take_batch(
    caller oid, name text, worker text, max_rows int, lease interval, max_tries int, owner regrole,
    OUT number bigint, OUT token bigint, OUT tries int, OUT lease_end timestamptz
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f inorder_internal.feed;
    k inorder_internal.taken;
    b inorder_internal.worker_batch;
    session oid;
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
    f := inorder_internal.find_feed(name, owner, caller);
    k := inorder_internal.look_for_work(f, caller, worker, max_rows);
    IF NOT (k.next).has_rows THEN
        RETURN;
    END IF;
    session := inorder_internal.this_session();
    IF (k.shared_by).shares IS NOT NULL THEN
        b := inorder_internal.take_share(k, worker, max_rows, lease, max_tries, session);
    ELSE
        -- An unfinished batch of feed_next_batch() becomes theirs, unless a session has it.
        IF (k.pending).transactions IS NOT NULL THEN
            PERFORM inorder_internal.refuse_held(k, session), inorder_internal.share_pending(k.feed);
        END IF;
        b := inorder_internal.take_any(k, worker, max_rows, lease, max_tries, session);
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
    k inorder_internal.taken := inorder_internal.opened_feed(caller, name, owner, false);
    renewed timestamptz;
BEGIN
    lease := inorder_internal.checked_lease('lease', lease, '1 second');
    UPDATE inorder_internal.worker_batch AS b SET lease_end = clock_timestamp() + lease
    WHERE b.feed = k.feed AND b.number = number AND b.token = token AND b.written_here
    RETURNING b.lease_end INTO renewed;
    IF NOT FOUND THEN
        PERFORM inorder_internal.say_lost(name, k.feed, number);
    END IF;
    -- The worker relies on it, whether or not the server crashes.
    RETURN CASE WHEN inorder_internal.make_durable(true) THEN renewed END;
END $$;

-- Whether feed_next_batch() or feed_take_batch() would return a batch of what was looked at. One of another session is
-- waited for.
CREATE FUNCTION inorder_internal.is_batch_next(k inorder_internal.taken) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    state inorder_internal.feed_state;
BEGIN
    IF (k.next).has_rows THEN
        RETURN true;
    END IF;
    state := inorder_internal.state_of(k.feed);
    IF (k.pending).transactions IS NOT NULL THEN
        RETURN (state.holder <> inorder_internal.this_session()
                AND inorder_internal.session_lives(state.holder)) IS NOT TRUE;
    END IF;
    RETURN inorder_internal.has_free(state, (k.shared_by).shares, NULL);
END $$;

-- Whether nothing has come to a feed in which a look found nothing, as far as that is known at once. Most transactions
-- that end are those of other workers: with a look at each of these, workers that wait would take more time than those
-- that work.
CREATE FUNCTION inorder_internal.is_quiet(k inorder_internal.taken) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    state inorder_internal.feed_state := inorder_internal.state_of(k.feed);
BEGIN
    IF (k.t).relation IS NOT NULL AND state.written_here AND (state.pending).transactions IS NULL
       AND inorder_internal.lock_readable(k.relation, k.caller) THEN
        RETURN inorder_internal.is_idle(k.t, state.position, k.caller)
            AND NOT inorder_internal.has_free(state, (k.shared_by).shares, NULL);
    END IF;
    RETURN false;
END $$;

-- The rows of an unfinished batch.
CREATE FUNCTION inorder_internal.unfinished_rows(caller oid, name text, number bigint, owner oid)
RETURNS inorder_internal.rows_found
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    k inorder_internal.taken := inorder_internal.opened_feed(caller, name, owner, true);
    t inorder_internal.feed_table := inorder_internal.locked(k.t, caller);
    w record;
BEGIN
    SELECT b.batch, b.share INTO w FROM inorder_internal.worker_batch AS b
    WHERE b.feed = k.feed AND b.number = unfinished_rows.number AND NOT b.is_open AND b.written_here;
    IF w.batch IS NULL THEN
        w.batch := inorder_internal.pending_batch(k, number);
    ELSIF w.share IS NOT NULL AND (k.shared_by).shares IS NOT NULL THEN
        k := inorder_internal.prove_share_key(k);
        t := inorder_internal.of_share(t, k.shared_by, w.share);
    END IF;
    RETURN inorder_internal.rows_of(t, w.batch, caller);
END $$;

-- Set the position of a feed to these transactions or, if they are null, by a word.
CREATE FUNCTION inorder_internal.seek(caller oid, name text, transactions int8multirange, start text, owner regrole)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    feed bigint := inorder_internal.taken_feed(caller, name, owner);
    t inorder_internal.feed_table := inorder_internal.locked(
        (inorder_internal.checked_feed(feed, caller, true, true)).t, caller);
    state inorder_internal.feed_state;
    f inorder_internal.feed;
BEGIN
    PERFORM inorder_internal.proved_members(t, caller);
    IF start IS DISTINCT FROM 'here' THEN
        IF start NOT IN ('beginning', 'now') THEN
            RAISE 'start must be ''beginning'', ''now'' or ''here'', not %', quote_literal(start)
            USING ERRCODE = 'invalid_parameter_value';
        END IF;
        PERFORM inorder_internal.seek_to(feed, t, CASE start WHEN 'beginning' THEN '{}'::int8multirange
            WHEN 'now' THEN inorder_internal.ended_transactions(t.base) ELSE transactions END);
        RETURN;
    END IF;
    state := inorder_internal.state_of(feed);
    SELECT * INTO f FROM inorder_internal.feed AS known WHERE known.id = feed;
    IF state.written_here IS NOT TRUE THEN
        PERFORM inorder_internal.say_restored(f);
    ELSIF (state.position).partial IS NOT NULL THEN
        PERFORM inorder_internal.check_order(t, (state.position).members, (state.position).partial);
    END IF;
    UPDATE inorder_internal.feed_state AS s
    SET position.members = inorder_internal.members(t), pending = NULL,
        -- In the middle of a set the order is that of the set.
        position.ordering = CASE WHEN (s.position).ordering.frozen IS NOT NULL THEN (s.position).ordering
            ELSE inorder_internal.new_order(t.relation, (s.position).ordering.column_name) END
    WHERE s.feed = f.id;
    UPDATE inorder_internal.feed AS known
    SET shared_by = inorder_internal.renewed_share_key(t.relation, f.shared_by)
    WHERE known.id = f.id AND (f.shared_by).shares IS NOT NULL
      AND NOT EXISTS (SELECT FROM inorder_internal.worker_batch AS b WHERE b.feed = known.id AND b.written_here);
    PERFORM inorder_internal.renew_batches(state, t);
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
