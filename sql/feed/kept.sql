-- Functions that find a feed by its name, and check, lock and change its state; and functions for the batches of its
-- workers.

-- A feed in its current state. If is_renamed is true, the owner was renamed. If is_found is true, "next" is the batch
-- that follows the position. "version" is for take_turn().
CREATE TYPE inorder_internal.feed_view AS (
    feed_id bigint, caller oid, name text, relation oid, t inorder_internal.feed_table,
    at_position @extschema@.feed_position, whole boolean, shared boolean, shared_by inorder_internal.share_key,
    is_poll_due boolean, is_renamed boolean, asked timestamptz, next inorder_internal.found_batch, is_found boolean,
    version text
);

CREATE FUNCTION inorder_internal.role_name(id oid) RETURNS name
LANGUAGE sql STABLE
RETURN nullif(pg_get_userbyid(id), concat('unknown (OID='::text, id, ')'::text)::name);

-- The name of the owner of a feed; the OID of the owner, as a string, if the role was dropped or belongs to another
-- server.
CREATE FUNCTION inorder_internal.shown_owner(f inorder_internal.feed) RETURNS name
LANGUAGE sql STABLE
RETURN CASE WHEN inorder_internal.is_right((f).owner, (f).owner_name, (f).system)
            THEN coalesce(inorder_internal.role_name((f).owner), (f).owner::text::name) ELSE (f).owner::text::name END;

CREATE FUNCTION inorder_internal.say_unknown(feed_name text, owner oid, caller oid) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owners text;
BEGIN
    SELECT string_agg(quote_literal(quote_ident(inorder_internal.shown_owner(f))), ' or ' ORDER BY f.owner_name)
    INTO owners
    FROM inorder_internal.feed AS f
    WHERE f.name = feed_name AND f.owner <> say_unknown.owner AND inorder_internal.may_move(caller, f);
    RAISE 'feed "%" of role % does not exist', feed_name,
          coalesce(quote_ident(inorder_internal.role_name(owner)), owner::text)
    USING ERRCODE = 'undefined_object',
          HINT = 'To name a feed of another role, pass its owner, as in owner => '
              || coalesce(owners, '''name_of_role''') || '.';
END $$;

-- Find a feed that the caller may move, without starting the executor (kept.c). Return null if find_feed() has to
-- search.
CREATE FUNCTION inorder_internal.movable_feed(feed_name text, owner oid, caller oid) RETURNS inorder_internal.feed
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;

-- Find a feed that the caller may move by its name and, if it belongs to another role, by its owner.
CREATE FUNCTION inorder_internal.find_feed(feed_name text, owner oid, caller oid)
RETURNS inorder_internal.feed
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f inorder_internal.feed;
BEGIN
    IF feed_name IS NULL THEN
        RAISE 'the name of a feed must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    owner := coalesce(owner, caller);
    f := inorder_internal.movable_feed(feed_name, owner, caller);
    IF f.id IS NOT NULL THEN
        RETURN f;
    END IF;
    -- A feed whose role belongs to another server is visible only to the owner of the table.
    SELECT * INTO f FROM inorder_internal.feed AS k
    WHERE k.name = feed_name AND k.owner = find_feed.owner
      AND (pg_get_userbyid(k.owner) = k.owner_name OR k.system = inorder_internal.server_system()
           OR inorder_internal.owns(caller, k.relation))
    ORDER BY k.system = inorder_internal.server_system() DESC LIMIT 1;
    IF f.id IS NOT NULL AND inorder_internal.may_move(caller, f) THEN
        RETURN f;
    -- For a feed that the role may not see, the error is the same as for a missing feed.
    ELSIF f.id IS NULL OR NOT inorder_internal.may_see(caller, f) THEN
        PERFORM inorder_internal.say_unknown(feed_name, owner, caller);
    END IF;
    RAISE 'permission denied for feed "%"', feed_name USING ERRCODE = 'insufficient_privilege',
          HINT = 'The owner of the feed or of its table may call feed_grant().';
END $$;

CREATE FUNCTION inorder_internal.say_restored(f inorder_internal.feed) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM inorder_internal.feed_table AS t WHERE t.relation = f.relation AND t.is_generated) THEN
        RAISE 'feed "%" was restored from a dump, and the numbers of its table were recomputed', f.name
        USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = 'The position does not apply to the new numbers: it is unknown which rows the feed has read.',
              HINT = format('Call feed_seek(%L, ''beginning'') to read all rows again, or feed_seek(%1$L, ''now'') to '
                            'skip all rows so far.', f.name);
    END IF;
    RAISE 'feed "%" was restored from a dump, and cannot be moved yet', f.name
    USING ERRCODE = 'object_not_in_prerequisite_state',
          DETAIL = 'The position was stored on another server, or at another time.',
          HINT = format('The owner of the table must call feed_rebase(%L).', f.relation);
END $$;

-- Return a feed. Raise an error unless the caller may move the feed and, if must_read is true, read its table. Also
-- raise an error if the feed was restored, unless "seeks" is true.
CREATE FUNCTION inorder_internal.checked_feed(feed bigint, caller oid, must_read boolean, seeks boolean)
RETURNS inorder_internal.feed
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f inorder_internal.feed;
    s inorder_internal.feed_state := inorder_internal.state_of(feed);
BEGIN
    SELECT * INTO f FROM inorder_internal.feed AS k WHERE k.id = feed;
    IF f.id IS NULL OR s.feed IS NULL THEN
        RAISE 'the feed was dropped' USING ERRCODE = 'undefined_object';
    ELSIF NOT inorder_internal.may_move(caller, f) THEN
        -- The privilege may have been revoked while the caller waited for the lock.
        RAISE 'permission denied for feed "%"', f.name USING ERRCODE = 'insufficient_privilege';
    ELSIF has_table_privilege(f.relation::oid, 'SELECT') IS NULL THEN
        RAISE 'the table of feed "%" was dropped', f.name USING ERRCODE = 'undefined_table',
              HINT = CASE WHEN inorder_internal.has_unfinished(f.id)
                          THEN format('To remove the feed and its unfinished batches, which the view feed_batches '
                                      'shows, call feed_drop(%L).', f.name)
                          ELSE format('To remove the feed, call feed_drop(%L).', f.name) END;
    ELSIF s.written_here IS NOT TRUE AND NOT seeks THEN
        PERFORM inorder_internal.say_restored(f);
    END IF;
    -- An unfinished batch can be finished regardless of the state of the table.
    IF must_read THEN
        PERFORM inorder_internal.check_reader(caller, f.relation), inorder_internal.table_of(f.relation);
    END IF;
    RETURN f;
END $$;

-- Return a feed in its current state, which is read after the wait for the lock on the table. Return null unless the
-- feed exists, its state was written on this server, and the caller may move the feed. If must_read is true, the caller
-- must also be allowed to read the table, and the result includes the description of the table.
CREATE FUNCTION inorder_internal.view_feed(feed bigint, relation oid, caller oid, must_read boolean)
RETURNS inorder_internal.feed_view
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

-- Do the same as view_feed(), but raise an error instead of returning null.
CREATE FUNCTION inorder_internal.read_state(feed bigint, relation oid, caller oid, must_read boolean)
RETURNS inorder_internal.feed_view
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f inorder_internal.feed_view := inorder_internal.view_feed(feed, relation, caller, must_read);
BEGIN
    IF f.feed_id IS NULL THEN
        PERFORM inorder_internal.checked_feed(feed, caller, must_read, false);
        -- If there was no error, the privilege was granted in the meantime.
        RETURN inorder_internal.read_state(feed, relation, caller, must_read);
    END IF;
    RETURN f;
END $$;

-- Return a feed in its current state, found by its name. Raise an error unless the caller may move the feed and, if
-- must_read is true, read its table.
CREATE FUNCTION inorder_internal.open_feed(caller oid, name text, owner oid, must_read boolean)
RETURNS inorder_internal.feed_view
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f inorder_internal.feed := inorder_internal.find_feed(name, owner, caller);
BEGIN
    RETURN inorder_internal.read_state(f.id, f.relation, caller, must_read);
END $$;

-- Numbers of batches

-- Return the number of microseconds since 1970. Until the year 2255 this number is below 2^53, so that a double, such
-- as a number in JavaScript, represents the number exactly.
CREATE FUNCTION inorder_internal.microseconds() RETURNS bigint
LANGUAGE sql VOLATILE
RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- Return a number below the first batch number of a new or renamed feed. This number is higher than all batch numbers
-- of earlier feeds with the same name, because no feed creates a batch each microsecond, and a promotion adds at most
-- 10^9 to the numbers.
CREATE FUNCTION inorder_internal.first_number() RETURNS bigint
LANGUAGE sql VOLATILE
RETURN inorder_internal.microseconds()
    + (split_part(inorder_internal.server_origin(), '/'::text, 2)::bigint - 1) * 1000000000;

-- Return the number of the batch after the given batch. On the same server and timeline, this number is higher by one.
-- The state of another server or timeline may lack the last numbers that were assigned, but always fewer than 10^9
-- numbers. In this case, the next number is the greater of the current time in microseconds and the given number plus
-- 10^9.
CREATE FUNCTION inorder_internal.next_number(batch bigint, origin text) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    batch := CASE WHEN origin = inorder_internal.server_origin() THEN batch + 1
                  ELSE greatest(batch + 1000000000, inorder_internal.microseconds()) END;
    IF batch > 9007199254740991 THEN
        RAISE 'the number of a batch must be at most 9007199254740991, not %', batch
        USING ERRCODE = 'program_limit_exceeded',
              DETAIL = 'JSON numbers hold no larger integer exactly.',
              HINT = 'Create another feed, and call feed_seek() to set its position to that of this feed.';
    END IF;
    RETURN batch;
END $$;

-- Move the position of a locked feed past a batch. If is_all is true, the batch has all rows that were committed at the
-- time "asked". If "gives" is true, the batch is given to a worker, and its number is returned.
CREATE FUNCTION inorder_internal.move_feed(
    f inorder_internal.feed_view, past_batch @extschema@.feed_batch, is_all boolean, gives boolean DEFAULT false
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    number bigint;
BEGIN
    -- The name of the owner is stored for dumps.
    IF f.is_renamed THEN
        UPDATE inorder_internal.feed AS n SET owner_name = inorder_internal.role_name(n.owner) WHERE n.id = f.feed_id;
    END IF;
    UPDATE inorder_internal.feed_state AS s
    SET position = inorder_internal.advance(s.position, past_batch), moved = clock_timestamp(), polled = f.asked,
        caught_up_at = CASE WHEN is_all THEN f.asked ELSE s.caught_up_at END,
        batch = CASE WHEN gives THEN inorder_internal.next_number(s.batch, s.batch_origin) ELSE s.batch END,
        batch_origin = CASE WHEN gives THEN past_batch.origin ELSE s.batch_origin END,
        -- first_batch is not updated when a batch is finished, because the feed is not locked then.
        first_batch = CASE WHEN gives THEN coalesce(
            (SELECT w.number FROM inorder_internal.worker_batch AS w
             WHERE w.feed = s.feed AND w.dead_since IS NULL AND w.written_here
               AND w.number >= coalesce(s.first_batch, -9223372036854775808)
             ORDER BY w.number LIMIT 1), s.batch + 1) ELSE s.first_batch END,
        seq = inorder_internal.next_seq(s.seq, s.page, s.ctid), page = inorder_internal.page_of(s.ctid)
    WHERE s.feed = f.feed_id
      AND s.seq = (SELECT max(n.seq) FROM inorder_internal.feed_state AS n WHERE n.feed = f.feed_id)
    RETURNING s.batch INTO number;
    RETURN CASE WHEN gives THEN number END;
END $$;

-- Return a position with the current partitions of its table. If the position is inside a set that is read in the order
-- of a column, the order stays the same.
CREATE FUNCTION inorder_internal.with_table(
    t inorder_internal.feed_table, from_position @extschema@.feed_position, OUT p @extschema@.feed_position
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    p := from_position;
    IF p.partial IS NOT NULL THEN
        PERFORM inorder_internal.check_order(t, p.members, p.partial);
    END IF;
    p.members := inorder_internal.members(t);
    IF (p.ordering).frozen IS NULL THEN
        p.ordering := inorder_internal.new_order(t.relation, (p.ordering).column_name);
    END IF;
END $$;

-- Lock a feed until the transaction ends. Readers that move one feed wait for each other.
CREATE FUNCTION inorder_internal.lock_feed(feed bigint) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION inorder_internal.lock_named_feed(caller oid, name text, owner regrole) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    feed bigint := (inorder_internal.find_feed(name, owner, caller)).id;
BEGIN
    PERFORM inorder_internal.lock_feed(feed);
    RETURN feed;
END $$;

-- Return true if a batch may be given to another worker: its lease has expired, or the delay before its next try is
-- over.
CREATE FUNCTION inorder_internal.is_free(b inorder_internal.worker_batch) RETURNS boolean
LANGUAGE sql STABLE
RETURN (b).lease_end <= clock_timestamp();

-- Store a batch for workers, under its number.
CREATE FUNCTION inorder_internal.keep_batch(b inorder_internal.worker_batch)
RETURNS inorder_internal.worker_batch
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

-- Delete a batch that has this token or, if the token is null, a dead batch. Return false if there is no such batch, or
-- if the caller may not finish it.
CREATE FUNCTION inorder_internal.delete_batch(feed bigint, relation oid, caller oid, number bigint, token bigint)
RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
