-- min() and max() of uuid, and partition bounds.
SET timezone = 'UTC';
CREATE TABLE k (id uuid);
SELECT min(id), max(id) FROM k;
INSERT INTO k SELECT md5(n::text)::uuid FROM generate_series(1, 1000) AS n;
INSERT INTO k VALUES (NULL);
SELECT min(id) = (SELECT id FROM k ORDER BY id LIMIT 1) AS min, max(id) = (SELECT id FROM k WHERE id IS NOT NULL ORDER BY id DESC LIMIT 1) AS max FROM k;
CREATE INDEX k_id ON k (id);
SET enable_seqscan = off;
SELECT bool_or(line LIKE '%Index Only Scan%k_id%') AS by_index FROM plan_of('SELECT min(id) FROM k') AS line;
RESET enable_seqscan;

SELECT * FROM uuid_v7_partition_bounds('2026-01-01', '2026-04-15', '1 month');
SELECT * FROM uuid_v7_partition_bounds('2026-01-31', '2026-04-01', '1 month');
SELECT name FROM uuid_v7_partition_bounds('2026-01-01', '2026-01-01 03:00', '90 minutes');
SELECT name FROM uuid_v7_partition_bounds('2026-01-01', '2026-01-01 00:00:00.000003', '1 microsecond');
CREATE TABLE events (id uuid PRIMARY KEY, n int) PARTITION BY RANGE (id);
SELECT format('CREATE TABLE events_%s PARTITION OF events FOR VALUES FROM (%L) TO (%L)', name, lower, upper)
FROM uuid_v7_partition_bounds('2026-01-01', '2026-04-01', '1 month') \gexec
INSERT INTO events SELECT uuid_v7_floor(timestamptz '2026-01-01' + n * interval '1 hour'), n FROM generate_series(0, 2159) AS n;
SELECT tableoid::regclass, count(*) FROM events GROUP BY 1 ORDER BY 1;
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id >=~ timestamptz '2026-03-10';
SELECT error_of($$SELECT uuid_v7_partition_bounds('2026-01-01', '2026-01-01', '1 day')$$);
SELECT error_of($$SELECT uuid_v7_partition_bounds('2026-01-01', 'infinity', '1 day')$$);
SELECT error_of($$SELECT uuid_v7_partition_bounds('2026-01-01', '2026-02-01', '0')$$);
SELECT error_of($$SELECT uuid_v7_partition_bounds('2026-01-01', '2026-02-01', '-1 day')$$);
SELECT error_of($$SELECT uuid_v7_partition_bounds('1969-12-31', '1970-02-01', '1 day')$$);
SELECT error_of($$SELECT uuid_v7_partition_bounds('2026-01-01', '294276-12-31', '100000 years')$$);
SELECT error_of($$SELECT uuid_v7_partition_bounds('2026-01-01', '2027-01-01', '-178000000 years')$$);
-- A step beyond the range of timestamps ends at "last", like any step that is too long.
SELECT step, count(*) FROM unnest(ARRAY['2 years', '30000 years', '300000 years', '178000000 years']::interval[]) AS step,
    uuid_v7_partition_bounds('2026-01-01', '2027-01-01', step) GROUP BY step ORDER BY step;
SELECT name, upper FROM uuid_v7_partition_bounds('1970-01-01', '10889-08-02 05:31:50.655999', '8000 years');
SELECT error_of($$SELECT uuid_v7_partition_bounds('2026-03-01', '2026-04-01', '-1 month 31 days')$$);
-- Names are unique even when clocks are set back.
SET timezone = 'Europe/Berlin';
SELECT count(*), count(DISTINCT name) FROM uuid_v7_partition_bounds('2026-10-24', '2026-10-27', '1 hour');
SELECT count(*), count(DISTINCT name) FROM uuid_v7_partition_bounds('2026-10-20', '2026-10-30', '24 hours');
SELECT count(*), count(DISTINCT name), min(name) FROM uuid_v7_partition_bounds('2026-10-20', '2026-10-30', '1 day');
DROP TABLE k, events;

-- A user's own min() is not replaced.
SET client_min_messages = warning;
CREATE SCHEMA other;
SET search_path = other;
CREATE FUNCTION home_made(uuid, uuid) RETURNS uuid LANGUAGE sql AS 'SELECT least($1, $2)';
CREATE AGGREGATE min(uuid) (SFUNC = home_made, STYPE = uuid);
RESET search_path;
DROP EXTENSION inorder CASCADE;
CREATE EXTENSION inorder SCHEMA other;
SELECT other.min(id), other.uuid_v7_time('019b76da-a800-7000-8000-000000000000') IS NOT NULL AS usable
FROM unnest(ARRAY['019b76da-a800-7000-8000-000000000000', '019b76da-a800-7000-8000-000000000001']::uuid[]) AS id;
SELECT name FROM other.uuid_v7_partition_bounds('2026-01-01', '2026-01-02', '1 day');
DROP SCHEMA other CASCADE;
RESET client_min_messages;
RESET timezone;
