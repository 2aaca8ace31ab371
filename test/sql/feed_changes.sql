-- Change a table after feed_enable(). Readers that relied on the changed property raise an error, and lose no rows.
-- track_counts is off, because feed_enable() would otherwise warn about deleted and updated rows in some runs.
SET track_counts = off;
CREATE TABLE k (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int, note uuid);
CREATE TABLE d (id int PRIMARY KEY, xact bigint NOT NULL DEFAULT xact_id(), other bigint NOT NULL DEFAULT 0);
CREATE INDEX ON d (xact);
CREATE TABLE g (id int PRIMARY KEY, xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED);
CREATE INDEX ON g (xact);
SELECT feed_create(t, t::regclass), exact_count_start(t::regclass) FROM unnest('{k,d,g}'::text[]) AS t;
CREATE FUNCTION said(feed text) RETURNS TABLE (way text, answer text) LANGUAGE sql BEGIN ATOMIC
    SELECT w, error_of(format(s, feed)) FROM (VALUES
        ('read', 'SELECT feed_read(%1$L, null::%1$I)'), ('apply', 'SELECT feed_apply(%1$L, ''SELECT 1 FROM batch'')'), ('batch', 'SELECT (feed_take_batch(%1$L, ''w'')).number'),
        ('stateless', 'SELECT reader_batch_rows(%1$L, reader_next_batch(%1$L, reader_start(%1$L)), null::%1$I)'), ('count', 'SELECT exact_count(%1$L)'), ('fold', 'SELECT exact_count_fold(%1$L)')) AS v(w, s);
END;
INSERT INTO k (n) VALUES (1);
INSERT INTO d VALUES (1);
INSERT INTO g VALUES (1);

-- Triggers of the guard are disabled, dropped, or no longer ENABLE ALWAYS.
ALTER TABLE k DISABLE TRIGGER zz_inorder_update;
SELECT * FROM said('k');
ALTER TABLE k ENABLE TRIGGER zz_inorder_update;
SELECT error_of($$SELECT feed_read('k', null::k)$$);
ALTER TABLE k ENABLE ALWAYS TRIGGER zz_inorder_update;
SELECT n FROM feed_read('k', null::k);
INSERT INTO k (n) VALUES (2);
DROP TRIGGER zz_inorder_guard ON k;
SELECT error_of($$SELECT feed_read('k', null::k)$$);
SELECT feed_enable('k');
-- Rows may have been written without the guard: the owner of the feed decides what to do.
SELECT error_of($$SELECT feed_read('k', null::k)$$);
SELECT feed_seek('k', 'here');
SELECT n FROM feed_read('k', null::k);
-- Calling feed_enable() again changes nothing.
SELECT feed_enable('k');
SELECT n FROM feed_read('k', null::k);
INSERT INTO k (n) VALUES (3);
ALTER TABLE k DISABLE TRIGGER ALL;
ALTER TABLE k ENABLE TRIGGER ALL;
SELECT error_of($$SELECT exact_count('k')$$);
SELECT feed_enable('k');
SELECT feed_create('again', 'k');
SELECT feed_seek('k', 'here');
SELECT n FROM feed_read('k', null::k);
SELECT feed_drop('again');

-- Two columns exchange their names. Existing rows have the number in one column, but would be read by the other.
BEGIN;
ALTER TABLE d RENAME xact TO x;
ALTER TABLE d RENAME other TO xact;
ALTER TABLE d RENAME x TO other;
CREATE INDEX ON d (xact);
INSERT INTO d (id) VALUES (2);
SELECT * FROM said('d');
SELECT feed_enable('d');
SELECT key_column FROM inorder_internal.feed_table WHERE relation = 'd'::regclass;
SELECT id FROM feed_read('d', null::d);
ROLLBACK;
-- The column is no longer generated: statements can supply values that no trigger checks.
ALTER TABLE g ALTER xact DROP EXPRESSION;
INSERT INTO g VALUES (2, 7);
SELECT * FROM said('g');
SELECT error_of($$SELECT feed_enable('g')$$);
UPDATE g SET xact = xact;
SELECT refused('UPDATE g SET xact = 8 WHERE id = 2');

-- The table is no longer permanent, or has inheritance children.
ALTER TABLE k SET UNLOGGED;
SELECT * FROM said('k');
ALTER TABLE k SET LOGGED;
SELECT n FROM feed_read('k', null::k);
CREATE TABLE child () INHERITS (k);
INSERT INTO child (n) VALUES (4);
SELECT * FROM said('k');
DROP TABLE child;
SELECT n FROM feed_read('k', null::k);
CREATE TABLE p (id uuid DEFAULT uuid_xact_nextval(), n int, PRIMARY KEY (id, n)) PARTITION BY LIST (n);
CREATE UNLOGGED TABLE p1 PARTITION OF p FOR VALUES IN (1);
SELECT error_of($$SELECT feed_create('p', 'p')$$);
DROP TABLE p1;
SELECT feed_create('p', 'p'), exact_count_start('p');
CREATE UNLOGGED TABLE p1 PARTITION OF p FOR VALUES IN (1);
SELECT * FROM said('p');
SELECT feed_drop('p'), exact_count_stop('p'), feed_disable('p');
DROP TABLE p;

-- feed_enable() must see all rows that were inserted before the guard existed.
SELECT feed_drop(name) FROM feeds;
SELECT exact_count_stop(t) FROM unnest('{k,d,g}'::regclass[]) AS t;
SELECT feed_disable(t) FROM unnest('{k,d,g}'::regclass[]) AS t;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT error_of($$SELECT feed_enable('k')$$);
SELECT error_of($$SELECT feed_create('k', 'k')$$);
SELECT error_of($$SELECT feed_rebase('k')$$);
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT error_of($$SELECT exact_count_start('k')$$);
COMMIT;
SELECT feed_enable('k');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT exact_count_start('k') = count(*) AS guarded_before FROM k;
COMMIT;
SELECT exact_count_stop('k');

-- feed_rebase() raises the base above the numbers in positions that readers keep.
SELECT feed_rebase('k', 0) AS base, feed_rebase('k', 5000000000) > 4000000000 AS raised;
INSERT INTO k (n) VALUES (5);
SELECT uuid_xact_id(id) > 5000000000 AS beyond FROM k WHERE n = 5;
SELECT feed_rebase('k', 6000000000) > feed_rebase('k') - 1000 AS once;
SELECT error_of('SELECT feed_rebase(''k'', ' || b || ')') FROM unnest('{-1,281474976710656}'::bigint[]) AS b;
SELECT regexp_replace(error_of('SELECT feed_rebase(''k'', 281474976710655)'), '\d{3,}', 'N', 'g');
-- A position is inside a transaction with a number above all other numbers.
CREATE TABLE q (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(7000000000), n int);
INSERT INTO q (n) VALUES (1), (2);
SELECT feed_create('q', 'q');
SELECT n FROM feed_read('q', null::q, 1);
ALTER TABLE q DISABLE TRIGGER ALL;
TRUNCATE q;
ALTER TABLE q ALTER id SET DEFAULT uuid_xact_nextval();
WITH r AS MATERIALIZED (SELECT feed_rebase('q') AS base) SELECT inorder_internal.next_transaction(base) > (position).partial AS beyond FROM r, inorder_internal.feed_state AS s JOIN inorder_internal.feed AS f ON f.id = s.feed WHERE f.name = 'q';
INSERT INTO q (n) VALUES (3);
-- The guard was disabled before feed_rebase().
SELECT feed_seek('q', 'here');
SELECT n FROM feed_read('q', null::q);
SELECT feed_disable('k'), feed_drop('q'), feed_disable('q');
DROP FUNCTION said;
DROP TABLE k, d, g, q;
