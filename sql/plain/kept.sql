---- lock_feed: plpgsql keys
BEGIN
    -- The lock is a row lock, which only admitted roles can take. An advisory lock could be taken by any role. A row
    -- lock writes WAL, and is therefore taken only if the state will also be written.
    PERFORM FROM inorder_internal.feed_state AS s WHERE s.feed = lock_feed.feed ORDER BY s.seq DESC LIMIT 1
    FOR NO KEY UPDATE;
END
---- movable_feed: sql IMMUTABLE
RETURN NULL::inorder_internal.feed;
---- view_feed: plpgsql VOLATILE keys
DECLARE
    f inorder_internal.feed_view;
    is_readable boolean := must_read AND inorder_internal.lock_readable(relation, caller);
BEGIN
    IF has_table_privilege(relation, 'SELECT') IS NOT NULL THEN  -- the table still exists after the wait
        SELECT k.id, caller, k.name, k.relation, t, s.position, k.whole_transactions,
               (k.shared_by).shares IS NULL
                   AND (EXISTS (SELECT FROM inorder_internal.worker_batch AS b
                                WHERE b.feed = k.id AND b.dead_since IS NULL AND b.written_here
                                  AND b.number >= coalesce(s.first_batch, -9223372036854775808))
                        -- If the feed is ordered by a column, no batch may overtake a dead batch.
                        OR (s.position).ordering.column_name IS NOT NULL
                           AND EXISTS (SELECT FROM inorder_internal.worker_batch AS b
                                       WHERE b.feed = k.id AND b.dead_since IS NOT NULL AND b.written_here)),
               CASE WHEN (k.shared_by).shares IS NOT NULL THEN k.shared_by END,
               -- A poll without rows is recorded if the previous poll returned rows, and otherwise twice a minute.
               s.caught_up_at IS DISTINCT FROM s.polled AND (k.shared_by).shares IS NULL
                   OR (s.position).partial IS NOT NULL OR (s.position).ordering.frozen IS NOT NULL
                   -- The clock may have been set back.
                   OR coalesce(s.polled, k.created) NOT BETWEEN clock_timestamp() - '30 seconds'::interval
                                                        AND clock_timestamp() + '1 second'::interval,
               k.owner_name <> inorder_internal.role_name(k.owner)
                   AND k.system = inorder_internal.server_system(),
               NULL::timestamptz, NULL::inorder_internal.found_batch, false, s.version
        INTO f
        FROM inorder_internal.feed AS k
        LEFT JOIN inorder_internal.feed_table AS t ON t.relation::oid = view_feed.relation
        -- The needed columns are listed instead of n.*, because each column takes a thousandth of the time of a read.
        CROSS JOIN LATERAL (SELECT n.position, n.first_batch, n.polled, n.caught_up_at, n.written_here,
                                   concat(n.seq, ' ', n.xmin, n.ctid) AS version
                            FROM inorder_internal.feed_state AS n
                            WHERE n.feed = view_feed.feed ORDER BY n.seq DESC LIMIT 1) AS s
        WHERE k.id = view_feed.feed AND s.written_here AND inorder_internal.may_move(caller, k)
          AND (NOT must_read OR is_readable AND (t.written_here OR t.is_generated));
    END IF;
    -- This time must not be later than the snapshot that is used to look for rows.
    f.asked := CASE current_setting('transaction_isolation') WHEN 'read committed' THEN clock_timestamp()
                                                             ELSE now() END;
    RETURN CASE WHEN f.feed_id IS NOT NULL THEN f END;
END
---- keep_batch: plpgsql VOLATILE keys
BEGIN
    -- If a row has this number already, the row was restored, and is replaced.
    INSERT INTO inorder_internal.worker_batch AS w (feed, number, relation, batch, worker, token, taken, tries, tried,
                                                    max_tries, lease_end, share, place, rows)
    VALUES (b.feed, b.number, b.relation, b.batch, b.worker, b.token, b.taken, coalesce(b.tries, 0), b.tried,
            b.max_tries, coalesce(b.lease_end, '-infinity'), b.share, b.place, b.rows)
    ON CONFLICT (feed, number) DO UPDATE
    SET (relation, batch, worker, token, taken, tries, tried, max_tries, lease_end, share, place, rows, reason, failed,
         dead_since)
        = ROW(excluded.relation, excluded.batch, excluded.worker, excluded.token, excluded.taken, excluded.tries,
              excluded.tried, excluded.max_tries, excluded.lease_end, excluded.share, excluded.place, excluded.rows,
              NULL, NULL, NULL)
    WHERE w.written_here IS NOT TRUE RETURNING w.* INTO STRICT b;
    RETURN b;
END
---- delete_batch: plpgsql VOLATILE keys
BEGIN
    PERFORM FROM inorder_internal.worker_batch AS w
    WHERE w.feed = delete_batch.feed AND w.number = delete_batch.number AND w.written_here
      AND (w.token = delete_batch.token OR delete_batch.token IS NULL AND w.dead_since IS NOT NULL) FOR UPDATE;
    -- The feed is read again, because this call may have waited for the lock of the batch.
    IF FOUND AND has_table_privilege(relation, 'SELECT') IS NOT NULL  -- the table exists
       AND inorder_internal.may_move(caller, (SELECT n FROM inorder_internal.feed AS n WHERE n.id = feed)) THEN
        DELETE FROM inorder_internal.worker_batch AS w
        WHERE w.feed = delete_batch.feed AND w.number = delete_batch.number;
        RETURN true;
    END IF;
    RETURN false;
END
