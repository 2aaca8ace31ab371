-- The columns polled, caught_up, caught_up_at and lag show exactly whether a feed has read all rows, and since when
-- there are unread rows.
CREATE TABLE u (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
CREATE TABLE p (k int GENERATED ALWAYS AS IDENTITY, n int, xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED, PRIMARY KEY (k, n)) PARTITION BY HASH (n);
CREATE INDEX ON p (xact);
CREATE INDEX ON p (k);
CREATE TABLE p0 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE p1 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE b (n int PRIMARY KEY, xact bigint NOT NULL DEFAULT xact_id());
CREATE INDEX ON b (xact) WHERE xact > 0;
CREATE TABLE other (n int);
SELECT feed_create('u', 'u'), feed_create('p', 'p'), feed_create('b', 'b');
CREATE VIEW lag AS SELECT name, caught_up, lag = '0' AS none, polled IS NOT NULL AS polled, caught_up_at = polled AS at, caught_up AND backlog_rows = 0 AS empty FROM feeds;
-- Rows of other tables, and uncommitted rows, do not affect these columns. Rows of b are found with a partial index.
INSERT INTO other VALUES (1);
SELECT name, caught_up, none, polled, at FROM lag ORDER BY name;
BEGIN;
INSERT INTO u (n) VALUES (1);
INSERT INTO p (n) VALUES (1);
SELECT name, caught_up, none FROM lag ORDER BY name;
ROLLBACK;
SELECT name, caught_up, none FROM lag ORDER BY name;
INSERT INTO u (n) SELECT generate_series(1, 4);
INSERT INTO p (n) SELECT generate_series(1, 4);
INSERT INTO b (n) SELECT generate_series(1, 4);
SELECT name, caught_up, none FROM lag ORDER BY name;
-- The first batch does not have all rows. After the second batch, no row is left, but the position is inside a
-- transaction. The next poll finds no rows.
SELECT (SELECT count(*) FROM feed_read('u', null::u, 3)) AS u, (SELECT count(*) FROM feed_read('p', null::p, 3)) AS p, (SELECT count(*) FROM feed_read('b', null::b, 3)) AS b;
SELECT name, caught_up, none, polled, at FROM lag ORDER BY name;
SELECT (SELECT count(*) FROM feed_read('u', null::u, 1)) AS u, (SELECT count(*) FROM feed_read('p', null::p, 1)) AS p, (SELECT count(*) FROM feed_read('b', null::b, 1)) AS b;
SELECT l.*, partial IS NOT NULL AS partial FROM lag AS l JOIN feeds USING (name) ORDER BY name;
SELECT (SELECT count(*) FROM feed_read('u', null::u, 1)) AS u, feed_apply('p', 'SELECT FROM batch', 1) AS p, (feed_take_batch('b', 'w', 1)).number AS b;
SELECT l.*, partial IS NOT NULL AS partial FROM lag AS l JOIN feeds USING (name) ORDER BY name;
-- Read a batch with all committed rows.
INSERT INTO u (n) VALUES (5);
INSERT INTO p (n) VALUES (5);
INSERT INTO b (n) VALUES (5);
SELECT count(*) FROM feed_read('u', null::u, 2);
SELECT feed_apply('p', 'SELECT FROM batch'), (feed_take_batch('b', 'w', 2)).number;
SELECT * FROM lag ORDER BY name;
-- Leave a batch unfinished.
INSERT INTO u (n) VALUES (6);
SELECT (feed_take_batch('u', 'w')).number;
SELECT name, caught_up, none, at FROM lag WHERE name = 'u';
SELECT (SELECT feed_finish_batch('u', 1, token) FROM feed_take_batch('u', 'w')), (SELECT feed_finish_batch('b', 1, token) FROM feed_take_batch('b', 'w'));
SELECT name, caught_up, none, at FROM lag ORDER BY name;
-- A poll that finds no rows is recorded at most twice a minute, and not in a transaction that cannot record it.
CREATE VIEW written AS SELECT name, polled = caught_up_at AS at, polled > now() - interval '1 minute' AS now, s.xmin AS id FROM inorder_internal.feed_state AS s JOIN inorder_internal.feed AS f ON f.id = s.feed;
CREATE TABLE before AS SELECT * FROM written;
SELECT count(*), feed_apply('p', 'SELECT FROM batch'), (feed_take_batch('b', 'w')).number FROM feed_read('u', null::u);
SELECT count(*) AS unchanged FROM written JOIN before USING (name, id);
UPDATE inorder_internal.feed_state SET polled = polled - interval '2 minutes', caught_up_at = caught_up_at - interval '2 minutes';
BEGIN READ ONLY;
SELECT count(*), feed_apply('p', 'SELECT FROM batch'), (feed_take_batch('b', 'w')).number FROM feed_read('u', null::u);
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*), feed_apply('p', 'SELECT FROM batch'), (feed_take_batch('b', 'w')).number FROM feed_read('u', null::u);
COMMIT;
SELECT name, at, now FROM written ORDER BY name;
INSERT INTO u (n) VALUES (7);
SELECT count(*) FROM feed_peek('u', null::u);
SELECT name, caught_up, lag BETWEEN '2 minutes' AND '1 hour' AS late FROM feeds ORDER BY name;
SELECT count(*), feed_apply('p', 'SELECT FROM batch'), (feed_take_batch('b', 'w')).number FROM feed_read('u', null::u);
SELECT name, at, now FROM written ORDER BY name;
-- With an order column, rows of a set may remain to be read.
SELECT feed_drop('p'), feed_create('p', 'p', order_column => 'k');
SELECT count(*) FROM feed_read('p', null::p, 3);
SELECT * FROM lag WHERE name = 'p';
SELECT count(*) FROM feed_read('p', null::p, 3);
SELECT * FROM lag WHERE name = 'p';
SELECT count(*) FROM feed_read('p', null::p, 3);
SELECT * FROM lag WHERE name = 'p';
SELECT count(*) FROM feed_read('p', null::p);
SELECT * FROM lag WHERE name = 'p';
INSERT INTO p (n) VALUES (8);
SELECT count(*) FROM feed_read('p', null::p);
SELECT * FROM lag WHERE name = 'p';
-- A member of pg_monitor sees these columns without privileges on the tables, and runs no code of the tables' owner.
CREATE FUNCTION shout(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE WARNING 'called'; RETURN $1; END $$;
CREATE INDEX ON u (shout(n)) WHERE n < 0;
CREATE INDEX ON u (id) WHERE shout(n) < 0;
INSERT INTO u (n) VALUES (9);
CREATE ROLE inorder_watcher IN ROLE pg_monitor;
SET ROLE inorder_watcher;
SELECT name, caught_up FROM feeds ORDER BY name;
SELECT count(*) FROM u;
RESET ROLE;
-- After feed_seek(), the time at which the feed had last read all rows is unknown.
SELECT feed_seek('u', 'now'), feed_seek('p', 'beginning');
SELECT name, caught_up, caught_up_at FROM feeds WHERE name <> 'b' ORDER BY name;
-- Without an index that shows whether there are rows, caught_up is null.
DROP INDEX p_xact_idx;
SELECT name, caught_up FROM feeds WHERE name = 'p';
-- If the number is of type text, its index does not show whether there are rows, because text has other comparison
-- functions.
CREATE TABLE changed (id bigint PRIMARY KEY DEFAULT xact_id());
INSERT INTO changed DEFAULT VALUES;
SELECT feed_create('changed', 'changed');
DROP TRIGGER zz_inorder_guard ON changed;
DROP TRIGGER zz_inorder_update ON changed;
ALTER TABLE changed ALTER id DROP DEFAULT, ALTER id TYPE text USING id::text;
SELECT name, caught_up FROM feeds WHERE name = 'changed';
-- For a dropped table, caught_up is also null.
SELECT (inorder_internal.backlog(jsonb_populate_record(t, '{"relation": "-"}'), s.position, '{}', false)).caught_up IS NULL AS unknown FROM inorder_internal.feed_table AS t JOIN inorder_internal.feed_state AS s ON s.relation = t.relation LIMIT 1;
SELECT feed_drop(name) FROM feeds;
DROP TABLE changed;
DROP VIEW lag, written;
-- reader_backlog() returns the backlog of a position that the reader keeps.
CREATE TABLE k (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
SELECT feed_enable('k');
CREATE TABLE places (i int PRIMARY KEY, p feed_position);
INSERT INTO places SELECT 0, reader_start('k');
INSERT INTO k (n) SELECT generate_series(1, 100);
INSERT INTO k (n) SELECT generate_series(1, 300);
INSERT INTO places SELECT 1, reader_advance(p, reader_next_batch('k', p, 50)) FROM places WHERE i = 0;
INSERT INTO places SELECT 2, reader_advance(p, reader_next_batch('k', p)) FROM places WHERE i = 1;
INSERT INTO other VALUES (2);
SELECT i, b.transactions > lead(b.transactions, 1, 0) OVER (ORDER BY i) AS fewer_follow, b.rows FROM places, reader_backlog('k', p) AS b ORDER BY i;
SELECT b.transactions = (SELECT sum(upper(r) - lower(r)) FROM unnest((reader_start('k', 'now')).transactions - (p).transactions) AS r) AS exact FROM places, reader_backlog('k', p) AS b WHERE i = 2;
SELECT error_of(s) FROM unnest(ARRAY['SELECT reader_backlog(''other'', p) FROM places', 'SELECT reader_backlog(''k'', NULL)', 'SELECT reader_backlog(NULL, p) FROM places']) AS s;
DROP TABLE k, places, u, p, b, other, before;
DROP FUNCTION shout;
DROP ROLE inorder_watcher;
