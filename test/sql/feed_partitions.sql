-- Each row of a partitioned table is delivered once, whatever its partition, while partitions are attached and
-- detached. track_counts is off, because feed_enable() would otherwise warn about deleted and updated rows in some
-- runs.
SET track_counts = off;
CREATE OR REPLACE FUNCTION inorder_internal.first_number() RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint';  -- the first batch is 1
CREATE TABLE events (id uuid DEFAULT uuid_xact_nextval(), at date NOT NULL, n int, note text, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
CREATE TABLE y2023 PARTITION OF events FOR VALUES FROM ('2023-01-01') TO ('2024-01-01');
CREATE TABLE y2024 PARTITION OF events FOR VALUES FROM ('2024-01-01') TO ('2025-01-01') PARTITION BY RANGE (at);
CREATE TABLE y2024_1 PARTITION OF y2024 FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
CREATE TABLE y2024_rest PARTITION OF y2024 DEFAULT;
INSERT INTO events (at, n) VALUES ('2024-01-01', 1), ('2023-01-01', 2), ('2024-05-01', 3);
SELECT feed_create('a', 'events'), feed_create('steps', 'events');
CREATE VIEW guards AS SELECT tgrelid::regclass AS table, count(*) FILTER (WHERE tgname = 'zz_inorder_guard') AS rows, count(*) FILTER (WHERE tgname = 'zz_inorder_truncate') AS truncate,
    bool_and(tgenabled = 'A') AS always FROM pg_trigger WHERE tgfoid = 'feed_guard'::regproc GROUP BY tgrelid ORDER BY tgrelid::regclass::text;
SELECT * FROM guards;
SELECT n FROM feed_read('a', null::events, 2);
SELECT n FROM feed_read('a', null::events, 2);
-- Insert rows directly into partitions and into the table, in one transaction.
BEGIN;
INSERT INTO y2024_rest (at, n) VALUES ('2024-06-01', 4);
INSERT INTO y2023 (at, n) VALUES ('2023-06-01', 5);
INSERT INTO events (at, n) VALUES ('2024-01-02', 6);
INSERT INTO y2024 (at, n) VALUES ('2024-01-03', 7);
COMMIT;
SELECT n FROM feed_read('a', null::events, 3);
SELECT n FROM feed_read('a', null::events, 3);
-- The guard protects each partition.
SELECT refused(format('INSERT INTO %s VALUES (floor_key(7), ''2024-01-09'')', t)) FROM unnest('{events,y2024,y2024_1}'::regclass[]) AS t;
SELECT refused('UPDATE y2023 SET id = uuid_xact_nextval()'), refused('DELETE FROM y2024_1'), refused('UPDATE events SET id = uuid_xact_nextval()');
-- Moving a row to another partition would delete it from its current partition.
SELECT refused('UPDATE events SET at = ''2023-07-01'' WHERE n = 1');
UPDATE events SET at = '2024-01-20', note = 'within the partition' WHERE n = 1;
SELECT refused('TRUNCATE ' || t) FROM unnest('{events,y2023,y2024,y2024_1,y2024_rest}'::regclass[]) AS t;
SET session_replication_role = replica;
SELECT refused(format('INSERT INTO %s VALUES (floor_key(7), ''2024-01-09'')', t)) FROM unnest('{events,y2024,y2024_1}'::regclass[]) AS t;
RESET session_replication_role;

-- Partitions that are created later, even at a deeper level, are read at once. After another feed_enable(), their
-- TRUNCATE is guarded, too.
CREATE TABLE y2025 PARTITION OF events FOR VALUES FROM ('2025-01-01') TO ('2026-01-01') PARTITION BY RANGE (at);
CREATE TABLE y2025_1 PARTITION OF y2025 FOR VALUES FROM ('2025-01-01') TO ('2025-07-01');
INSERT INTO events (at, n) VALUES ('2025-01-01', 8);
INSERT INTO y2025_1 (at, n) VALUES ('2025-02-01', 9);
SELECT n FROM feed_read('a', null::events);
SELECT refused('INSERT INTO y2025_1 VALUES (floor_key(7), ''2025-01-09'')'), refused('DELETE FROM y2025_1'), refused('TRUNCATE events');
SELECT feed_enable('events');
SELECT refused('TRUNCATE y2025_1');
SELECT * FROM guards;

-- Attach an empty partition with its columns in a different order and with a dropped column.
CREATE TABLE y2026 (gone int, note text, n int, at date NOT NULL, id uuid DEFAULT uuid_xact_nextval() NOT NULL);
ALTER TABLE y2026 DROP COLUMN gone;
ALTER TABLE events ATTACH PARTITION y2026 FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
INSERT INTO events (at, n) VALUES ('2026-01-01', 10);
INSERT INTO y2026 (at, n, note) VALUES ('2026-02-01', 11, 'x');
SELECT n, note FROM feed_read('a', null::events);
SELECT refused('INSERT INTO y2026 (id, at) VALUES (floor_key(7), ''2026-01-09'')'), refused('UPDATE y2026 SET id = uuid_xact_nextval()'), refused('DELETE FROM y2026');
UPDATE y2026 SET note = 'y';

-- Attach a partition with rows of transactions that feeds have read. Reads fail until the rows get new numbers, or the
-- feed skips them.
CREATE TABLE y2027 (LIKE events INCLUDING DEFAULTS);
INSERT INTO y2027 (at, n) VALUES ('2027-01-01', 12), ('2027-02-01', 13);
INSERT INTO events (at, n) VALUES ('2023-08-01', 14);
SELECT n FROM feed_read('a', null::events);
ALTER TABLE events ATTACH PARTITION y2027 FOR VALUES FROM ('2027-01-01') TO ('2028-01-01');
INSERT INTO events (at, n) VALUES ('2023-08-02', 15);
SELECT error_of($$SELECT feed_read('a', null::events)$$);
SELECT error_of($$SELECT (feed_take_batch('a', 'w')).number$$);
SELECT error_of($$SELECT feed_apply('a', 'SELECT 1 FROM batch')$$);
-- A reader that has not read these transactions gets the rows.
SELECT count(*) FROM (SELECT FROM reader_batch_rows('events', reader_next_batch('events', reader_start('events')), null::events)) AS e;
ALTER TABLE events DETACH PARTITION y2027;
BEGIN;
UPDATE y2027 SET id = DEFAULT;
ALTER TABLE events ATTACH PARTITION y2027 FOR VALUES FROM ('2027-01-01') TO ('2028-01-01');
COMMIT;
SELECT n FROM feed_read('a', null::events) ORDER BY n;
CREATE TABLE y2028 (LIKE events INCLUDING DEFAULTS);
INSERT INTO y2028 (at, n) VALUES ('2028-01-01', 16);
INSERT INTO events (at, n) VALUES ('2023-08-03', 17);
SELECT n FROM feed_read('a', null::events);
ALTER TABLE events ATTACH PARTITION y2028 FOR VALUES FROM ('2028-01-01') TO ('2029-01-01');
INSERT INTO events (at, n) VALUES ('2028-08-03', 18);
SELECT error_of($$SELECT feed_read('a', null::events)$$);
SELECT feed_seek('a', 'here');
SELECT n FROM feed_read('a', null::events);
-- A position that a reader keeps also contains the partitions, even after batches without rows.
CREATE TABLE kept AS SELECT reader_start('events', 'now') AS p;
CREATE TABLE noise (n int);
INSERT INTO noise VALUES (1);
DO $$ BEGIN UPDATE kept SET p = reader_advance(p, reader_next_batch('events', p)); UPDATE kept SET p = reader_advance(p, reader_next_batch('events', p)); END $$;
CREATE TABLE y2029 (LIKE events INCLUDING DEFAULTS);
INSERT INTO y2029 (at, n) VALUES ('2029-01-01', 19);
DO $$ BEGIN UPDATE kept SET p = reader_advance(p, reader_next_batch('events', p)); UPDATE kept SET p = reader_advance(p, reader_next_batch('events', p)); END $$;
ALTER TABLE events ATTACH PARTITION y2029 FOR VALUES FROM ('2029-01-01') TO ('2030-01-01');
INSERT INTO noise VALUES (2);
SELECT error_of($$SELECT reader_next_batch('events', p) FROM kept$$);
ALTER TABLE events DETACH PARTITION y2029;
-- If a position is inside a transaction, attached rows before the position are an error, and attached rows after it are
-- delivered.
UPDATE kept SET p = reader_start('events', 'now');
SET client_min_messages = warning;
BEGIN;
UPDATE y2029 SET id = DEFAULT;
INSERT INTO events (at, n) SELECT '2023-09-01', generate_series(20, 22);
INSERT INTO y2029 (at, n) VALUES ('2029-01-01', 23);
COMMIT;
UPDATE kept SET p = reader_advance(p, reader_next_batch('events', p, 2));
ALTER TABLE events ATTACH PARTITION y2029 FOR VALUES FROM ('2029-01-01') TO ('2030-01-01');
SELECT error_of($$SELECT reader_next_batch('events', p) FROM kept$$);
ALTER TABLE events DETACH PARTITION y2029;
DELETE FROM y2029 WHERE n = 19;
ALTER TABLE events ATTACH PARTITION y2029 FOR VALUES FROM ('2029-01-01') TO ('2030-01-01');
SELECT n FROM kept, reader_batch_rows('events', reader_next_batch('events', p), null::events);
UPDATE kept SET p = reader_advance(p, reader_next_batch('events', p));
ALTER TABLE events DETACH PARTITION y2029;
DROP TABLE kept, noise;

-- Detached and dropped partitions are no longer read. A detached table has lost the row triggers of the guard;
-- feed_disable() drops the other trigger.
SELECT count(*) FROM feed_read('a', null::events);
SELECT (feed_take_batch('steps', 'w')).number;
INSERT INTO y2023 (at, n) VALUES ('2023-12-31', 30);
ALTER TABLE events DETACH PARTITION y2023;
DROP TABLE y2026;
SELECT n FROM feed_read('a', null::events);
SELECT count(*) FROM feed_batch_rows('steps', 1, null::events);
SELECT refused('INSERT INTO y2023 VALUES (floor_key(7), ''2023-01-09'')'), refused('TRUNCATE y2023');
SELECT feed_disable('y2023');
TRUNCATE y2023;
-- Create a partition again under a name that the feed knows, with rows of transactions that were read.
INSERT INTO events (at, n) VALUES ('2025-01-02', 31);
SELECT n FROM feed_read('a', null::events);
ALTER TABLE events DETACH PARTITION y2028;
DROP TABLE y2028;
CREATE TABLE y2028 (LIKE events INCLUDING DEFAULTS);
INSERT INTO y2028 SELECT id, '2028-05-05', 32 FROM events WHERE n = 31;
ALTER TABLE events ATTACH PARTITION y2028 FOR VALUES FROM ('2028-01-01') TO ('2029-01-01');
INSERT INTO events (at, n) VALUES ('2025-01-02', 33);
SELECT error_of($$SELECT feed_read('a', null::events)$$);
SELECT feed_seek('a', 'here');
SELECT n FROM feed_read('a', null::events);
-- Detach a partition, and attach it again. A feed does not know whether rows of transactions that it has read were
-- added in the meantime.
SELECT n FROM feed_read('a', null::events);
ALTER TABLE events DETACH PARTITION y2028;
INSERT INTO y2028 SELECT id, '2028-05-06', 34 FROM events WHERE n = 31;
ALTER TABLE events ATTACH PARTITION y2028 FOR VALUES FROM ('2028-01-01') TO ('2029-01-01');
INSERT INTO events (at, n) VALUES ('2025-01-02', 35);
SELECT error_of($$SELECT feed_read('a', null::events)$$);
SELECT feed_seek('a', 'here');
SELECT n FROM feed_read('a', null::events);
-- The same applies to a partition below the one that was detached.
ALTER TABLE events DETACH PARTITION y2024;
INSERT INTO y2024_1 SELECT id, '2024-01-30', 36 FROM events WHERE n = 31;
ALTER TABLE events ATTACH PARTITION y2024 FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
INSERT INTO events (at, n) VALUES ('2025-01-02', 37);
SELECT error_of($$SELECT feed_read('a', null::events)$$);
SELECT feed_seek('a', 'here');
SELECT n FROM feed_read('a', null::events);
-- A renamed partition is recognized.
ALTER TABLE y2025_1 RENAME TO "Y 2025/1";
INSERT INTO events (at, n) VALUES ('2025-01-02', 38);
SELECT n FROM feed_read('a', null::events);
-- Only one table of a partition tree has its own guard.
SELECT error_of($$SELECT feed_create('b', 'y2024')$$);
SELECT error_of($$SELECT feed_create('b', 'y2024_1')$$);
SELECT feed_create('b', 'y2023');
SELECT error_of($$ALTER TABLE events ATTACH PARTITION y2023 FOR VALUES FROM ('2023-01-01') TO ('2024-01-01')$$);
SELECT feed_drop('b');
CREATE TABLE above (id uuid DEFAULT uuid_xact_nextval(), at date NOT NULL, n int, note text) PARTITION BY RANGE (at);
CREATE INDEX ON above (id);
ALTER TABLE above ATTACH PARTITION y2023 FOR VALUES FROM ('2023-01-01') TO ('2024-01-01');
SELECT error_of($$SELECT feed_create('b', 'above')$$);
DROP TABLE above;

SELECT feed_drop('a'), feed_drop('steps');
SELECT feed_disable('events');
SELECT * FROM guards;
TRUNCATE events;
DROP TABLE events;
DROP TABLE y2029;

-- Read tables with the other forms of the number, and tables that are partitioned by the key itself.
CREATE TABLE events (id int GENERATED ALWAYS AS IDENTITY, xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED, n int, PRIMARY KEY (n, id)) PARTITION BY HASH (n);
CREATE TABLE p0 PARTITION OF events FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE p1 PARTITION OF events FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE INDEX ON events (xact) WHERE xact > 0;
SELECT feed_create('a', 'events');
SELECT * FROM guards;
INSERT INTO events (n) SELECT generate_series(1, 20);
INSERT INTO events (n) SELECT generate_series(21, 40);
SELECT array_agg(n) FROM feed_read('a', null::events, 25);
SELECT array_agg(n) FROM feed_read('a', null::events, 25);
SELECT refused('DELETE FROM ' || t) FROM unnest('{events,p0}'::regclass[]) AS t;
SELECT refused('UPDATE events SET n = n + 1');
SELECT feed_drop('a');
DROP TABLE events;
-- Rows without a number, or with a negative number, are in no batch.
CREATE TABLE events (n int, xact bigint DEFAULT xact_id()) PARTITION BY LIST (n);
CREATE INDEX ON events (xact);
CREATE TABLE p0 (n int, xact bigint);
INSERT INTO p0 VALUES (0, NULL);
SELECT feed_create('a', 'events');
CREATE TABLE p1 PARTITION OF events FOR VALUES IN (1);
INSERT INTO events VALUES (1);
SELECT n FROM feed_read('a', null::events);
ALTER TABLE events ATTACH PARTITION p0 FOR VALUES IN (0);
SELECT error_of($$SELECT feed_read('a', null::events)$$);
ALTER TABLE events DETACH PARTITION p0;
UPDATE p0 SET xact = -1;
ALTER TABLE events ATTACH PARTITION p0 FOR VALUES IN (0);
SELECT error_of($$SELECT feed_read('a', null::events)$$);
ALTER TABLE events DETACH PARTITION p0;
BEGIN;
UPDATE p0 SET xact = xact_id();
ALTER TABLE events ATTACH PARTITION p0 FOR VALUES IN (0);
COMMIT;
SELECT n FROM feed_read('a', null::events);
SELECT feed_drop('a');
DROP TABLE events;
CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int) PARTITION BY RANGE (id);
CREATE TABLE early PARTITION OF events FOR VALUES FROM (MINVALUE) TO ('00000001-0000-0000-0000-000000000000');
CREATE TABLE late PARTITION OF events DEFAULT;
SELECT feed_create('a', 'events');
INSERT INTO events (n) VALUES (1), (2);
SELECT n FROM feed_read('a', null::events, 1);
SELECT n FROM feed_read('a', null::events, 1);
SELECT feed_drop('a');
DROP TABLE events;
-- A partitioned table without partitions, which then gets its first partition.
CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int) PARTITION BY RANGE (id);
SELECT feed_create('a', 'events');
SELECT n FROM feed_read('a', null::events);
CREATE TABLE late PARTITION OF events DEFAULT;
INSERT INTO events (n) VALUES (1);
SELECT n FROM feed_read('a', null::events);
SELECT refused('DELETE FROM late');
SELECT feed_drop('a');
DROP TABLE events;
RESET client_min_messages;
DROP VIEW guards;

-- Rows of a foreign partition have another server's transaction numbers.
CREATE FOREIGN DATA WRAPPER elsewhere;
CREATE SERVER elsewhere FOREIGN DATA WRAPPER elsewhere;
CREATE TABLE far (id uuid DEFAULT uuid_xact_nextval(), k int) PARTITION BY LIST (k);
CREATE INDEX ON far (id);
CREATE FOREIGN TABLE far_1 PARTITION OF far FOR VALUES IN (1) SERVER elsewhere;
SELECT error_of($$SELECT feed_create('far', 'far')$$);
DROP TABLE far;
DROP FOREIGN DATA WRAPPER elsewhere CASCADE;
