-- Who may do what; nothing runs with another's rights.
DELETE FROM feed_table WHERE NOT EXISTS (SELECT FROM pg_class WHERE oid = relid);
CREATE ROLE inorder_owner;
CREATE ROLE inorder_reader;
CREATE ROLE inorder_nobody;
CREATE SCHEMA private AUTHORIZATION inorder_owner;
GRANT USAGE ON SCHEMA private TO inorder_reader, inorder_nobody;
SET ROLE inorder_owner;
CREATE TABLE private.events (id uuid DEFAULT uuid_xact_nextval(), n int, PRIMARY KEY (id, n)) PARTITION BY LIST (n);
CREATE TABLE private.e1 PARTITION OF private.events FOR VALUES IN (1, 2, 3);
CREATE TABLE private.secret (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
SELECT feed_create('events', 'private.events'), feed_create('other', 'private.events'), feed_create('secret', 'private.secret');
SELECT exact_count_start('private.events'), exact_count_start('private.secret');
INSERT INTO private.events (n) VALUES (1), (2);
INSERT INTO private.secret (n) VALUES (1);
GRANT SELECT ON private.events TO inorder_reader;

-- A reader: of the table alone, not of its partitions.
SET ROLE inorder_reader;
SELECT name, "table", number_column, backlog_rows_estimated IS NOT NULL AS estimated FROM feeds ORDER BY name;
SELECT relid FROM feed_table;
SELECT n FROM feed_read('events', null::private.events, 1);
SELECT n FROM feed_read('events', null::private.events);
SELECT exact_count('private.events');
RESET ROLE;
CREATE TABLE private.e4 PARTITION OF private.events FOR VALUES IN (4);
ALTER TABLE private.e4 OWNER TO inorder_owner;
SET ROLE inorder_owner;
INSERT INTO private.events (n) VALUES (3), (4);
SELECT exact_count_fold('private.events');
INSERT INTO private.events (n) VALUES (4);
SET ROLE inorder_reader;
SELECT n FROM feed_read('events', null::private.events, 2);
SELECT n FROM feed_read('events', null::private.events, 2);
SELECT exact_count('private.events') = count(*) AS exact FROM private.events;
SELECT feed_next_batch('other', 1);
SELECT n FROM feed_batch_rows('other', 1, null::private.events);
SELECT feed_finish_batch('other', 1);
SELECT feed_seek('other', 'now');
SELECT feed_apply('other', 'SELECT n FROM batch') IS NULL AS nothing_new;
SELECT n FROM feed_rows('private.events', feed_batch_after('private.events', feed_start('private.events')), null::private.events);
-- But not to make, drop, enable, rebase or fold.
SELECT error_of($$SELECT feed_create('mine', 'private.events')$$);
SELECT error_of($$SELECT feed_drop('events')$$);
SELECT error_of($$SELECT feed_enable('private.events')$$);
SELECT error_of($$SELECT feed_disable('private.events')$$);
SELECT error_of($$SELECT feed_rebase('private.events')$$);
SELECT error_of($$SELECT exact_count_start('private.events')$$);
SELECT error_of($$SELECT exact_count_fold('private.events')$$);
SELECT error_of($$SELECT exact_count_stop('private.events')$$);
-- Nor by writing into the tables of the extension.
DELETE FROM feed;
DELETE FROM feed_table;
DELETE FROM exact_count_part;
UPDATE feed_table SET base = 7;
UPDATE exact_count_part SET rows = 7;
SELECT error_of($$INSERT INTO feed (name, relid, position) SELECT 'mine', relid, position FROM feed LIMIT 1$$);
SELECT error_of($$INSERT INTO exact_count_part SELECT relid, 'feed', storage, counted, rows, folded FROM exact_count_part LIMIT 1$$);
SELECT error_of($$UPDATE feed SET relid = 'private.secret'$$);
-- Nor by leaving something there for a table to come.
SELECT error_of($$INSERT INTO feed_table VALUES (4294967295, 'id', true, false, '{id}', 0, true)$$);
SELECT error_of($$INSERT INTO feed (name, relid, position) VALUES ('mine', 4294967295, ROW('{}', NULL, NULL, NULL, NULL))$$);
SELECT error_of($$INSERT INTO exact_count_part VALUES (4294967295, 4294967295, '', '{}', 7, now())$$);
-- What feed_apply runs is the caller's, but not what it reads by: operators and functions on the caller's path.
RESET ROLE;
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
CREATE TABLE private.numbers (id int PRIMARY KEY, xact bigint NOT NULL DEFAULT xact_id());
CREATE INDEX ON private.numbers USING brin (xact);
ALTER TABLE private.numbers OWNER TO inorder_owner;
SELECT feed_create('numbers', 'private.numbers');
CREATE PROCEDURE fill() LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. 4 LOOP
        INSERT INTO private.events (n) VALUES (1), (2), (3);
        INSERT INTO private.numbers SELECT i * 10 + g FROM generate_series(1, 3) AS g;
        COMMIT;
    END LOOP;
END $$;
CALL fill();
GRANT SELECT ON private.numbers TO inorder_reader;
-- With gaps in the set.
SELECT int8range(xact, xact + 1)::int8multirange AS middle FROM private.numbers WHERE id = 21 \gset
SELECT feed_seek(f, (SELECT range_agg(int8range(xact, xact + 1)) FROM private.numbers WHERE id IN (21, 41))) FROM unnest('{other,numbers}'::text[]) AS f;
SET ROLE inorder_reader;
SET search_path = evil, pg_catalog, public;
SELECT feed_apply(f, 'SELECT FROM batch', s) > 0 AS rows FROM unnest('{other,numbers}'::text[]) AS f, LATERAL (VALUES (2), (2), (3), (NULL)) AS t(s);
SELECT public.feed_seek('numbers', :'middle'::pg_catalog.int8multirange);
SELECT feed_apply(f, 'SELECT FROM batch') > 0 AS rows FROM (VALUES ('numbers')) AS n(f);
SELECT error_of('SELECT 1::bigint < 2::bigint');
RESET search_path;
RESET ROLE;
SELECT feed_drop('numbers'), feed_disable('private.numbers');
SET client_min_messages = warning;
DROP TABLE private.numbers;
DROP SCHEMA evil CASCADE;
RESET client_min_messages;
DROP PROCEDURE fill;
SET ROLE inorder_reader;

-- A feed whose table one may not read is as good as not there.
SELECT error_of($$SELECT feed_read('secret', null::private.secret)$$);
SELECT error_of($$SELECT feed_apply('secret', 'SELECT 1')$$);
SELECT error_of($$SELECT feed_next_batch('secret')$$);
SELECT error_of($$SELECT feed_batch_rows('secret', 1, null::private.secret)$$);
SELECT error_of($$SELECT feed_seek('secret', 'now')$$);
SELECT error_of($$SELECT feed_drop('secret')$$);
SELECT error_of($$SELECT exact_count('private.secret')$$);
SELECT error_of($$SELECT feed_rows('private.secret', feed_batch_after('private.secret', feed_start('private.secret')), null::private.secret)$$);
SET ROLE inorder_nobody;
SELECT count(*) FROM feeds;
SELECT (SELECT count(*) FROM feed) + (SELECT count(*) FROM feed_table) + (SELECT count(*) FROM exact_count_part) AS seen;
SELECT error_of($$SELECT feed_read('events', null::private.events)$$);
-- A statement of feed_apply runs with the rights of the caller.
SET ROLE inorder_owner;
INSERT INTO private.events (n) VALUES (1);
SET ROLE inorder_reader;
SELECT error_of($$SELECT feed_apply('other', 'INSERT INTO private.secret (n) SELECT n FROM batch')$$);
-- And finds what the caller's path finds; the functions of the extension do not.
RESET ROLE;
CREATE SCHEMA trap AUTHORIZATION inorder_reader;
SET ROLE inorder_reader;
CREATE FUNCTION trap.lower(int8multirange) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE 'trapped'; END $$;
CREATE FUNCTION trap.upper(int8multirange) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE 'trapped'; END $$;
CREATE FUNCTION trap.isempty(int8multirange) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE 'trapped'; END $$;
CREATE FUNCTION trap.concat(text, text, text, text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE 'trapped'; END $$;
CREATE FUNCTION trap.format(text, text, text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE 'trapped'; END $$;
CREATE FUNCTION trap.quote_ident(name) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE 'trapped'; END $$;
CREATE FUNCTION trap.has_table_privilege(regclass, text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE 'trapped'; END $$;
CREATE TABLE trap.feed AS TABLE feed;
CREATE TABLE trap.pg_class (oid oid, relkind "char");
CREATE TYPE trap.bigint AS ENUM ('trapped');
CREATE TYPE trap.text AS ENUM ('trapped');
GRANT ALL ON ALL TABLES IN SCHEMA trap TO PUBLIC;
GRANT USAGE ON SCHEMA trap TO PUBLIC;
RESET ROLE;
SET search_path = trap, pg_catalog, public;
SELECT n FROM feed_read('events', null::private.events, 1);
SELECT public.feed_apply('other', 'SELECT n FROM batch');
SELECT exact_count_fold('private.events') AS folded, exact_count('private.events') > 0 AS counted;
SELECT count(*) FROM public.feeds;
SELECT feed_create('trap', 'private.secret', 'now'), feed_enable('private.secret') IS NOT NULL AS enabled, feed_rebase('private.secret');
SELECT count(*) FROM feed_prepare('private.secret');
SELECT feed_next_batch('trap') IS NULL AS nothing_new;
SELECT public.feed_drop('trap');
RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA trap CASCADE;
RESET client_min_messages;

-- Row security: hidden rows would be missed, and passed over.
SET ROLE inorder_owner;
ALTER TABLE private.events ENABLE ROW LEVEL SECURITY;
CREATE POLICY ones ON private.events FOR SELECT USING (n = 1);
SET ROLE inorder_reader;
SELECT error_of($$SELECT feed_read('events', null::private.events)$$);
SELECT error_of($$SELECT feed_next_batch('events')$$);
SELECT error_of($$SELECT feed_apply('events', 'SELECT 1 FROM batch')$$);
SELECT error_of($$SELECT exact_count('private.events')$$);
SELECT error_of($$SELECT feed_start('private.events')$$);
SELECT error_of($$SELECT feed_rows('private.events', ROW('{[0,3)}', NULL, NULL, NULL, NULL, NULL, NULL)::feed_batch, null::private.events)$$);
-- Its owner is not subject to it.
SET ROLE inorder_owner;
SELECT exact_count('private.events') = count(*) AS exact FROM private.events;
ALTER TABLE private.events FORCE ROW LEVEL SECURITY;
SELECT error_of($$SELECT exact_count('private.events')$$);
SELECT error_of($$SELECT exact_count_fold('private.events')$$);
SELECT error_of($$SELECT feed_read('events', null::private.events)$$);
ALTER TABLE private.events NO FORCE ROW LEVEL SECURITY;
ALTER TABLE private.events DISABLE ROW LEVEL SECURITY;
-- That of a partition does not count for who reads through the table.
ALTER TABLE private.e1 ENABLE ROW LEVEL SECURITY;
GRANT SELECT ON private.e1 TO inorder_reader;
INSERT INTO private.events (n) VALUES (2);
SET ROLE inorder_reader;
SELECT exact_count('private.events') = count(*) AS exact FROM private.events;
SELECT count(*) > 0 AS read FROM feed_read('events', null::private.events);
RESET ROLE;
REVOKE SELECT ON private.events FROM inorder_reader;
SET ROLE inorder_reader;
SELECT error_of($$SELECT feed_read('events', null::private.events)$$);
RESET ROLE;

-- Partitions in a schema that the reader may not use, with bounds of a type from there.
CREATE SCHEMA hidden;
CREATE TYPE hidden.kind AS ENUM ('a', 'b');
CREATE TABLE deep (id uuid DEFAULT uuid_xact_nextval(), n int, numbers hidden.kind, PRIMARY KEY (id, n, numbers)) PARTITION BY LIST (numbers);
CREATE TABLE hidden.a PARTITION OF deep FOR VALUES IN ('a') PARTITION BY HASH (n);
CREATE TABLE hidden.a0 PARTITION OF hidden.a FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE hidden.a1 PARTITION OF hidden.a FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SELECT feed_create('deep', 'deep'), exact_count_start('deep');
INSERT INTO deep (n, numbers) SELECT generate_series(1, 10), 'a';
CREATE TABLE hidden.others PARTITION OF deep DEFAULT;
INSERT INTO deep (n, numbers) SELECT generate_series(11, 13), 'b';
GRANT SELECT ON deep TO inorder_reader;
SET ROLE inorder_reader;
SELECT count(*) FROM feed_read('deep', null::deep, 5);
SELECT exact_count('deep') = count(*) AS exact FROM deep;
RESET ROLE;
GRANT SELECT ON ALL TABLES IN SCHEMA hidden TO inorder_reader;
SELECT exact_count_fold('deep');
INSERT INTO deep (n, numbers) VALUES (14, 'a'), (15, 'b');
SET ROLE inorder_reader;
SELECT count(*) FROM feed_read('deep', null::deep);
SELECT exact_count('deep') = count(*) AS exact FROM deep;
RESET ROLE;
SET client_min_messages = warning;
SELECT feed_drop('deep'), exact_count_stop('deep');
DROP TABLE deep;
DROP SCHEMA hidden CASCADE;
RESET client_min_messages;

-- A member of the owner is an owner.
GRANT inorder_owner TO inorder_reader;
SET ROLE inorder_reader;
SELECT exact_count_fold('private.events') >= 0 AS folded, feed_drop('other');
RESET ROLE;
-- When the table is gone, anyone may drop what is left of its feed.
DROP TABLE private.secret;
SET ROLE inorder_nobody;
SELECT name FROM feeds;
SELECT feed_drop('secret');
RESET ROLE;
-- SELECT on a table in a schema that is closed: nothing to be read, and nothing to be moved.
REVOKE inorder_owner FROM inorder_reader;
REVOKE USAGE ON SCHEMA private FROM inorder_reader;
GRANT SELECT ON private.events TO inorder_reader;
SET ROLE inorder_reader;
SELECT error_of(format('SELECT feed_next_batch(%L)', name)) FROM feed;
SELECT error_of(format('SELECT feed_seek(%L, ''now'')', name)) FROM feed;
SELECT error_of(format('SELECT feed_finish_batch(%L, 1)', name)) FROM feed;
UPDATE feed SET position = ROW('{}', NULL, NULL, NULL, NULL);
RESET ROLE;
SELECT count(*) AS moved FROM feed WHERE isempty((position).transactions);
SELECT feed_drop(name) FROM feed;
DELETE FROM exact_count_part;
SET client_min_messages = warning;
DELETE FROM feed_table;
DROP OWNED BY inorder_owner, inorder_reader, inorder_nobody;
DROP ROLE inorder_owner, inorder_reader, inorder_nobody;
RESET client_min_messages;

-- What the extension is made of.
SELECT p.oid::regprocedure AS runs_as_its_owner FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND objid = p.oid
JOIN pg_extension e ON refobjid = e.oid AND refclassid = 'pg_extension'::regclass AND extname = 'inorder' WHERE prosecdef;
SELECT p.oid::regprocedure AS without_search_path FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND objid = p.oid
JOIN pg_extension e ON refobjid = e.oid AND refclassid = 'pg_extension'::regclass AND extname = 'inorder' JOIN pg_language l ON l.oid = prolang
WHERE lanname = 'plpgsql' AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false);
SELECT relname, relrowsecurity, reloptions FROM pg_class WHERE relname IN ('feed', 'feed_table', 'exact_count_part', 'feeds') AND relkind IN ('r', 'v') ORDER BY relname;
SELECT relname, c.condition FROM pg_extension, unnest(extconfig, extcondition) AS c(oid, condition) JOIN pg_class USING (oid) WHERE extname = 'inorder' ORDER BY relname;
