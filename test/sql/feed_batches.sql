-- Workers take several batches of one feed at the same time, each with a token. Batches may be returned, dead, or
-- discarded.
CREATE OR REPLACE FUNCTION inorder_internal.first_number() RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint';  -- the first batch is 1
\set SHOW_CONTEXT never
CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
SELECT feed_create('f', 'events');
INSERT INTO events (n) SELECT generate_series(1, 3);
INSERT INTO events (n) SELECT generate_series(4, 9);
CREATE VIEW shown AS
SELECT number, worker, tries, max_tries, lease_end > now() AS leased, failed IS NOT NULL AS failed, reason, dead_since IS NOT NULL AS is_dead
FROM feed_batches ORDER BY number;
-- Each worker has its own batch. If the worker asks again, it gets the same batch with a new token.
SELECT number, token IS NOT NULL AS token, tries, lease_end BETWEEN now() + '299 s' AND clock_timestamp() + '5 min' AS lease FROM feed_take_batch('f', 'a', 2);
SELECT number AS b, token AS b_token FROM feed_take_batch('f', 'b', 2) \gset
SELECT number AS a, token AS a_token, tries, lease_end BETWEEN now() + '599 s' AND clock_timestamp() + '10 min' AS lease FROM feed_take_batch('f', 'a', 7, lease => '10 min') \gset
\echo :a :b :tries :lease
SELECT array_agg(n) FROM feed_batch_rows('f', :a, null::events);
SELECT array_agg(n) FROM feed_batch_rows('f', :b, null::events);
SELECT * FROM shown;
SELECT worker_batches, dead_batches, unfinished_batch, isempty(position * multirange(int8range((SELECT min(uuid_xact_id(id)) FROM events), NULL))) AS nothing_read FROM feeds;
-- Batches can be finished in any order, but only with their token, and only once.
SELECT feed_finish_batch('f', :b);
SELECT feed_finish_batch('f', :b, :a_token);
SELECT feed_finish_batch('f', :b, :b_token);
SELECT feed_finish_batch('f', :b, :b_token);
SELECT feed_batch_rows('f', :b, null::events);
SELECT feed_finish_batch('f', 99, 1), feed_finish_batch('f', NULL, 1);
-- The first worker has not finished its batch: transactions that have rows in this batch have not passed.
SELECT feed_passed('events') <= (SELECT min(uuid_xact_id(id)) FROM events) AS waits;
-- Functions that read the whole feed raise an error while workers have batches.
SELECT * FROM feed_read('f', null::events);
SELECT * FROM feed_peek('f', null::events);
SELECT feed_apply('f', 'SELECT FROM batch');
-- Return a batch with a reason. The next worker that asks gets the batch, unless retry_after delays it.
SELECT feed_fail_batch('f', :a, :b_token, 'poison');
SELECT feed_fail_batch('f', :a, :a_token, 'poison', retry_after => '1 h');
SELECT * FROM shown;
SELECT feed_finish_batch('f', :a, :a_token);
SELECT number AS b, token AS b_token FROM feed_take_batch('f', 'b', 2) \gset
\echo :b
UPDATE inorder_internal.worker_batch SET lease_end = now() WHERE number = :a;
SELECT feed_wait('f', '0');
SELECT number AS c, token AS c_token, tries FROM feed_take_batch('f', 'c', 2, max_tries => 3) \gset
\echo :c :tries
SELECT feed_fail_batch('f', :c, :c_token, repeat('x', 10000));
SELECT length(reason), feed_passed('events') <= (SELECT min(uuid_xact_id(id)) FROM events) AS waits FROM feed_batches WHERE number = :c;
SELECT * FROM feed_retry_batch('f', :c);
-- A dead batch does not stop the feed.
UPDATE inorder_internal.worker_batch SET dead_since = now() WHERE number = :c;
SELECT feed_finish_batch('f', :b, :b_token);
SELECT array_agg(n) FROM feed_read('f', null::events);
SELECT worker_batches, dead_batches, unfinished_batch, backlog_rows FROM feeds;
SELECT array_agg(n) FROM feed_batch_rows('f', :c, null::events);
SELECT number FROM feed_take_batch('f', 'b', 2);
-- Retry a dead batch.
SELECT * FROM feed_retry_batch('f', :c);
SELECT number, tries FROM feed_take_batch('f', 'c', 2, max_tries => 1);
-- A worker that asks again within the lease keeps its batch, and this does not count as a try. If the lease has
-- expired, the worker may have crashed: asking again counts as a try, and after too many tries the batch is dead.
SELECT number, tries FROM feed_take_batch('f', 'c', 2, max_tries => 1);
UPDATE inorder_internal.worker_batch SET tried = now();
SELECT number, tries FROM feed_take_batch('f', 'c', 2, max_tries => 1);
SELECT number, tries, reason = repeat('x', 2000) AS reason, is_dead FROM shown;
-- Finish a dead batch manually.
SELECT feed_finish_batch('f', :c);
SELECT feed_finish_batch('f', :c);
SELECT * FROM shown;
SELECT feed_passed('events') > (SELECT max(uuid_xact_id(id)) FROM events) AS passed;
-- After the lease has expired, the token remains valid until another worker gets the batch.
INSERT INTO events (n) VALUES (10);
SELECT number AS a, token AS a_token FROM feed_take_batch('f', 'a', NULL) \gset
UPDATE inorder_internal.worker_batch SET lease_end = now();
SELECT feed_renew_batch('f', :a, :a_token, '1 min') BETWEEN now() + '59 s' AND clock_timestamp() + '1 min' AS renewed;
SELECT number FROM feed_take_batch('f', 'b', NULL);
UPDATE inorder_internal.worker_batch SET lease_end = now();
SELECT number, token AS b_token FROM feed_take_batch('f', 'b', NULL) \gset
SELECT feed_finish_batch('f', :a, :a_token);
SELECT feed_renew_batch('f', :a, :a_token);
SELECT feed_fail_batch('f', :a, :a_token, 'late');
SELECT feed_finish_batch('f', :a, :b_token);
SELECT number FROM feed_take_batch('f', 'b', NULL);
-- Within one transaction, the same call returns the same result, and counts as one try. Another transaction gets a new
-- token.
INSERT INTO events (n) VALUES (12);
SELECT (feed_take_batch('f', 'a', 1)).number - :a AS later, (feed_take_batch('f', 'a', 1)).tries;
BEGIN;
SELECT number AS a, token AS a_token, lease_end AS a_end FROM feed_take_batch('f', 'a', 1) \gset
SELECT number = :a AND token = :a_token AND lease_end = :'a_end' AS same, tries FROM (SELECT (feed_take_batch('f', 'a', 1)).*) AS b;
SAVEPOINT s;
SELECT number = :a AND token = :a_token AS same, tries FROM feed_take_batch('f', 'a', 1, lease => '1 s', max_tries => 1);
ROLLBACK TO s;
SELECT number = :a AND token = :a_token AS same FROM feed_take_batch('f', 'a', 1);
COMMIT;
SELECT token <> :a_token AS another, token < 2::numeric ^ 53 AS in_json, tries FROM feed_take_batch('f', 'a', 1);
SELECT feed_finish_batch('f', :a, :a_token);
BEGIN;
SELECT (b).number = :a AS same, feed_fail_batch('f', (b).number, (b).token, 'bad') FROM feed_take_batch('f', 'a', 1) AS b;
SELECT number = :a AS same, tries FROM feed_take_batch('f', 'a', 1);
SELECT feed_finish_batch('f', number, token) FROM feed_take_batch('f', 'a', 1);
SELECT number FROM feed_take_batch('f', 'a', 1);
COMMIT;
-- Arguments that are out of range.
SELECT feed_take_batch('f', '', 1);
SELECT feed_take_batch('f', repeat('w', 10000), 1);
SELECT feed_take_batch('f', NULL, 1);
SELECT feed_take_batch('f', 'a', 0);
INSERT INTO events (n) VALUES (12);
SELECT feed_take_batch('f', 'a', 0);
SELECT feed_take_batch('f', 'a', 1, lease => '-1 s');
SELECT feed_take_batch('f', 'a', 1, lease => '1 day 1 s');
SELECT feed_take_batch('f', 'a', 1, lease => NULL);
SELECT feed_take_batch('f', 'a', 1, max_tries => 0);
SELECT number AS a, token AS a_token FROM feed_take_batch('f', 'a', 1, lease => '1 day', max_tries => NULL) \gset
SELECT feed_renew_batch('f', :a, :a_token, '0.9 s');
SELECT feed_fail_batch('f', :a, :a_token, NULL);
SELECT feed_fail_batch('f', :a, :a_token, '', retry_after => '-1 s');
SELECT feed_fail_batch('f', :a, :a_token, '', retry_after => NULL);
SELECT feed_retry_batch('f', :a);
SELECT feed_retry_batch('f', 99);
-- A batch that waits for retry_after can be retried at once.
SELECT feed_fail_batch('f', :a, :a_token, '', retry_after => '1 day');
SELECT number FROM feed_take_batch('f', 'a', 1);
SELECT feed_retry_batch('f', :a);
SELECT number = :a AS same, token AS a_token, tries FROM feed_take_batch('f', 'a', 1) \gset
\echo :same :tries
SELECT feed_fail_batch('f', :a, :a_token, '');
-- feed_seek() with 'here' gives batches new numbers, and with 'beginning' delivers their rows again. Other positions
-- must not lose the rows of a dead batch.
SELECT number AS a, token AS a_token FROM feed_take_batch('f', 'a', 1) \gset
INSERT INTO events (n) VALUES (13);
SELECT number AS b, token AS b_token FROM feed_take_batch('f', 'b', 1, max_tries => 1) \gset
SELECT feed_fail_batch('f', :b, :b_token, 'bad');
SELECT feed_seek('f', 'here');
SELECT number - :b AS later, worker, tries, reason, dead_since IS NOT NULL AS is_dead FROM feed_batches ORDER BY 1;
SELECT feed_finish_batch('f', :a, :a_token);
SELECT feed_seek('f', 'now');
SELECT feed_seek('f', int8multirange(int8range(0, (SELECT max(uuid_xact_id(id)) FROM events))));
SELECT count(*) FROM feed_batches;
SELECT array_agg(n) FROM feed_read('f', null::events);
SELECT number AS a FROM feed_take_batch('f', 'a', NULL) \gset
INSERT INTO events (n) VALUES (14);
SELECT number AS b, token AS b_token FROM feed_take_batch('f', 'b', 1, max_tries => 1) \gset
SELECT feed_fail_batch('f', :b, :b_token, 'bad');
SELECT feed_seek('f', 'beginning');
SELECT count(*) FROM feed_batches;
SELECT count(*) FROM feed_read('f', null::events);
-- A feed with an order column has one batch at a time: no other batch is given out until this batch is finished, even
-- if it is dead.
CREATE TABLE streams (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), seq bigint GENERATED ALWAYS AS IDENTITY);
CREATE INDEX ON streams (seq);
SELECT feed_create('ordered', 'streams', order_column => 'seq');
INSERT INTO streams SELECT FROM generate_series(1, 4);
SELECT number AS a, token AS a_token FROM feed_take_batch('ordered', 'a', 2, max_tries => 1) \gset
SELECT array_agg(seq) FROM feed_batch_rows('ordered', :a, null::streams);
SELECT number, feed_wait('ordered', '0') FROM feed_take_batch('ordered', 'b', 2);
SELECT feed_peek('ordered', null::streams);
SELECT feed_fail_batch('ordered', :a, :a_token, 'bad');
SELECT number, feed_wait('ordered', '0') FROM feed_take_batch('ordered', 'b', 2);
SELECT feed_apply('ordered', 'SELECT FROM batch');
SELECT feed_seek('ordered', 'here');
SELECT feed_retry_batch('ordered', number) FROM feed_batches WHERE name = 'ordered';
SELECT array_agg(r.seq), feed_finish_batch('ordered', b.number, b.token) FROM feed_take_batch('ordered', 'b', 1) AS b, feed_batch_rows('ordered', b.number, null::streams) AS r GROUP BY b.number, b.token;
SELECT array_agg(r.seq), feed_finish_batch('ordered', b.number, b.token) FROM feed_take_batch('ordered', 'b', 1) AS b, feed_batch_rows('ordered', b.number, null::streams) AS r GROUP BY b.number, b.token;
SELECT array_agg(seq) FROM feed_read('ordered', null::streams);
-- A renamed feed keeps its batches. Dropping a feed raises a warning about its dead batches.
INSERT INTO events (n) VALUES (15);
SELECT number AS b, token AS b_token FROM feed_take_batch('f', 'b', 1, max_tries => 1) \gset
SELECT feed_rename('f', 'g');
SELECT feed_fail_batch('g', :b, :b_token, 'bad');
SELECT name, number = :b AS same FROM feed_batches;
SELECT feed_drop('ordered');
SELECT feed_drop('g');
SELECT count(*) FROM inorder_internal.worker_batch;
-- Batches of a dropped table remain visible until the feed is dropped or created again.
SELECT feed_create('f', 'events'), feed_create('read', 'events'), feed_create('pending', 'events');
SELECT number AS b, token AS b_token FROM feed_take_batch('f', 'b', 1, max_tries => 1) \gset
SELECT feed_fail_batch('f', :b, :b_token, 'bad');
SELECT (feed_take_batch('pending', 'w')).number;
DROP TABLE events, streams;
SELECT name, relation, worker_batches, dead_batches, unfinished_batch FROM feeds ORDER BY name;
CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
SELECT feed_enable('events');
SELECT name, relation FROM feeds ORDER BY name;
SELECT name, relation, is_dead FROM feed_batches CROSS JOIN shown ORDER BY name, is_dead;
SELECT c, error_of('SELECT ' || c) FROM unnest(ARRAY[
    $$feed_read('f', null::events)$$, $$feed_peek('f', null::events)$$, $$feed_apply('f', 'SELECT FROM batch')$$,
    $$(feed_take_batch('pending', 'w')).number$$, $$feed_batch_rows('pending', 1, null::events)$$, $$feed_finish_batch('pending', 1)$$,
    $$feed_wait('f')$$, $$feed_seek('f', 'now')$$, $$feed_take_batch('f', 'b')$$, $$feed_renew_batch('f', 1, 1)$$,
    $$feed_fail_batch('f', 1, 1, 'bad')$$, $$feed_retry_batch('f', 1)$$, $$feed_peek('read', null::events)$$]) AS c;
SELECT feed_drop('pending');
SELECT feed_create('f', 'events');
SELECT count(*) FROM inorder_internal.worker_batch;
SELECT feed_drop('f');
DROP TABLE events;
