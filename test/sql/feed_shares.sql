-- Workers divide a feed by a column: shares and their order, batches that hold back a share, and calls that are refused
-- for such a feed.
CREATE OR REPLACE FUNCTION inorder_internal.first_number() RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint';  -- the first batch is 1
\set SHOW_CONTEXT never
CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), seq bigint GENERATED ALWAYS AS IDENTITY, stream text NOT NULL, version int, note text, made text GENERATED ALWAYS AS ('x') STORED NOT NULL);
CREATE INDEX ON events (seq);
CREATE VIEW queued AS
SELECT number, share, rows, worker, tries, dead_since IS NOT NULL AS is_dead FROM feed_batches WHERE name = 'f' ORDER BY number, share, rows DESC;
-- The query is planned at each call. A cached plan, such as that of an SQL function on version 19, would have the
-- former column types.
CREATE FUNCTION rows_of(number bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    found text;
BEGIN
    EXECUTE $q$SELECT string_agg(concat(stream, version), ' ') FROM feed_batch_rows('f', $1, null::events)$q$ INTO found USING number;
    RETURN found;
END $$;
-- These columns and arguments are refused.
SELECT feed_create('f', 'events', partition_by => 'nothing');
SELECT feed_create('f', 'events', partition_by => 'version');
SELECT feed_create('f', 'events', partition_by => 'note');
SELECT feed_create('f', 'events', partition_by => 'made');
SELECT feed_create('f', 'events', partition_by => 'stream', shares => 0);
SELECT feed_create('f', 'events', partition_by => 'stream', shares => 1025);
SELECT feed_create('f', 'events', shares => 4);
SELECT feed_create('f', 'events', partition_by => 'stream', whole_transactions => true);
CREATE TABLE doubles (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), amount numeric NOT NULL);
SELECT feed_create('f', 'doubles', partition_by => 'amount');
DROP TABLE doubles;
-- There are sixteen shares unless another number is given.
SELECT feed_create('f', 'events', partition_by => 'stream');
SELECT partition_by, shares, blocked_shares FROM feeds;
SELECT feed_drop('f');
SELECT feed_create('f', 'events', order_column => 'seq', partition_by => 'stream', shares => 2);
SELECT order_column, partition_by, shares, blocked_shares FROM feeds;
-- One share has two streams, and the other has one. No batch has rows of both shares, or more rows than
-- requested.
INSERT INTO events (stream, version) SELECT s, v FROM generate_series(1, 4) AS v, unnest('{a,b,c}'::text[]) AS s ORDER BY v, s;
SELECT number AS one, token AS one_token FROM feed_take_batch('f', 'w', 6) \gset
SELECT rows_of(:one);
SELECT number AS two, token AS two_token FROM feed_take_batch('f', 'v', 6) \gset
SELECT rows_of(:two);
-- All other rows wait for these two batches.
SELECT * FROM feed_take_batch('f', 'u', 6);
SELECT * FROM queued;
SELECT feed_wait('f', '0');
-- Later rows are added, up to max_rows, to a batch that was not yet given to a worker.
INSERT INTO events (stream, version) VALUES ('a', 5);
INSERT INTO events (stream, version) VALUES ('b', 5);
INSERT INTO events (stream, version) VALUES ('c', 5);
SELECT * FROM feed_take_batch('f', 'u', 6);
SELECT * FROM queued;
-- A worker keeps its share as long as the share has rows.
SELECT feed_finish_batch('f', :one, :one_token);
SELECT feed_finish_batch('f', :two, :two_token);
SELECT number AS two, token AS two_token FROM feed_take_batch('f', 'v', 6) \gset
SELECT rows_of(:two);
SELECT number AS one, token AS one_token FROM feed_take_batch('f', 'w', 6) \gset
SELECT rows_of(:one);
-- A returned batch holds back its share, even while it waits for retry_after.
INSERT INTO events (stream, version) SELECT s, 6 FROM unnest('{a,b,c}'::text[]) AS s;
SELECT feed_fail_batch('f', :one, :one_token, 'later', retry_after => '1 h');
SELECT * FROM feed_take_batch('f', 'w', 6);
SELECT * FROM queued;
UPDATE inorder_internal.worker_batch SET lease_end = now() WHERE number = :one;
SELECT feed_wait('f', '0');
-- A dead batch also holds back its share. The other share continues.
SELECT b.number = :one AS same, feed_fail_batch('f', b.number, b.token, 'poison') FROM feed_take_batch('f', 'w', 6, max_tries => 2) AS b;
SELECT number, tries FROM feed_take_batch('f', 'w', 6);
SELECT * FROM queued;
SELECT worker_batches, dead_batches, blocked_shares, caught_up FROM feeds;
SELECT feed_finish_batch('f', :two, :two_token);
SELECT number AS two, token AS two_token FROM feed_take_batch('f', 'v', 6) \gset
SELECT rows_of(:two);
SELECT feed_finish_batch('f', :two, :two_token);
SELECT * FROM feed_take_batch('f', 'v', 6);
SELECT feed_wait('f', '0');
-- The share continues when the dead batch is finished manually or retried.
SELECT rows_of(:one);
SELECT feed_retry_batch('f', :one);
SELECT * FROM queued;
-- Existing batches are not given out if the table cannot be read.
BEGIN;
ALTER TABLE events DISABLE TRIGGER zz_inorder_update;
SELECT * FROM feed_take_batch('f', 'w', 6);
ROLLBACK;
SELECT number = :one AS same, token AS one_token FROM feed_take_batch('f', 'w', 6) \gset
SELECT feed_finish_batch('f', :one, :one_token);
SELECT feed_passed('events') <= (SELECT uuid_xact_id(id) FROM events WHERE stream = 'c' AND version = 6) AS waits;
SELECT rows_of(number), feed_finish_batch('f', number, token) FROM feed_take_batch('f', 'w', 6);
SELECT * FROM feed_take_batch('f', 'w', 6);
SELECT worker_batches, dead_batches, blocked_shares, caught_up IS NOT FALSE AS caught_up, feed_passed('events') > (SELECT max(uuid_xact_id(id)) FROM events) AS passed FROM feeds;
-- Other functions refuse to read the feed.
SELECT * FROM feed_read('f', null::events);
SELECT * FROM feed_peek('f', null::events);
SELECT feed_apply('f', 'SELECT FROM batch');
SELECT (feed_take_batch('f', 'w')).number;
SELECT feed_finish_batch('f', 1);
-- After feed_rename() and feed_seek() to 'beginning', the batches of workers are discarded, and new batches get other
-- numbers.
SELECT feed_rename('f', 'g');
SELECT feed_rename('g', 'f');
INSERT INTO events (stream, version) SELECT s, 7 FROM unnest('{a,b,c}'::text[]) AS s;
SELECT number AS one, token AS one_token FROM feed_take_batch('f', 'w', 6) \gset
SELECT feed_seek('f', 'here');
SELECT feed_finish_batch('f', :one, :one_token);
SELECT rows_of(number) FROM feed_take_batch('f', 'w', 6);
SELECT rows_of(number) FROM feed_take_batch('f', 'v', 6);
SELECT feed_seek('f', 'beginning');
SELECT * FROM queued;
-- Without a limit, all rows of a share are one batch.
SELECT rows_of(number), feed_finish_batch('f', number, token) FROM feed_take_batch('f', 'w');
SELECT rows_of(number), feed_finish_batch('f', number, token) FROM feed_take_batch('f', 'w');
-- Another column now has the name of the column that divides the feed.
INSERT INTO events (stream, version) SELECT s, 8 FROM unnest('{a,b,c}'::text[]) AS s;
SELECT number AS one, token AS one_token FROM feed_take_batch('f', 'w', 6) \gset
ALTER TABLE events RENAME stream TO key;
SELECT rows_of(:one);
SELECT * FROM feed_take_batch('f', 'v', 6);
ALTER TABLE events RENAME key TO stream;
ALTER TABLE events ALTER stream DROP NOT NULL;
SELECT rows_of(:one);
ALTER TABLE events ALTER stream SET NOT NULL;
SELECT rows_of(:one);
-- varchar has the same hashes as text. Another type has different hashes, so batches would have different rows.
ALTER TABLE events ALTER stream TYPE varchar(10);
SELECT rows_of(:one);
-- A check made for another feed, created after the type was changed, does not apply.
BEGIN;
ALTER TABLE events ALTER stream TYPE int USING 7;
SELECT feed_create('g', 'events', 'now', partition_by => 'stream');
SELECT number FROM feed_take_batch('g', 'v');
SELECT rows_of(:one);
ROLLBACK;
ALTER TABLE events DROP stream;
ALTER TABLE events ADD stream int NOT NULL DEFAULT 7;
SELECT rows_of(:one);
SELECT feed_seek('f', 'here');
SELECT * FROM feed_take_batch('f', 'v', 6);
SELECT feed_seek('f', 'beginning');
SELECT number IS NOT NULL AS taken FROM feed_take_batch('f', 'v');
SELECT rows FROM queued;
-- The server's hash function differs from the one for which the shares were made.
UPDATE inorder_internal.feed SET shared_by.fingerprint = '0';
SELECT * FROM feed_take_batch('f', 'v', 6);
SELECT feed_seek('f', 'now');
SELECT * FROM feed_take_batch('f', 'v', 6);
SELECT feed_drop('f');
SELECT count(*) FROM inorder_internal.share_worker;
DROP VIEW queued;
-- The rows of one transaction are in many batches. Each row is delivered once, in the order of the key.
CREATE TABLE numbered (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, xact bigint NOT NULL DEFAULT xact_id(), n int NOT NULL);
CREATE INDEX ON numbered (xact);
SELECT feed_create('n', 'numbered', partition_by => 'n', shares => 3);
INSERT INTO numbered (n) SELECT i % 5 FROM generate_series(1, 40) AS i;
CREATE FUNCTION all_rows() RETURNS TABLE (keys text, most bigint, amount bigint) LANGUAGE plpgsql AS $$
DECLARE
    b record;
    found int[];
    longest bigint := 0;
    done int[] := '{}';
BEGIN
    LOOP
        SELECT * INTO b FROM feed_take_batch('n', 'w', 7);
        EXIT WHEN b.number IS NULL;
        found := ARRAY(SELECT id::int FROM feed_batch_rows('n', b.number, null::numbered));
        longest := greatest(longest, cardinality(found));
        done := done || found;
        PERFORM feed_finish_batch('n', b.number, b.token);
    END LOOP;
    RETURN QUERY SELECT string_agg(k.ids, ' | ' ORDER BY k.ids), longest, cardinality(done)::bigint
    FROM (SELECT string_agg(d.id::text, ' ' ORDER BY d.place) AS ids
          FROM unnest(done) WITH ORDINALITY AS d(id, place) GROUP BY d.id % 5) AS k;
END $$;
SELECT * FROM all_rows();
DROP FUNCTION all_rows;
SELECT worker_batches, partial IS NULL AS whole FROM feeds;
SELECT feed_drop(name) FROM feeds;
DROP TABLE numbered, events;
-- A column with a nondeterministic collation is refused, because equal keys may have different bytes. Some servers have
-- no such collations.
CREATE FUNCTION divide_by_equal_keys() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
    CREATE TABLE named (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), key text COLLATE any_case NOT NULL);
    PERFORM feed_create('f', 'named', partition_by => 'key');
    RETURN 'divided';
EXCEPTION
    WHEN feature_not_supported THEN RETURN 'column key of table public.named has a nondeterministic collation';
    WHEN object_not_in_prerequisite_state THEN RETURN SQLERRM;
END $$;
SELECT divide_by_equal_keys();
DROP FUNCTION divide_by_equal_keys;
DROP FUNCTION rows_of;
SELECT count(*) FROM feeds;
