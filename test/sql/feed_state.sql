-- The state may be inconsistent after a dump, a restore or a manual change. It is checked when it is used, and never
-- executed.
CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
CREATE TABLE pairs (a text COLLATE "C", b int, xact bigint NOT NULL DEFAULT xact_id(), PRIMARY KEY (a, b));
CREATE INDEX ON pairs (xact);
SELECT feed_create('events', 'events'), feed_create('pairs', 'pairs'), exact_count_start('events');
INSERT INTO events (n) SELECT generate_series(1, 5);
INSERT INTO pairs SELECT 'k' || g, g FROM generate_series(1, 5) AS g;
SELECT n FROM feed_read('events', null::events, 2);
SELECT b FROM feed_read('pairs', null::pairs, 2);
-- Invalid state.
SELECT regexp_replace(error_of(s), 'row contains.*', 'row …') FROM unnest(ARRAY[
    'UPDATE inorder_internal.feed SET id = 0', 'UPDATE inorder_internal.feed SET id = 4294967296', 'UPDATE inorder_internal.feed SET name = ''''',
    'UPDATE inorder_internal.feed SET name = repeat(''x'', 201)', 'UPDATE inorder_internal.feed_state SET position = NULL', 'UPDATE inorder_internal.feed_state SET position = ROW(1, NULL, NULL, NULL, NULL, NULL, NULL)',
    'UPDATE inorder_internal.feed_state SET position.transactions = ''{(,)}''', 'UPDATE inorder_internal.feed_state SET position.transactions = ''{[-1,5)}''',
    'UPDATE inorder_internal.feed_state SET batch = -1',
    'UPDATE inorder_internal.feed_table SET base = -1', 'UPDATE inorder_internal.feed_table SET base = 281474976710656', 'UPDATE inorder_internal.feed_table SET order_columns = NULL',
    'UPDATE inorder_internal.feed_table SET order_columns = ''{a,NULL}'' WHERE NOT is_uuid', 'UPDATE inorder_internal.feed_table SET order_columns = ''{n}'' WHERE is_uuid',
    'UPDATE inorder_internal.feed SET created = ''infinity''', 'UPDATE inorder_internal.feed_state SET seq = -1', 'UPDATE inorder_internal.feed_state SET caught_up_at = ''-infinity''',
    'UPDATE inorder_internal.count_part SET rows = -1', 'UPDATE inorder_internal.count_part SET counted = ''{(,)}''']) AS s;
-- State that the extension did not write is not used until the owner of the table accepts it.
BEGIN;
UPDATE inorder_internal.feed_state SET position.last_key = (position).last_key WHERE relation = 'pairs'::regclass;
SELECT error_of(s) FROM unnest(ARRAY[$$SELECT feed_read('pairs', null::pairs)$$, $$SELECT (feed_take_batch('pairs', 'w')).number$$, $$SELECT feed_seek('pairs', 'here')$$, $$SELECT feed_read('events', null::events)$$]) AS s;
UPDATE inorder_internal.feed_table SET base = base;
SELECT error_of(s) FROM unnest(ARRAY[$$SELECT feed_read('events', null::events)$$, $$SELECT reader_start('events')$$, $$SELECT feed_create('more', 'events')$$, $$SELECT feed_enable('events')$$, $$SELECT feed_seek('events', 'now')$$]) AS s;
SELECT exact_count('events');
-- feed_rebase() raises the base only as far as transactions in progress require, such as those of autovacuum.
SELECT feed_rebase('events') < 1000 AS events, feed_rebase('pairs') < 1000 AS pairs;
-- This feed was moved on this server while its table was not accepted.
SELECT feed_seek('events', 'here');
SELECT n FROM feed_read('events', null::events);
SELECT b FROM feed_read('pairs', null::pairs);
ROLLBACK;
-- Change the state, execute the statements, and roll back. The change is marked as written by the extension, because
-- other state would not be used.
CREATE FUNCTION with_state(change text, VARIADIC statements text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    answers text[];
BEGIN
    ALTER TABLE inorder_internal.feed_state ALTER written_here DROP EXPRESSION;
    ALTER TABLE inorder_internal.feed_table ALTER written_here DROP EXPRESSION;
    EXECUTE change;
    answers := ARRAY(SELECT error_of(s) FROM unnest(statements) AS s);
    RAISE 'undo' USING ERRCODE = 'IN000';
EXCEPTION WHEN SQLSTATE 'IN000' THEN
    RETURN QUERY SELECT regexp_replace(regexp_replace(a, '[0-9a-f]{8}-[0-9a-f-]{27}', 'KEY', 'g'), '(?!^)\m\d{3,}', 'N', 'g') FROM unnest(answers) AS a;
END $$;
\set read_events 'SELECT feed_read(\'events\', null::events)'
\set read_pairs 'SELECT feed_read(\'pairs\', null::pairs)'
-- Keys of a position that are not values of the key columns.
SELECT with_state($$UPDATE inorder_internal.feed_state SET position.last_key = '{x''); DROP TABLE events; --}' WHERE relation = 'events'::regclass$$, :'read_events');
SELECT with_state($$UPDATE inorder_internal.feed_state SET position.last_key = '{k2,2'' OR true --}' WHERE relation = 'pairs'::regclass$$, :'read_pairs', $$SELECT feed_apply('pairs', 'SELECT FROM batch')$$);
SELECT with_state($$UPDATE inorder_internal.feed_state SET position.last_key = '{"'' || a || ''",2}' WHERE relation = 'pairs'::regclass$$, :'read_pairs');
SELECT with_state($$UPDATE inorder_internal.feed_state SET position.last_key = '{}'$$, :'read_events', :'read_pairs');
SELECT with_state($$UPDATE inorder_internal.feed_state SET position.last_key = '{k2}'$$, :'read_pairs');
SELECT with_state($$UPDATE inorder_internal.feed_state SET position.last_key = '{k2,2,3}'$$, :'read_pairs');
SELECT with_state($$UPDATE inorder_internal.feed_state SET position.last_key = '{k2,NULL}'$$, :'read_pairs');
SELECT with_state($$UPDATE inorder_internal.feed_state SET position.last_key = '{NULL}'$$, :'read_events');
SELECT with_state($$UPDATE inorder_internal.feed_state SET position.last_key = '{{k2},{2}}'$$, :'read_pairs');
SELECT with_state($$UPDATE inorder_internal.feed_state SET position.last_key = NULL$$, :'read_events', :'read_pairs');
-- Positions inside a transaction that the position contains completely, or that does not exist.
SELECT left(error_of($$UPDATE inorder_internal.feed_state SET position.transactions = (position).transactions + inorder_internal.one_number((position).partial)$$), 80) AS refused;
SELECT with_state($$UPDATE inorder_internal.feed_state SET position.partial = 281474976710655$$, :'read_events', :'read_pairs');
SELECT left(error_of($$UPDATE inorder_internal.feed_state SET position.partial = -5$$), 80) AS refused;
-- Members that are not tables.
SELECT with_state($$UPDATE inorder_internal.feed_state SET position.members = ARRAY[NULL, ROW(1, 'x', 'y', NULL, NULL, NULL)::feed_member]$$, :'read_events', :'read_pairs');
-- Columns that the table lacks, or that have a different type or purpose.
SELECT with_state($$UPDATE inorder_internal.feed_table SET key_column = 'n', order_columns = CASE WHEN is_uuid THEN '{n}' ELSE order_columns END$$, :'read_events', :'read_pairs', $$SELECT exact_count('events')$$);
SELECT with_state($$UPDATE inorder_internal.feed_table SET key_column = 'id"; --', order_columns = CASE WHEN is_uuid THEN '{"id\"; --"}'::name[] ELSE order_columns END$$, :'read_events');
SELECT with_state($$UPDATE inorder_internal.feed_table SET order_columns = '{b,a}' WHERE NOT is_uuid$$, :'read_pairs');
SELECT with_state($$UPDATE inorder_internal.feed_table SET is_generated = true$$, :'read_events', :'read_pairs');
SELECT with_state($$UPDATE inorder_internal.feed_table SET is_uuid = false$$, :'read_events');
SELECT with_state($$UPDATE inorder_internal.feed_table SET base = 7$$, :'read_events', :'read_pairs', $$SELECT exact_count('events')$$, $$SELECT feed_seek('events', 'now')$$);
SELECT with_state($$UPDATE inorder_internal.feed_table SET base = 281474976710655$$, :'read_events', $$SELECT * FROM feeds$$);
-- If the state describes a different kind of index, reads take longer, but no rows are lost.
SELECT with_state($$UPDATE inorder_internal.feed_table SET is_partial = NOT is_partial$$, :'read_events', :'read_pairs', $$SELECT exact_count('events')$$);
-- Relations for which feeds are impossible, and a table that was not enabled.
SELECT with_state($$UPDATE inorder_internal.feed SET relation = 'pg_class'$$, :'read_events', $$SELECT feed_seek('events', 'now')$$, $$SELECT * FROM feeds$$, $$SELECT feed_drop('events')$$);
SELECT with_state($$UPDATE inorder_internal.feed SET relation = 'feeds' WHERE name = 'events'$$, :'read_events', $$SELECT * FROM feeds$$);
SELECT with_state($$UPDATE inorder_internal.feed SET relation = 'pairs' WHERE name = 'events'$$, :'read_events', $$SELECT feed_read('events', null::pairs)$$);
SELECT with_state($$DELETE FROM inorder_internal.feed_table$$, :'read_events', :'read_pairs', $$SELECT exact_count('events')$$, $$SELECT * FROM feeds$$);
-- A stored count of another table, or of future transactions, is ignored.
CREATE FUNCTION counted(change text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    answer bigint;
BEGIN
    EXECUTE change;
    answer := exact_count('events');
    RAISE 'undo' USING ERRCODE = 'IN000';
EXCEPTION WHEN SQLSTATE 'IN000' THEN
    RETURN answer;
END $$;
SELECT exact_count_fold('events');
SELECT counted(c) FROM unnest(ARRAY['UPDATE inorder_internal.count_part SET storage = ''''', 'UPDATE inorder_internal.count_part SET storage = storage || ''/1'', rows = 9',
    'UPDATE inorder_internal.count_part SET counted = ''{[0,281474976710655)}'', rows = 9', 'UPDATE inorder_internal.count_part SET counted = ''{}'', rows = 0',
    'UPDATE inorder_internal.count_part SET part = ''pairs''']) AS c;
SELECT n FROM feed_read('events', null::events);
SELECT b FROM feed_read('pairs', null::pairs);
SELECT feed_drop(name) FROM feeds;
DROP FUNCTION with_state, counted;
DROP TABLE events, pairs;
