-- Shares: how workers divide a feed by a column, so that rows of one key are processed in order.
--
-- A key belongs to the share hash(key) mod shares. What comes next in the feed, a piece of at most max_rows rows, is
-- distributed: each share that has rows in it gets a batch with these, after its other ones. So:
--
--  1. Pieces follow each other in the order of the feed, and the batches of a share have its rows of the pieces, in the
--     order of their numbers. The rows of a key are all in one share, so they are in the order of the feed.
--  2. A worker gets only the first unfinished batch of a share. The next one is given once that is finished, so at any
--     time one batch of a share is being processed, and all rows before it are finished.
--  3. A batch that is returned, lost or set aside stays the first of its share: it holds back its share, and no other.
--
-- A batch that no worker has had yet is open: rows of later pieces are added to it, up to max_rows, if one batch can
-- have both in order. It gets its number when a worker gets it; the one that is not open is the first of its share. See
-- joined(). Who gets a batch, and what a token is worth, is in workers.sql.

-- Which hash function of the server a key of this type has; null for types without one.
CREATE FUNCTION inorder_internal.share_kind(type oid) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN type IN ('int2'::regtype::oid, 'int4'::regtype::oid, 'int8'::regtype::oid) THEN 'int8'::text
            WHEN type IN ('text'::regtype::oid, 'varchar'::regtype::oid) THEN 'text'::text
            WHEN type = 'uuid'::regtype::oid THEN 'uuid'::text END;

-- What differs if this server gives keys other hashes than the one that stored it: the hash of a value and, for text,
-- the encoding of the database. Not the collation, nor its version.
CREATE FUNCTION inorder_internal.fingerprint(kind text) RETURNS text
LANGUAGE sql STABLE
-- Integers are hashed by value, text by its bytes.
RETURN CASE kind
    WHEN 'int8'::text THEN hashint8extended(1::bigint, 0::bigint)::text
    WHEN 'uuid'::text THEN uuid_hash_extended('00112233-4455-6677-8899-aabbccddeeff'::uuid, 0::bigint)::text
    WHEN 'text'::text THEN concat(hashtextextended('inorder'::text COLLATE "C", 0::bigint), ' '::text,
                                  getdatabaseencoding()) END;

CREATE FUNCTION inorder_internal.new_share_key(relation regclass, column_name text, shares int)
RETURNS inorder_internal.share_key
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    attnum smallint;
    kind text;
BEGIN
    SELECT a.attnum, inorder_internal.share_kind(a.atttypid) INTO attnum, kind FROM pg_attribute AS a
    WHERE a.attrelid = relation AND a.attname = column_name::name AND a.attnum > 0 AND NOT a.attisdropped;
    -- With an impossible number if there is no such column, or its type will not do: then each read says so.
    RETURN ROW(column_name, CASE WHEN kind IS NULL THEN 0::smallint ELSE attnum END, coalesce(kind, 'text'), shares,
               inorder_internal.fingerprint(coalesce(kind, 'text')));
END $$;

-- How a feed is divided by the column that has the name now, if no batch was made by another one.
CREATE FUNCTION inorder_internal.renewed_share_key(relation regclass, k inorder_internal.share_key)
RETURNS inorder_internal.share_key
LANGUAGE sql STABLE
RETURN CASE WHEN (k).shares IS NOT NULL
            THEN inorder_internal.new_share_key(relation, (k).column_name, (k).shares) END;

-- How a restored feed is divided, with the column of that name in this database.
CREATE FUNCTION inorder_internal.restored_share_key(relation regclass, k inorder_internal.share_key)
RETURNS inorder_internal.share_key
LANGUAGE sql STABLE
RETURN CASE WHEN (k).shares IS NOT NULL
            THEN ROW((k).column_name, (inorder_internal.new_share_key(relation, (k).column_name, (k).shares)).attnum,
                     (k).kind, (k).shares, (k).fingerprint)::inorder_internal.share_key END;

---------------------------------------------------------------------------
-- Rows of a share
---------------------------------------------------------------------------

CREATE FUNCTION inorder_internal.share_text(k inorder_internal.share_key) RETURNS text
LANGUAGE sql STABLE
-- By bytes, whatever the collation of the column or the database is: those of a library change with its version.
RETURN format(CASE (k).kind
    WHEN 'int8'::text THEN '((pg_catalog.hashint8extended(e.%I::pg_catalog.int8, 0::pg_catalog.int8)'
    WHEN 'uuid'::text THEN '((pg_catalog.uuid_hash_extended(e.%I, 0::pg_catalog.int8)'
    ELSE '((pg_catalog.hashtextextended(e.%I::pg_catalog.text COLLATE pg_catalog."C", 0::pg_catalog.int8)' END
    || ' OPERATOR(pg_catalog.&) 9223372036854775807::pg_catalog.int8)'
       ' OPERATOR(pg_catalog.%%) %s::pg_catalog.int8)'::text, (k).column_name, (k).shares);

CREATE FUNCTION inorder_internal.of_share(t inorder_internal.feed_table, k inorder_internal.share_key, share int)
RETURNS inorder_internal.feed_table
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    t.share_condition := format('%s OPERATOR(pg_catalog.=) %s::pg_catalog.int8 AND ', inorder_internal.share_text(k),
                                share);
    RETURN t;
END $$;

---------------------------------------------------------------------------
-- Distribution
---------------------------------------------------------------------------

-- A batch that, if it is a whole set, is found by number. A share may be held back for long, and the index of the order
-- column has no end there: all rows that came since would be walked over.
CREATE FUNCTION inorder_internal.by_number(b @extschema@.feed_batch) RETURNS @extschema@.feed_batch
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (b.ordering).walked_from IS NOT NULL AND num_nonnulls((b.ordering).from_value, (b.ordering).next_value) = 0 THEN
        b.ordering.walked_from := NULL;
    END IF;
    RETURN b;
END $$;

-- The batch of a share that has the rows of two, of which the second follows and no worker has had the first; null if
-- none has them in order.
CREATE FUNCTION inorder_internal.joined(b @extschema@.feed_batch, more @extschema@.feed_batch)
RETURNS @extschema@.feed_batch
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF inorder_internal.differ(b.members, more.members) OR b.origin IS DISTINCT FROM more.origin THEN
        RETURN NULL;
    ELSIF (b.ordering).column_name IS NULL THEN
        -- A transaction in which the first one ends, or the second begins, has its other rows of the share in the other
        -- one, or none: if a piece between them had any, it would be the first one.
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
        -- Two sets that have all of their rows are one: of a row and one written after its commit, the first is in an
        -- earlier set or the same, and comes first in the union, too.
        b.transactions := b.transactions + more.transactions;
    END IF;
    b.ordering.next_value := (more.ordering).next_value;
    b.ordering.up_to := (more.ordering).up_to;
    b.ordering.walked_from := CASE WHEN (b.ordering).walked_from IS NOT NULL
                                   THEN least((more.ordering).walked_from, (b.ordering).walked_from) END;
    RETURN inorder_internal.by_number(b);
END $$;

-- Add the rows that a share has in a piece to its last batch, if no worker has had that and both have at most max_rows
-- rows, otherwise as a batch of their own, whose number is its place until a worker gets it.
--
-- Under a transaction that is open for long each addition and each batch leaves versions behind. So places only go up,
-- also that of a batch whose versions have filled a page, and none is looked for below the first. Those of a share are
-- 1024 apart, the largest number of shares: no two shares have the same one, which is a number of the feed, too.
CREATE FUNCTION inorder_internal.add_part(
    feed bigint, part @extschema@.feed_batch, share int, rows bigint, max_rows int
) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    first_place bigint := ((inorder_internal.state_of(feed)).places)[share + 1];
    place bigint;
    last record;
    b inorder_internal.worker_batch;
BEGIN
    SELECT w.*, inorder_internal.page_of(w.ctid) AS in_page INTO last FROM inorder_internal.worker_batch AS w
    WHERE w.feed_share = feed * 1024 + share AND w.written_here
      AND w.place >= coalesce(first_place, -9223372036854775808)
    ORDER BY w.place DESC LIMIT 1;
    place := coalesce(last.place, first_place, -4611686018427387904 + share) + 1024;
    IF last.is_open AND (last.rows + rows > max_rows) IS NOT TRUE THEN
        b.batch := inorder_internal.joined(last.batch, part);
    END IF;
    IF b.batch IS NOT DISTINCT FROM NULL THEN
        b.feed := feed;
        b.number := place;
        b.relation := (SELECT f.relation FROM inorder_internal.feed AS f WHERE f.id = feed);
        b.batch := part;
        b.share := share;
        b.place := place;
        b.rows := rows;
        b := inorder_internal.keep_batch(b);
        RETURN;
    ELSIF last.page <> last.in_page IS NOT TRUE THEN
        place := last.place;
    END IF;
    UPDATE inorder_internal.worker_batch AS w
    SET number = place, place = place, batch = b.batch, rows = last.rows + rows, page = last.in_page
    WHERE w.feed = feed AND w.number = last.number;
    IF place > last.place THEN
        UPDATE inorder_internal.feed_state AS s
        SET places[share + 1] = (SELECT min(w.place) FROM inorder_internal.worker_batch AS w
                                 WHERE w.feed_share = feed * 1024 + share AND w.written_here
                                   AND w.place >= coalesce(first_place, -9223372036854775808)),
            seq = inorder_internal.next_seq(s.seq, s.page, s.ctid), page = inorder_internal.page_of(s.ctid)
        WHERE s.feed = feed AND s.seq = (SELECT max(n.seq) FROM inorder_internal.feed_state AS n WHERE n.feed = feed);
    END IF;
END $$;

---------------------------------------------------------------------------
-- Who gets a share
---------------------------------------------------------------------------

-- The first unfinished batch of each share of a feed, which no other may go before, without those that are set aside.
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
    WHERE f.set_aside IS NULL;
END;

-- Whether rows are left for a worker in a feed that is divided, perhaps after others of their share.
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

-- The batch of a share that a worker has, otherwise one that it may have, of the share that it had last if possible;
-- null if there is none. Of those to which rows may still be added, only with so many rows.
CREATE FUNCTION inorder_internal.share_batch(feed bigint, worker text, least_rows bigint)
RETURNS inorder_internal.worker_batch
-- Otherwise each call would be planned anew, since it seems to be cheaper if the number of shares is known.
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    shares int;
    places bigint[];
    candidate bigint;
    found_batch inorder_internal.worker_batch;
BEGIN
    SELECT (f.shared_by).shares, n.places INTO shares, places
    FROM inorder_internal.feed AS f JOIN inorder_internal.feed_state AS n ON n.feed = f.id
    WHERE f.id = share_batch.feed ORDER BY n.seq DESC LIMIT 1;
    -- A share is its last worker's, until others have had twice as many turns as there are shares.
    FOR candidate IN
        SELECT b.number FROM inorder_internal.first_batches(feed, shares, places) AS b
        LEFT JOIN LATERAL (SELECT s.worker, s.turn FROM inorder_internal.share_worker AS s
                           WHERE s.feed = b.feed AND s.share = b.share ORDER BY s.seq DESC LIMIT 1) AS w ON true
        WHERE b.worker = share_batch.worker
           OR (b.rows >= least_rows OR NOT b.is_open) AND inorder_internal.is_free(b)
        ORDER BY coalesce(b.worker = share_batch.worker, false) DESC,
                 coalesce(w.turn, 0) + CASE WHEN w.worker <> share_batch.worker THEN 2 * shares ELSE 0 END, b.place
    LOOP
        -- One that is locked is being finished, returned or prolonged at this moment.
        SELECT * INTO found_batch FROM inorder_internal.worker_batch AS b
        WHERE b.feed = share_batch.feed AND b.number = candidate AND b.set_aside IS NULL
          AND (b.worker = share_batch.worker OR inorder_internal.is_free(b)) FOR UPDATE SKIP LOCKED;
        EXIT WHEN FOUND;
    END LOOP;
    RETURN found_batch;
END $$;

-- Note which worker has a batch of a share.
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
