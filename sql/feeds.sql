-- The view feeds: how far each feed is behind, and who holds rows back.

CREATE FUNCTION feed_backlog(t feed_table, p feed_position, OUT transactions bigint, OUT rows bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    numbers int8multirange := @extschema@.ended_transactions(t.base) - p.transactions;
    plan json;
    piece int8range;
BEGIN
    -- One table that is gone or changed must not hide the other feeds.
    IF t.relid IS NULL OR @extschema@.feed_lacks(t) IS NOT NULL THEN
        RETURN;
    END IF;
    transactions := 0;
    rows := 0;
    FOR piece IN SELECT unnest(numbers) LOOP
        EXECUTE format('EXPLAIN (FORMAT JSON) SELECT FROM %s AS e WHERE %s', t.relid, @extschema@.feed_between(t, lower(piece)::text, upper(piece)::text)) INTO plan;
        transactions := transactions + upper(piece) - lower(piece);
        rows := rows + (plan -> 0 -> 'Plan' ->> 'Plan Rows')::bigint;
    END LOOP;
END $$;
COMMENT ON FUNCTION feed_backlog(feed_table, feed_position) IS 'Transactions that have ended since a position, of any table, and how many rows they have as the planner estimates. Not for use by hand: the view feeds calls it.';

CREATE FUNCTION feed_holders("table" regclass)
RETURNS TABLE (pid int, gid text, application text, number bigint, since timestamptz, query text)
LANGUAGE sql STABLE STRICT
BEGIN ATOMIC
    WITH writers AS (
        SELECT DISTINCT l.pid, l.virtualtransaction
        FROM pg_locks AS l
        WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
          AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
          AND l.relation = ANY (feed_tree("table")::oid[])
    ), ids AS (
        SELECT w.pid, x.transactionid AS xid
        FROM writers AS w JOIN pg_locks AS x
          ON x.locktype = 'transactionid' AND x.mode = 'ExclusiveLock' AND x.granted AND x.virtualtransaction = w.virtualtransaction
    )
    SELECT ids.pid, p.gid, a.application_name, min(next_transaction() - (next_transaction() - ids.xid::text::bigint & 4294967295)),
           coalesce(a.xact_start, p.prepared), a.query
    FROM ids LEFT JOIN pg_stat_activity AS a ON a.pid = ids.pid
    LEFT JOIN pg_prepared_xacts AS p ON ids.pid IS NULL AND p.transaction = ids.xid
    GROUP BY ids.pid, p.gid, a.application_name, a.xact_start, p.prepared, a.query
    ORDER BY 5, 4;
END;
COMMENT ON FUNCTION feed_holders(regclass) IS
'Transactions in progress that have written to a table or may do so, which is what holds rows back: session (pid, application, query) or prepared transaction (gid), its id, and since when it is open; the oldest first. Of other roles'' sessions only what pg_stat_activity shows.';

CREATE VIEW feeds WITH (security_invoker = true) AS
SELECT f.name, f.relid AS "table", t.number_column, (f.position).transactions AS position,
       (f.position).partial AS partial, CASE WHEN (f.pending).transactions IS NOT NULL THEN f.batch END AS unfinished_batch,
       f.created, f.moved,
       b.transactions AS backlog_transactions, b.rows AS backlog_rows_estimated,
       h.writers, h.since AS held_since, h.pid AS holder_pid, h.application AS holder_application, h.gid AS holder_gid, h.query AS holder_query
FROM feed AS f
LEFT JOIN feed_table AS t ON t.relid = f.relid
LEFT JOIN LATERAL feed_backlog(t, f.position) AS b ON true
LEFT JOIN LATERAL (SELECT count(*) OVER () AS writers, * FROM feed_holders(f.relid) LIMIT 1) AS h ON true;
GRANT SELECT ON feeds TO PUBLIC;
COMMENT ON VIEW feeds IS 'Feeds on tables that the current role may read: how far behind, and who holds rows back.';
COMMENT ON COLUMN feeds.position IS 'transactions read completely';
COMMENT ON COLUMN feeds.partial IS 'transaction of which rows are read up to a key';
COMMENT ON COLUMN feeds.moved IS 'when the position moved last; null if never';
COMMENT ON COLUMN feeds.backlog_transactions IS 'transactions, of any table, that have ended and are not read';
COMMENT ON COLUMN feeds.backlog_rows_estimated IS 'their rows in this table, as the planner estimates';
COMMENT ON COLUMN feeds.writers IS 'transactions in progress that hold rows of this table back (see feed_holders); null if none';
COMMENT ON COLUMN feeds.held_since IS 'when the oldest of them began: no row that is held back is older';
