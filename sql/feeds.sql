-- The view feeds: how far each feed is behind, and who holds rows back.
--
-- It plans and runs no query over a user's table, whose owner's functions planning alone would run, and locks none,
-- or its owner could keep everybody waiting.

CREATE FUNCTION inorder_internal.rows_estimated(relation regclass)
RETURNS float8
LANGUAGE sql STABLE STRICT
-- Without a look at the size of the files, for which the table would be locked.
BEGIN ATOMIC
    SELECT coalesce(sum(greatest(c.reltuples::float8, pg_stat_get_live_tuples(c.oid)::float8, 0::float8)), 0::float8)
    FROM unnest(inorder_internal.tree(relation)) AS m JOIN pg_class AS c ON c.oid = m AND c.relkind = 'r';
END;
COMMENT ON FUNCTION inorder_internal.rows_estimated(regclass) IS
'Internal function. About how many rows a table has, from statistics.';

CREATE FUNCTION inorder_internal.histogram(t inorder_internal.feed_table)
RETURNS float8[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    bounds text;
BEGIN
    SELECT CASE 2 WHEN s.stakind1 THEN s.stavalues1 WHEN s.stakind2 THEN s.stavalues2
                  WHEN s.stakind3 THEN s.stavalues3 WHEN s.stakind4 THEN s.stavalues4 END::text INTO bounds
    FROM pg_attribute AS a JOIN pg_statistic AS s ON s.starelid = a.attrelid AND s.staattnum = a.attnum
    WHERE a.attrelid = t.relation AND a.attname = t.key_column
      AND a.atttypid = CASE WHEN t.is_uuid THEN 'uuid'::regtype ELSE 'bigint'::regtype END
    ORDER BY s.stainherit DESC LIMIT 1;
    IF t.is_uuid THEN
        RETURN ARRAY(SELECT concat('x', encode(substring(uuid_send(u) FROM 1 FOR 6), 'hex'))::bit(48)::bigint::float8
                     FROM unnest(bounds::uuid[]) AS u ORDER BY u);
    END IF;
    RETURN ARRAY(SELECT n::float8 FROM unnest(bounds::bigint[]) AS n ORDER BY n);
END $$;
COMMENT ON FUNCTION inorder_internal.histogram(inorder_internal.feed_table) IS
'Internal function. The numbers between which equal parts of the rows lay when the table was last analyzed.';

CREATE FUNCTION inorder_internal.share_below(bounds float8[], next float8, known float8, number float8)
RETURNS float8
LANGUAGE sql IMMUTABLE
-- Straight lines: the analyzed rows between the bounds, those that came since from the last bound up to the next.
RETURN CASE
    WHEN cardinality(bounds) >= 2 AND number <= bounds[1] THEN 0::float8
    WHEN cardinality(bounds) >= 2 AND number <= bounds[cardinality(bounds)] THEN
        (SELECT known * (w.part - 1 + (number - bounds[w.part])
                         / greatest(bounds[w.part + 1] - bounds[w.part], 1::float8)) / (cardinality(bounds) - 1)
         FROM (SELECT least(width_bucket(number, bounds), cardinality(bounds) - 1) AS part) AS w)
    ELSE known + (1 - known) * least(1::float8, (number - coalesce(bounds[cardinality(bounds)], 0::float8))
                                     / greatest(next - coalesce(bounds[cardinality(bounds)], 0::float8), 1::float8))
END;
COMMENT ON FUNCTION inorder_internal.share_below(float8[], float8, float8, float8) IS
'Internal function. About which share of the rows have lower numbers.';

CREATE FUNCTION inorder_internal.backlog(
    t inorder_internal.feed_table, p @extschema@.feed_position, OUT transactions bigint, OUT rows bigint
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    numbers int8multirange;
    bounds float8[];
    total float8;
    estimated float8;
    analyzed float8 := (SELECT sum(c.reltuples) FROM unnest(inorder_internal.tree(t.relation)) AS m
                        JOIN pg_class AS c ON c.oid = m AND c.relkind = 'r' AND c.reltuples > 0);
    known float8;
    next bigint := inorder_internal.next_transaction(0);
BEGIN
    -- Whatever an owner did to his table or its statistics, the other feeds are to be seen.
    IF next > 281474976710655 - t.base THEN
        RETURN;
    END IF;
    next := next + t.base;
    numbers := inorder_internal.ended_transactions(t.base) - p.transactions;
    transactions := inorder_internal.total(numbers);
    bounds := inorder_internal.histogram(t);
    total := inorder_internal.rows_estimated(t.relation);
    known := CASE WHEN cardinality(bounds) < 2 OR total = 0 THEN 0 ELSE least(coalesce(analyzed, 0) / total, 1) END;
    SELECT coalesce(sum(total * (inorder_internal.share_below(bounds, next, known, upper(r))
                                 - inorder_internal.share_below(bounds, next, known, lower(r)))), 0)
    INTO estimated FROM unnest(numbers) AS r;
    rows := CASE WHEN estimated BETWEEN 0 AND 9e18 THEN round(estimated) END;
END $$;
COMMENT ON FUNCTION inorder_internal.backlog(inorder_internal.feed_table, @extschema@.feed_position) IS
'Internal function. Transactions that have ended since a position, of any table, and about how many rows they have.';

CREATE TYPE inorder_internal.seen_feed AS (
    name text, owner name, relation regclass, key_column name, position int8multirange, partial bigint,
    unfinished_batch bigint, created timestamptz, moved timestamptz, backlog_transactions bigint,
    backlog_rows_estimated bigint
);
COMMENT ON TYPE inorder_internal.seen_feed IS 'Internal type. What the view feeds shows of a feed.';

CREATE FUNCTION inorder_internal.feeds_of(caller oid)
RETURNS SETOF inorder_internal.seen_feed
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT f.name, f.owner_name, f.relation, t.key_column, (f.position).transactions, (f.position).partial,
           CASE WHEN (f.pending).transactions IS NOT NULL THEN f.batch END, f.created, f.moved, b.transactions, b.rows
    FROM inorder_internal.feed AS f
    JOIN pg_class AS c ON c.oid = f.relation
    LEFT JOIN inorder_internal.feed_table AS t ON t.relation = f.relation
    LEFT JOIN LATERAL inorder_internal.backlog(t, f.position) AS b
        ON t.relation IS NOT NULL AND inorder_internal.lacks(t) IS NULL
    WHERE inorder_internal.may_see(caller, f);
END;
COMMENT ON FUNCTION inorder_internal.feeds_of(oid) IS
'Internal function. The feeds that a role may see.';

CREATE FUNCTION inorder_internal.seen_feeds()
RETURNS SETOF inorder_internal.seen_feed
AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL UNSAFE;
COMMENT ON FUNCTION inorder_internal.seen_feeds() IS
'Internal function. The feeds that the current role may see: what the view feeds is made of.';

CREATE FUNCTION inorder_internal.base_of(relation regclass)
RETURNS bigint
LANGUAGE sql STABLE STRICT
RETURN coalesce((SELECT min(k.base) FROM inorder_internal.key_columns(relation) AS k), 0::bigint);
COMMENT ON FUNCTION inorder_internal.base_of(regclass) IS
'Internal function. What is added to transaction ids in a table, as its columns say.';

CREATE FUNCTION @extschema@.feed_holders(relation regclass)
RETURNS TABLE (pid int, gid text, application text, number bigint, since timestamptz, query text)
LANGUAGE sql STABLE STRICT
BEGIN ATOMIC
    WITH writers AS (
        SELECT DISTINCT l.pid, l.virtualtransaction
        FROM pg_locks AS l
        WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
          AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
          AND l.relation = ANY (inorder_internal.tree(feed_holders.relation)::oid[])
    ), ids AS (
        SELECT w.pid, x.transactionid AS xid
        FROM writers AS w JOIN pg_locks AS x
          ON x.locktype = 'transactionid' AND x.mode = 'ExclusiveLock' AND x.granted
         AND x.virtualtransaction = w.virtualtransaction
    ), next AS (
        SELECT inorder_internal.next_transaction(0::bigint) AS id,
               inorder_internal.base_of(feed_holders.relation) AS base
    )
    SELECT i.pid, p.gid, a.application_name,
           min(n.base + n.id - (n.id - i.xid::text::bigint & 4294967295::bigint)),
           coalesce(a.xact_start, p.prepared), a.query
    FROM next AS n CROSS JOIN ids AS i LEFT JOIN pg_stat_activity AS a ON a.pid = i.pid
    LEFT JOIN pg_prepared_xacts AS p ON i.pid IS NULL AND p.transaction = i.xid
    GROUP BY i.pid, p.gid, a.application_name, a.xact_start, p.prepared, a.query
    ORDER BY 5, 4;
END;
COMMENT ON FUNCTION @extschema@.feed_holders(regclass) IS
'Transactions in progress that have written to a table or may do so, which is what holds rows back: session (pid, '
'application, query) or prepared transaction (gid), its number (id plus the base of the table), and since when it is '
'open; the oldest first. Of other roles'' sessions only what pg_stat_activity shows.';

CREATE VIEW @extschema@.feeds WITH (security_barrier = true) AS
SELECT f.name, f.owner, f.relation, f.key_column, f.position, f.partial, f.unfinished_batch, f.created, f.moved,
       f.backlog_transactions, f.backlog_rows_estimated, h.writers, h.since AS held_since, h.pid AS holder_pid,
       h.application AS holder_application, h.gid AS holder_gid, h.query AS holder_query
FROM inorder_internal.seen_feeds() AS f
LEFT JOIN LATERAL (SELECT count(*) OVER () AS writers, o.since, o.pid, o.application, o.gid, o.query
                   FROM @extschema@.feed_holders(f.relation) AS o LIMIT 1) AS h ON true;
COMMENT ON VIEW @extschema@.feeds IS
'Feeds that the current role may move, feeds of tables that it may read, and for members of pg_monitor all: how far '
'behind, and who holds rows back.';
COMMENT ON COLUMN @extschema@.feeds.position IS 'transactions read completely';
COMMENT ON COLUMN @extschema@.feeds.partial IS 'transaction of which rows are read up to a key';
COMMENT ON COLUMN @extschema@.feeds.moved IS 'when the position moved last; null if never';
COMMENT ON COLUMN @extschema@.feeds.backlog_transactions IS
'transactions, of any table, that have ended and are not read';
COMMENT ON COLUMN @extschema@.feeds.backlog_rows_estimated IS
'their rows in this table, estimated from the statistics of ANALYZE';
COMMENT ON COLUMN @extschema@.feeds.writers IS
'transactions in progress that hold rows of this table back (see feed_holders); null if none';
COMMENT ON COLUMN @extschema@.feeds.held_since IS
'when the oldest of them began: no row that is held back is older';
