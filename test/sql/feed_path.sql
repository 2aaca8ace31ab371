-- Name resolution: the statement of feed_apply() is executed with the caller's privileges and search_path. Functions
-- that read for the caller, or run as the owner of the state, find the server's own objects. track_counts is off,
-- because feed_enable() would otherwise warn about deleted and updated rows in some runs.
SET track_counts = off;
CREATE ROLE inorder_reader;
CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
CREATE TABLE numbers (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int, xact bigint NOT NULL DEFAULT xact_id());
CREATE INDEX ON numbers (xact) WHERE xact > 0;
CREATE TABLE secret (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
SELECT feed_enable('events'), feed_enable('numbers'), exact_count_start('events'), exact_count_start('numbers');
GRANT SELECT ON events, numbers TO inorder_reader;
CREATE PROCEDURE fill() LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. 4 LOOP
        INSERT INTO events (n) VALUES (1), (2), (3);
        INSERT INTO numbers (n) VALUES (1), (2), (3);
        COMMIT;
    END LOOP;
END $$;
CALL fill();
SET ROLE inorder_reader;
SELECT feed_create('events', 'events'), feed_create('numbers', 'numbers');
SELECT error_of($$SELECT feed_apply('events', 'INSERT INTO secret (n) SELECT n FROM batch')$$);
SELECT feed_apply('events', 'SELECT n FROM batch', 1);
-- Valid and invalid forms of the statement.
SELECT error_of(format('SELECT feed_apply(''events'', %L, 1)', s))
FROM unnest(ARRAY['', ';', 'VACUUM', 'COMMIT', 'SELECT 1; SELECT 2', ', batch AS (SELECT 1) SELECT 1', 'COPY events TO STDOUT', 'BEGIN', 'DROP TABLE events', 'TABLE batch', 'VALUES (1)']) AS s;
SELECT error_of($$SELECT feed_apply('events', NULL)$$);
SELECT feed_seek('events', 'beginning');
SELECT feed_apply('events', ', more AS (SELECT n FROM batch) SELECT count(*) FROM more', 2) AS a_table_more;
-- If the caller has a table named batch, that table does not hide the batch. A statement that reads only
-- this table is refused.
CREATE TEMP TABLE batch AS SELECT 7 AS n;
SELECT feed_apply('events', 'SELECT FROM batch WHERE n = 7', 2) AS nothing, feed_apply('events', 'SELECT FROM pg_temp.batch AS b, batch', 2) AS two;
SELECT error_of($$SELECT feed_apply('events', 'SELECT FROM pg_temp.batch', 2)$$);
DROP TABLE batch;
-- A table with rules, and a call that runs two statements.
CREATE TEMP TABLE sums (n int);
CREATE TEMP TABLE others (n int);
CREATE RULE r AS ON INSERT TO sums DO INSTEAD INSERT INTO others VALUES (new.n);
SELECT feed_apply('events', 'INSERT INTO sums SELECT n FROM batch', 2);
CREATE OR REPLACE RULE r AS ON INSERT TO sums DO INSTEAD NOTHING;
SELECT error_of($$SELECT feed_apply('events', 'INSERT INTO sums SELECT n FROM batch', 1)$$);
CREATE OR REPLACE RULE r AS ON INSERT TO sums DO ALSO INSERT INTO others VALUES (new.n);
SELECT error_of($$SELECT feed_apply('events', 'INSERT INTO sums SELECT n FROM batch')$$);
SELECT feed_apply('events', 'DELETE FROM others USING batch WHERE others.n = batch.n', 2);
SELECT (SELECT array_agg(n) FROM sums) AS sums, (SELECT array_agg(n) FROM others) AS others;
DROP TABLE sums, others;
RESET ROLE;

-- The reader's search_path has operators and functions that precede the server's own.
CREATE SCHEMA evil;
GRANT USAGE ON SCHEMA evil TO inorder_reader;
DO $$
DECLARE o text; t text;
BEGIN
    FOREACH t IN ARRAY '{uuid,bigint,int}'::text[] LOOP
        EXECUTE format('CREATE FUNCTION evil.caught(%s, %1$s) RETURNS boolean LANGUAGE plpgsql AS ''BEGIN RAISE ''''caught as %%'''', current_user; END''', t);
        FOREACH o IN ARRAY '{<,<=,>,>=,=}'::text[] LOOP
            EXECUTE format('CREATE OPERATOR evil.%s (LEFTARG = %s, RIGHTARG = %2$s, FUNCTION = evil.caught)', o, t);
        END LOOP;
    END LOOP;
END $$;
CREATE FUNCTION evil.contains(int8multirange, bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'caught as %', current_user; END $$;
CREATE OPERATOR evil.@> (LEFTARG = int8multirange, RIGHTARG = bigint, FUNCTION = evil.contains);
CREATE FUNCTION evil.lower(int8range) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE 'caught as %', current_user; END $$;
CREATE FUNCTION evil.upper(int8range) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE 'caught as %', current_user; END $$;
CREATE FUNCTION evil.unnest(int8multirange) RETURNS SETOF int8range LANGUAGE plpgsql AS $$ BEGIN RAISE 'caught as %', current_user; END $$;
CREATE TYPE evil.int8multirange AS (x int);
-- Sets of transactions with gaps.
SELECT int8range(xact, xact + 1)::int8multirange AS middle FROM numbers WHERE id = 4 \gset
SET ROLE inorder_reader;
SELECT feed_seek(f, (SELECT range_agg(int8range(xact, xact + 1)) FROM numbers WHERE id IN (4, 10))) FROM unnest('{events,numbers}'::text[]) AS f;
SET search_path = evil, pg_catalog, public;
SELECT feed_apply(f, 'SELECT FROM batch', s) > 0 AS rows FROM unnest('{events,numbers}'::text[]) AS f, LATERAL (VALUES (2), (2), (3), (NULL)) AS t(s);
SELECT public.feed_seek('numbers', :'middle'::pg_catalog.int8multirange);
SELECT feed_apply(f, 'SELECT FROM batch') > 0 AS rows FROM unnest('{numbers}'::text[]) AS f;
SELECT error_of('SELECT 1::bigint < 2::bigint');
SELECT exact_count('events'), exact_count('numbers');
RESET search_path;
RESET ROLE;
SET client_min_messages = warning;
DROP SCHEMA evil CASCADE;
RESET client_min_messages;

-- The same for a superuser: the search_path has names in a reader's schema that precede the server's own, and temporary
-- names.
CREATE SCHEMA trap AUTHORIZATION inorder_reader;
SET ROLE inorder_reader;
CREATE FUNCTION trap.lower(int8multirange) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE 'trapped'; END $$;
CREATE FUNCTION trap.upper(int8multirange) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE 'trapped'; END $$;
CREATE FUNCTION trap.isempty(int8multirange) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE 'trapped'; END $$;
CREATE FUNCTION trap.concat(text, text, text, text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE 'trapped'; END $$;
CREATE FUNCTION trap.format(text, text, text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE 'trapped'; END $$;
CREATE FUNCTION trap.quote_ident(name) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE 'trapped'; END $$;
CREATE FUNCTION trap.quote_literal(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE 'trapped'; END $$;
CREATE FUNCTION trap.has_table_privilege(oid, oid, text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE 'trapped'; END $$;
CREATE FUNCTION trap.pg_has_role(oid, oid, text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE 'trapped'; END $$;
CREATE FUNCTION trap.feed_guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped'; END $$;
CREATE FUNCTION trap.xact_id(bigint) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped'; END $$;
CREATE FUNCTION trap.reader_advance(feed_position, feed_batch) RETURNS feed_position LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped'; END $$;
CREATE FUNCTION trap.feed_enable(regclass, name) RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped'; END $$;
CREATE TABLE trap.feed (id bigint, name text, owner oid, owner_name name, relation regclass);
CREATE TABLE trap.feed_table (relation regclass, key_column name);
CREATE TABLE trap.pg_class (oid oid, relkind "char");
CREATE TABLE trap.pg_roles (oid oid, rolname name);
CREATE TYPE trap.bigint AS ENUM ('trapped');
CREATE TYPE trap.text AS ENUM ('trapped');
GRANT ALL ON ALL TABLES IN SCHEMA trap TO PUBLIC;
GRANT USAGE ON SCHEMA trap TO PUBLIC;
RESET ROLE;
CALL fill();
CREATE TEMP TABLE pg_class (oid oid);
CREATE TEMP TABLE pg_inherits (inhrelid oid, inhparent oid);
CREATE TEMP TABLE feed (id bigint);
SET search_path = trap, pg_temp, pg_catalog, public;
SELECT n FROM feed_read('events', null::public.events, 1, 'inorder_reader');
SELECT public.feed_apply('events', 'SELECT n FROM batch', 2, 'inorder_reader');
SELECT (public.feed_take_batch('numbers', 'w', 1, owner => 'inorder_reader')).number;
SELECT n FROM feed_batch_rows('numbers', 1, null::public.numbers, 'inorder_reader');
SELECT feed_finish_batch('numbers', number, token, 'inorder_reader') FROM public.feed_take_batch('numbers', 'w', owner => 'inorder_reader');
SELECT exact_count_fold('public.events') AS folded, exact_count('public.events') > 0 AS counted;
SELECT name, relation, backlog_rows IS NOT NULL AS counted FROM public.feeds ORDER BY name;
SELECT public.feed_create('trap', 'public.secret', 'now'), feed_grant('trap', 'inorder_reader'), public.feed_enable('public.secret'), feed_rebase('public.secret');
SELECT s FROM feed_prepare('public.secret', 'id') AS s;
INSERT INTO public.secret (n) VALUES (1);
SELECT n FROM public.reader_batch_rows('public.secret', public.reader_next_batch('public.secret', public.reader_start('public.secret')), null::public.secret);
SELECT (public.feed_take_batch('trap', 'w')).number, public.feed_seek('trap', 'beginning'::pg_catalog.text);
SELECT public.feed_drop('trap'), feed_disable('public.secret');
RESET search_path;
SELECT tgfoid::regproc AS guard FROM pg_trigger WHERE tgrelid = 'events'::regclass AND tgname = 'zz_inorder_guard';
SET client_min_messages = warning;
DROP SCHEMA trap CASCADE;
DROP TABLE pg_temp.pg_class, pg_temp.pg_inherits, pg_temp.feed;
RESET client_min_messages;

-- The settings and the role that a read changes are restored, whether the read succeeds or fails.
SET ROLE inorder_reader;
SET search_path = public;
SET jit = on;
SELECT feed_seek('events', 'beginning');
SELECT feed_apply('events', 'SELECT FROM batch WHERE current_user = ''inorder_reader'' AND current_setting(''search_path'') = ''public''', 1) AS own;
SELECT error_of($$SELECT feed_read('none', null::events)$$), current_user, current_setting('search_path'), current_setting('enable_seqscan'), current_setting('jit');
SELECT error_of($$SELECT feed_seek('events', '{[0,281474976710655)}'::int8multirange)$$) ~ 'have not ended' AS refused, current_user;
SELECT count(*) AS read, current_user, current_setting('search_path'), current_setting('enable_seqscan'), current_setting('datestyle') FROM feed_read('events', null::events, 1);
RESET search_path;
RESET ROLE;

-- A read does not call other roles' functions, such as those of a policy.
CREATE FUNCTION policy_of(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE 'called as %', current_user; END $$;
ALTER TABLE events ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON events USING (policy_of(n));
SET ROLE inorder_reader;
SELECT error_of($$SELECT feed_read('events', null::events)$$);
SELECT error_of($$SELECT exact_count('events')$$);
SELECT name, backlog_rows IS NOT NULL AS counted FROM feeds ORDER BY name;
RESET ROLE;
ALTER TABLE events DISABLE ROW LEVEL SECURITY;
DROP POLICY p ON events;
DROP FUNCTION policy_of;

SELECT feed_drop(name, 'inorder_reader') FROM feeds;
SELECT exact_count_stop(t), feed_disable(t) FROM unnest('{events,numbers}'::regclass[]) AS t;
DROP TABLE events, numbers, secret;
DROP PROCEDURE fill;
DROP ROLE inorder_reader;
