-- track_counts is off, because feed_enable() would otherwise warn about deleted and updated rows in some runs.
SET track_counts = off;
\set SHOW_CONTEXT never
-- Feeds deliver every committed row exactly once, whatever the form of the table.
CREATE OR REPLACE FUNCTION inorder_internal.first_number() RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint';  -- the first batch is 1

-- Every function reads transactions of 7, 14 and 30 rows in batches of 14 rows. All functions deliver the same rows in
-- the same batches, and each batch can be read again at the end.
CREATE TABLE got (piece int, place bigint, number bigint, n int);
CREATE TABLE pieces (piece int, batch feed_batch, rows int[]);
CREATE TABLE applied (n int);
CREATE PROCEDURE exercise(label text, definition text, index text, number text) LANGUAGE plpgsql AS $$
DECLARE
    kept feed_position;
    next feed_batch;
    old record;
    read_rows int[];
    other int[];
    same boolean := true;
    batch bigint;
    changed boolean;
    sizes int[] := '{}';
    n int := 0;
BEGIN
    TRUNCATE got, pieces, applied;
    EXECUTE format('CREATE TABLE events (n int, %s)', definition);
    EXECUTE coalesce(index, 'SELECT 1');
    PERFORM feed_create(f, 'events') FROM unnest('{read,steps,applied}'::text[]) AS f;
    kept := reader_start('events');
    COMMIT;
    FOREACH batch IN ARRAY '{7,14,30}'::bigint[] LOOP
        EXECUTE format('INSERT INTO events (n) SELECT generate_series(%s, %s)', n + 1, n + batch);
        n := n + batch;
        COMMIT;
    END LOOP;
    FOR piece IN 1 .. 100 LOOP
        next := reader_next_batch('events', kept, 14);
        EXECUTE format('WITH e AS MATERIALIZED (SELECT row_number() OVER () AS place, * FROM feed_read(''read'', null::events, 14)),
                        i AS (INSERT INTO got SELECT %s, place, %s, n FROM e) SELECT array_agg(n ORDER BY place) FROM e', piece, number) INTO read_rows;
        EXECUTE 'SELECT array_agg(n) FROM reader_batch_rows(''events'', $1, null::events)' INTO other USING next;
        same := same AND read_rows IS NOT DISTINCT FROM other;
        INSERT INTO pieces VALUES (piece, next, other);
        kept := reader_advance(kept, next);
        batch := (feed_take_batch('steps', 'w', 14)).number;
        COMMIT;
        IF batch IS NOT NULL THEN
            same := same AND batch = (feed_take_batch('steps', 'w', 1)).number AND batch = piece;
            EXECUTE format('SELECT array_agg(n) FROM feed_batch_rows(''steps'', %s, null::events)', batch) INTO other;
            changed := (SELECT feed_finish_batch('steps', batch, token) FROM feed_take_batch('steps', 'w'));
            same := same AND changed AND read_rows = other;
        END IF;
        DELETE FROM applied;
        PERFORM feed_apply('applied', 'INSERT INTO applied SELECT n FROM batch', 14);
        same := same AND read_rows IS NOT DISTINCT FROM (SELECT array_agg(a.n) FROM applied AS a);
        EXIT WHEN read_rows IS NULL;
        sizes := sizes || cardinality(read_rows);
        COMMIT;
    END LOOP;
    EXECUTE 'INSERT INTO events (n) VALUES (0)';
    COMMIT;
    FOR old IN SELECT p.batch, p.rows FROM pieces AS p LOOP
        EXECUTE 'SELECT array_agg(n) FROM reader_batch_rows(''events'', $1, null::events)' INTO other USING old.batch;
        same := same AND old.rows IS NOT DISTINCT FROM other;
    END LOOP;
    RAISE INFO '%: pieces %, same %, lost %, repeated %, disorder %', label, sizes, same,
        (SELECT count(*) FROM generate_series(1, 51) AS g(n) WHERE NOT EXISTS (SELECT FROM got WHERE got.n = g.n)),
        (SELECT count(*) - count(DISTINCT got.n) FROM got),
        (SELECT count(*) FROM (SELECT got.number, lag(got.number) OVER (ORDER BY piece, place) AS before FROM got) AS o WHERE o.number < before);
    PERFORM feed_drop(f) FROM unnest('{read,steps,applied}'::text[]) AS f;
    DROP TABLE events;
    COMMIT;
END $$;
CALL exercise('uuid key, btree', 'id uuid PRIMARY KEY DEFAULT uuid_xact_nextval()', NULL, 'uuid_xact_id(id)');
CALL exercise('uuid, plain index', 'id uuid DEFAULT uuid_xact_nextval()', 'CREATE INDEX ON events (id)', 'uuid_xact_id(id)');
CALL exercise('default, key, btree', 'id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, xact bigint DEFAULT xact_id()', 'CREATE INDEX ON events (xact)', 'xact');
CALL exercise('default, key, btree on both', 'id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, xact bigint DEFAULT xact_id()', 'CREATE INDEX ON events (xact, id)', 'xact');
CALL exercise('default, key, partial', 'id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, xact bigint DEFAULT xact_id()', 'CREATE INDEX ON events (xact) WHERE xact > 0', 'xact');
CALL exercise('generated, key, btree', 'id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED', 'CREATE INDEX ON events (xact)', 'xact');
CALL exercise('generated, key, partial', 'id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED', 'CREATE INDEX ON events (xact) WHERE xact > 0', 'xact');
CALL exercise('number in the key', 'xact bigint DEFAULT xact_id(), id int GENERATED ALWAYS AS IDENTITY, PRIMARY KEY (xact, id)', NULL, 'xact');
CALL exercise('key that includes', 'id int GENERATED ALWAYS AS IDENTITY, payload text, xact bigint DEFAULT xact_id(), PRIMARY KEY (id) INCLUDE (payload)', 'CREATE INDEX ON events (xact)', 'xact');
CALL exercise('base', 'id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(base => 1000000)', NULL, 'uuid_xact_id(id)');
-- The rows of a transaction come in one batch if they have no unique key, or if the key is not ordered by built-in
-- operators.
CALL exercise('no key, btree', 'xact bigint DEFAULT xact_id()', 'CREATE INDEX ON events (xact)', 'xact');
CALL exercise('no key, partial', 'xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED', 'CREATE INDEX ON events (xact) WHERE xact > 0', 'xact');
CALL exercise('key that is an array', 'id text[] PRIMARY KEY DEFAULT ARRAY[gen_random_uuid()::text], xact bigint DEFAULT xact_id()', 'CREATE INDEX ON events (xact)', 'xact');
DROP TABLE got, pieces, applied;

-- Read one transaction row by row, with a key of awkward types and values, while the output formats of the session
-- change. The rows have every fifth combination of the values.
CREATE TABLE awkward (
    a text COLLATE "C", at timestamptz, b bytea, n numeric, f float8, d date, i interval, c char(4), o boolean, l text[], j jsonb,
    xact bigint DEFAULT xact_id(), PRIMARY KEY (a, at, b, n, f, d, i, c, o, l, j));
CREATE INDEX ON awkward (xact) WHERE xact > 0;
SELECT feed_create('awkward', 'awkward');
INSERT INTO awkward
SELECT a, at, b, n, n::float8 / 3, at::date, i, left(a, 4), n > 0, CASE b WHEN '\x' THEN ARRAY['x', '"', ',', NULL] ELSE '{}' END, jsonb_build_object('a', a)
FROM (SELECT *, row_number() OVER () AS place FROM unnest(ARRAY['', ' ', '''', '"', E'back\\slash', '%s', '$1', E'new\nline', 'é', '{a,b}', 'NULL', '(1)']) AS a,
     unnest(ARRAY['-infinity', '0044-03-15 12:00:00 BC', '1890-01-02 03:04:05.678901', '2024-02-01 00:00:00+02', '12024-02-01', 'infinity']::timestamptz[]) AS at,
     unnest(ARRAY['\x', '\x00275c']::bytea[]) AS b,
     unnest(ARRAY['NaN', '-1e-20', '123456789012345678901234567890.1']::numeric[]) AS n,
     unnest(ARRAY['-1 mon +2 days -03:04:05.6', '1 year']::interval[]) AS i) AS every WHERE place % 5 = 0;
CREATE TABLE got AS TABLE awkward WITH NO DATA;
CREATE PROCEDURE read_awkward() LANGUAGE plpgsql AS $$
DECLARE
    styles text[] := '{"ISO, MDY","SQL, DMY",German,"Postgres, MDY","ISO, DMY"}';
    zones text[] := '{UTC,Asia/Kathmandu,Europe/Amsterdam,America/St_Johns}';
    intervals text[] := '{postgres,postgres_verbose,sql_standard,iso_8601}';
    pieces int := 0;
BEGIN
    LOOP
        PERFORM set_config('datestyle', styles[1 + pieces % 5], false), set_config('timezone', zones[1 + pieces % 4], false),
                set_config('intervalstyle', intervals[1 + pieces % 4], false), set_config('extra_float_digits', (pieces % 3 - 2)::text, false),
                set_config('bytea_output', CASE pieces % 2 WHEN 0 THEN 'hex' ELSE 'escape' END, false), set_config('quote_all_identifiers', (pieces % 3 = 1)::text, false);
        INSERT INTO got SELECT * FROM feed_read('awkward', null::awkward, 1 + pieces % 7);
        EXIT WHEN NOT FOUND;
        pieces := pieces + 1;
        COMMIT;
    END LOOP;
END $$;
CALL read_awkward();
RESET ALL;
SET track_counts = off;
SELECT (SELECT count(*) FROM awkward) AS rows, (SELECT count(*) FROM got) AS delivered,
       (SELECT count(*) FROM (TABLE awkward EXCEPT TABLE got) AS lost) AS lost;
SELECT feed_drop('awkward');
DROP TABLE awkward, got;
DROP PROCEDURE read_awkward;

-- A position contains no value of a user-defined type. The rows of a transaction come in one batch, and the reader
-- calls no cast of the type.
CREATE TYPE size AS ENUM ('small', 'medium', 'large');
CREATE TABLE cast_away (id size PRIMARY KEY, xact bigint DEFAULT xact_id());
CREATE INDEX ON cast_away (xact);
CREATE FUNCTION never(size) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'called'; END $$;
CREATE CAST (size AS text) WITH FUNCTION never(size);
SELECT feed_create('cast', 'cast_away');
INSERT INTO cast_away VALUES ('large'), ('small'), ('medium');
SELECT id FROM feed_read('cast', null::cast_away, 2);
SELECT id FROM feed_read('cast', null::cast_away, 2);
SELECT feed_drop('cast');
DROP TABLE cast_away;
DROP CAST (size AS text);
DROP FUNCTION never;
DROP TYPE size;
-- A position contains no value of a composite type.
CREATE TYPE pair AS (a int, b int);
CREATE TABLE pairs (id pair PRIMARY KEY, xact bigint DEFAULT xact_id());
CREATE INDEX ON pairs (xact);
SELECT feed_create('pairs', 'pairs');
INSERT INTO pairs SELECT ROW(g, g)::pair FROM generate_series(1, 5) AS g;
SELECT id FROM feed_read('pairs', null::pairs, 3) ORDER BY id;
SELECT id FROM feed_read('pairs', null::pairs, 3);
SELECT feed_drop('pairs');
DROP TABLE pairs;
DROP TYPE pair;

-- Positions move with the transaction. Feeds are independent of each other.
CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
INSERT INTO events (n) VALUES (1), (2);
SELECT feed_create('all', 'events'), feed_create('new', 'events', 'now'), feed_create('late', 'events', start => 'beginning', key_column => 'id');
INSERT INTO events (n) VALUES (3);
BEGIN;
SELECT n FROM feed_read('all', null::events, 2);
ROLLBACK;
SELECT n FROM feed_read('all', null::events, 2);
SELECT n FROM feed_read('new', null::events);
-- Rolling back a subtransaction also rolls back the position.
DO $$
BEGIN
    PERFORM feed_read('all', null::events);
    RAISE 'undone';
EXCEPTION WHEN raise_exception THEN
END $$;
SELECT n FROM feed_read('all', null::events);
SELECT n FROM feed_read('all', null::events);
-- Rows of the reading transaction are delivered after it has ended, even if savepoints with higher ids have ended
-- before.
BEGIN;
INSERT INTO events (n) VALUES (4);
SAVEPOINT s;
INSERT INTO events (n) VALUES (99);
ROLLBACK TO s;
SELECT n FROM feed_read('all', null::events);
INSERT INTO events (n) VALUES (5);
COMMIT;
SELECT n FROM feed_read('all', null::events);
-- Create a feed in a transaction that writes rows.
BEGIN;
INSERT INTO events (n) VALUES (6);
SELECT feed_create('own', 'events', 'now');
COMMIT;
SELECT n FROM feed_read('own', null::events);

-- feed_apply() executes the statement with the caller's privileges and search_path. Without new rows, it returns null
-- and executes nothing.
CREATE TABLE sums (n bigint);
SELECT feed_apply('all', 'INSERT INTO sums SELECT sum(n) FROM batch');
SELECT feed_apply('all', 'INSERT INTO sums SELECT n / 0 FROM batch') IS NULL AS nothing_new;
INSERT INTO events (n) VALUES (7), (8), (9);
SELECT error_of($$SELECT feed_apply('all', 'INSERT INTO sums SELECT 1 / 0 FROM batch')$$);
SELECT feed_apply('all', 'INSERT INTO sums SELECT n FROM batch', 2);
SELECT feed_apply('all', 'INSERT INTO sums SELECT a.n + b.n FROM batch AS a, batch AS b', 2);
SELECT * FROM sums;
DROP TABLE sums;

-- Read in two steps: a batch is returned again until it is finished.
SELECT feed_seek('late', 'now');
SELECT (feed_take_batch('late', 'w')).number AS nothing_new;
INSERT INTO events (n) SELECT generate_series(10, 14);
SELECT (feed_take_batch('late', 'w', 3)).number;
INSERT INTO events (n) VALUES (15);
SELECT (feed_take_batch('late', 'w', 1)).number;
SELECT n FROM feed_batch_rows('late', 1, null::events);
SELECT n FROM feed_batch_rows('late', 1, null::events);
SELECT error_of($$SELECT feed_read('late', null::events)$$);
SELECT error_of($$SELECT feed_apply('late', 'SELECT 1')$$);
SELECT error_of($$SELECT feed_batch_rows('late', 2, null::events)$$);
SELECT error_of($$SELECT feed_batch_rows('late', NULL, null::events)$$);
SELECT error_of($$SELECT feed_finish_batch('late', 2, token) FROM feed_take_batch('late', 'w')$$);
SELECT feed_finish_batch('late', 1, token) FROM feed_take_batch('late', 'w');
SELECT error_of($$SELECT feed_finish_batch('late', NULL)$$);
SELECT error_of($$SELECT feed_batch_rows('late', 1, null::events)$$);
SELECT error_of($$SELECT feed_finish_batch('late', 0, token) FROM feed_take_batch('late', 'w')$$);
SELECT (feed_take_batch('late', 'w')).number;
SELECT n FROM feed_batch_rows('late', 2, null::events);
-- A batch that is taken away from its worker is handed out again with the next number.
SELECT feed_seek('late', 'here');
SELECT error_of($$SELECT feed_finish_batch('late', 2, token) FROM feed_take_batch('late', 'w')$$);
SELECT (feed_take_batch('late', 'w', 2)).number;
SELECT error_of($$SELECT feed_finish_batch('late', 2, token) FROM feed_take_batch('late', 'w')$$);
SELECT error_of($$SELECT feed_finish_batch('late', 1, token) FROM feed_take_batch('late', 'w')$$);
SELECT n FROM feed_batch_rows('late', 3, null::events);
SELECT feed_finish_batch('late', 3, token) FROM feed_take_batch('late', 'w');
SELECT n FROM feed_read('late', null::events);

-- feed_seek() discards batches. A read does not finish discarded batches.
SELECT feed_seek('late', 'beginning');
SELECT (feed_take_batch('late', 'w', 1)).number;
SELECT feed_seek('late', 'beginning');
SELECT count(*) > 0 AS moved FROM feed_read('late', null::events);
SELECT error_of($$SELECT feed_finish_batch('late', 4, token) FROM feed_take_batch('late', 'w')$$);
SELECT feed_seek('late', 'beginning');
SELECT count(*) FROM feed_read('late', null::events, 4);
SELECT feed_seek('late', 'here');
SELECT count(*) FROM feed_read('late', null::events);
SELECT feed_seek('late', ended_transactions() - int8multirange(int8range(uuid_xact_id(id), uuid_xact_id(id), '[]'))) FROM events WHERE n = 3;
SELECT n FROM feed_read('late', null::events);
SELECT feed_seek('late', 'now');
SELECT count(*) FROM feed_read('late', null::events);
SELECT error_of($$SELECT feed_seek('late', 'end')$$);
SELECT regexp_replace(error_of($$SELECT feed_seek('late', '{[0,281474976710655)}'::int8multirange)$$), '\d{3,}', 'N', 'g');
SELECT error_of($$SELECT feed_seek('late', '{[-5,3)}'::int8multirange)$$);
SELECT regexp_replace(error_of($$SELECT feed_seek('late', '{(,)}'::int8multirange)$$), '\d{3,}', 'N', 'g');
SELECT error_of($$SELECT feed_seek('late', (SELECT range_agg(int8range(-2 * i, -2 * i + 1)) FROM generate_series(1, 10000) AS i))$$);
SELECT error_of(format('SELECT feed_seek(''late'', NULL::%s)', t)) FROM unnest('{text,int8multirange}'::text[]) AS t;

-- The reader keeps the position: an empty batch does not move it, even inside a transaction and in an old snapshot.
CREATE TABLE kept (p feed_position);
INSERT INTO kept SELECT reader_start('events');
UPDATE kept SET p = reader_advance(p, reader_next_batch('events', p, 1));
SELECT (p).partial IS NOT NULL AS inside FROM kept;
BEGIN;
DO $$
DECLARE
    was feed_position := (SELECT p FROM kept);
    b feed_batch := reader_next_batch('events', ROW(1, (SELECT ended_transactions()), NULL, NULL, NULL, NULL, inorder_internal.server_origin())::feed_position);
BEGIN
    ASSERT isempty(b.transactions) AND NOT EXISTS (SELECT FROM reader_batch_rows('events', b, null::events));
    -- The snapshot is older than the position: every transaction that has ended in the snapshot was read, except one
    -- that was read in part.
    was.transactions := ended_transactions() - int8multirange(int8range(was.partial, was.partial, '[]')) + '{[0,1)}';
    was.partial := xact_id();
    b := reader_next_batch('events', was);
    ASSERT isempty(b.transactions), 'a batch';
    ASSERT NOT EXISTS (SELECT FROM reader_batch_rows('events', b, null::events)), 'rows';
    ASSERT reader_advance(was, b) IS NOT DISTINCT FROM was, 'moved';
END $$;
ROLLBACK;
SELECT error_of($$SELECT reader_next_batch('events', NULL)$$);
SELECT error_of($$SELECT reader_batch_rows('events', NULL, null::events)$$);
SELECT error_of($$SELECT reader_start('events', 'end')$$);
SELECT error_of(s) FROM unnest(ARRAY['SELECT reader_start(NULL)', 'SELECT reader_start(''events'', NULL)']) AS s;
SELECT regexp_replace(error_of($$SELECT reader_next_batch('events', ROW(1, '{}', NULL, NULL, NULL, NULL, '1/1')::feed_position)$$), '\d{3,}/\d+', 'N/N', 'g');
SELECT regexp_replace(error_of($$SELECT reader_batch_rows('events', ROW(1, '{}', NULL, NULL, NULL, NULL, NULL, NULL, '1/1')::feed_batch, null::events)$$), '\d{3,}/\d+', 'N/N', 'g');
SELECT regexp_replace(error_of($$SELECT reader_batch_rows('events', ROW(1, int8multirange(int8range(0, inorder_internal.next_transaction(0) + 1)), NULL, NULL, NULL, NULL, NULL, NULL, NULL)::feed_batch, null::events)$$), '\d{3,}', 'N', 'g');
SELECT regexp_replace(error_of($$SELECT reader_next_batch('events', ROW(1, int8multirange(int8range(0, inorder_internal.next_transaction(0) + 10)), NULL, NULL, NULL, NULL, NULL)::feed_position)$$), '\d{3,}', 'N', 'g');
DROP TABLE kept;

-- Positions and batches with impossible transaction numbers are refused, and reader_advance() does not return such
-- numbers.
SELECT regexp_replace(error_of(format($$SELECT reader_next_batch('events', ROW(1, %L, NULL, NULL, NULL, NULL, NULL)::feed_position)$$, t)), '\d{3,}', 'N', 'g'),
    regexp_replace(error_of(format($$SELECT reader_batch_rows('events', ROW(1, %L, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::feed_batch, null::events)$$, t)), '\d{3,}', 'N', 'g'),
    regexp_replace(error_of(format($$SELECT reader_advance(ROW(1, %L, NULL, NULL, NULL, NULL, NULL)::feed_position, ROW(1, '{}', NULL, NULL, NULL, NULL, NULL, NULL, NULL)::feed_batch)$$, t)), '\d{3,}', 'N', 'g'),
    regexp_replace(error_of(format($$SELECT reader_advance(ROW(1, '{}', NULL, NULL, NULL, NULL, NULL)::feed_position, ROW(1, %L, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::feed_batch)$$, t)), '\d{3,}', 'N', 'g')
FROM unnest(ARRAY['{(,)}', '{[5,)}', '{(,5)}', '{[-1,5)}', '{[0,281474976710657)}']) AS t;
-- reader_advance() refuses a batch that does not follow the position.
SELECT reader_advance(ROW(1, '{[0,5)}', NULL, NULL, NULL, NULL, 'a')::feed_position, ROW(1, '{[5,9)}', NULL, NULL, 8, '{k}', NULL, NULL, 'b')::feed_batch);
SELECT reader_advance(ROW(1, '{[0,8)}', 8, '{k}', NULL, NULL, NULL)::feed_position, ROW(1, '{[8,9)}', 8, '{k}', NULL, NULL, NULL, NULL, NULL)::feed_batch);
SELECT reader_advance(ROW(1, '{[0,8)}', 8, '{k}', NULL, NULL, NULL)::feed_position, ROW(1, '{[8,9)}', 8, '{k}', 8, '{m}', NULL, NULL, NULL)::feed_batch);
SELECT error_of($$SELECT reader_advance(ROW(1, '{[0,5)}', NULL, NULL, NULL, NULL, NULL)::feed_position, ROW(1, '{[4,9)}', NULL, NULL, NULL, NULL, NULL, NULL, NULL)::feed_batch)$$);
SELECT error_of($$SELECT reader_advance(ROW(1, '{[0,8)}', 8, '{k}', NULL, NULL, NULL)::feed_position, ROW(1, '{[8,9)}', NULL, NULL, NULL, NULL, NULL, NULL, NULL)::feed_batch)$$);
SELECT error_of($$SELECT reader_advance(ROW(1, '{[0,8)}', NULL, NULL, NULL, NULL, NULL)::feed_position, ROW(1, '{[8,9)}', 8, '{k}', NULL, NULL, NULL, NULL, NULL)::feed_batch)$$);
SELECT error_of($$SELECT reader_advance(ROW(1, '{[0,8)}', 8, '{k}', NULL, NULL, NULL)::feed_position, ROW(1, '{[8,9)}', 8, '{l}', NULL, NULL, NULL, NULL, NULL)::feed_batch)$$);

-- Calls that raise errors.
SELECT error_of($$SELECT feed_read('none', null::events)$$);
SELECT error_of($$SELECT feed_read(NULL, null::events)$$);
SELECT error_of($$SELECT (feed_take_batch('none', 'w')).number$$);
SELECT error_of($$SELECT feed_apply('none', 'SELECT 1')$$);
SELECT error_of($$SELECT feed_seek('none', 'now')$$);
SELECT error_of($$SELECT feed_drop('none')$$);
SELECT error_of($$SELECT feed_finish_batch('none', 1, token) FROM feed_take_batch('none', 'w')$$);
SELECT error_of($$SELECT feed_batch_rows('none', 1, null::events)$$);
SELECT error_of($$SELECT feed_read('late', null::pg_class)$$);
SELECT error_of($$SELECT feed_read('late', 1)$$);
SELECT error_of(format('SELECT feed_read(''late'', null::events, %s)', n)) FROM unnest(ARRAY[0, -1, -2147483648]) AS n;
SELECT count(*) FROM feed_read('late', null::events, 2147483647);
SELECT error_of($$SELECT feed_create('late', 'events')$$);
SELECT error_of($$SELECT feed_create('', 'events')$$);
SELECT error_of($$SELECT feed_create(NULL, 'events')$$);
SELECT error_of(format('SELECT feed_create(%L, ''events'')', repeat('é', 201)));
SELECT feed_create(repeat('é', 200), 'events'), feed_drop(repeat('é', 200));
SELECT error_of($$SELECT feed_create('x', NULL)$$);
SELECT error_of($$SELECT feed_create('x', 'events', 'end')$$);
SELECT error_of($$SELECT feed_create('x', 'events', key_column => 'n')$$);
SELECT error_of($$SELECT feed_enable(NULL)$$);
SELECT error_of($$SELECT feed_disable('events')$$);

-- These tables cannot be read.
CREATE TABLE bad (id int PRIMARY KEY);
SELECT error_of($$SELECT feed_create('bad', 'bad')$$);
ALTER TABLE bad ADD xact bigint DEFAULT xact_id(), ADD other uuid DEFAULT uuid_xact_nextval();
SELECT error_of($$SELECT feed_create('bad', 'bad')$$);
SELECT error_of($$SELECT feed_create('bad', 'bad', key_column => 'xact')$$);
CREATE INDEX ON bad (xact) WHERE id > 0;
CREATE INDEX ON bad (id, xact);
SELECT error_of($$SELECT feed_create('bad', 'bad', key_column => 'xact')$$);
-- Rows without a number are in no batch.
CREATE INDEX ON bad (xact) WHERE xact > 0;
INSERT INTO bad VALUES (1, NULL);
SELECT error_of($$SELECT feed_create('bad', 'bad', key_column => 'xact')$$);
UPDATE bad SET xact = -1;
SELECT error_of($$SELECT feed_create('bad', 'bad', key_column => 'xact')$$);
UPDATE bad SET xact = 0;
SELECT feed_create('bad', 'bad', key_column => 'xact');
SELECT id FROM feed_read('bad', null::bad);
SELECT feed_drop('bad');
SELECT feed_disable('bad');
CREATE INDEX ON bad (other);
UPDATE bad SET other = '00000000-0000-0000-0000-000000000000';
SELECT error_of($$SELECT feed_create('bad', 'bad', key_column => 'other')$$);
UPDATE bad SET other = 'ffffffff-0000-4000-8000-000000000000';
SELECT regexp_replace(error_of($$SELECT feed_create('bad', 'bad', key_column => 'other')$$), '\d{3,}', 'N', 'g');
DROP TABLE bad;
CREATE UNLOGGED TABLE bad (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval());
SELECT error_of($$SELECT feed_create('bad', 'bad')$$);
DROP TABLE bad;
CREATE VIEW bad AS SELECT * FROM events;
SELECT error_of($$SELECT feed_create('bad', 'bad')$$);
DROP VIEW bad;
-- Plain inheritance: children have neither the index nor the guard.
CREATE TABLE bad (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval());
CREATE TABLE child () INHERITS (bad);
SELECT error_of($$SELECT feed_create('bad', 'bad')$$);
DROP TABLE bad CASCADE;

-- Add and drop columns.
SELECT feed_seek('new', 'now');
ALTER TABLE events ADD a text DEFAULT 'a', ADD b int;
ALTER TABLE events DROP COLUMN b, ADD c int;
INSERT INTO events (n, c) VALUES (20, 1);
SELECT n, a, c FROM feed_read('new', null::events);
INSERT INTO events (n, c) VALUES (21, 2);
ALTER TABLE events DROP COLUMN a;
SELECT n, c FROM feed_read('new', null::events);
INSERT INTO events (n, c) VALUES (22, 3);
ALTER TABLE events ADD d int DEFAULT 4;
SELECT n, c, d FROM feed_read('new', null::events);
-- Rename the table, and move it to another schema.
CREATE SCHEMA elsewhere;
ALTER TABLE events RENAME TO moved;
ALTER TABLE moved SET SCHEMA elsewhere;
INSERT INTO elsewhere.moved (n) VALUES (23);
SELECT n FROM feed_read('new', null::elsewhere.moved);
ALTER TABLE elsewhere.moved SET SCHEMA public;
ALTER TABLE moved RENAME TO events;
DROP SCHEMA elsewhere;
-- Rename the column by which the table is read. The error says what to do, and the view still shows the other feeds.
ALTER TABLE events RENAME id TO ident;
INSERT INTO events (n) VALUES (24);
SELECT error_of($$SELECT feed_read('new', null::events)$$);
SELECT error_of($$UPDATE events SET ident = uuid_xact_nextval() WHERE n = 24$$);
SELECT name, backlog_rows FROM feeds WHERE name = 'new';
SELECT feed_enable('events');
SELECT key_column FROM inorder_internal.feed_table WHERE relation = 'events'::regclass;
SELECT n FROM feed_read('new', null::events);
-- With two suitable indexes, a different index, or no index, reads are still correct, but may be slower.
CREATE INDEX ON events (ident);
ALTER TABLE events DROP CONSTRAINT events_pkey;
INSERT INTO events (n) VALUES (25), (26);
SELECT n FROM feed_read('new', null::events, 1);
SELECT feed_enable('events');
SELECT is_partial FROM inorder_internal.feed_table WHERE relation = 'events'::regclass;
SELECT n FROM feed_read('new', null::events, 1);
-- The feeds of a dropped table are deleted when the next feed is created.
SELECT oid AS gone FROM pg_class WHERE oid = 'events'::regclass \gset
DROP TABLE events;
SELECT error_of($$SELECT feed_read('new', null::pg_class)$$), error_of($$SELECT feed_finish_batch('new', 1, token) FROM feed_take_batch('new', 'w')$$);
SELECT name, relation FROM feeds ORDER BY name;
SELECT error_of(format('SELECT %s(%s)', f, :'gone')) = format('42P01 table with OID %s does not exist', :'gone') AS said
FROM unnest('{feed_enable,feed_disable,reader_start,exact_count,exact_count_fold}'::text[]) AS f;
CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
INSERT INTO events (n) VALUES (1);
SELECT count(*) > 0 AS left_over FROM inorder_internal.feed;
SELECT feed_create('all', 'events');
SELECT count(*) FROM inorder_internal.feed;
SELECT n FROM feed_read('all', null::events);
SELECT feed_drop(name) FROM feeds;
SELECT count(*) FROM inorder_internal.feed;
SELECT feed_disable('events');
DELETE FROM events;
DROP TABLE events;

-- Names with quotes, dots, capitals and percent signs, and names of maximum length.
CREATE SCHEMA "S.x ""1""";
CREATE TABLE "S.x ""1"""."T'q.%s" ("i""d %" uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), "N'" int);
CREATE TABLE "S.x ""1"""."abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ-.12345%I" ("K'.%1$s" text, "b" int, "e" int, "numbers" int, "X %L" bigint DEFAULT xact_id(), PRIMARY KEY ("K'.%1$s", "numbers"));
CREATE INDEX ON "S.x ""1"""."abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ-.12345%I" ("X %L");
SELECT feed_create($$O'Neil."x" %s$$, $$"S.x ""1"""."T'q.%s"$$);
SELECT feed_create('long', $$"S.x ""1"""."abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ-.12345%I"$$);
INSERT INTO "S.x ""1"""."T'q.%s" ("N'") SELECT generate_series(1, 3);
INSERT INTO "S.x ""1"""."abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ-.12345%I" ("K'.%1$s", "numbers") SELECT 'k''' || g, g FROM generate_series(1, 3) AS g;
SELECT "N'" FROM feed_read($$O'Neil."x" %s$$, null::"S.x ""1"""."T'q.%s", 2);
SELECT feed_apply($$O'Neil."x" %s$$, 'SELECT 1 FROM batch', 1);
SELECT "K'.%1$s" FROM feed_read('long', null::"S.x ""1"""."abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ-.12345%I", 2);
SELECT (feed_take_batch('long', 'w', 5)).number;
SELECT "K'.%1$s" FROM feed_batch_rows('long', 1, null::"S.x ""1"""."abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ-.12345%I");
SELECT name, relation, key_column, unfinished_batch, backlog_rows IS NOT NULL AS counted FROM feeds ORDER BY name COLLATE "C";
SELECT exact_count_start($$"S.x ""1"""."T'q.%s"$$);
SELECT exact_count_fold($$"S.x ""1"""."T'q.%s"$$);
SELECT exact_count($$"S.x ""1"""."T'q.%s"$$);
SELECT exact_count_start($$"S.x ""1"""."abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ-.12345%I"$$);
SELECT feed_rebase($$"S.x ""1"""."T'q.%s"$$), feed_rebase($$"S.x ""1"""."abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ-.12345%I"$$);
SELECT error_of($$SELECT (feed_take_batch('no ''"%s', 'w')).number$$), error_of($$SELECT feed_disable('"S.x ""1"""."T''q.%s"')$$);
SELECT feed_drop(name) FROM feeds;
SELECT exact_count_stop(relation) FROM (SELECT DISTINCT relation FROM inorder_internal.count_part) AS c;
SELECT count(feed_disable(relation)) AS disabled FROM inorder_internal.feed_table;
SELECT count(*) FROM inorder_internal.feed_table;
\set VERBOSITY terse
SET client_min_messages = warning;
DROP SCHEMA "S.x ""1""" CASCADE;
RESET client_min_messages;
DROP PROCEDURE exercise;
