-- The log of a table whose rows are updated and deleted.
CREATE TABLE people (id int, area text COLLATE "C", note text, PRIMARY KEY (area, id)) PARTITION BY LIST (area);
CREATE TABLE north PARTITION OF people FOR VALUES IN ('n');
CREATE TABLE others PARTITION OF people DEFAULT;
INSERT INTO people VALUES (1, 'n');
SELECT changes_prepare('people');
SELECT changes_enable('people');
SELECT changes_prepare('people');
SELECT attname, attnotnull, inorder_internal.column_definition(a, a.atttypid) FROM pg_attribute AS a WHERE attrelid = 'people_changes'::regclass AND attnum > 0 ORDER BY attnum;
SELECT tgrelid::regclass AS of, string_agg(concat(tgname, ' ', tgenabled), ', ' ORDER BY tgname) AS triggers FROM pg_trigger WHERE tgname ~ 'changes' GROUP BY tgrelid ORDER BY tgrelid::regclass::text;
SELECT tgname, tgfoid::regproc AS calls FROM pg_trigger WHERE tgrelid = 'people_changes'::regclass AND tgname ~ 'changes|marker' ORDER BY tgname;
SELECT prosecdef, proconfig, proowner::regrole = current_user::regrole AS is_mine, prosrc AS body FROM pg_proc WHERE proname = 'people_changes';

-- Each statement logs the keys that its rows had before and after the statement.
INSERT INTO people VALUES (2, 's'), (3, 's');
UPDATE people SET note = 'x' WHERE id > 1;
UPDATE people SET area = 'n' WHERE id = 2;
INSERT INTO people VALUES (2, 'n', 'y'), (4, 'n', 'y') ON CONFLICT (area, id) DO UPDATE SET note = excluded.note;
MERGE INTO people AS p USING (VALUES (3, 's'), (5, 's')) AS v(id, area) ON p.id = v.id AND p.area = v.area
    WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (v.id, v.area);
UPDATE north SET note = 'directly' WHERE id = 1;
UPDATE people SET note = 'none' WHERE false;
DELETE FROM people WHERE id = 4;
COPY people FROM stdin;
6	s	z
\.
TRUNCATE others;
SELECT (SELECT array_agg((a, i) ORDER BY a, i) FROM unnest(area, id) AS u(a, i)) AS keys, op FROM people_changes ORDER BY change;

-- Calling changes_enable() again repairs the log, and does nothing if nothing is missing.
CREATE FUNCTION markers() RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM people_changes WHERE op = 'R' $$;
SELECT changes_enable('people'), markers();
ALTER TABLE north DISABLE TRIGGER zz_inorder_changes_insert;
ALTER TABLE north ENABLE ALWAYS TRIGGER zz_inorder_changes_insert;
SELECT changes_enable('people') IS NOT NULL AS repaired;
ALTER TABLE people ENABLE TRIGGER ALL;
SELECT changes_enable('people'), markers();
CREATE TABLE east PARTITION OF people FOR VALUES IN ('e');
SELECT changes_enable('people') IS NOT NULL AS repaired;
INSERT INTO east VALUES (7, 'e');
ALTER TABLE people RENAME COLUMN id TO number;
SELECT changes_enable('people') IS NOT NULL AS repaired;
UPDATE people SET number = 8 WHERE number = 7;
SELECT markers(), sum(cardinality(area)) AS keys_of_east FROM people_changes WHERE 'e' = ANY (area);
SELECT changes_resync('people') IS NOT NULL AS marked;
-- Commands that change no rows add no marker.
CREATE INDEX ON people (note);
ANALYZE people;
VACUUM FULL north;
ALTER TABLE north RENAME TO northern;
SELECT changes_enable('people'), markers();
SELECT changes_disable('people');
SELECT to_regprocedure('people_changes()'), (SELECT count(*) FROM pg_trigger WHERE tgname ~ 'changes') AS triggers;
DELETE FROM people WHERE number = 8;
SELECT changes_enable('people') IS NOT NULL AS repaired;
SELECT markers();

-- A copy is built from batches: first a marker and all rows, then the changes.
CREATE TABLE things (id int PRIMARY KEY, gone int, note text, price numeric(6, 2) DEFAULT 1);
ALTER TABLE things DROP COLUMN gone;
INSERT INTO things VALUES (1, 'one'), (2, 'two'), (3, 'three');
SELECT changes_enable('things');
SELECT feed_create('copy', 'things_changes');
SELECT (feed_take_batch('copy', 'w')).number;
SELECT op, version > 0 AS versioned, (changed).* FROM changes_batch_rows('copy', 1, null::things) ORDER BY op, changed;
SELECT feed_finish_batch('copy', 1, token) FROM feed_take_batch('copy', 'w');
INSERT INTO things VALUES (4, 'four'), (5, 'five');
UPDATE things SET note = 'TWO' WHERE id = 2;
UPDATE things SET id = 30 WHERE id = 3;
DELETE FROM things WHERE id = 5;
SELECT (feed_take_batch('copy', 'w')).number;
SELECT op, changed FROM changes_batch_rows('copy', 2, null::things) ORDER BY op = 'resync' DESC, op, changed;
-- Reading a batch again returns the current rows.
DELETE FROM things WHERE id = 4;
SELECT op, changed FROM changes_batch_rows('copy', 2, null::things) WHERE (changed).id IN (4, 5) ORDER BY op = 'resync' DESC, op, changed;
SELECT feed_finish_batch('copy', 2, token) FROM feed_take_batch('copy', 'w');
TRUNCATE things;
INSERT INTO things VALUES (6, 'six');
SELECT (feed_take_batch('copy', 'w', 1)).number;
SELECT op, changed FROM changes_batch_rows('copy', 3, null::things) ORDER BY op = 'resync' DESC, op, changed;
SELECT feed_finish_batch('copy', 3, token) FROM feed_take_batch('copy', 'w');
SELECT (feed_take_batch('copy', 'w')).number;
SELECT op, changed FROM changes_batch_rows('copy', 4, null::things) ORDER BY op = 'resync' DESC, op, changed;
SELECT error_of('SELECT changes_batch_rows(''copy'', 5, null::things)'), error_of('SELECT changes_batch_rows(''copy'', 4, null::people)'),
       error_of('SELECT changes_batch_rows(''copy'', 4, null::feeds)'), error_of('SELECT changes_batch_rows(''copy'', 4, 1)');
ALTER TABLE things ADD COLUMN more int DEFAULT 7;
SELECT error_of('SELECT changes_batch_rows(''copy'', 4, null::things)');
SELECT changes_resync('things');
SELECT op, changed FROM changes_batch_rows('copy', 4, null::things) ORDER BY op = 'resync' DESC, op, changed;
SELECT feed_finish_batch('copy', 4, token) FROM feed_take_batch('copy', 'w');
-- changes_read() returns the changes and moves the feed in one call.
SELECT op, changed FROM changes_read('copy', null::things) ORDER BY op = 'resync' DESC, op, changed;
UPDATE things SET price = 3 WHERE id = 6;
SELECT op, changed FROM changes_read('copy', null::things, 1) ORDER BY op = 'resync' DESC, op, changed;
SELECT op, changed FROM changes_read('copy', null::things) ORDER BY op = 'resync' DESC, op, changed;
SELECT error_of('SELECT op FROM changes_read(''copy'', null::things) LIMIT 1');

-- A reader can also keep the position itself, and execute the query for the changes.
SELECT reader_start('things_changes') AS position \gset
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT reader_next_batch('things_changes', :'position') AS batch \gset
SELECT reader_changes_query('things', :'position', :'batch') AS query \gset
SELECT op, id, note FROM (:query) AS e ORDER BY op, id;
SELECT reader_changes_query('things', :'position', :'batch') = :'query' AS same;
SELECT reader_advance(:'position', :'batch') AS position \gset
COMMIT;
DELETE FROM things WHERE id = 6;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT reader_next_batch('things_changes', :'position') AS batch \gset
SELECT reader_changes_query('things', :'position', :'batch') AS query \gset
SELECT op, id, note FROM (:query) AS e;
SELECT error_of(format('SELECT reader_changes_query(%L, %L, %L)', r, :'position', :'batch')) FROM unnest('{things_changes,feeds}'::text[]) AS r;
SELECT error_of(format('SELECT reader_changes_query(''things'', %L, %L)', p, b)) FROM (VALUES (:'position', NULL), (NULL, :'batch')) AS v(p, b);
COMMIT;
SELECT error_of(format('SELECT reader_changes_query(''things'', %L, %L)', :'position', :'batch'));

-- The changes of these tables cannot be logged.
CREATE TABLE no_key (id int);
CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY);
CREATE TEMP TABLE temporary (id int PRIMARY KEY);
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent);
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TABLE of_domain (id positive PRIMARY KEY);
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE TABLE of_enum (id mood PRIMARY KEY);
CREATE VIEW a_view AS SELECT 1 AS id;
CREATE TABLE taken (id int PRIMARY KEY);
CREATE TABLE taken_changes (id int PRIMARY KEY);
CREATE TABLE called (id int PRIMARY KEY);
CREATE FUNCTION called_changes() RETURNS int LANGUAGE sql RETURN 1;
SELECT t AS relation, error_of(format('SELECT changes_enable(%L)', t)) FROM unnest('{no_key,unlogged,temporary,parent,child,northern,of_domain,of_enum,a_view,taken,called}'::text[]) AS t;
SELECT error_of('SELECT changes_enable(0)'), error_of('SELECT changes_enable(NULL)'), error_of('SELECT changes_disable(NULL)');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT error_of('SELECT changes_resync(''people'')');
COMMIT;

-- Equal keys that differ as text are both logged. The key columns may have any names.
CREATE TABLE odd ("change" text, op numeric, "TG_OP" interval, new_rows char(3), PRIMARY KEY ("change", op, "TG_OP", new_rows));
SELECT changes_enable('odd');
INSERT INTO odd VALUES ('Bob', 1.0, '1 month', 'a');
UPDATE odd SET op = 1.00, "TG_OP" = '30 days';
SELECT (SELECT array_agg(u ORDER BY u) FROM unnest("change", op, "TG_OP", new_rows) AS u) AS keys, op_ FROM odd_changes ORDER BY change_;

-- Only the owner of the table itself may call changes_enable(). Writers need no privileges on the log, and cannot
-- change the behavior of its trigger function.
CREATE ROLE changes_owner;
CREATE ROLE changes_writer;
CREATE SCHEMA mine AUTHORIZATION changes_owner;
GRANT USAGE ON SCHEMA mine TO changes_writer;
SET ROLE changes_owner;
CREATE TABLE mine.things (id int PRIMARY KEY);
GRANT SELECT, INSERT, UPDATE ON mine.things TO changes_writer;
RESET ROLE;
SELECT error_of('SELECT changes_enable(''mine.things'')');
SET ROLE changes_writer;
SELECT error_of('SELECT changes_enable(''mine.things'')');
SET ROLE changes_owner;
SELECT changes_enable('mine.things');
RESET ROLE;
CREATE SCHEMA hostile AUTHORIZATION changes_writer;
SET ROLE changes_writer;
CREATE FUNCTION hostile.spy(anyelement, anyelement) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'ran as %', current_user; END $$;
CREATE FUNCTION hostile.spy(text, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'ran as %', current_user; END $$;
CREATE OPERATOR hostile.= (FUNCTION = hostile.spy, LEFTARG = text, RIGHTARG = text);
CREATE OPERATOR hostile.= (FUNCTION = hostile.spy, LEFTARG = anyelement, RIGHTARG = anyelement);
CREATE TEMP TABLE new_rows (id int);
CREATE TEMP TABLE things_changes (id int);
CREATE DOMAIN hostile."char" AS text CHECK (hostile.spy(VALUE, VALUE));
CREATE DOMAIN hostile.text AS pg_catalog.text CHECK (hostile.spy(VALUE, VALUE));
SET search_path = hostile, pg_temp, pg_catalog, public;
INSERT INTO mine.things VALUES (1), (2);
UPDATE mine.things SET id = 3 WHERE id OPERATOR(pg_catalog.=) 1;
RESET search_path;
SELECT error_of('TABLE mine.things_changes');
RESET ROLE;
SELECT (SELECT array_agg(i ORDER BY i) FROM unnest(id) AS i) AS keys, op FROM mine.things_changes ORDER BY change;
SET client_min_messages = warning;
DROP SCHEMA mine, hostile CASCADE;
DROP OWNED BY changes_writer, changes_owner;
DROP ROLE changes_owner, changes_writer;
