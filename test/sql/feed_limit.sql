\set SHOW_CONTEXT never
-- The position moves past all rows that feed_read() returns. A call that might fetch fewer rows is therefore refused.
CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
CREATE TABLE got (n int);
SELECT feed_create('f', 'events'), feed_create('g', 'events');
INSERT INTO events (n) SELECT generate_series(1, 5);
INSERT INTO got VALUES (1), (2);
-- Return the outcome of a statement and the number of unread rows after it. The statement is rolled back.
CREATE FUNCTION outcome(statement text, OUT answer text, OUT unread bigint) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    SELECT 'ok', count(*) INTO answer, unread FROM feed_peek('f', null::events);
    RAISE 'undo' USING ERRCODE = 'IN000';
EXCEPTION WHEN SQLSTATE 'IN000' THEN
    RETURN;
WHEN OTHERS THEN
    answer := SQLSTATE || ' ' || SQLERRM;
    SELECT count(*) INTO unread FROM feed_peek('f', null::events);
END $$;
\set read 'feed_read(\'f\', null::events)'

-- LIMIT in all its forms, anywhere above the call.
SELECT n FROM :read LIMIT 2;
SELECT s AS statement, answer, unread FROM unnest(ARRAY[
    'SELECT FROM READ LIMIT 10', 'SELECT FROM READ OFFSET 1', 'SELECT FROM READ ORDER BY n FETCH FIRST ROW ONLY', 'SELECT FROM READ ORDER BY n FETCH FIRST 2 ROWS WITH TIES',
    'SELECT READ LIMIT 1', 'SELECT (READ).* LIMIT 1', 'SELECT FROM (SELECT * FROM READ LIMIT 3) AS s', 'SELECT FROM (SELECT * FROM READ) AS s LIMIT 3', 'SELECT n FROM READ GROUP BY n LIMIT 1',
    'SELECT DISTINCT n FROM READ LIMIT 1', 'SELECT n FROM READ UNION ALL SELECT 7 LIMIT 3', '(SELECT n FROM READ LIMIT 3) UNION ALL SELECT 7', 'SELECT FROM events AS e, READ AS r LIMIT 1',
    'SELECT FROM events AS e LEFT JOIN READ AS r USING (n) ORDER BY e.n LIMIT 1', 'SELECT FROM events AS e, LATERAL (SELECT * FROM READ AS r WHERE r.n = e.n LIMIT 1) AS s',
    'SELECT rank() OVER (ORDER BY n) FROM READ LIMIT 1', 'SELECT FROM ROWS FROM (READ, generate_series(1, 3)) AS r LIMIT 1', 'SELECT FROM READ AS r, LATERAL generate_series(1, r.n) LIMIT 1',
    'WITH r AS (SELECT * FROM READ) SELECT FROM r LIMIT 1', 'WITH r AS MATERIALIZED (SELECT * FROM READ LIMIT 1) SELECT FROM r', 'WITH r AS (SELECT * FROM READ) SELECT (SELECT n FROM r LIMIT 1)',
    'WITH RECURSIVE r AS (SELECT n FROM READ UNION ALL SELECT n + 1 FROM r WHERE n < 9) SELECT FROM r LIMIT 1',
    'INSERT INTO got SELECT n FROM READ LIMIT 1', 'WITH i AS (INSERT INTO got SELECT n FROM READ LIMIT 1 RETURNING n) SELECT FROM i', 'UPDATE got SET n = 0 FROM (SELECT n FROM READ LIMIT 1) AS r WHERE r.n = got.n',
    'DELETE FROM got USING (SELECT n FROM READ OFFSET 1) AS r WHERE r.n = got.n', 'CREATE TABLE new AS SELECT * FROM READ LIMIT 1', 'CREATE MATERIALIZED VIEW new AS SELECT * FROM READ LIMIT 1',
    'EXPLAIN ANALYZE SELECT FROM READ LIMIT 1', 'SELECT (SELECT n FROM READ LIMIT 1)', 'SELECT ARRAY(SELECT n FROM READ LIMIT 1)', 'SELECT FROM got WHERE n IN (SELECT n FROM READ LIMIT 1)',
    'SELECT FROM feeds AS f, LATERAL feed_read(f.name, null::events) LIMIT 1', 'DO ''BEGIN PERFORM FROM feed_read(''''f'''', null::events) LIMIT 1; END''']) AS s, outcome(replace(s, 'READ', 'feed_read(''f'', null::events)'));
-- These statements fetch all rows, and are not refused.
SELECT s AS statement, answer, unread FROM unnest(ARRAY[
    'SELECT FROM READ', 'SELECT READ', 'SELECT (READ).*', 'SELECT FROM READ LIMIT ALL', 'SELECT FROM READ LIMIT NULL', 'SELECT FROM READ OFFSET 0', 'SELECT FROM READ LIMIT 0', 'SELECT n FROM READ WHERE n = 3',
    'SELECT FROM feed_read(''f'', null::events, 2)', 'SELECT count(*) FROM READ LIMIT 1', 'SELECT count(*) FROM (SELECT * FROM READ) AS s OFFSET 0 LIMIT 2', 'SELECT DISTINCT ON (n % 2) n FROM READ',
    'SELECT FROM events AS e JOIN READ AS r USING (id)', 'SELECT FROM READ AS r, LATERAL (SELECT FROM got LIMIT 1) AS s', 'SELECT (SELECT n FROM got LIMIT 1) FROM READ', 'SELECT FROM READ WHERE EXISTS (SELECT FROM got)',
    'SELECT FROM READ AS r WHERE EXISTS (SELECT FROM got WHERE got.n = r.n)', 'SELECT FROM READ WHERE n > (SELECT n FROM got LIMIT 1)', 'INSERT INTO got SELECT n + (SELECT n FROM got LIMIT 1) FROM READ',
    'SELECT (SELECT count(*) FROM READ) LIMIT 1', 'SELECT ARRAY(SELECT n FROM READ) LIMIT 1', 'SELECT FROM got WHERE n IN (SELECT n FROM READ)', 'SELECT n, (SELECT count(*) FROM READ) FROM got LIMIT 1',
    'WITH r AS (SELECT * FROM READ) SELECT n, (SELECT count(*) FROM r) FROM r LIMIT 1', 'WITH i AS (INSERT INTO got SELECT n FROM READ RETURNING n) SELECT FROM i LIMIT 1',
    'WITH i AS (INSERT INTO got SELECT n FROM READ) SELECT 1', 'WITH r AS (SELECT * FROM READ), i AS (INSERT INTO got SELECT n FROM r) SELECT FROM r LIMIT 1', 'EXPLAIN ANALYZE SELECT FROM READ', 'EXPLAIN SELECT FROM READ LIMIT 1',
    'CREATE TABLE new AS SELECT * FROM READ', 'SELECT FROM feeds AS f, LATERAL feed_read(f.name, null::events)', 'MERGE INTO got USING READ AS r ON r.n = got.n WHEN NOT MATCHED THEN INSERT VALUES (r.n)',
    'DO ''BEGIN PERFORM FROM feed_read(''''f'''', null::events); END''']) AS s, outcome(replace(s, 'READ', 'feed_read(''f'', null::events)'));

-- EXISTS stops at the first row, unless it is executed as a join.
SELECT s AS statement, answer, unread FROM unnest(ARRAY[
    'SELECT EXISTS (SELECT FROM READ)', 'SELECT FROM got WHERE EXISTS (SELECT FROM READ)', 'SELECT NOT EXISTS (SELECT READ)', 'SELECT FROM feeds AS f WHERE EXISTS (SELECT FROM feed_read(f.name, null::events))',
    'DO ''BEGIN IF EXISTS (SELECT FROM feed_read(''''f'''', null::events)) THEN NULL; END IF; END''', 'WITH r AS (SELECT * FROM READ) SELECT EXISTS (SELECT FROM r)',
    'SELECT EXISTS (SELECT count(*) FROM READ)', 'SELECT FROM got WHERE EXISTS (SELECT FROM READ AS r WHERE r.n = got.n)', 'SELECT EXISTS (SELECT FROM READ AS r WHERE r.n = got.n) FROM got',
    'SELECT EXISTS (SELECT FROM READ AS r WHERE r.n > got.n) FROM got']) AS s, outcome(replace(s, 'READ', 'feed_read(''f'', null::events)'));

-- The server does not show how many rows PL/pgSQL fetches (see docs/feed.md): SELECT INTO keeps one row, but the
-- position moves past all rows.
SELECT s AS statement, answer, unread FROM unnest(ARRAY[
    'SELECT * INTO r FROM READ)', 'SELECT * INTO r FROM READ, 1)', 'SELECT n INTO v FROM READ) LIMIT 1', 'r := READ)', 'SELECT count(*) INTO v FROM READ)', 'SELECT array_agg(f) INTO r FROM READ) AS f', 'v := (SELECT count(*) FROM READ))',
    'v := (SELECT n FROM READ, 1))', 'v := (SELECT n FROM READ) LIMIT 1)', 'v := (SELECT n FROM READ))', 'WITH i AS (INSERT INTO got SELECT n FROM READ) RETURNING n) SELECT n INTO v FROM i',
    'INSERT INTO got SELECT n FROM READ, 1) RETURNING n INTO v', 'PERFORM FROM READ)']) AS s, outcome(format('DO %L', format('DECLARE r record; v int; BEGIN %s; END', replace(s, 'READ', 'feed_read(''f'', null::events'))));
-- SQL functions execute their last query row by row, or for one row only, unless they are called in FROM. A LIMIT
-- inside the function is detected; a LIMIT above the function is not.
CREATE FUNCTION one() RETURNS events LANGUAGE sql AS $$SELECT * FROM feed_read('f', null::events)$$;
CREATE FUNCTION first() RETURNS events LANGUAGE sql AS $$SELECT * FROM feed_read('f', null::events, 1)$$;
CREATE FUNCTION all_rows() RETURNS SETOF events LANGUAGE sql AS $$SELECT * FROM feed_read('f', null::events)$$;
CREATE FUNCTION inlined() RETURNS SETOF events LANGUAGE sql STABLE AS $$SELECT * FROM feed_read('f', null::events)$$;
CREATE FUNCTION returned() RETURNS SETOF events LANGUAGE plpgsql AS $$BEGIN RETURN QUERY SELECT * FROM feed_read('f', null::events); END$$;
CREATE FUNCTION stored() RETURNS bigint LANGUAGE sql AS $$WITH i AS (INSERT INTO got SELECT n FROM feed_read('f', null::events) RETURNING n) SELECT count(*) FROM i$$;
CREATE FUNCTION limited() RETURNS SETOF events LANGUAGE sql AS $$SELECT * FROM feed_read('f', null::events) LIMIT 1$$;
CREATE VIEW seen AS SELECT * FROM feed_read('f', null::events);
SELECT s AS statement, answer, unread FROM unnest(ARRAY['SELECT one()', 'SELECT first()', 'SELECT all_rows()', 'SELECT FROM limited()', 'SELECT FROM all_rows()', 'SELECT FROM inlined()', 'SELECT FROM inlined() LIMIT 1',
    'SELECT FROM returned()', 'SELECT returned()', 'SELECT stored() LIMIT 1', 'SELECT FROM seen', 'SELECT FROM seen LIMIT 1', 'SELECT EXISTS (SELECT FROM seen)']) AS s, outcome(s);

-- A prepared statement, with a custom plan and with a generic plan.
PREPARE whole AS SELECT n FROM :read;
PREPARE part(int) AS SELECT n FROM :read LIMIT $1;
SET plan_cache_mode = force_custom_plan;
BEGIN;
EXECUTE whole;
ROLLBACK;
EXECUTE part(2);
SET plan_cache_mode = force_generic_plan;
BEGIN;
EXECUTE whole;
ROLLBACK;
EXECUTE part(2);
RESET plan_cache_mode;
COPY (SELECT n FROM :read LIMIT 1) TO STDOUT;
BEGIN;
COPY (SELECT n FROM :read) TO STDOUT;
ROLLBACK;

-- Fetch from a cursor in part, after a savepoint, after the end of the transaction, or completely.
BEGIN;
DECLARE c CURSOR FOR SELECT n FROM :read;
SAVEPOINT s;
FETCH 1 FROM c;
ROLLBACK TO s;
FETCH 1 FROM c;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT count(*) FROM :read;
FETCH ALL FROM c;
ROLLBACK;
BEGIN;
DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT n FROM :read;
COMMIT;
DO $$DECLARE c CURSOR FOR SELECT * FROM feed_read('f', null::events); r record; BEGIN OPEN c; FETCH c INTO r; END$$;
DO $$DECLARE c refcursor; r record; BEGIN OPEN c FOR EXECUTE 'SELECT * FROM feed_read(''f'', null::events)'; MOVE c; END$$;
-- None of the cursors above moved the position. A cursor over a function that calls feed_read() would not be refused.
SELECT count(*) FROM feed_peek('f', null::events);
-- A FOR loop fetches rows in several steps, but fetches all rows.
BEGIN;
DO $$DECLARE r record; c CURSOR FOR SELECT n FROM feed_read('f', null::events); BEGIN FOR r IN SELECT n FROM feed_read('g', null::events) LOOP RAISE NOTICE 'g %', r.n; END LOOP;
    FOR r IN c LOOP RAISE NOTICE 'f %', r.n; END LOOP; END$$;
SELECT count(*) FROM feed_peek('f', null::events);
ROLLBACK;
DO $$DECLARE r record; BEGIN FOR r IN SELECT n FROM feed_read('f', null::events) LIMIT 1 LOOP NULL; END LOOP; END$$;
-- LIMIT in the outer query is still detected after an inner query has failed and its error was caught.
CREATE FUNCTION caught() RETURNS int LANGUAGE plpgsql AS $$BEGIN PERFORM 1 / n FROM (VALUES (0)) AS v(n); RETURN 0; EXCEPTION WHEN division_by_zero THEN RETURN 1; END$$;
BEGIN;
SELECT r.n, caught() FROM (SELECT caught() AS c) AS s, LATERAL feed_read('f', null::events, c) AS r, caught() AS d;
ROLLBACK;
SELECT r.n FROM (SELECT caught() AS c) AS s, LATERAL feed_read('f', null::events, c) AS r LIMIT 1;

-- feed_peek() returns the same rows each time, and changes nothing.
SELECT n FROM feed_peek('f', null::events, 2);
SELECT n FROM feed_peek('f', null::events) LIMIT 3;
BEGIN READ ONLY;
DECLARE c SCROLL CURSOR FOR SELECT n FROM feed_peek('f', null::events);
FETCH 2 FROM c;
FETCH LAST FROM c;
SELECT EXISTS (SELECT FROM feed_peek('f', null::events));
SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND classid = 'inorder_internal.feed'::regclass AND objsubid = 0;
COMMIT;
INSERT INTO events (n) VALUES (6);
SELECT array_agg(n ORDER BY n) FROM feed_peek('f', null::events);
SELECT array_agg(n) FROM feed_read('f', null::events, 4);
SELECT array_agg(n) FROM feed_peek('f', null::events, 1);
SELECT s AS statement, answer FROM unnest(ARRAY['SELECT feed_peek(''f'', null::got)', 'SELECT feed_peek(''f'', null::events, 0)', 'SELECT feed_peek(''none'', null::events)', 'SELECT feed_peek(NULL, null::events)']) AS s, outcome(s);
-- With an unfinished batch, feed_peek() raises an error, as feed_read() does.
SELECT (feed_take_batch('f', 'w', 1)).number LIMIT 1;
SELECT feed_peek('f', null::events);
SELECT feed_finish_batch('f', 1, token) FROM feed_take_batch('f', 'w') LIMIT 1;

-- feed_apply() also refuses a LIMIT on the batch.
SELECT feed_seek('f', 'beginning');
SELECT feed_apply('f', 'INSERT INTO got SELECT n FROM batch LIMIT 2');
SELECT s AS statement, answer, unread FROM unnest(ARRAY[
    'SELECT FROM batch ORDER BY n FETCH FIRST ROW WITH TIES', 'SELECT FROM batch OFFSET 1', 'SELECT FROM (SELECT FROM batch LIMIT 1) AS s', 'SELECT FROM (SELECT FROM batch) AS s LIMIT 1', 'SELECT (SELECT n FROM batch LIMIT 1)',
    'SELECT n FROM batch UNION ALL SELECT 1 LIMIT 1', '(SELECT n FROM batch LIMIT 1) UNION ALL SELECT 1', 'SELECT n FROM batch GROUP BY n LIMIT 1', 'SELECT FROM (WITH b AS (SELECT * FROM batch) SELECT FROM b LIMIT 1) AS s',
    'SELECT FROM (WITH b AS (SELECT * FROM batch LIMIT 1) SELECT FROM b) AS s', 'SELECT FROM (WITH RECURSIVE r AS (SELECT n FROM batch UNION ALL SELECT n + 1 FROM r WHERE n < 9) SELECT FROM r LIMIT 1) AS s',
    'UPDATE got SET n = (SELECT n FROM batch LIMIT 1)', 'DELETE FROM got USING (SELECT * FROM batch LIMIT 1) AS b WHERE b.n = got.n',
    'MERGE INTO got USING (SELECT * FROM batch LIMIT 1) AS b ON b.n = got.n WHEN NOT MATCHED THEN INSERT VALUES (b.n)', ', b AS (SELECT * FROM batch) SELECT FROM b LIMIT 1',
    ', b AS (SELECT * FROM batch LIMIT 1) INSERT INTO got SELECT n FROM b', ', i AS (INSERT INTO got SELECT n FROM batch LIMIT 1) SELECT 1',
    'SELECT FROM batch WHERE n > (SELECT n FROM batch LIMIT 1)', '(SELECT n FROM batch LIMIT 1) UNION ALL SELECT n FROM batch', 'SELECT FROM got, LATERAL (SELECT FROM batch WHERE batch.n = got.n LIMIT 1) AS b',
    'SELECT (SELECT b.n FROM batch AS b WHERE b.n = got.n LIMIT 1) FROM got', 'SELECT FROM (WITH b AS (SELECT * FROM batch) SELECT FROM b, LATERAL (SELECT FROM b LIMIT 1) AS c) AS s',
    ', i AS (INSERT INTO got SELECT n FROM batch) SELECT FROM batch LIMIT 1', ', b AS (SELECT * FROM batch) SELECT FROM b UNION ALL (SELECT FROM b LIMIT 1)']) AS s, outcome(format('SELECT feed_apply(''f'', %L) LIMIT 1', s));
SELECT s AS statement, answer, unread FROM unnest(ARRAY[
    'SELECT FROM batch LIMIT ALL', 'SELECT FROM batch LIMIT NULL OFFSET 0', 'SELECT count(*) FROM batch LIMIT 1', 'SELECT FROM batch, LATERAL (SELECT FROM got LIMIT 1) AS s',
    'INSERT INTO got SELECT 1 WHERE EXISTS (SELECT FROM batch)',
    ', i AS (INSERT INTO got SELECT n FROM batch RETURNING n) SELECT FROM i LIMIT 1']) AS s, outcome(format('SELECT feed_apply(''f'', %L) LIMIT 1', s));
-- feed_apply() refuses a statement that does not read the batch.
SELECT s AS statement, answer, unread FROM unnest(ARRAY[
    'SELECT 1 LIMIT 1', 'VALUES (1)', 'TABLE got', 'SELECT FROM got AS batch', 'INSERT INTO got SELECT 1', 'DELETE FROM got', 'SELECT FROM (WITH batch AS (SELECT 1) SELECT FROM batch) AS s',
    'SELECT (WITH batch AS (TABLE got) SELECT count(*) FROM batch)', ', b AS (SELECT FROM batch) SELECT 1', 'SELECT n FROM feed_peek(''f'', null::events) AS batch', 'SELECT feed_apply(''f'', ''SELECT FROM batch'')']) AS s, outcome(format('SELECT feed_apply(''f'', %L)', s));
SELECT * FROM outcome($$SELECT feed_apply('f', 'SELECT * INTO copied FROM batch')$$);
SELECT count(*) FROM feed_read('f', null::events);

SELECT feed_drop('f'), feed_drop('g');
DROP VIEW seen;
DROP FUNCTION one, first, all_rows, limited, inlined, returned, stored, caught, outcome;
DROP TABLE events, got;
