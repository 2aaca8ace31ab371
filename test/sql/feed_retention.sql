-- feed_passed() and feed_passed_partitions() return the transactions and partitions that no feed needs any more.
-- feed_rename() renames feeds.
\set SHOW_CONTEXT never
CREATE TABLE kept (id uuid DEFAULT uuid_xact_nextval(), day int) PARTITION BY LIST (day);
CREATE INDEX ON kept (id);
CREATE TABLE kept_1 PARTITION OF kept FOR VALUES IN (1);
CREATE TABLE kept_2 PARTITION OF kept FOR VALUES IN (2);
CREATE TABLE kept_3 PARTITION OF kept FOR VALUES IN (3);
SELECT feed_enable('kept');
-- Without feeds, all transactions that have ended have passed.
INSERT INTO kept (day) VALUES (1);
SELECT feed_passed('kept') > uuid_xact_id(id) AS passed FROM kept;
SELECT feed_passed_partitions('kept');
-- The slowest feed determines the result. Rows of an unfinished batch do not count as read.
SELECT feed_create('fast', 'kept'), feed_create('slow', 'kept');
SELECT feed_passed('kept') <= (SELECT uuid_xact_id(id) FROM kept) AS waits;
SELECT feed_passed_partitions('kept');
SELECT day FROM feed_read('fast', null::kept);
SELECT feed_passed_partitions('kept');
SELECT (feed_take_batch('slow', 'w')).number;
SELECT feed_passed('kept') <= (SELECT uuid_xact_id(id) FROM kept) AS waits;
SELECT feed_passed_partitions('kept');
SELECT feed_finish_batch('slow', 1, token) FROM feed_take_batch('slow', 'w');
INSERT INTO kept (day) VALUES (2);
SELECT feed_passed('kept') BETWEEN (SELECT uuid_xact_id(id) + 1 FROM kept_1) AND (SELECT uuid_xact_id(id) FROM kept_2) AS passed;
SELECT feed_passed_partitions('kept');
-- Insert another row into an old partition.
INSERT INTO kept (day) VALUES (1);
SELECT feed_passed_partitions('kept');
SELECT day FROM feed_read('fast', null::kept);
SELECT day FROM feed_read('slow', null::kept);
SELECT feed_passed_partitions('kept') ORDER BY 1;
-- A row of the calling transaction does not count as read.
BEGIN;
INSERT INTO kept (day) VALUES (2);
SELECT feed_passed_partitions('kept') ORDER BY 1;
ROLLBACK;
-- The partition can be dropped now.
BEGIN;
LOCK TABLE kept_1 IN ACCESS EXCLUSIVE MODE;
SELECT 'kept_1'::regclass IN (SELECT feed_passed_partitions('kept')) AS may_go \gset
\if :may_go
DROP TABLE kept_1;
\endif
COMMIT;
SELECT feed_passed_partitions('kept') ORDER BY 1;
INSERT INTO kept (day) VALUES (3);
SELECT day FROM feed_read('slow', null::kept);
-- A position is inside a transaction that was read in part.
INSERT INTO kept (day) SELECT 3 FROM generate_series(1, 3);
SELECT count(*) FROM feed_read('fast', null::kept, 2);
SELECT count(*) FROM feed_read('slow', null::kept);
SELECT feed_passed_partitions('kept');
-- Partitions that the role may not read directly, a partial index, and a table without partitions.
CREATE ROLE keeper;
GRANT SELECT ON kept TO keeper;
SET ROLE keeper;
SELECT feed_passed('kept') > 0 AS passed, feed_passed_partitions('kept');
SELECT error_of(s) FROM unnest(ARRAY['SELECT feed_passed(NULL)', 'SELECT feed_passed(''kept_2'')', 'SELECT feed_passed_partitions(''pg_authid'')', 'SELECT feed_passed_partitions(4294967295)']) AS s;
RESET ROLE;
CREATE TABLE plain (k int PRIMARY KEY, xact bigint NOT NULL DEFAULT xact_id());
CREATE INDEX ON plain (xact) WHERE xact > 0;
SELECT feed_create('plain', 'plain');
INSERT INTO plain VALUES (1);
SELECT feed_passed('plain'), count(*) FROM feed_passed_partitions('plain');
SELECT k FROM feed_read('plain', null::plain);
SELECT feed_passed('plain') > 0 AS passed, count(*) FROM feed_passed_partitions('plain');
INSERT INTO plain VALUES (2);
-- Without the guard, new rows may have numbers below the result: the call fails.
BEGIN;
ALTER TABLE plain DISABLE TRIGGER zz_inorder_guard;
SELECT feed_passed('plain');
ROLLBACK;
-- As long as an ordered set is read in part, no transaction of the set has passed.
CREATE TABLE steps (xact bigint NOT NULL DEFAULT xact_id(), seq bigint PRIMARY KEY);
CREATE INDEX ON steps (xact);
SELECT feed_create('steps', 'steps', order_column => 'seq');
INSERT INTO steps (seq) SELECT generate_series(1, 4);
SELECT count(*) FROM feed_read('steps', null::steps, 3);
SELECT feed_passed('steps') <= min(xact) AS waits FROM steps;
SELECT count(*) FROM feed_read('steps', null::steps, 3);
SELECT feed_passed('steps') > max(xact) AS passed FROM steps;
DROP TABLE steps;
-- feed_rename(): valid and invalid names.
SELECT (feed_take_batch('plain', 'w')).number;
SELECT error_of(s) FROM unnest(ARRAY['SELECT feed_rename(''plain'', ''fast'')', 'SELECT feed_rename(''plain'', NULL)', 'SELECT feed_rename(''plain'', '''')', 'SELECT feed_rename(''none'', ''new'')', 'SELECT feed_rename(NULL, ''new'')']) AS s;
SELECT feed_grant('plain', 'keeper');
GRANT SELECT ON plain TO keeper;
SELECT format('SET ROLE keeper; SELECT feed_rename(''plain'', ''mine'', owner => %L)', current_user) AS try \gset
:try;
RESET ROLE;
SELECT feed_rename('plain', 'plain'), feed_rename('plain', 'a "new" name');
SELECT name, unfinished_batch FROM feeds WHERE relation = 'plain'::regclass;
SELECT k FROM feed_batch_rows('a "new" name', 1, null::plain);
SELECT feed_finish_batch('a "new" name', 1, token) FROM feed_take_batch('a "new" name', 'w');
SELECT (feed_take_batch('plain', 'w')).number;
DROP TABLE kept, plain;
DROP ROLE keeper;
