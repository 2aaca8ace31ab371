-- Comparisons of keys with times are rewritten for the index, and are correct at each boundary.
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';
SET enable_seqscan = off;
SET enable_bitmapscan = off;

-- Plans depend on statistics, which must not change while a slow machine runs the test.
CREATE TABLE k1 (id uuid_v1 PRIMARY KEY) WITH (autovacuum_enabled = off);
CREATE TABLE k7 (id uuid PRIMARY KEY) WITH (autovacuum_enabled = off);
INSERT INTO k1 SELECT uuid_v1_floor(timestamptz '2026-01-01' + n * interval '1 hour') FROM generate_series(0, 2000) AS n;
INSERT INTO k7 SELECT uuid_v7_floor(timestamptz '2026-01-01' + n * interval '1 hour') FROM generate_series(0, 2000) AS n;
ANALYZE k1, k7;

-- Every operator, with the key on either side.
SELECT side, operator, string_agg(trim(line), ' | ' ORDER BY n) AS plan
FROM unnest(ARRAY['id %s t', 't %s id']) AS side, unnest(ARRAY['<~', '<=~', '>~', '>=~', '=~', '<>~']) AS operator,
     plan_of(format('SELECT id FROM k1 WHERE ' || replace(side, 't', '%L::timestamptz'),
                    CASE side WHEN 'id %s t' THEN operator ELSE '2026-02-01' END,
                    CASE side WHEN 'id %s t' THEN '2026-02-01' ELSE operator END)) WITH ORDINALITY AS p (line, n)
GROUP BY side, operator ORDER BY side, operator COLLATE "C";
SELECT side, operator, string_agg(trim(line), ' | ' ORDER BY n) AS plan
FROM unnest(ARRAY['id %s t', 't %s id']) AS side, unnest(ARRAY['<~', '<=~', '>~', '>=~', '=~', '<>~']) AS operator,
     plan_of(format('SELECT id FROM k7 WHERE ' || replace(side, 't', '%L::timestamptz'),
                    CASE side WHEN 'id %s t' THEN operator ELSE '2026-02-01' END,
                    CASE side WHEN 'id %s t' THEN '2026-02-01' ELSE operator END)) WITH ORDINALITY AS p (line, n)
GROUP BY side, operator ORDER BY side, operator COLLATE "C";

-- now(), parameters, ranges, joins.
EXPLAIN (COSTS OFF) SELECT id FROM k7 WHERE id >=~ now() - interval '1 hour';
EXPLAIN (COSTS OFF) SELECT id FROM k1 WHERE id <@~ tstzrange('2026-02-01', '2026-02-02');
EXPLAIN (COSTS OFF) SELECT id FROM k7 WHERE tstzrange('2026-02-01', NULL) @>~ id;
SET plan_cache_mode = force_generic_plan;
PREPARE since (timestamptz) AS SELECT count(*) FROM k1 WHERE id >=~ $1;
EXPLAIN (COSTS OFF) EXECUTE since('2026-02-01');
EXECUTE since('2026-02-01');
PREPARE within (tstzrange) AS SELECT count(*) FROM k7 WHERE id <@~ $1;
EXPLAIN (COSTS OFF) EXECUTE within('[2026-02-01, 2026-02-02)');
EXECUTE within('[2026-02-01, 2026-02-02)');
EXECUTE within('empty');
EXECUTE within('(,)');
RESET plan_cache_mode;
RESET enable_seqscan;
CREATE TABLE moments (at timestamptz);
INSERT INTO moments VALUES ('2026-01-05'), ('2026-02-05'), (NULL);
EXPLAIN (COSTS OFF) SELECT m.at, k.id FROM moments m JOIN k1 k ON k.id =~ m.at;
SELECT m.at, k.id FROM moments m JOIN k1 k ON k.id =~ m.at ORDER BY at;
SET enable_seqscan = off;
-- Comparisons with volatile operands are not rewritten, because the operands would be evaluated twice, and might
-- differ.
EXPLAIN (COSTS OFF) SELECT id FROM k1 WHERE id =~ clock_timestamp();
-- The planner uses statistics for the comparison: the estimate, about a quarter of the rows, is correct.
CREATE FUNCTION estimate(statement text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    plan json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT json) ' || statement INTO plan;
    RETURN plan -> 0 -> 'Plan' ->> 'Plan Rows';
END $$;
SELECT estimate($$SELECT FROM k1 WHERE id <~ timestamptz '2026-01-01' + interval '500 hours'$$) BETWEEN 450 AND 550 AS v1,
       estimate($$SELECT FROM k7 WHERE id <~ timestamptz '2026-01-01' + interval '500 hours'$$) BETWEEN 450 AND 550 AS v7;

-- BRIN indexes are used, too.
CREATE INDEX k1_brin ON k1 USING brin (id);
ALTER TABLE k1 DROP CONSTRAINT k1_pkey;
SET enable_bitmapscan = on;
EXPLAIN (COSTS OFF) SELECT id FROM k1 WHERE id >=~ timestamptz '2026-02-01';

-- Partitions are pruned at plan time and at run time.
RESET enable_seqscan;
CREATE TABLE parts (id uuid_v1) PARTITION BY RANGE (id);
SELECT format('CREATE TABLE parts_%s PARTITION OF parts FOR VALUES FROM (%L) TO (%L)', to_char(m, 'MM'), uuid_v1_floor(m), uuid_v1_floor(m + interval '1 month'))
FROM generate_series(timestamptz '2026-01-01', '2026-03-01', '1 month') AS m \gexec
EXPLAIN (COSTS OFF) SELECT * FROM parts WHERE id >=~ timestamptz '2026-02-10' AND id <~ timestamptz '2026-02-20';
SET plan_cache_mode = force_generic_plan;
PREPARE pruned (timestamptz) AS SELECT * FROM parts WHERE id >=~ $1;
EXPLAIN (COSTS OFF) EXECUTE pruned('2026-03-01');
RESET plan_cache_mode;
DROP TABLE parts;

-- The operators agree with the definition, whether they are rewritten or not, for keys around each microsecond and for
-- times outside the range of keys.
CREATE TABLE m AS SELECT moment::timestamptz FROM unnest(ARRAY['-infinity', '4713-01-01 BC', '1582-10-14 23:59:59.999999+00', '1582-10-15 00:00:00+00',
    '1582-10-15 00:00:00.000001+00', '1969-12-31 23:59:59.999999+00', '1970-01-01 00:00:00+00', '1970-01-01 00:00:00.000001+00',
    '2026-01-01 00:00:00+00', '2026-01-01 00:00:00.000001+00', '2026-01-01 00:00:00.001+00', '5236-03-31 21:21:00.684696+00',
    '5236-03-31 21:21:00.684697+00', '5236-03-31 21:21:00.684698+00', '10889-08-02 05:31:50.655999+00', '10889-08-02 05:31:50.656+00',
    '294276-12-31 23:59:59.999999+00', 'infinity']) AS moment;
CREATE TABLE b1 AS SELECT uuid_v1_floor(moment) AS id FROM m WHERE moment BETWEEN '1582-10-15' AND '5236-03-31 21:21:00.684697+00'
    UNION SELECT uuid_v1_ceiling(moment) FROM m WHERE moment BETWEEN '1582-10-15' AND '5236-03-31 21:21:00.684697+00';
CREATE TABLE b7 AS SELECT uuid_v7_floor(moment) AS id FROM m WHERE moment BETWEEN '1970-01-01' AND '10889-08-02 05:31:50.655999+00'
    UNION SELECT uuid_v7_ceiling(moment) FROM m WHERE moment BETWEEN '1970-01-01' AND '10889-08-02 05:31:50.655999+00';
SELECT count(*) > 200 AS many, count(*) FILTER (WHERE
    (id <~ moment) <> (time < moment) OR (id <=~ moment) <> (time <= moment) OR (id >~ moment) <> (time > moment) OR
    (id >=~ moment) <> (time >= moment) OR (id =~ moment) <> (time = moment) OR (id <>~ moment) <> (time <> moment) OR
    (moment <~ id) <> (moment < time) OR (moment <=~ id) <> (moment <= time) OR (moment >~ id) <> (moment > time) OR
    (moment >=~ id) <> (moment >= time) OR (moment =~ id) <> (moment = time) OR (moment <>~ id) <> (moment <> time)) AS wrong
FROM b1, m, LATERAL (SELECT uuid_v1_get_timestamp(id)) AS t (time);
SELECT count(*) > 200 AS many, count(*) FILTER (WHERE
    (id <~ moment) <> (time < moment) OR (id <=~ moment) <> (time <= moment) OR (id >~ moment) <> (time > moment) OR
    (id >=~ moment) <> (time >= moment) OR (id =~ moment) <> (time = moment) OR (id <>~ moment) <> (time <> moment) OR
    (moment <~ id) <> (moment < time) OR (moment <=~ id) <> (moment <= time) OR (moment >~ id) <> (moment > time) OR
    (moment >=~ id) <> (moment >= time) OR (moment =~ id) <> (moment = time) OR (moment <>~ id) <> (moment <> time)) AS wrong
FROM b7, m, LATERAL (SELECT uuid_v7_time(id)) AS t (time);
-- These functions have the same code, but no support function, so that their calls are not rewritten.
SELECT format('CREATE FUNCTION raw_%2$s_%1$s(%3$s, timestamptz) RETURNS boolean AS %4$L, %5$L LANGUAGE C STRICT', name, type, key, '$libdir/inorder', format('uuid_%s_%s_time', type, name)),
       format('CREATE FUNCTION raw_%2$s_%1$s(timestamptz, %3$s) RETURNS boolean AS %4$L, %5$L LANGUAGE C STRICT', name, type, key, '$libdir/inorder', format('time_%s_uuid_%s', name, type))
FROM unnest(ARRAY['lt', 'le', 'ge', 'gt', 'eq', 'ne']) AS name, (VALUES ('v1', 'uuid_v1'), ('v7', 'uuid')) AS k (type, key) \gexec
SELECT count(*) FILTER (WHERE
    raw_v1_lt(id, moment) <> (time < moment) OR raw_v1_le(id, moment) <> (time <= moment) OR raw_v1_gt(id, moment) <> (time > moment) OR
    raw_v1_ge(id, moment) <> (time >= moment) OR raw_v1_eq(id, moment) <> (time = moment) OR raw_v1_ne(id, moment) <> (time <> moment) OR
    raw_v1_lt(moment, id) <> (moment < time) OR raw_v1_le(moment, id) <> (moment <= time) OR raw_v1_gt(moment, id) <> (moment > time) OR
    raw_v1_ge(moment, id) <> (moment >= time) OR raw_v1_eq(moment, id) <> (moment = time) OR raw_v1_ne(moment, id) <> (moment <> time)) AS wrong
FROM b1, m, LATERAL (SELECT uuid_v1_get_timestamp(id)) AS t (time);
SELECT count(*) FILTER (WHERE
    raw_v7_lt(id, moment) <> (time < moment) OR raw_v7_le(id, moment) <> (time <= moment) OR raw_v7_gt(id, moment) <> (time > moment) OR
    raw_v7_ge(id, moment) <> (time >= moment) OR raw_v7_eq(id, moment) <> (time = moment) OR raw_v7_ne(id, moment) <> (time <> moment) OR
    raw_v7_lt(moment, id) <> (moment < time) OR raw_v7_le(moment, id) <> (moment <= time) OR raw_v7_gt(moment, id) <> (moment > time) OR
    raw_v7_ge(moment, id) <> (moment >= time) OR raw_v7_eq(moment, id) <> (moment = time) OR raw_v7_ne(moment, id) <> (moment <> time)) AS wrong
FROM b7, m, LATERAL (SELECT uuid_v7_time(id)) AS t (time);
-- Ranges that are open, closed, unbounded, empty, or outside the range of keys.
CREATE TABLE r AS SELECT tstzrange(a.moment, b.moment, bounds) AS range FROM m a, m b, unnest(ARRAY['[)', '[]', '(]', '()']) AS bounds WHERE a.moment <= b.moment
    UNION SELECT unnest(ARRAY['empty', '(,)', '[2026-01-01,)', '(,2026-01-01]']::tstzrange[]);
SELECT count(*) > 5000 AS many, count(*) FILTER (WHERE (id <@~ range) <> (uuid_v1_get_timestamp(id) <@ range) OR (range @>~ id) <> (range @> uuid_v1_get_timestamp(id))) AS wrong FROM b1, r;
SELECT count(*) > 5000 AS many, count(*) FILTER (WHERE (id <@~ range) <> (uuid_v7_time(id) <@ range) OR (range @>~ id) <> (range @> uuid_v7_time(id))) AS wrong FROM b7, r;

-- The server's own operators on ranges have the same meaning as before.
SELECT tstzrange('2026-01-01', '2026-02-01') @> '[2026-01-05,2026-01-06)' AS literal, '[2026-01-05,2026-01-06)' <@ tstzrange('2026-01-01', '2026-02-01') AS other_side;
PREPARE untyped AS SELECT tstzrange('2026-01-01', '2026-02-01') @> $1;
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'untyped';

-- A role that may read a view or pass a check constraint needs no access to the extension's schema.
CREATE SCHEMA "Its Own";
CREATE ROLE inorder_guest;
CREATE TABLE checked (id uuid CHECK (id >=~ '2020-01-01'::timestamptz));
CREATE VIEW seen AS SELECT id FROM checked WHERE id =~ '2026-01-01'::timestamptz;
GRANT SELECT, INSERT ON checked, seen TO inorder_guest;
REVOKE USAGE ON SCHEMA public FROM PUBLIC;
SET ROLE inorder_guest;
SELECT has_schema_privilege('public', 'USAGE') AS let_in;
RESET ROLE;
ALTER TABLE checked SET SCHEMA "Its Own";
ALTER VIEW seen SET SCHEMA "Its Own";
GRANT USAGE ON SCHEMA "Its Own" TO inorder_guest;
SET ROLE inorder_guest;
INSERT INTO "Its Own".checked VALUES ('019b76da-a800-7000-8000-000000000000');
SELECT * FROM "Its Own".seen;
RESET ROLE;
-- If a role may not execute the bound functions, the comparison is not rewritten.
REVOKE EXECUTE ON FUNCTION uuid_v7_time_bound FROM PUBLIC;
SET ROLE inorder_guest;
EXPLAIN (COSTS OFF) SELECT * FROM "Its Own".seen;
SELECT * FROM "Its Own".seen;
RESET ROLE;
GRANT EXECUTE ON FUNCTION uuid_v7_time_bound TO PUBLIC;
GRANT USAGE ON SCHEMA public TO PUBLIC;
SET client_min_messages = warning;
DROP SCHEMA "Its Own" CASCADE;
RESET client_min_messages;
DROP ROLE inorder_guest;

-- The bound for times after the last key is above all values. No plan contains this bound as a constant, and no query
-- can return it.
SELECT form, error_of('SELECT ' || form) FROM unnest(ARRAY['uuid_v1_time_bound(''infinity'', false)', 'uuid_v1_time_bound(''5236-03-31 21:21:00.684697+00'', true)',
    'uuid_v1_time_bound(''5236-03-31 21:21:00.684697+00'', false)', 'uuid_v1_range_bound(''empty'', false)', 'uuid_v1_range_bound(''(,)'', true)', 'uuid_v1_range_bound(''(,)'', false)',
    'max(b) FROM (SELECT uuid_v1_time_bound(''infinity'', false) AS b) AS s']) AS form;
SELECT error_of('CREATE TABLE made AS SELECT uuid_v1_time_bound(moment, true) AS id FROM m') LIKE '22008%' AS refused;
-- Constants outside the range of keys, in a plan.
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM k1 WHERE id >=~ 'infinity'::timestamptz;
SELECT count(*) FROM k1 WHERE id >=~ 'infinity'::timestamptz;
SELECT count(*) FROM k1 WHERE id <~ 'infinity'::timestamptz;
SELECT count(*) FROM k7 WHERE id >~ '-infinity'::timestamptz;

-- Every operator refuses a key without a time, on either side and in ranges.
CREATE SEQUENCE numbers;
CREATE TABLE kinds AS SELECT * FROM (VALUES ('v4', gen_random_uuid()), ('xact', uuid_xact_nextval()), ('sequence', uuid_sequence_nextval('numbers')),
    ('time', uuid_time_nextval()), ('v1', uuid_v1_nextval()::uuid), ('nil', '00000000-0000-0000-0000-000000000000'),
    ('greatest', 'ffffffff-ffff-ffff-ffff-ffffffffffff'), ('other variant', '019b76da-a800-7000-0000-000000000000')) AS k (kind, id);
CREATE TABLE forms AS
    SELECT format(side, operator, moment) AS form
    FROM unnest(ARRAY['%%L::uuid %1$s %2$s', '%2$s %1$s %%L::uuid']) AS side, unnest(ARRAY['<~', '<=~', '>~', '>=~', '=~', '<>~']) AS operator,
         unnest(ARRAY['now()', 'clock_timestamp()', '''infinity''::timestamptz']) AS moment
    UNION ALL SELECT unnest(ARRAY['%L::uuid <@~ tstzrange(now(), NULL)', 'tstzrange(NULL, now()) @>~ %L::uuid', '%L::uuid <@~ ''empty''::tstzrange',
                                  '%L::uuid >=~ ANY (ARRAY[now()])', 'NOT (%L::uuid >=~ now())', 'uuid_v7_ge_time(%L, now())', 'uuid_v7_checked(%L, now())']);
SELECT kind, count(*) AS statements, array_agg(DISTINCT substr(replace(error_of(format('SELECT ' || form, id)), id::text, '…'), 1, 67)) AS errors
FROM kinds, forms GROUP BY kind ORDER BY kind;
SELECT '12345678-9abc-4def-8123-456789abcdef'::uuid >=~ now();
-- In the select list, every key without a time raises an error. The result for NULL is NULL.
SELECT kind, error_of(format('SELECT id >=~ now(), id <~ now() FROM kinds WHERE kind = %L', kind)) <> 'no error' AS refused FROM kinds ORDER BY kind;
SELECT NULL::uuid >=~ now() AS no_key, id >=~ NULL::timestamptz AS no_moment FROM kinds LIMIT 1;

-- In a table, with every scan and join, a key without a time is an error if the comparison would select it.
CREATE TABLE mixed (n int, id uuid) WITH (autovacuum_enabled = off);
INSERT INTO mixed SELECT n, uuid_v7_floor(timestamptz '2026-01-01' + n * interval '1 hour') FROM generate_series(1, 1000) AS n;
INSERT INTO mixed VALUES (0, '00000000-0001-8000-8000-000000000000'), (2000, 'ffffffff-0000-4000-8000-000000000000');
CREATE INDEX mixed_id ON mixed (id);
ANALYZE mixed;
CREATE TABLE since (at timestamptz);
INSERT INTO since VALUES ('2026-02-01'), ('2026-02-02');
CREATE FUNCTION by_every_plan(statement text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    scans text[] := '{seqscan,indexscan,indexonlyscan,bitmapscan}';
    joins text[] := '{nestloop,hashjoin,mergejoin}';
    scan text;
    how text;
    answer text;
    answers text[];
BEGIN
    FOREACH scan IN ARRAY scans LOOP
        FOREACH how IN ARRAY joins LOOP
            PERFORM set_config('enable_' || name, (name IN (scan, how))::text, true) FROM unnest(scans || joins) AS name;
            BEGIN
                EXECUTE statement INTO answer;
            EXCEPTION WHEN invalid_parameter_value THEN
                answer := 'refused';
            END;
            answers := answers || answer;
        END LOOP;
    END LOOP;
    RETURN (SELECT array_agg(DISTINCT a) FROM unnest(answers) AS a);
END $$;
SELECT condition, by_every_plan('SELECT count(*) FROM mixed WHERE ' || condition) FROM unnest(ARRAY[
    'id <@~ tstzrange(''2026-01-02'', ''2026-01-03'')', 'id =~ timestamptz ''2026-01-02''', 'id >=~ timestamptz ''2026-02-01''', 'id <~ timestamptz ''2026-02-01''',
    'id >=~ (now() - (now() - ''2026-02-01''))', 'id >=~ (SELECT max(at) FROM since)', 'n BETWEEN 1 AND 1000 AND id >=~ timestamptz ''2026-02-01''',
    'id >=~ timestamptz ''2026-02-01'' AND id <~ timestamptz ''2026-02-02''']) AS condition;
SELECT condition, by_every_plan('SELECT count(*) FROM since AS s JOIN mixed AS k ON ' || condition) FROM unnest(ARRAY[
    'k.id =~ s.at', 'k.id >=~ s.at', 'k.id <~ s.at', 'k.id <@~ tstzrange(s.at, s.at + interval ''1 day'')']) AS condition;
-- A comparison negated with NOT skips no row: its index condition uses the opposite operator.
SELECT condition, by_every_plan('SELECT count(*) FROM mixed WHERE ' || condition) FROM unnest(ARRAY[
    'NOT (id <~ timestamptz ''2026-01-10'')', 'NOT (id <~ timestamptz ''2026-01-10'') AND n BETWEEN 1 AND 1000']) AS condition;
-- The check affects neither estimates nor the use of partial indexes.
SELECT estimate($$SELECT FROM mixed WHERE id <~ timestamptz '2026-01-01' + interval '250 hours'$$) BETWEEN 230 AND 270 AS estimated;
DELETE FROM mixed WHERE n NOT BETWEEN 1 AND 1000;
CREATE INDEX mixed_late ON mixed (n) WHERE id >=~ timestamptz '2026-02-01';
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT n FROM mixed WHERE n = 900 AND id >=~ timestamptz '2026-02-03';
RESET enable_seqscan;
DROP TABLE mixed, since, kinds, forms;

-- A column whose default generates keys without a time is always refused, wherever it is compared.
CREATE TABLE defaults (v7 uuid DEFAULT uuid_v7_nextval(), v4 uuid DEFAULT gen_random_uuid(), xact uuid DEFAULT uuid_xact_nextval(100), sequence uuid DEFAULT uuid_sequence_nextval('numbers'),
                       time uuid DEFAULT uuid_time_nextval(), v1 uuid DEFAULT uuid_v1_nextval()::uuid, wrapped uuid DEFAULT coalesce(NULL, uuid_xact_nextval()), none uuid);
SELECT name, error_of(format('SELECT FROM defaults WHERE %I >=~ now()', name)) FROM unnest(ARRAY['v7', 'v4', 'xact', 'sequence', 'time', 'v1', 'wrapped', 'none']) AS name;
SELECT FROM defaults WHERE xact >=~ now();
CREATE VIEW looks AS SELECT xact AS id, v7 FROM defaults;
CREATE DOMAIN of_xact AS uuid DEFAULT uuid_xact_nextval();
CREATE TABLE typed (id of_xact);
CREATE TABLE leaves (id uuid DEFAULT uuid_xact_nextval()) PARTITION BY RANGE (id);
CREATE TABLE leaf PARTITION OF leaves DEFAULT;
SELECT statement, left(error_of(statement), 64) AS error FROM unnest(ARRAY[
    'SELECT FROM looks WHERE id <~ now()', 'SELECT FROM looks WHERE v7 <~ now()', 'SELECT FROM looks WHERE now() <~ id', 'SELECT FROM looks WHERE id <@~ tstzrange(now(), NULL)',
    'SELECT FROM (SELECT id FROM looks OFFSET 0) AS q WHERE id =~ now()', 'SELECT FROM (SELECT a.id FROM looks AS a JOIN looks AS b USING (id) OFFSET 0) AS q WHERE id =~ now()',
    'SELECT FROM (SELECT id FROM looks GROUP BY id OFFSET 0) AS q WHERE id =~ now()', 'SELECT id FROM looks GROUP BY id HAVING id >=~ max(now())',
    'SELECT FROM (SELECT id FROM looks UNION ALL SELECT v7 FROM looks) AS q WHERE id =~ now()', 'WITH q AS (SELECT id FROM looks) SELECT FROM q WHERE id <>~ now()',
    'SELECT (SELECT count(*) FROM looks AS i WHERE o.id >=~ now()) FROM looks AS o', 'SELECT id >=~ now() FROM looks', 'SELECT FROM looks AS a JOIN looks AS b ON a.id >=~ now()',
    'DELETE FROM defaults WHERE xact <~ now()', 'UPDATE defaults SET v7 = NULL WHERE xact <~ now()', 'INSERT INTO defaults (v7) SELECT v7 FROM defaults WHERE xact <~ now()',
    'SELECT FROM typed WHERE id >=~ now()', 'SELECT FROM leaves WHERE id >=~ now()', 'SELECT FROM leaf WHERE id >=~ now()', 'SELECT FROM defaults WHERE xact >= uuid_v7_floor(now())']) AS statement;
-- A cached plan is checked again when the default changes.
SET plan_cache_mode = force_generic_plan;
PREPARE kept AS SELECT count(*) FROM defaults WHERE none >=~ now();
EXECUTE kept;
ALTER TABLE defaults ALTER none SET DEFAULT uuid_xact_nextval();
EXECUTE kept;
RESET plan_cache_mode;
DEALLOCATE kept;
-- The planner simplifies a CHECK constraint as if it belonged to the first table of the query. The support function
-- must not look up the constraint's column in that table.
SET constraint_exclusion = on;
CREATE TABLE checked (id uuid CHECK (id >=~ '2020-01-01'), last uuid CHECK (last >=~ '2020-01-01'));
SELECT FROM typed, checked WHERE checked.id >= uuid_v7_floor('2020-01-01');
SELECT estimate($$SELECT FROM typed, checked WHERE checked.last < uuid_v7_floor('2019-01-01')$$) = 0 AS refuted;
RESET constraint_exclusion;
DROP VIEW looks;
DROP TABLE defaults, typed, leaves, checked;
DROP DOMAIN of_xact;
DROP SEQUENCE numbers;

-- Floor and ceiling, called directly.
SELECT uuid_v1_floor('2026-01-01 00:00:00.000001+00'), uuid_v1_ceiling('2026-01-01 00:00:00.000001+00'), uuid_v7_ceiling('2026-01-01 00:00:00.000001+00');
SELECT error_of($$SELECT uuid_v1_floor('1582-10-14 23:59:59.999999+00')$$);
SELECT error_of($$SELECT uuid_v1_ceiling('5236-03-31 21:21:00.684698+00')$$);
SELECT error_of($$SELECT uuid_v1_floor('infinity')$$);
SELECT error_of($$SELECT uuid_v7_ceiling('-infinity')$$);
DROP TABLE k1, k7, moments, m, b1, b7, r;
RESET timezone;
