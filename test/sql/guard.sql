-- The guard ensures that a row, however it is inserted, has the number of the transaction that inserts it, and keeps
-- this number. track_counts is off, because feed_enable() would otherwise warn about deleted and updated rows in some
-- runs.
SET track_counts = off;
CREATE FUNCTION refused(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    place text;
    hint text;
BEGIN
    EXECUTE statement;
    RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS place = COLUMN_NAME, hint = PG_EXCEPTION_HINT;
    RETURN regexp_replace(regexp_replace(SQLSTATE || ' ' || SQLERRM, '[0-9a-f]{8}-[0-9a-f-]{27}', 'KEY'), 'number \d+', 'number N')
        || coalesce(' [' || nullif(place, '') || ']', '') || CASE WHEN SQLSTATE = '23514' THEN ' (' || hint || ')' ELSE '' END;
END $$;
CREATE FUNCTION floor_key(number bigint) RETURNS uuid LANGUAGE sql AS $$ SELECT uuid_xact_floor(number) $$;

-- This session generated these keys earlier, in another transaction.
CREATE TABLE k (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int UNIQUE, note text);
CREATE TABLE d (id int, part int, xact bigint DEFAULT xact_id(), note text, PRIMARY KEY (part, id));
CREATE INDEX ON d (xact) WHERE xact > 0;
CREATE TABLE g (id int PRIMARY KEY, xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED, note text);
CREATE INDEX ON g (xact);
SELECT uuid_xact_nextval() AS drawn, xact_id() AS drawn_number \gset
SELECT feed_enable('k'), feed_enable('d'), feed_enable('g');
SELECT * FROM inorder_internal.feed_table ORDER BY relation::text;
-- Calling feed_enable() again changes nothing.
SELECT count(*) FROM (SELECT feed_enable(t) FROM unnest('{k,d,g}'::regclass[]) AS t) AS enabled;
SELECT tgrelid::regclass AS table, tgname, tgenabled, tgtype, tgattr FROM pg_trigger WHERE tgfoid = 'feed_guard'::regproc ORDER BY tgrelid::regclass::text, tgname;

INSERT INTO k (n) VALUES (1), (2), (3);
INSERT INTO d VALUES (1, 1), (2, 1), (3, 2);
INSERT INTO g VALUES (1), (2), (3);
-- Keys that the current transaction has not generated are refused.
SELECT refused(format('INSERT INTO k VALUES (%L, 4)', :'drawn'));
SELECT refused('INSERT INTO k VALUES (floor_key(inorder_internal.next_transaction(0) + 5), 4)');
SELECT refused('INSERT INTO k VALUES (floor_key(0), 4)');
SELECT refused('INSERT INTO k VALUES (NULL, 4)');
SELECT refused('INSERT INTO k VALUES (gen_random_uuid(), 4)');
SELECT refused('INSERT INTO k VALUES (uuid_v7_nextval(), 4)');
SELECT refused('INSERT INTO k VALUES (uuid_xact_nextval(1), 4)');
-- A key with the right number, but of another UUID version, is refused.
SELECT refused('INSERT INTO k SELECT overlay(uuid_xact_nextval()::text PLACING ''7'' FROM 15)::uuid, 4');
SELECT refused('WITH moved AS (SELECT id FROM k WHERE n = 1) INSERT INTO k SELECT id, 4 FROM moved');
SELECT refused(format('INSERT INTO d VALUES (4, 1, %s)', :'drawn_number'));
SELECT refused('INSERT INTO d VALUES (4, 1, NULL)');
SELECT refused('INSERT INTO d VALUES (4, 1, -1)');
SELECT refused('INSERT INTO d VALUES (4, 1, xact_id() + 4294967296)');
SELECT refused('INSERT INTO d VALUES (4, 1, xact_id(1))');
SELECT refused(format('INSERT INTO g VALUES (4, %s)', :'drawn_number'));
SELECT error_of($$INSERT INTO d VALUES (4, 1, 1)$$) ~ '23514 .*has 1, and the current transaction is \d+' AS detail;
-- Keys of the current transaction are accepted, whether they were generated before or by the INSERT, even in
-- savepoints.
BEGIN;
SELECT uuid_xact_nextval() AS mine, xact_id() AS mine_number \gset
SAVEPOINT s;
INSERT INTO k VALUES (:'mine', 4);
INSERT INTO d VALUES (4, 1, :mine_number);
RELEASE s;
COMMIT;
SELECT refused(format('INSERT INTO k VALUES (%L, 5)', :'mine'));

-- Other statements that insert rows.
SELECT refused('INSERT INTO k VALUES (floor_key(7), 1) ON CONFLICT DO NOTHING');
SELECT refused('INSERT INTO k VALUES (floor_key(7), 1) ON CONFLICT (n) DO UPDATE SET note = ''upserted''');
INSERT INTO k (n) VALUES (1) ON CONFLICT (n) DO UPDATE SET note = 'upserted';
SELECT refused('INSERT INTO k (n) VALUES (1) ON CONFLICT (n) DO UPDATE SET id = excluded.id');
INSERT INTO k (n) VALUES (1) ON CONFLICT DO NOTHING;
SELECT refused('MERGE INTO k USING (VALUES (5)) AS v (n) ON k.n = v.n WHEN NOT MATCHED THEN INSERT VALUES (floor_key(7), v.n)');
MERGE INTO k USING (VALUES (5)) AS v (n) ON k.n = v.n WHEN NOT MATCHED THEN INSERT (n) VALUES (v.n);
MERGE INTO k USING (VALUES (5)) AS v (n) ON k.n = v.n WHEN MATCHED THEN UPDATE SET note = 'merged';
SELECT refused('MERGE INTO k USING (VALUES (5)) AS v (n) ON k.n = v.n WHEN MATCHED THEN UPDATE SET id = uuid_xact_nextval()');
SELECT refused('MERGE INTO k USING (VALUES (5)) AS v (n) ON k.n = v.n WHEN MATCHED THEN DELETE');
-- The detail names the current transaction.
\set VERBOSITY terse
COPY k (id, n) FROM stdin;
00000000-0001-8000-8000-000000000000	6
\.
COPY k (n) FROM stdin;
6
7
\.
COPY d (id, part, xact) FROM stdin;
9	9	9
\.
\set VERBOSITY default
COPY g (id) FROM stdin;
4
\.
CREATE VIEW through AS SELECT * FROM k;
SELECT refused('INSERT INTO through VALUES (floor_key(7), 8)');
INSERT INTO through (n) VALUES (8);
DROP VIEW through;
CREATE RULE also AS ON INSERT TO g DO ALSO INSERT INTO k VALUES (floor_key(7), new.id + 100);
SELECT refused('INSERT INTO g VALUES (5)');
DROP RULE also ON g;
SELECT count(*) AS inserted, count(*) FILTER (WHERE note = 'upserted') AS upserted, count(*) FILTER (WHERE note = 'merged') AS merged FROM k;

-- Columns on which readers rely cannot change. All other columns can.
SELECT refused('UPDATE k SET id = uuid_xact_nextval() WHERE n = 1');
SELECT refused('UPDATE k SET id = NULL WHERE n = 1');
UPDATE k SET id = id, note = 'same' WHERE n = 1;
UPDATE k SET n = 11, note = 'other' WHERE n = 1;
SELECT refused('UPDATE d SET xact = xact_id() WHERE id = 1');
SELECT refused('UPDATE d SET xact = NULL WHERE id = 1');
SELECT refused('UPDATE d SET id = 10 WHERE id = 1');
SELECT refused('UPDATE d SET part = 10, note = ''x'' WHERE id = 1');
UPDATE d SET id = id, note = 'same' WHERE id = 1;
UPDATE g SET note = 'other';
SELECT refused('UPDATE g SET id = 10 WHERE id = 1');
SELECT xact AS before FROM g WHERE id = 1 \gset
UPDATE g SET xact = DEFAULT WHERE id = 1;
-- Early versions recompute generated columns in MERGE. The statement is then refused, and nothing changes.
SELECT refused('MERGE INTO g USING (VALUES (1)) AS v (id) ON g.id = v.id WHEN MATCHED THEN UPDATE SET note = ''merged''') IN ('no error', '23001 column "xact" of "g" must not change [xact]') AS known;
SELECT xact = :before AS unchanged FROM g WHERE id = 1;
SELECT refused('DELETE FROM ' || t) FROM unnest('{k,d,g}'::regclass[]) AS t;
SELECT refused('DELETE FROM k WHERE false');
SELECT refused('TRUNCATE ' || t) FROM unnest('{k,d,g}'::regclass[]) AS t;
CREATE TABLE parent (id int PRIMARY KEY);
INSERT INTO parent VALUES (1);
CREATE TABLE child (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), parent int REFERENCES parent ON DELETE CASCADE);
SELECT feed_create('child', 'child');
INSERT INTO child (parent) VALUES (1);
SELECT refused('DELETE FROM parent');
SELECT refused('TRUNCATE parent CASCADE');
SELECT feed_drop('child');
DROP TABLE child, parent;

-- Logical replication applies rows with session_replication_role = replica, where ordinary triggers do not fire.
SET session_replication_role = replica;
SELECT refused('INSERT INTO k VALUES (floor_key(7), 20)');
SELECT refused('INSERT INTO d VALUES (20, 1, 7)');
SELECT refused('UPDATE k SET id = uuid_xact_nextval() WHERE n = 2');
SELECT refused('UPDATE g SET id = 10 WHERE id = 2');
SELECT refused('DELETE FROM ' || t) FROM unnest('{k,d,g}'::regclass[]) AS t;
SELECT refused('TRUNCATE ' || t) FROM unnest('{k,d,g}'::regclass[]) AS t;
RESET session_replication_role;

-- A user's trigger that overwrites the number fires before the guard.
CREATE FUNCTION forge() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.id := floor_key(7); RETURN new; END $$;
CREATE TRIGGER z BEFORE INSERT OR UPDATE ON k FOR EACH ROW EXECUTE FUNCTION forge();
SELECT refused('INSERT INTO k (n) VALUES (21)');
SELECT refused('UPDATE k SET id = id WHERE n = 2');
-- Such a trigger overwrites the number even if the statement sets another column.
SELECT refused('UPDATE k SET note = ''x'' WHERE n = 2');
SELECT refused('MERGE INTO k USING (VALUES (2)) AS v (n) ON k.n = v.n WHEN MATCHED THEN UPDATE SET note = ''x''');
SELECT refused('INSERT INTO k (n) VALUES (2) ON CONFLICT (n) DO UPDATE SET note = ''x''');
DROP TRIGGER z ON k;
CREATE FUNCTION forge_number() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.xact := 7; RETURN new; END $$;
CREATE TRIGGER z BEFORE UPDATE ON d FOR EACH ROW EXECUTE FUNCTION forge_number();
SELECT refused('UPDATE d SET note = ''x'' WHERE id = 1');
DROP TRIGGER z ON d;
CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER a BEFORE INSERT ON k FOR EACH ROW EXECUTE FUNCTION skip();
INSERT INTO k (n) VALUES (22);
DROP TRIGGER a ON k;
-- With a BEFORE UPDATE trigger, the server recomputes generated columns.
CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN new; END $$;
CREATE TRIGGER touch BEFORE UPDATE ON g FOR EACH ROW EXECUTE FUNCTION keep();
SELECT refused('UPDATE g SET note = ''touched'' WHERE id = 1');
DROP TRIGGER touch ON g;
UPDATE g SET note = 'touched' WHERE id = 1;

-- Columns that are renamed, follow a dropped column, have a wrong type, or have a base.
ALTER TABLE g RENAME id TO ident;
UPDATE g SET note = note;
SELECT refused('UPDATE g SET ident = 10 WHERE ident = 1');
SELECT feed_enable('g');
SELECT order_columns FROM inorder_internal.feed_table WHERE relation = 'g'::regclass;
UPDATE g SET note = note;
SELECT error_of('ALTER TABLE k ALTER COLUMN id TYPE text') LIKE '0A000 cannot alter type of a column used%' AS refused;
CREATE TABLE b (gone text, id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(1000), n int);
ALTER TABLE b DROP COLUMN gone;
SELECT feed_enable('b');
SELECT base FROM inorder_internal.feed_table WHERE relation = 'b'::regclass;
INSERT INTO b (n) VALUES (1);
SELECT refused('INSERT INTO b VALUES (uuid_xact_nextval(), 2)');
-- If the default is changed without feed_enable(), no row can be inserted until the guard and the default agree.
ALTER TABLE b ALTER id SET DEFAULT uuid_xact_nextval(base => 2000);
SELECT refused('INSERT INTO b (n) VALUES (2)');
SELECT feed_enable('b');
SELECT base FROM inorder_internal.feed_table WHERE relation = 'b'::regclass;
INSERT INTO b (n) VALUES (2);
SELECT feed_disable('b');
DROP TABLE b;
-- Wrong triggers that were created manually.
CREATE TABLE b (id text);
CREATE FUNCTION made(definition text, VARIADIC statements text[] DEFAULT '{"INSERT INTO b VALUES (''x'')"}') RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'CREATE TRIGGER x ' || definition;
    RETURN QUERY SELECT error_of(s) FROM unnest(statements) AS s;
    DROP TRIGGER x ON b;
END $$;
SELECT made('BEFORE INSERT ON b FOR EACH ROW EXECUTE FUNCTION feed_guard(''0'')');
SELECT made('BEFORE INSERT ON b FOR EACH ROW EXECUTE FUNCTION feed_guard(''0'', ''ctid'')');
SELECT made('BEFORE INSERT OR UPDATE OF id ON b FOR EACH ROW EXECUTE FUNCTION feed_guard(''0'')');
SELECT made('BEFORE INSERT OR UPDATE OF id ON b FOR EACH ROW EXECUTE FUNCTION feed_guard()');
SELECT made('BEFORE INSERT OR UPDATE OF id ON b FOR EACH ROW EXECUTE FUNCTION feed_guard(''x'')');
SELECT error_of('CREATE TRIGGER x BEFORE INSERT OR UPDATE OF ctid ON b FOR EACH ROW EXECUTE FUNCTION feed_guard(''0'')');
SELECT made('BEFORE INSERT OR UPDATE ON b EXECUTE FUNCTION feed_guard(''0'')', 'INSERT INTO b VALUES (''x'')', 'UPDATE b SET id = ''y''');
INSERT INTO b VALUES ('x');
SELECT made('BEFORE UPDATE ON b FOR EACH ROW EXECUTE FUNCTION feed_guard(''0'')', 'UPDATE b SET id = ''y''');
SELECT made('AFTER UPDATE ON b FOR EACH ROW EXECUTE FUNCTION feed_guard()', 'UPDATE b SET id = ''y''');
DROP FUNCTION made;
DROP TABLE b;

-- feed_disable() removes the whole guard.
SELECT feed_disable(t) FROM unnest('{k,d,g}'::regclass[]) AS t;
SELECT count(*) AS triggers FROM pg_trigger WHERE tgfoid = 'feed_guard'::regproc;
INSERT INTO k VALUES (floor_key(7), 30);
UPDATE k SET id = floor_key(8) WHERE n = 30;
DELETE FROM d;
TRUNCATE k, d, g;
SELECT feed_disable('k');
SELECT error_of('SELECT feed_disable(NULL)');
DROP TABLE k, d, g;
