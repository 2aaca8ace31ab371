-- The view "feeds", which shows the lag of each feed, and the transactions that delay rows.
--
-- The view does not plan or run a query over a user table, because planning alone may execute functions of the table's
-- owner. The view does not wait for a lock on a user table, because the owner could then block all readers of the
-- view. Locks that the view takes are released immediately: see backlog().

-- A row of the view "feeds".
CREATE TYPE inorder_internal.seen_feed AS (
    name text, owner name, relation regclass, key_column name, order_column name, whole_transactions boolean,
    position int8multirange, partial bigint, unfinished_batch bigint, batch_worker text, created timestamptz,
    moved timestamptz, polled timestamptz, caught_up boolean, caught_up_at timestamptz, backlog_transactions bigint,
    backlog_rows bigint, worker_batches bigint, dead_batches bigint, partition_by name, shares int,
    blocked_shares bigint, namesake regclass
);

CREATE FUNCTION inorder_internal.seen_feeds(caller oid) RETURNS SETOF inorder_internal.seen_feed
-- PL/pgSQL caches the plan. This saves time, because planning takes several times as long as execution.
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY SELECT f.name, inorder_internal.shown_owner(f), c.oid::regclass, t.key_column,
           (p.position).ordering.column_name::name, f.whole_transactions,
           CASE WHEN s.is_small THEN (p.position).transactions - u.transactions - u.dead_transactions END,
           (p.position).partial, u.first_number, u.first_worker, f.created, d.moved, d.polled,
           CASE WHEN u.amount > 0::bigint THEN false
                WHEN d.written_here AND (t.written_here OR t.is_generated) THEN b.caught_up END, d.caught_up_at,
           b.transactions, b.rows, u.amount, u.dead, (f.shared_by).column_name::name, (f.shared_by).shares,
           CASE WHEN (f.shared_by).shares IS NOT NULL THEN u.blocked END,
           inorder_internal.namesake(t)
    FROM inorder_internal.feed AS f
    CROSS JOIN LATERAL (SELECT * FROM inorder_internal.feed_state AS n
                        WHERE n.feed = f.id ORDER BY n.seq DESC LIMIT 1::bigint) AS d
    LEFT JOIN pg_class AS c ON c.oid = f.relation
    LEFT JOIN inorder_internal.feed_table AS t ON t.relation = c.oid
    CROSS JOIN LATERAL inorder_internal.unfinished_totals(f.id) AS u
    -- Readers of a table may create feeds of the table with sets of any size. Without this condition, each role that
    -- sees these feeds would wait until the sets are read and decompressed, once for each reference to a set.
    CROSS JOIN LATERAL (SELECT CASE WHEN pg_column_size(d.position) <= 262144 THEN d.position END AS position) AS p
    CROSS JOIN LATERAL (SELECT u.is_small AND pg_column_size((p.position).transactions) <= 65536 AS is_small) AS s
    -- Dead batches do not count as backlog.
    LEFT JOIN LATERAL inorder_internal.backlog(
        t, CASE WHEN s.is_small THEN p.position END, u.transactions, false) AS b
        ON s.is_small AND t.relation IS NOT NULL AND inorder_internal.lacks(t) IS NULL
    -- A feed that the next call of sweep() will remove is not shown.
    WHERE inorder_internal.may_see(caller, f)
      AND (c.oid IS DISTINCT FROM NULL OR inorder_internal.has_unfinished(f.id));
END $$;

-- Return the feeds that the current role may see, which are the source of the view "feeds".
CREATE FUNCTION inorder_internal.seen_feeds() RETURNS SETOF inorder_internal.seen_feed
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C STABLE PARALLEL UNSAFE;

CREATE FUNCTION @extschema@.feed_holders(relation regclass)
RETURNS TABLE (pid int, gid text, application text, number bigint, since timestamptz, query text)
-- The planner could not inline the function if it were STRICT. For a null argument, the function returns no rows.
LANGUAGE sql STABLE
BEGIN ATOMIC
    -- The list of locks is read once, and not joined with itself, because the planner expects few locks, and would
    -- compare each lock with all others. The base is in a subquery, which is evaluated once, and only if it is needed.
    WITH writers AS (
        SELECT l.pid, array_agg(l.transactionid) FILTER (WHERE l.locktype = 'transactionid') AS xids
        FROM pg_locks AS l
        WHERE l.granted
          AND (l.locktype = 'relation' AND l.mode = 'RowExclusiveLock'
               AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
               AND l.relation = ANY ((SELECT inorder_internal.tree(feed_holders.relation)::oid[])::oid[])
               OR l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock')
        GROUP BY l.pid, l.virtualtransaction
        HAVING bool_or(l.locktype = 'relation')
    ), ids AS (
        -- The difference between a 32-bit id and the next id of the snapshot. The id may have been assigned after the
        -- snapshot was taken.
        SELECT w.pid, x.xid,
               (x.xid::text::bigint - (SELECT inorder_internal.next_transaction(0::bigint)) + 2147483648
                & 4294967295::bigint) - 2147483648 AS distance
        FROM writers AS w CROSS JOIN LATERAL unnest(w.xids) AS x(xid)
    )
    SELECT i.pid, p.gid, a.application_name,
           (SELECT coalesce(min(k.base), 0::bigint) FROM inorder_internal.key_columns(feed_holders.relation) AS k)
               + (SELECT inorder_internal.next_transaction(0::bigint)) + min(i.distance),
           coalesce(a.xact_start, p.prepared), a.query
    FROM ids AS i LEFT JOIN pg_stat_activity AS a ON a.pid = i.pid
    LEFT JOIN pg_prepared_xacts AS p ON i.pid IS NULL AND p.transaction = i.xid
    GROUP BY i.pid, p.gid, a.application_name, a.xact_start, p.prepared, a.query
    ORDER BY 5, 4;
END;
COMMENT ON FUNCTION @extschema@.feed_holders(regclass) IS
'Return the transactions in progress that delay rows of a table, because they have written or may write to the table; '
'oldest first.';

CREATE VIEW @extschema@.feeds WITH (security_barrier = true) AS
WITH seen AS (
    SELECT * FROM inorder_internal.seen_feeds()
), held AS (
    -- Holders are looked up once for each table, even if it has several feeds.
    SELECT r.relation, h.* FROM (SELECT DISTINCT s.relation FROM seen AS s) AS r
    CROSS JOIN LATERAL (SELECT count(*) OVER () AS writers, o.since, o.pid, o.application, o.gid, o.query
                        FROM @extschema@.feed_holders(r.relation) AS o LIMIT 1) AS h
)
SELECT f.name, f.owner, f.relation, f.key_column, f.order_column, f.whole_transactions, f.position, f.partial,
       f.unfinished_batch, f.batch_worker, f.created, f.moved, f.polled, f.caught_up, f.caught_up_at,
       CASE WHEN f.caught_up THEN '0'::interval
            ELSE greatest(clock_timestamp() - coalesce(f.caught_up_at, f.created), '0'::interval) END AS lag,
       f.backlog_transactions, f.backlog_rows, h.writers,
       h.since AS held_since, h.pid AS holder_pid, h.application AS holder_application, h.gid AS holder_gid,
       h.query AS holder_query, f.worker_batches, f.dead_batches, f.partition_by, f.shares, f.blocked_shares,
       f.namesake
FROM seen AS f LEFT JOIN held AS h ON h.relation = f.relation;
COMMENT ON VIEW @extschema@.feeds IS 'Lag of each feed, and the transactions that delay rows.';
COMMENT ON COLUMN @extschema@.feeds.relation IS 'table of the feed; null if the table was dropped';
COMMENT ON COLUMN @extschema@.feeds.order_column IS
'column by which the feed orders rows; null if it orders rows by transaction number';
COMMENT ON COLUMN @extschema@.feeds.whole_transactions IS 'true if no batch ends inside a transaction';
COMMENT ON COLUMN @extschema@.feeds.position IS 'transactions read completely; null if there are too many';
COMMENT ON COLUMN @extschema@.feeds.unfinished_batch IS
'number of the first unfinished batch; null if there is none';
COMMENT ON COLUMN @extschema@.feeds.partial IS 'transaction that was read in part, up to a key';
COMMENT ON COLUMN @extschema@.feeds.batch_worker IS
'worker that has the first unfinished batch; null if the batch was returned';
COMMENT ON COLUMN @extschema@.feeds.moved IS 'when the position last moved; null if never';
COMMENT ON COLUMN @extschema@.feeds.polled IS 'when a reader last asked for rows';
COMMENT ON COLUMN @extschema@.feeds.caught_up IS
'true if all rows were read, and all batches except dead batches are finished; null if unknown';
COMMENT ON COLUMN @extschema@.feeds.caught_up_at IS
'when a reader last asked for rows and got all committed rows';
COMMENT ON COLUMN @extschema@.feeds.lag IS
'0 if caught up; otherwise an upper bound: the time since caught_up_at or, if caught_up_at is null, since the feed was '
'created';
COMMENT ON COLUMN @extschema@.feeds.backlog_transactions IS
'number of ended transactions that are not read, including transactions without rows in this table; null if position '
'is null';
COMMENT ON COLUMN @extschema@.feeds.backlog_rows IS
'number of unread rows of ended transactions, counted in the index; 10000 means 10000 or more';
COMMENT ON COLUMN @extschema@.feeds.writers IS
'number of transactions in progress that delay rows of the table (see feed_holders); null if none';
COMMENT ON COLUMN @extschema@.feeds.held_since IS
'start time of the oldest transaction that delays rows: no delayed row is older';
COMMENT ON COLUMN @extschema@.feeds.worker_batches IS
'number of unfinished batches of workers, without dead batches: see feed_batches';
COMMENT ON COLUMN @extschema@.feeds.dead_batches IS 'number of dead batches; the backlog does not include them';
COMMENT ON COLUMN @extschema@.feeds.partition_by IS 'column by which workers divide the feed; null if they do not';
COMMENT ON COLUMN @extschema@.feeds.shares IS 'number of shares; null without partition_by';
COMMENT ON COLUMN @extschema@.feeds.blocked_shares IS
'number of shares that dead batches hold back; the backlog includes the later batches of these shares';
COMMENT ON COLUMN @extschema@.feeds.namesake IS
'another table that now has the former name of the feed''s table; null if there is none';
