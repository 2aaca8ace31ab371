-- The type uuid_v1: text, casts, parts, order, and every kind of index, built over existing rows in random order.
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';

-- The input function accepts exactly the forms that uuid accepts, and only version 1.
SELECT form, form::uuid_v1
FROM unnest(ARRAY['fb2893ae-9265-11e8-90d8-e03f496e733b', 'FB2893AE-9265-11E8-90D8-E03F496E733B',
                  'fb2893ae926511e890d8e03f496e733b', '{fb2893ae-9265-11e8-90d8-e03f496e733b}',
                  'fb28-93ae-9265-11e8-90d8-e03f-496e-733b', '{fb2893ae926511e8-90d8e03f496e733b}',
                  'fb28-93ae926511e890d8-e03f496e-733b', 'ffffffff-ffff-1fff-bfff-ffffffffffff',
                  '00000000-0000-1000-8000-000000000000']) AS form;
SELECT form, error_of(format('SELECT %L::uuid_v1', form)) AS error, error_of(format('SELECT %L::uuid', form)) = 'no error' AS a_uuid
FROM unnest(ARRAY['', ' ', 'infinity', 'fb2893ae-9265-11e8-90d8-e03f496e733', 'fb2893ae-9265-11e8-90d8-e03f496e733b0',
                  'gb2893ae-9265-11e8-90d8-e03f496e733b', 'fb2893ae-9265-11e8-90d8-e03f496e733g',
                  'fb2893ae-9265-11e8-90d8-e03f496e733b ', ' fb2893ae-9265-11e8-90d8-e03f496e733b',
                  'fb2893ae_9265_11e8_90d8_e03f496e733b', 'fb2893ae-9265-11e8-90d8e03f-496e-733b-',
                  '-fb2893ae926511e890d8e03f496e733b', 'fb2-893ae926511e890d8e03f496e733b',
                  'fb2893ae--926511e890d8e03f496e733b', '{fb2893ae-9265-11e8-90d8-e03f496e733b',
                  'fb2893ae-9265-11e8-90d8-e03f496e733b}', '{fb2893ae-9265-11e8-90d8-e03f496e733b}}', '{}',
                  'fb2893ae-9265-41e8-90d8-e03f496e733b', 'fb2893ae-9265-11e8-10d8-e03f496e733b',
                  'fb2893ae-9265-11e8-d0d8-e03f496e733b', '00000000-0000-0000-0000-000000000000',
                  'ffffffff-ffff-ffff-ffff-ffffffffffff']) AS form;
-- A non-ASCII character in place of two digits. Its bytes differ from those of digits only in the highest bit: C2 B0
-- instead of 42 30.
SELECT error_of(format('SELECT %L::uuid_v1', form)) LIKE '22P02 invalid input syntax%' AS refused
FROM unnest(ARRAY[U&'fb2893ae-9265-11e8-90d8-e03f496e73\00B0', U&'\00B02893ae-9265-11e8-90d8-e03f496e733b', U&'fb2893ae926511e890d8e03f496e73\00B0']) AS form;

-- Casts work in both directions. The cast to uuid_v1 checks the version.
SELECT 'fb2893ae-9265-11e8-90d8-e03f496e733b'::uuid::uuid_v1, 'fb2893ae-9265-11e8-90d8-e03f496e733b'::uuid_v1::uuid;
SELECT error_of($$SELECT '919108f7-52d1-4320-9bac-f847db4148a8'::uuid::uuid_v1$$);
-- The old extension's function converts in both directions, depending on the type of its argument. A literal without a
-- type is ambiguous.
SELECT uuid_v1_convert('fb2893ae-9265-11e8-90d8-e03f496e733b'::uuid), pg_typeof(uuid_v1_convert('fb2893ae-9265-11e8-90d8-e03f496e733b'::uuid)),
       uuid_v1_convert('fb2893ae-9265-11e8-90d8-e03f496e733b'::uuid_v1), pg_typeof(uuid_v1_convert('fb2893ae-9265-11e8-90d8-e03f496e733b'::uuid_v1)),
       uuid_v1_convert(NULL::uuid) IS NULL AS none, uuid_v1_convert(NULL::uuid_v1) IS NULL AS none_either;
SELECT error_of($$SELECT uuid_v1_convert('919108f7-52d1-4320-9bac-f847db4148a8'::uuid)$$), split_part(error_of($$SELECT uuid_v1_convert('fb2893ae-9265-11e8-90d8-e03f496e733b')$$), E'\n', 1) AS ambiguous;
CREATE TABLE assigned (one uuid_v1, other uuid);
INSERT INTO assigned VALUES ('fb2893ae-9265-11e8-90d8-e03f496e733b'::uuid, 'fb2893ae-9265-11e8-90d8-e03f496e733b'::uuid_v1);
SELECT * FROM assigned;
DROP TABLE assigned;
SELECT count(*) FILTER (WHERE uuid(uuid_v1(v)) <> v OR v::uuid_v1 <> uuid_v1(v) OR uuid_v1_convert(uuid_v1_convert(v)) <> v) AS changed
FROM (SELECT overlay(overlay(md5(n::text) PLACING '1' FROM 13) PLACING '8' FROM 17)::uuid AS v FROM generate_series(1, 10000) AS n) AS made;

-- Extract the parts of a value.
SELECT id, uuid_v1_get_timestamp(id), uuid_v1_get_epoch(id), uuid_v1_get_clockseq(id), uuid_v1_get_node(id)
FROM unnest(ARRAY['fb2893ae-9265-11e8-90d8-e03f496e733b', 'c232ab00-9414-11ec-b3c8-9f6bdeced846', '13814000-1dd2-11b2-8000-000000000000',
                  '00000000-0000-1000-8000-000000000000', 'ffffffff-ffff-1fff-bfff-ffffffffffff']::uuid_v1[]) AS id;
-- The epoch is rounded once: it is the float8 nearest to the exact quotient.
SELECT count(*) FILTER (WHERE uuid_v1_get_epoch(id) <> (x - 122192928000000000)::numeric / 10000000) AS not_nearest
FROM (SELECT x, (lpad(to_hex(x & 4294967295), 8, '0') || lpad(to_hex(x >> 32 & 65535), 4, '0') || '1' || lpad(to_hex(x >> 48), 3, '0') || '8000000000000000')::uuid_v1 AS id
      FROM (SELECT 139000000000000000 + n * 7919000003 AS x FROM generate_series(1, 20000) AS n) AS t) AS v;

-- Values are ordered by time, then clock sequence, then node. Three values are in order, though the third has the
-- smallest time_low. Six neighbouring values are in order, too.
SELECT 'fb2893ae-9265-11e8-90d8-e03f496e733b'::uuid_v1 < 'fb2c3d2e-9265-11e8-a131-e03f49777cbb' AS first,
       'fb2c3d2e-9265-11e8-a131-e03f49777cbb'::uuid_v1 < '00393a28-9266-11e8-af1b-e03f4957fa73' AS second;
CREATE TABLE ladder AS SELECT rank, id::uuid_v1 FROM unnest(ARRAY[
    'ffffffff-0000-1000-bfff-ffffffffffff', '00000000-0001-1000-8000-000000000000', '00000000-0001-1000-8000-000000000001',
    '00000000-0001-1000-8001-000000000000', '00000001-0001-1000-8000-000000000000', '00000000-0000-1001-8000-000000000000'
]) WITH ORDINALITY AS l (id, rank);
SELECT bool_and((a.id < b.id) = (a.rank < b.rank) AND (a.id <= b.id) = (a.rank <= b.rank) AND (a.id = b.id) = (a.rank = b.rank)
                AND (a.id >= b.id) = (a.rank >= b.rank) AND (a.id > b.id) = (a.rank > b.rank) AND (a.id <> b.id) = (a.rank <> b.rank)
                AND uuid_v1_cmp(a.id, b.id) = sign(a.rank - b.rank)) AS agree
FROM ladder a, ladder b;
SELECT min(id), max(id) FROM ladder;
DROP TABLE ladder;

-- The rows are in random order, and many have equal times. The expected order is that of the parts.
CREATE TABLE v (n int, id uuid_v1);
INSERT INTO v SELECT n, (lpad(to_hex(n % 997 * 4000037::bigint), 8, '0') || '-' || lpad(to_hex(n % 7), 4, '0') || '-11e' || n % 10 || '-9'
                         || lpad(to_hex(n % 4096), 3, '0') || '-' || lpad(to_hex(n), 12, '0'))::uuid_v1
FROM generate_series(1, 5000) AS n ORDER BY md5(n::text);
CREATE VIEW by_parts AS
SELECT n, row_number() OVER (ORDER BY uuid_v1_get_epoch(id)::numeric, substr(id::text, 16, 3) || substr(id::text, 10, 4) || left(id::text, 8),
                             uuid_v1_get_clockseq(id), uuid_v1_get_node(id)) AS rank FROM v;

SET enable_seqscan = off;
CREATE UNIQUE INDEX v_btree ON v (id);
EXPLAIN (COSTS OFF) SELECT n FROM v ORDER BY id;
SELECT count(*) FILTER (WHERE o.n <> i.n) AS out_of_order FROM by_parts o
JOIN (SELECT n, row_number() OVER (ORDER BY id) AS rank FROM v) AS i USING (rank);
SELECT count(*) AS found FROM v a WHERE EXISTS (SELECT FROM v b WHERE b.id = a.id AND b.n = a.n);
SELECT bool_or(line LIKE '%Index Only Scan Backward using v_btree%') AS by_index FROM plan_of('SELECT max(id) FROM v') AS line;
REINDEX INDEX v_btree;
CLUSTER v USING v_btree;
SELECT count(*) AS found FROM v a WHERE EXISTS (SELECT FROM v b WHERE b.id = a.id AND b.n = a.n);
DROP INDEX v_btree;

CREATE INDEX v_hash ON v USING hash (id);
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT n FROM v WHERE id = '00000000-0000-11e0-9000-000000000000';
SELECT sum((SELECT count(*) FROM v b WHERE b.id = a.id)) AS found FROM v a;
DROP INDEX v_hash;
RESET enable_bitmapscan;

CREATE TABLE wide AS SELECT n, id FROM v ORDER BY id;
CREATE INDEX wide_minmax ON wide USING brin (id) WITH (pages_per_range = 1);
EXPLAIN (COSTS OFF) SELECT count(*) FROM wide WHERE id < '00000000-0003-11e4-8000-000000000000';
SELECT count(*) AS by_index FROM wide WHERE id < '00000000-0003-11e4-8000-000000000000';
DROP INDEX wide_minmax;
CREATE INDEX wide_multi ON wide USING brin (id uuid_v1_minmax_multi_ops) WITH (pages_per_range = 1);
EXPLAIN (COSTS OFF) SELECT count(*) FROM wide WHERE id < '00000000-0003-11e4-8000-000000000000';
SELECT count(*) AS by_index FROM wide WHERE id < '00000000-0003-11e4-8000-000000000000';
SELECT sum((SELECT count(*) FROM wide b WHERE b.id = a.id)) AS found FROM wide a WHERE n <= 200;
DROP INDEX wide_multi;
RESET enable_seqscan;
SELECT count(*) AS by_scan FROM wide WHERE id < '00000000-0003-11e4-8000-000000000000';
DROP TABLE wide;

-- Hash joins, hash partitions (extended hash) and parallel plans treat equal values as equal.
SET enable_mergejoin = off;
SET enable_nestloop = off;
SELECT count(*) FROM v a JOIN v b USING (id);
SELECT count(DISTINCT id), (SELECT count(*) FROM (SELECT id FROM v GROUP BY id) AS g) AS grouped FROM v;
RESET enable_mergejoin;
RESET enable_nestloop;
CREATE TABLE parts (id uuid_v1) PARTITION BY HASH (id);
CREATE TABLE parts0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parts1 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO parts SELECT id FROM v;
SELECT count(*) FILTER (WHERE tableoid = 'parts0'::regclass) BETWEEN 2000 AND 3000 AS spread, count(*) FROM parts;
DROP TABLE parts;
SELECT bool_and(amvalidate(oid)) AS valid, count(*) FROM pg_opclass WHERE opcname LIKE 'uuid\_v1\_%';

-- The generator returns version 1 keys with one node per session. The node has the multicast bit. Each key has a new
-- tick and the time of the clock.
CREATE TABLE made AS SELECT n, uuid_v1_nextval() AS id FROM generate_series(1, 50000) AS n;
SELECT count(*) FILTER (WHERE id <= before) AS not_later, count(DISTINCT uuid_v1_get_node(id)) AS nodes,
       count(DISTINCT uuid_v1_get_clockseq(id)) AS clock_sequences, count(DISTINCT left(id::text, 18)) AS ticks,
       bool_and(get_byte(uuid_v1_get_node(id), 0) & 1 = 1) AS multicast,
       max(abs(extract(epoch FROM uuid_v1_get_timestamp(id) - now()))) < 60 AS now
FROM (SELECT id, lag(id) OVER (ORDER BY n) AS before FROM made) AS pairs;
DROP TABLE made;
DROP TABLE v CASCADE;
RESET timezone;
