-- Calls that take the next rows of a feed.
--
-- Readers of a feed take turns. If locking writes no WAL, the feed is locked first. Otherwise the feed is locked only
-- if there are rows, which avoids WAL for a poll that finds nothing. If another reader had its turn in the meantime,
-- the call then searches again: see begin_turn().

-- Return true if the next batch must wait, because the feed is ordered by a column and has unfinished batches.
CREATE FUNCTION inorder_internal.is_held(f inorder_internal.feed_view) RETURNS boolean
LANGUAGE sql STABLE
RETURN (f).shared AND ((f).at_position).ordering.column_name IS NOT NULL;

-- Raise an error if a reader would skip batches of workers.
CREATE FUNCTION inorder_internal.refuse_taken(f inorder_internal.feed_view) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (f.shared_by).shares IS NOT NULL THEN
        RAISE 'feed "%" is divided among workers by column %', f.name,
              quote_ident((f.shared_by).column_name)
        USING ERRCODE = 'feature_not_supported',
              DETAIL = 'A reader of all rows could not know which rows workers have.',
              HINT = 'Call feed_take_batch(), even with a single worker, or read another feed of the table, without '
                     'partition_by.';
    END IF;
    RAISE 'workers of feed "%" have unfinished batches', f.name
    USING ERRCODE = 'object_not_in_prerequisite_state',
          DETAIL = format('The first batch is %s.', (SELECT min(b.number) FROM inorder_internal.worker_batch AS b
                                                     WHERE b.feed = f.feed_id AND b.written_here
                                                       AND (b.dead_since IS NULL OR inorder_internal.is_held(f)))),
          HINT = 'Call feed_take_batch(), or let workers finish these batches before the feed is read in another way. '
                 'The view feed_batches shows the batches.';
END $$;

-- Report that a statement begins with WITH.
CREATE FUNCTION inorder_internal.say_with() RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE 'the statement begins with WITH' USING ERRCODE = 'syntax_error',
          DETAIL = 'feed_apply() writes WITH batch AS (...) in front of the statement.',
          HINT = 'Write a comma instead of WITH, as in '', w AS (SELECT * FROM batch) SELECT * FROM w''.';
END $$;

-- Report that a statement does not read the batch.
CREATE FUNCTION inorder_internal.say_not_read(feed_name text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE 'the statement does not read the batch' USING ERRCODE = 'feature_not_supported',
          DETAIL = 'The position moves past the whole batch.',
          HINT = format('Name the batch without a schema, as in SELECT count(*) FROM batch. To skip all rows so far, '
                        'call feed_seek(%L, ''now'').', feed_name);
END $$;

-- Report that row_type is not the row type of the table.
CREATE FUNCTION inorder_internal.say_row_type(t inorder_internal.feed_table, row_type regtype) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE 'row_type must be null::%, not of type %', t.relation, row_type
    USING ERRCODE = 'datatype_mismatch',
          HINT = CASE WHEN inorder_internal.namesake(t) IS NULL THEN concat('Pass null::', t.relation, '.')
                      ELSE concat('The table was renamed, and another table now has its former name. To read the '
                                  'remaining rows of the renamed table, pass null::', t.relation, '.') END;
END $$;

-- Raise an error if a feed gets no rows because another table now has the name that writers use. No error is raised as
-- long as workers have batches.
CREATE FUNCTION inorder_internal.refuse_swapped(f inorder_internal.feed_view) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    relation regclass := (f.t).relation;
    other regclass := inorder_internal.namesake(f.t);
BEGIN
    IF EXISTS (SELECT FROM inorder_internal.worker_batch AS b
               WHERE b.feed = f.feed_id AND b.dead_since IS NULL AND b.written_here) THEN
        RETURN;
    END IF;
    RAISE 'feed "%" reads table %, and not %', f.name, relation, other
    USING ERRCODE = 'object_not_in_prerequisite_state',
          DETAIL = 'The table of the feed was renamed, and another table now has its former name. The feed has '
                   'nothing more to read.',
          HINT = format('To read %s, call feed_drop(%L), then feed_create(). To continue with %s, let its owner call '
                        'feed_enable(%3$L).', other, f.name, relation);
END $$;

-- Move the position of a locked feed past the unread part of a set, if this part has no rows and a batch follows. If no
-- batch follows, record the poll from time to time, because the view "feeds" shows the last poll. A poll that is
-- recorded also moves the position past the unread part of a transaction or of an ordered set, if this part has no
-- rows. Such a poll also moves the position past transactions without rows, if examining them took a long time. The
-- next poll then need not examine them again.
CREATE FUNCTION inorder_internal.pass_rest(f inorder_internal.feed_view) RETURNS inorder_internal.feed_view
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    rest_batch inorder_internal.found_batch.rest%TYPE := (f.next).rest;
    is_rest boolean;
BEGIN
    IF (f.next).has_rows THEN
        IF rest_batch.transactions IS NOT NULL THEN
            PERFORM inorder_internal.move_feed(f, rest_batch, false);
            f.at_position := inorder_internal.advance(f.at_position, rest_batch);
        END IF;
        RETURN f;
    ELSIF rest_batch.transactions IS NULL THEN
        rest_batch := (f.next).batch;
    END IF;
    f.next.batch := rest_batch;
    IF (f.is_poll_due OR (f.next).is_costly) AND current_setting('transaction_read_only') = 'off'
       AND current_setting('transaction_isolation') = 'read committed' THEN
        is_rest := rest_batch.resumed IS NOT NULL OR (rest_batch.ordering).from_value IS NOT NULL OR (f.next).is_costly;
        PERFORM inorder_internal.lock_feed(f.feed_id);
        UPDATE inorder_internal.feed_state AS s
        -- If a reader has moved the feed in the meantime, the position already includes this part.
        SET position = CASE WHEN is_rest AND inorder_internal.follows(s.position, rest_batch)
                            THEN inorder_internal.advance(s.position, rest_batch) ELSE s.position END,
            polled = f.asked,
            -- If a feed is divided, rows may wait for a worker.
            caught_up_at = CASE WHEN inorder_internal.has_open(s.feed, (f.shared_by).shares, s.places)
                                THEN s.caught_up_at ELSE f.asked END,
            seq = inorder_internal.next_seq(s.seq, s.page, s.ctid), page = inorder_internal.page_of(s.ctid)
        WHERE s.feed = f.feed_id
          AND s.seq = (SELECT max(n.seq) FROM inorder_internal.feed_state AS n WHERE n.feed = f.feed_id);
    END IF;
    RETURN f;
END $$;

-- Add the batch that follows the position to the description of a feed, unless the batch is already known.
CREATE FUNCTION inorder_internal.add_next_batch(f inorder_internal.feed_view, max_rows int)
RETURNS inorder_internal.feed_view
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT f.is_found THEN
        f.next := inorder_internal.find_next_batch(f.t, f.at_position, max_rows, f.whole, false, f.caller);
        f.is_found := true;
    END IF;
    RETURN f;
END $$;

-- Return a feed with the batch that follows its position. "waits" is true for a caller that only waits for rows. If
-- "moves" is true and there are rows, the feed is locked, and the batch is determined under the lock. If "moves" is
-- true and there are no rows, the poll is recorded.
CREATE FUNCTION inorder_internal.open_next_batch(
    caller oid, name text, owner oid, max_rows int, waits boolean, moves boolean
) RETURNS inorder_internal.feed_view
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    feed inorder_internal.feed := inorder_internal.find_feed(name, owner, caller);
    f inorder_internal.feed_view;
    locked boolean := false;
BEGIN
    LOOP
        IF moves AND NOT locked THEN
            locked := inorder_internal.begin_turn(feed.id);
        END IF;
        f := inorder_internal.read_state(feed.id, feed.relation, caller, true);
        IF NOT waits AND (f.shared OR (f.shared_by).shares IS NOT NULL) THEN
            PERFORM inorder_internal.refuse_taken(f);
        END IF;
        f.next := inorder_internal.find_next_batch(f.t, f.at_position, max_rows, f.whole, false, caller);
        -- If there are rows, the call takes its turn. If another reader had its turn before, the call searches again.
        EXIT WHEN locked OR NOT moves OR NOT (f.next).has_rows OR inorder_internal.take_turn(feed.id, f.version);
        locked := true;
    END LOOP;
    IF moves THEN
        f := inorder_internal.pass_rest(f);
    END IF;
    IF NOT waits AND NOT (f.next).has_rows AND inorder_internal.namesake(f.t) IS NOT NULL THEN
        PERFORM inorder_internal.refuse_swapped(f);
    END IF;
    RETURN f;
END $$;

-- Return the next rows of a feed. If "moves" is true, the position moves past these rows.
CREATE FUNCTION inorder_internal.next_rows(
    caller oid, name text, owner oid, max_rows int, moves boolean
) RETURNS inorder_internal.found_rows
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f inorder_internal.feed_view := inorder_internal.open_next_batch(caller, name, owner, max_rows, false, moves);
    r inorder_internal.found_rows;
BEGIN
    r.t := f.t;
    r.members := (f.next).members;
    IF (f.next).has_rows THEN
        r.batch := (f.next).batch;
        IF moves THEN
            PERFORM inorder_internal.move_feed(f, r.batch, (f.next).is_all);
        END IF;
    END IF;
    RETURN r;
END $$;
