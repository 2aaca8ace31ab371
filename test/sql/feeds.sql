-- The view feeds, and the transactions that hold rows back.
CREATE OR REPLACE FUNCTION inorder_internal.first_number() RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint';  -- the first batch is 1
SELECT attname, format_type(atttypid, atttypmod) AS type FROM pg_attribute WHERE attrelid = 'feeds'::regclass AND attnum > 0 ORDER BY attnum;
CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int) PARTITION BY RANGE (id);
CREATE TABLE part PARTITION OF events DEFAULT;
CREATE TABLE other (n int);
SELECT feed_create('a', 'events'), feed_create('b', 'events', 'now');
INSERT INTO events (n) SELECT generate_series(1, 1000);
SELECT name, relation, key_column, isempty(position) AS at_beginning, partial, unfinished_batch, created IS NOT NULL AS created, moved,
       backlog_transactions > 0 AS transactions, backlog_rows, writers, held_since, holder_pid, holder_application, holder_gid, holder_query
FROM feeds ORDER BY name;
SELECT count(*) FROM feed_read('a', null::events, 300);
SELECT name, partial IS NOT NULL AS partial, moved IS NOT NULL AS moved, backlog_rows FROM feeds WHERE name = 'a';
SELECT (feed_take_batch('b', 'w', 10)).number;
SELECT name, unfinished_batch, batch_worker FROM feeds ORDER BY name;
SELECT feed_finish_batch('b', 1, token) FROM feed_take_batch('b', 'w');
SELECT count(*) FROM feed_read('a', null::events) AS a, feed_read('b', null::events) AS b;
SELECT name, partial IS NOT NULL AS partial, unfinished_batch, batch_worker, backlog_rows FROM feeds ORDER BY name;
-- The calling transaction holds back its own rows. A transaction that writes to other tables, or has no id, holds
-- nothing back.
BEGIN;
SELECT name, writers FROM feeds ORDER BY name;
INSERT INTO other VALUES (1);
SELECT name, writers FROM feeds ORDER BY name;
INSERT INTO part (n) VALUES (1);
SET application_name = 'inorder test';
SELECT name, writers, held_since = now() AS since, holder_pid = pg_backend_pid() AS own, holder_application, holder_gid, holder_query LIKE 'SELECT name, writers%' AS query
FROM feeds ORDER BY name;
SELECT pid = pg_backend_pid() AS own, gid, application, number = xact_id() AS number, since = now() AS since, query LIKE 'SELECT pid%' AS query FROM feed_holders('events');
-- A prepared transaction has no pid.
PREPARE TRANSACTION 'inorder feeds';
SELECT name, writers, held_since IS NOT NULL AS since, holder_pid, holder_application, holder_gid, holder_query FROM feeds ORDER BY name;
-- The view shows the oldest of several transactions that hold rows back.
BEGIN;
INSERT INTO events (n) VALUES (2);
SELECT name, writers, holder_gid FROM feeds ORDER BY name;
SELECT pid = pg_backend_pid() AS own, gid FROM feed_holders('events');
-- A transaction that only holds a lock counts, too, because it may write.
COMMIT;
COMMIT PREPARED 'inorder feeds';
SELECT name, writers FROM feeds ORDER BY name;
SELECT count(*) FROM feed_holders(NULL);
SELECT feed_drop('a'), feed_drop('b');
SELECT count(*) FROM feeds;
DROP TABLE events, other;

-- Up to 10000 rows are counted with the index, which needs no ANALYZE. If a transaction was read in part, all its rows
-- count.
CREATE TABLE k (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(5000000000), n int);
CREATE TABLE p (id uuid DEFAULT uuid_xact_nextval(), n int) PARTITION BY LIST (n);
CREATE INDEX ON p (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2);
SELECT feed_create(f, f::regclass), feed_create(f || ' later', f::regclass) FROM unnest('{k,p}'::text[]) AS f;
CREATE VIEW unread AS SELECT name, caught_up, backlog_rows FROM feeds;
\set ECHO none
SELECT format('INSERT INTO %s (n) SELECT 1 + g %% 2 FROM generate_series(1, 500) AS g', t) FROM generate_series(1, 19) AS i CROSS JOIN unnest('{k,p}'::regclass[]) AS t ORDER BY i, t \gexec
\set ECHO all
BEGIN;
INSERT INTO k (n) SELECT 1 FROM generate_series(1, 1000);
ROLLBACK;
INSERT INTO k (n) SELECT 1 FROM generate_series(1, 499);
INSERT INTO p (n) SELECT 1 FROM generate_series(1, 499);
SELECT * FROM unread ORDER BY name;
INSERT INTO k (n) VALUES (1);
INSERT INTO p (n) SELECT 1 FROM generate_series(1, 1000);
SELECT * FROM unread ORDER BY name;
SELECT count(*) FROM feed_read('k', null::k, 4900);
SELECT count(*) FROM feed_read('p', null::p, 5100);
SELECT * FROM unread ORDER BY name;
SELECT count(*) FROM feed_read('k', null::k);
SELECT count(*) FROM feed_read('p', null::p);
SELECT * FROM unread ORDER BY name;
-- The view plans no query on the table, so functions of its indexes and constraints are not called.
CREATE FUNCTION shout(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE WARNING 'called'; RETURN $1; END $$;
CREATE INDEX ON k (shout(n)) WHERE n < 0;
ALTER TABLE k ADD CHECK (shout(1) = 1) NOT VALID;
SELECT count(*) FROM feeds;
SELECT count(*) FROM feed_holders('k');
DROP VIEW unread;
SELECT feed_drop(name) FROM feeds;
DROP TABLE k, p;
DROP FUNCTION shout;
