-- feed_wait() returns whether a read would find rows. test/python/test_feed_wait.py tests that it wakes up.
CREATE OR REPLACE FUNCTION inorder_internal.first_number() RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint';  -- the first batch is 1
\set SHOW_CONTEXT never
CREATE TABLE waited (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
SELECT feed_create('f', 'waited');
SELECT reader_start('waited') AS start \gset
SELECT feed_wait('f', '0'), reader_wait('waited', :'start', '0');
BEGIN;
INSERT INTO waited (n) VALUES (1);
SELECT feed_wait('f', '0'), reader_wait('waited', :'start', '0');
COMMIT;
SELECT feed_wait('f'), reader_wait('waited', :'start');
SELECT (feed_take_batch('f', 'w')).number;
SELECT feed_wait('f', owner => CURRENT_USER::regrole);
SELECT feed_finish_batch('f', 1, token) FROM feed_take_batch('f', 'w');
SELECT feed_wait('f', '10 ms'), reader_wait('waited', :'start', '10 ms');
SELECT reader_wait('waited', reader_start('waited', 'now'), '10 ms');
-- A transaction without rows in the table does not end the wait.
CREATE TABLE unrelated ();
SELECT feed_wait('f', '10 ms');
SELECT feed_wait('f', '1.1 s');
SELECT feed_wait('f', '-1 ms');
SELECT feed_wait('f', NULL);
SELECT feed_wait(NULL);
SELECT reader_wait('waited', NULL);
SELECT reader_wait(NULL, :'start');
SELECT reader_wait('unrelated', :'start', '0');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT feed_wait('f');
ROLLBACK;
DROP TABLE unrelated;
SELECT feed_drop('f');
DROP TABLE waited;
