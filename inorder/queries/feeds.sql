-- The feeds that the role may see, those that are behind first. Times are ages by the server's clock, in seconds.
SELECT pg_catalog.to_jsonb(f.*)
FROM (SELECT name AS feed, owner, relation::pg_catalog.text AS table, pg_catalog.current_database() AS database,
             order_column, whole_transactions, caught_up, extract(epoch FROM lag) AS lag_seconds,
             CASE WHEN polled IS NOT NULL
                  THEN greatest(extract(epoch FROM clock.now OPERATOR(pg_catalog.-) polled),
                                '0'::pg_catalog.numeric) END AS polled_seconds,
             greatest(extract(epoch FROM clock.now OPERATOR(pg_catalog.-) coalesce(moved, created)),
                      '0'::pg_catalog.numeric) AS moved_seconds,
             backlog_rows_estimated, backlog_transactions, unfinished_batch, batch_pid, worker_batches,
             set_aside AS set_aside_batches, partition_by, shares, blocked_shares,
             coalesce(writers, '0'::pg_catalog.int8) AS writers,
             CASE WHEN held_since IS NOT NULL
                  THEN greatest(extract(epoch FROM clock.now OPERATOR(pg_catalog.-) held_since),
                                '0'::pg_catalog.numeric) END AS held_seconds,
             holder_pid, holder_application, holder_gid
      FROM {inorder}.feeds CROSS JOIN pg_catalog.clock_timestamp() AS clock(now)) AS f
ORDER BY coalesce(f.caught_up, false), f.backlog_rows_estimated DESC NULLS LAST,
         f.lag_seconds DESC, f.feed, f.owner
