-- How workers divide a feed by a column, in the SQL edition: src/shares.c.

-- Error unless a feed can be divided by a column, or is not to be.
CREATE FUNCTION inorder_internal.check_division(shares int, partition_by name, whole_transactions boolean)
RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM inorder_internal.check_shares(shares, partition_by IS NOT NULL);
    IF whole_transactions AND partition_by IS NOT NULL THEN
        RAISE 'whole_transactions and partition_by exclude each other' USING ERRCODE = 'feature_not_supported',
              DETAIL = 'The rows of a transaction may be of several keys, which are in different batches.';
    END IF;
END $$;

CREATE FUNCTION inorder_internal.refuse_share_column(relation regclass, column_name name, fault text, hint text)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM inorder_internal.refuse_column(relation, column_name, fault,
                                           'Workers divide its feed by the hash of that column.', hint);
END $$;

-- Error unless each row of a table is in one share, by a column.
CREATE FUNCTION inorder_internal.prove_share_column(t inorder_internal.feed_table, column_name name)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    c record;
BEGIN
    -- What must hold for the column of the table and of each partition: then a row is in one share, always the same.
    FOR c IN SELECT a.attrelid::regclass AS relation, a.attgenerated <> '' AS is_generated,
                    inorder_internal.may_be_null(a) AS may_be_null
             FROM unnest(inorder_internal.tree(t.relation)) AS m(relation)
             JOIN pg_attribute AS a ON a.attrelid = m.relation AND a.attname = prove_share_column.column_name
             LEFT JOIN pg_collation AS l ON l.oid = a.attcollation
             WHERE a.attgenerated <> '' OR inorder_internal.may_be_null(a) OR NOT l.collisdeterministic
             ORDER BY a.attrelid LIMIT 1 LOOP
        IF c.is_generated THEN
            PERFORM inorder_internal.refuse_share_column(c.relation, column_name, 'is generated',
                'Choose a column whose values are stored as they are inserted.');
        ELSIF c.may_be_null THEN
            PERFORM inorder_internal.refuse_share_column(c.relation, column_name, 'may be null',
                format('ALTER TABLE %s ALTER COLUMN %I SET NOT NULL', t.relation, column_name));
        END IF;
        PERFORM inorder_internal.refuse_share_column(c.relation, column_name, 'has a nondeterministic collation',
            'Keys that are equal by it may be in different shares. Choose a column whose equal values have equal bytes.');
    END LOOP;
END $$;

-- Error unless a new feed can be divided by a column.
CREATE FUNCTION inorder_internal.prove_new_share_column(t inorder_internal.feed_table, column_name name)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF inorder_internal.share_kind(inorder_internal.type_of_column(t.relation, column_name)) IS NULL THEN
        PERFORM inorder_internal.refuse_share_column(t.relation, column_name,
            'is not a smallint, integer, bigint, uuid, text or varchar', 'Choose another column.');
    END IF;
    PERFORM inorder_internal.prove_share_column(t, column_name);
END $$;

-- Error if the column by which a feed is divided is not what it was, or keys may have other hashes.
CREATE FUNCTION inorder_internal.prove_share_key(k inorder_internal.taken)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    divided inorder_internal.share_key := k.shared_by;
BEGIN
    PERFORM inorder_internal.check_fingerprint(k.name, divided);
    -- A key that changed its share would be lost or repeated.
    IF NOT EXISTS (SELECT FROM pg_attribute AS a
                   WHERE a.attrelid = (k.t).relation AND a.attname = divided.column_name AND a.attnum = divided.attnum
                     AND a.attnum > 0 AND inorder_internal.share_kind(a.atttypid) = divided.kind) THEN
        PERFORM inorder_internal.refuse_share_column((k.t).relation, divided.column_name::name,
            'is not the one by which its feed was divided',
            'It was renamed, dropped or made anew, or its type was changed: give the table that column back. Or go on by '
            'feed_seek(), which takes the column that has the name now.');
    END IF;
    PERFORM inorder_internal.prove_share_column(k.t, divided.column_name::name);
END $$;

CREATE FUNCTION inorder_internal.count_shares(
    k inorder_internal.taken, OUT shares bigint[], OUT rows bigint[]
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_memoize = off
    SET constraint_exclusion = off SET max_parallel_workers_per_gather = 0 SET enable_seqscan = off
    SET enable_bitmapscan = off
AS $$
BEGIN
    PERFORM inorder_internal.allow_bitmaps(k.t);
    EXECUTE format('SELECT pg_catalog.array_agg(s.share ORDER BY s.share), pg_catalog.array_agg(s.rows ORDER BY s.share) '
                   'FROM (SELECT e.share, pg_catalog.count(*) AS rows FROM (%s) AS e GROUP BY e.share) AS s',
                   inorder_internal.batch_query(k.t, NULL, (k.next).batch, format('CASE WHEN %strue THEN %s END AS share',
                       inorder_internal.typed((k.t).relation, ARRAY[(k.shared_by).column_name::name]),
                       inorder_internal.share_text(k.shared_by)), false))
    INTO shares, rows;
END $$;

-- Give each share the rows that it has in the next piece of the feed, of at most so many rows, unless there is nothing
-- new.
CREATE FUNCTION inorder_internal.distribute_next(k inorder_internal.taken, max_rows int)
RETURNS inorder_internal.taken
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    c record;
BEGIN
    k := inorder_internal.pass_rest(inorder_internal.found_after(k, max_rows));
    IF NOT (k.next).has_rows THEN
        PERFORM inorder_internal.note_empty_poll(k.feed, k.is_poll_due, (k.next).batch, k.asked);
        RETURN k;
    END IF;
    SELECT * INTO c FROM inorder_internal.count_shares(k);
    PERFORM inorder_internal.check_members(k.t, (k.next).members);
    PERFORM inorder_internal.distribute(k.feed, (k.next).batch, k.asked, c.shares, c.rows, max_rows);
    k.at_position := inorder_internal.advance(k.at_position, (k.next).batch);
    k.next.has_rows := NULL;  -- what follows now is not known
    RETURN k;
END $$;

-- Give a worker a batch of a share, with at least half as many rows as are wanted if there are that many: until then
-- the feed is distributed, piece by piece.
CREATE FUNCTION inorder_internal.take_share(
    k inorder_internal.taken, worker text, max_rows int, lease interval, max_tries int, session oid
)
RETURNS TABLE (batch bigint, token bigint, tries int, lease_end timestamptz)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    enough bigint := coalesce((max_rows::bigint + 1) / 2, 0);
    pieces int := 0;
    given boolean;
BEGIN
    LOOP
        RETURN QUERY SELECT * FROM inorder_internal.take_batch(k.feed, worker, lease, max_tries, session,
                                                               pg_backend_pid(), enough);
        given := FOUND;
        -- Others who ask wait, so the rest is for the next call.
        EXIT WHEN given OR pieces = 64;
        k := inorder_internal.distribute_next(k, max_rows);
        EXIT WHEN NOT (k.next).has_rows;
        pieces := pieces + 1;
    END LOOP;
    IF NOT given THEN
        RETURN QUERY SELECT * FROM inorder_internal.take_batch(k.feed, worker, lease, max_tries, session,
                                                               pg_backend_pid(), 0);
        given := FOUND;
    END IF;
    IF given AND pieces = 0 THEN
        PERFORM inorder_internal.prove_ground(k.t, k.caller);
    ELSIF given AND (k.next).is_all THEN
        PERFORM inorder_internal.note_caught_up(k.feed, k.asked);
    END IF;
END $$;
