-- Shares: how workers divide a feed by a column, so that rows of one key are processed in order.
--
-- A key belongs to the share hash(key) mod shares. The feed is distributed in pieces of at most max_rows rows. Each
-- share that has rows in a piece gets a batch with these rows, after its other batches. Therefore:
--
--  1. Pieces follow each other in the order of the feed. The batches of a share, ordered by number, contain the rows of
--     that share in the order of the pieces. The rows of a key are all in one share, in the order of the feed.
--  2. A worker gets only the first unfinished batch of a share. The next batch is given out when that batch is
--     finished. At any time, only one batch of a share is being processed, and all earlier rows of the share are
--     finished.
--  3. A batch that is returned, lost or dead remains the first batch of its share, and holds back only this share.
--
-- A batch that was not yet given to a worker is open. Rows of later pieces are added to an open batch, up to max_rows,
-- if one batch can have all of these rows in order (see joined()). An open batch gets its number when it is given to a
-- worker. Only the first batch of a share is given to a worker. batches.sql describes which worker gets a batch, and
-- the purpose of the token.

-- Return a divided feed. Raise an error if the column that divides the feed has changed, or if the hashes of keys may
-- have changed.
CREATE FUNCTION inorder_internal.prove_share_key(f inorder_internal.feed_view) RETURNS inorder_internal.feed_view
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    divided inorder_internal.share_key := f.shared_by;
BEGIN
    IF divided.fingerprint IS DISTINCT FROM inorder_internal.hash_fingerprint(divided.kind) THEN
        RAISE 'feed "%" was divided by a hash function that differs from that of this server', f.name
        USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = format('The hash of a known key was %s, and now is %s. Keys would be in different '
                              'shares, and unfinished batches would have different rows.', divided.fingerprint,
                              inorder_internal.hash_fingerprint(divided.kind)),
              HINT = format('The feed was restored into a database of another encoding, or on another architecture. To '
                            'divide the feed again, call %s or, to skip committed rows, use ''now''. Unfinished '
                            'batches are then discarded.',
                            inorder_internal.seek_call((f.t).relation, '''beginning'''));
    END IF;
    f.t := inorder_internal.prove_known_column(f.t, divided.column_name, divided.attnum, true, divided.kind);
    RETURN f;
END $$;

CREATE FUNCTION inorder_internal.share_text(k inorder_internal.share_key) RETURNS text
LANGUAGE sql STABLE
-- Text is hashed by its bytes, regardless of the collation of the column or the database, because the collations of a
-- library may change with its version.
RETURN format(CASE (k).kind
    WHEN 'int8'::text THEN '((pg_catalog.hashint8extended(e.%I::pg_catalog.int8, 0::pg_catalog.int8)'
    WHEN 'uuid'::text THEN '((pg_catalog.uuid_hash_extended(e.%I, 0::pg_catalog.int8)'
    ELSE '((pg_catalog.hashtextextended(e.%I::pg_catalog.text COLLATE pg_catalog."C", 0::pg_catalog.int8)' END
    || ' OPERATOR(pg_catalog.&) 9223372036854775807::pg_catalog.int8)'
       ' OPERATOR(pg_catalog.%%) %s::pg_catalog.int8)'::text, (k).column_name, (k).shares);

-- Distribution

-- Return a batch as it is stored for a share: all rows of its set are found by their numbers. If the set were read
-- using the index on the order column, the range would have no upper bound. A read of a share that was held back for a
-- long time would then walk over all rows that were inserted in the meantime.
CREATE FUNCTION inorder_internal.by_number(b @extschema@.feed_batch) RETURNS @extschema@.feed_batch
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (b.ordering).walked_from IS NOT NULL AND num_nonnulls((b.ordering).from_value, (b.ordering).next_value) = 0 THEN
        b.ordering.walked_from := NULL;
    END IF;
    RETURN b;
END $$;

-- Return the union of two batches of a share. The second batch follows the first batch, which was not yet given to a
-- worker. Return null if no single batch can have the rows of both batches in order.
CREATE FUNCTION inorder_internal.joined(b @extschema@.feed_batch, more @extschema@.feed_batch)
RETURNS @extschema@.feed_batch
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF inorder_internal.differ(b.members, more.members) OR b.origin IS DISTINCT FROM more.origin THEN
        RETURN NULL;
    ELSIF (b.ordering).column_name IS NULL THEN
        -- If the first batch ends inside a transaction, the second batch has the following rows of this share in that
        -- transaction. If the second batch begins inside a transaction, the first batch has the preceding rows. A piece
        -- between the two batches has no such rows, because they would have been added to the first batch, which is the
        -- last batch of the share.
        b.transactions := b.transactions + more.transactions;
        b.cut := more.cut;
        b.cut_after := more.cut_after;
        RETURN b;
    ELSIF (b.ordering).next_value IS NOT NULL AND (more.ordering).from_value IS NOT NULL
          AND b.transactions = more.transactions THEN
        NULL;  -- the next piece of the same set
    ELSIF num_nonnulls((b.ordering).from_value, (b.ordering).next_value, (more.ordering).from_value,
                       (more.ordering).next_value) > 0 THEN
        RETURN NULL;
    ELSE
        -- Two sets can be joined if each batch has all rows of its set. If row 2 was written after the commit of row
        -- 1, row 1 is in the same set or in an earlier set. Row 1 also comes first in the union, because its value was
        -- drawn first.
        b.transactions := b.transactions + more.transactions;
    END IF;
    b.ordering.next_value := (more.ordering).next_value;
    b.ordering.up_to := (more.ordering).up_to;
    b.ordering.walked_from := CASE WHEN (b.ordering).walked_from IS NOT NULL
                                   THEN least((more.ordering).walked_from, (b.ordering).walked_from) END;
    RETURN inorder_internal.by_number(b);
END $$;

-- Add the rows of a share in a piece to the last batch of the share, or to a new batch. The last batch is used if it
-- was not yet given to a worker, if one batch can have all of these rows in order, and if it then has at most max_rows
-- rows. Until a new batch is given to a worker, its place serves as its number.
--
-- During a long transaction, VACUUM cannot remove the row versions that additions and finished batches leave behind. A
-- search for batches therefore begins at the first place in use. Places only increase: a batch whose row versions have
-- filled a page gets a higher place. The places of a share are 1024 apart, because a feed has at most 1024 shares, and
-- no two shares use the same place.
CREATE FUNCTION inorder_internal.add_part(
    feed bigint, addition @extschema@.feed_batch, share int, rows bigint, max_rows int
) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    first_place bigint := ((inorder_internal.state_of(feed)).places)[share + 1];
    place bigint;
    last_batch record;
    b inorder_internal.worker_batch;
BEGIN
    SELECT w.*, inorder_internal.page_of(w.ctid) AS in_page INTO last_batch FROM inorder_internal.worker_batch AS w
    WHERE w.feed_share = feed * 1024 + share AND w.written_here
      AND w.place >= coalesce(first_place, -9223372036854775808)
    ORDER BY w.place DESC LIMIT 1;
    place := coalesce(last_batch.place, first_place, -4611686018427387904 + share) + 1024;
    IF last_batch.is_open AND (last_batch.rows + rows > max_rows) IS NOT TRUE THEN
        b.batch := inorder_internal.joined(last_batch.batch, addition);
    END IF;
    IF b.batch IS NOT DISTINCT FROM NULL THEN
        b.feed := feed;
        b.number := place;
        b.relation := (SELECT f.relation FROM inorder_internal.feed AS f WHERE f.id = feed);
        b.batch := addition;
        b.share := share;
        b.place := place;
        b.rows := rows;
        b := inorder_internal.keep_batch(b);
        RETURN;
    ELSIF last_batch.page <> last_batch.in_page IS NOT TRUE THEN
        place := last_batch.place;
    END IF;
    UPDATE inorder_internal.worker_batch AS w
    SET number = place, place = place, batch = b.batch, rows = last_batch.rows + rows, page = last_batch.in_page
    WHERE w.feed = feed AND w.number = last_batch.number;
    IF place > last_batch.place THEN
        UPDATE inorder_internal.feed_state AS s
        SET places[share + 1] = (SELECT min(w.place) FROM inorder_internal.worker_batch AS w
                                 WHERE w.feed_share = feed * 1024 + share AND w.written_here
                                   AND w.place >= coalesce(first_place, -9223372036854775808)),
            seq = inorder_internal.next_seq(s.seq, s.page, s.ctid), page = inorder_internal.page_of(s.ctid)
        WHERE s.feed = feed AND s.seq = (SELECT max(n.seq) FROM inorder_internal.feed_state AS n WHERE n.feed = feed);
    END IF;
END $$;

-- Take the next piece of the feed, with a limited number of rows, and add the rows of each share to its batches. Do
-- nothing if there are no new rows.
CREATE FUNCTION inorder_internal.distribute_piece(f inorder_internal.feed_view, max_rows int)
RETURNS inorder_internal.feed_view
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    pieces text;
    counts text[];
BEGIN
    f := inorder_internal.pass_rest(inorder_internal.add_next_batch(f, max_rows));
    IF NOT (f.next).has_rows THEN
        RETURN f;
    END IF;
    pieces := inorder_internal.found_query(f.t, (f.next).batch, format(
        'CASE WHEN %strue THEN %s END AS share',
        inorder_internal.typed((f.t).relation, ARRAY[(f.shared_by).column_name::name]),
        inorder_internal.share_text(f.shared_by)), false);
    -- The shares that have rows in the piece, and the number of these rows.
    counts := inorder_internal.as_caller(f.t, format(
        'SELECT ARRAY[pg_catalog.concat(pg_catalog.array_agg(s.share ORDER BY s.share)), '
        'pg_catalog.concat(pg_catalog.array_agg(s.rows ORDER BY s.share))] '
        'FROM (SELECT e.share, pg_catalog.count(*) AS rows FROM (%s) AS e GROUP BY e.share) AS s', pieces), false,
        f.caller);
    f.next.members := inorder_internal.unchanged_members(f.t, (f.next).members);
    PERFORM inorder_internal.move_feed(f, (f.next).batch, false);
    f.at_position := inorder_internal.advance(f.at_position, (f.next).batch);
    PERFORM inorder_internal.add_part(f.feed_id, inorder_internal.by_number((f.next).batch), c.share::int, c.rows,
                                      max_rows)
    FROM ROWS FROM (unnest(nullif(counts[1], '')::bigint[]), unnest(nullif(counts[2], '')::bigint[])) AS c(share, rows);
    f.is_found := false;
    RETURN f;
END $$;

-- Give a worker a batch of a share. The feed is distributed piece by piece until a batch has at least half of the
-- wanted rows, or there are no more rows.
CREATE FUNCTION inorder_internal.take_share_batch(
    f inorder_internal.feed_view, worker text, max_rows int, lease interval, max_tries int
) RETURNS inorder_internal.worker_batch
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    enough_rows bigint := coalesce((max_rows::bigint + 1) / 2, 0);
    pieces int := 0;
    b inorder_internal.worker_batch;
BEGIN
    LOOP
        b := inorder_internal.take_unfinished_batch(f.feed_id, worker, lease, max_tries, enough_rows);
        -- The number of pieces is limited, because other workers wait for the lock. The next call distributes the
        -- remaining pieces.
        EXIT WHEN b.number IS NOT NULL OR pieces = 64;
        f := inorder_internal.distribute_piece(f, max_rows);
        EXIT WHEN f.is_found;
        pieces := pieces + 1;
    END LOOP;
    IF b.number IS NULL THEN
        b := inorder_internal.take_unfinished_batch(f.feed_id, worker, lease, max_tries, 0);
    END IF;
    IF b.number IS NOT NULL AND pieces > 0 AND (f.next).is_all THEN
        -- Workers have been given all committed rows, unless batches wait for a worker.
        UPDATE inorder_internal.feed_state AS s
        SET caught_up_at = f.asked,
            seq = inorder_internal.next_seq(s.seq, s.page, s.ctid), page = inorder_internal.page_of(s.ctid)
        WHERE s.feed = f.feed_id
          AND s.seq = (SELECT max(n.seq) FROM inorder_internal.feed_state AS n WHERE n.feed = f.feed_id)
          AND NOT inorder_internal.has_open(f.feed_id, (f.shared_by).shares, s.places);
    END IF;
    RETURN b;
END $$;
