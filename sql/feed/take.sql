-- Calls that take what comes next in a feed.
--
-- Readers of a feed take turns. If locking writes nothing, the feed is locked first. Otherwise a poll that finds
-- nothing would cost WAL; the feed is locked once there is something to move over, and looked at again if another
-- reader had its turn in the meantime: see begin_turn().

-- True if no batch can follow, because an unfinished one is the last in the order of a column.
CREATE FUNCTION inorder_internal.is_held(k inorder_internal.taken) RETURNS boolean
LANGUAGE sql STABLE
RETURN (k).shared AND ((k).at_position).ordering.column_name IS NOT NULL;

-- Error for a reader who would skip batches of workers.
CREATE FUNCTION inorder_internal.refuse_taken(k inorder_internal.taken) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (k.shared_by).shares IS NOT NULL THEN
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
                                                   WHERE b.feed = k.feed AND b.written_here
                                                     AND (b.set_aside IS NULL OR inorder_internal.is_held(k)))),
          HINT = 'Call feed_take_batch(). Or let workers finish them before the feed is read in another way: the view '
                 'feed_batches shows them.';
END $$;

-- True if another table has the name that this table had when it was enabled, as after online changes of a schema.
-- Callers use it in an expression, because PERFORM would be one more statement for each poll.
CREATE FUNCTION inorder_internal.is_swapped(t inorder_internal.feed_table) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN inorder_internal.namesake(t.known_as[1], t.known_as[2], t.relation::oid) IS NOT NULL;
END $$;

-- Error about a feed that gets no rows because writers find another table; no error while workers have batches.
CREATE FUNCTION inorder_internal.refuse_swapped(k inorder_internal.taken) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t inorder_internal.feed_table := k.t;
    other regclass := inorder_internal.namesake(t.known_as[1], t.known_as[2], t.relation::oid);
BEGIN
    IF EXISTS (SELECT FROM inorder_internal.worker_batch AS b
               WHERE b.feed = k.feed AND b.set_aside IS NULL AND b.written_here) THEN
        RETURN;
    END IF;
    RAISE 'feed % reads table %, and not %', quote_literal(k.name), t.relation, other
    USING ERRCODE = 'object_not_in_prerequisite_state',
          DETAIL = 'Its table was renamed, and another one has the name that it had when it was enabled. There is '
                   'nothing more to read.',
          HINT = format('To read the other one, call feed_drop(%L), then feed_create() for %s. To go on with this one, '
                        'let its owner call feed_enable(%L).', k.name, other, t.relation);
END $$;

-- Record a poll that found nothing, from time to time, so that the view feeds shows it. The position then passes the
-- rest of a transaction or of an ordered set without rows, and transactions whose look took long: the next poll does
-- not look for them again.
CREATE FUNCTION inorder_internal.note_empty_poll(k inorder_internal.taken) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    past_batch inorder_internal.next_found.batch%TYPE := (k.next).batch;
    is_rest boolean := past_batch.resumed IS NOT NULL OR (past_batch.ordering).from_value IS NOT NULL
        OR (k.next).is_costly;
BEGIN
    IF (k.is_poll_due OR (k.next).is_costly) AND current_setting('transaction_read_only') = 'off'
       AND current_setting('transaction_isolation') = 'read committed' THEN
        PERFORM inorder_internal.lock_feed(k.feed);
        UPDATE inorder_internal.feed_state AS s
        -- A reader that has moved the feed in the meantime has passed it, too.
        SET position = CASE WHEN is_rest AND inorder_internal.follows(s.position, past_batch)
                            THEN inorder_internal.advance(s.position, past_batch) ELSE s.position END,
            polled = k.asked,
            -- If a feed is divided, rows may wait for a worker.
            caught_up_at = CASE WHEN inorder_internal.has_open(s.feed, (k.shared_by).shares, s.places)
                                THEN s.caught_up_at ELSE k.asked END,
            seq = inorder_internal.next_seq(s.seq, s.page, s.ctid), page = inorder_internal.page_of(s.ctid)
        WHERE s.feed = k.feed
          AND s.seq = (SELECT max(n.seq) FROM inorder_internal.feed_state AS n WHERE n.feed = k.feed);
    END IF;
END $$;

-- Move a feed that is locked over the rest of a set that has no rows any more, before the batch that follows. If no
-- batch follows, the poll is recorded, which passes the rest.
CREATE FUNCTION inorder_internal.pass_rest(k inorder_internal.taken) RETURNS inorder_internal.taken
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    rest inorder_internal.next_found.rest%TYPE := (k.next).rest;
BEGIN
    IF (k.next).has_rows THEN
        IF rest.transactions IS NOT NULL THEN
            PERFORM inorder_internal.move_feed(k, rest, false);
            k.at_position := inorder_internal.advance(k.at_position, rest);
        END IF;
    ELSE
        k.next.batch := CASE WHEN rest.transactions IS NULL THEN (k.next).batch ELSE rest END;
        IF k.is_poll_due OR (k.next).is_costly THEN
            PERFORM inorder_internal.note_empty_poll(k);
        END IF;
    END IF;
    RETURN k;
END $$;

-- A feed with what follows its position, which is looked for unless it was.
CREATE FUNCTION inorder_internal.with_next(k inorder_internal.taken, max_rows int) RETURNS inorder_internal.taken
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT k.is_found THEN
        k.next := inorder_internal.find_next(k.t, k.at_position, max_rows, k.whole, false, k.caller);
        k.is_found := true;
    END IF;
    RETURN k;
END $$;

-- The batch after the position of a feed, also for a caller who only waits for it. If the caller is to move the feed,
-- and there are rows, the feed is locked, and the result is the batch under the lock; a poll that finds none is
-- recorded.
CREATE FUNCTION inorder_internal.look_next(
    caller oid, name text, owner oid, max_rows int, waits boolean, moves boolean
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
        k := inorder_internal.look_at(f.id, f.relation, caller, true);
        IF NOT waits AND (k.shared OR (k.shared_by).shares IS NOT NULL) THEN
            PERFORM inorder_internal.refuse_taken(k);
        END IF;
        k.next := inorder_internal.find_next(k.t, k.at_position, max_rows, k.whole, false, caller);
        -- If there is something to move over, the call takes its turn, and looks again if another reader had a turn
        -- before.
        EXIT WHEN locked OR NOT moves OR NOT (k.next).has_rows OR inorder_internal.take_turn(f.id, version);
        locked := true;
    END LOOP;
    IF moves THEN
        k := inorder_internal.pass_rest(k);
    END IF;
    IF NOT waits AND NOT (k.next).has_rows AND inorder_internal.is_swapped(k.t) THEN
        PERFORM inorder_internal.refuse_swapped(k);
    END IF;
    RETURN k;
END $$;

-- The rows that come next in a feed, whose position moves over them if the caller is to move it.
CREATE FUNCTION inorder_internal.next_rows(
    caller oid, name text, owner oid, max_rows int, moves boolean
) RETURNS inorder_internal.rows_found
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    k inorder_internal.taken := inorder_internal.look_next(caller, name, owner, max_rows, false, moves);
    r inorder_internal.rows_found;
BEGIN
    r.t := k.t;
    r.members := (k.next).members;
    IF (k.next).has_rows THEN
        r.batch := (k.next).batch;
        IF moves THEN
            PERFORM inorder_internal.move_feed(k, r.batch, (k.next).is_all);
        END IF;
    END IF;
    RETURN r;
END $$;

-- True if feed_take_batch() would return a batch of the result of a look.
CREATE FUNCTION inorder_internal.is_batch_next(k inorder_internal.taken) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (k.next).has_rows AND NOT inorder_internal.is_held(k)
        OR inorder_internal.has_free(inorder_internal.state_of(k.feed), (k.shared_by).shares, NULL);
END $$;

-- True if it is known at once that no rows have come to a feed since a look found nothing. Most transactions that end
-- are those of other workers: with a look at each of these, workers that wait would take more time than those that
-- work.
CREATE FUNCTION inorder_internal.is_quiet(k inorder_internal.taken) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    state inorder_internal.feed_state := inorder_internal.state_of(k.feed);
BEGIN
    IF (k.t).relation IS NOT NULL AND state.written_here
       AND inorder_internal.lock_readable(k.relation, k.caller) THEN
        RETURN inorder_internal.is_idle(k.t, state.position, k.caller)
            AND NOT inorder_internal.has_free(state, (k.shared_by).shares, NULL);
    END IF;
    RETURN false;
END $$;
