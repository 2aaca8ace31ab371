-- Make an existing table with any key readable, without rewriting the table.
CREATE VIEW steps AS SELECT null::text AS step;
CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int);
INSERT INTO orders (n) SELECT generate_series(1, 1000);
SELECT pg_relation_filenode('orders') AS before \gset
-- Index names contain the OID of the table, which is masked here. psql does not echo the statements below.
CREATE FUNCTION prepared(relation regclass, key_column name DEFAULT 'xact') RETURNS SETOF text LANGUAGE sql AS $$
    SELECT regexp_replace(s, '_\d{4,}_number', '_OID_number', 'g') FROM feed_prepare(relation, key_column) AS s
$$;
SELECT prepared('orders');
SELECT prepared('orders', 'Number');
\set ECHO none
SELECT feed_prepare('orders') \gexec
\set ECHO all
SELECT pg_relation_filenode('orders') = :before AS no_rewrite, attnotnull, atthasmissing FROM pg_attribute WHERE attrelid = 'orders'::regclass AND attname = 'xact';
SELECT prepared('orders');
-- Existing rows count as one transaction, number 0.
SELECT count(*), min(xact), max(xact) FROM orders;
INSERT INTO orders (n) VALUES (1001), (1002);
SELECT count(*) AS old, count(*) FILTER (WHERE xact > 0) AS new FROM orders;
SELECT feed_create('all', 'orders'), feed_create('new', 'orders', 'now');
INSERT INTO orders (n) VALUES (1003);
SELECT count(*), min(n), max(n) FROM feed_read('all', null::orders, 600);
SELECT count(*), min(n), max(n) FROM feed_read('all', null::orders, 600);
SELECT n FROM feed_read('new', null::orders);
SELECT refused('INSERT INTO orders (n, xact) VALUES (1, 0)'), refused('UPDATE orders SET xact = 0 WHERE n = 1002');
SELECT feed_drop('all'), feed_drop('new');
-- The index does not contain rows with number 0. These rows are read first, in batches, by the primary key.
SELECT is_partial, order_columns FROM inorder_internal.feed_table WHERE relation = 'orders'::regclass;
SELECT feed_create('all', 'orders'), exact_count_start('orders');
SELECT exact_count('orders'), caught_up, backlog_rows FROM feeds;
SELECT count(*), min(n), max(n) FROM feed_read('all', null::orders, 400);
SELECT (position).partial, (position).last_key FROM inorder_internal.feed_state;
SELECT caught_up, backlog_rows FROM feeds;
SELECT feed_apply('all', 'SELECT n FROM batch', 400);
SELECT count(*), min(n), max(n) FROM feed_read('all', null::orders, 400);
SELECT count(*), min(n), max(n) FROM feed_read('all', null::orders, 400);
SELECT caught_up, backlog_rows FROM feeds;
SELECT array_agg((SELECT count(*) FROM reader_batch_rows('orders', p, null::orders))) FROM reader_split('orders', reader_next_batch('orders', reader_start('orders')), 4) AS p;
-- An index on all rows replaces the partial index. Without either index, the table is not readable.
CREATE INDEX whole ON orders (xact);
SELECT feed_enable('orders');
SELECT is_partial FROM inorder_internal.feed_table WHERE relation = 'orders'::regclass;
INSERT INTO orders (n) VALUES (1004);
SELECT n FROM feed_read('all', null::orders);
DROP INDEX whole;
SELECT error_of('SELECT n FROM feed_read(''all'', null::orders)');
SELECT feed_enable('orders');
SELECT is_partial FROM inorder_internal.feed_table WHERE relation = 'orders'::regclass;
SELECT n FROM feed_read('all', null::orders);
SELECT feed_drop('all');
DROP TABLE orders;
-- Without a primary key, the existing rows are one batch. An index with another predicate is not used.
CREATE TABLE keyless (n int);
INSERT INTO keyless SELECT generate_series(1, 10);
\set ECHO none
SELECT feed_prepare('keyless') \gexec
\set ECHO all
INSERT INTO keyless VALUES (11);
SELECT feed_create('keyless', 'keyless');
SELECT count(*), max(n) FROM feed_read('keyless', null::keyless, 3);
SELECT n FROM feed_read('keyless', null::keyless, 3);
SELECT feed_drop('keyless');
DROP TABLE keyless;
CREATE TABLE other_one (xact bigint NOT NULL DEFAULT xact_id());
CREATE INDEX ON other_one (xact) WHERE xact > 1;
CREATE INDEX ON other_one (xact) WHERE xact >= 0;
CREATE INDEX ON other_one USING brin (xact);
SELECT error_of('SELECT feed_enable(''other_one'')');
CREATE INDEX ON other_one (xact) WHERE xact <> 0;
SELECT feed_enable('other_one');
DROP TABLE other_one;

-- Part of the work is already done: there is an index, a column with another default, or an invalid index.
CREATE TABLE half (id int PRIMARY KEY, xact bigint NOT NULL DEFAULT xact_id());
SELECT prepared('half');
CREATE INDEX ON half (xact);
SELECT prepared('half');
\set ECHO none
SELECT feed_prepare('half') \gexec
\set ECHO all
SELECT error_of($$SELECT feed_prepare('steps')$$);
SELECT error_of($$SELECT feed_prepare('half_pkey')$$);
-- A table that could not be read afterwards is not changed.
CREATE UNLOGGED TABLE fleeting (k int);
SELECT error_of($$SELECT feed_prepare('fleeting')$$);
CREATE TABLE above (k int);
CREATE TABLE below () INHERITS (above);
SELECT error_of($$SELECT feed_prepare('above')$$);
CREATE TABLE parted (id uuid DEFAULT uuid_xact_nextval(), k int) PARTITION BY RANGE (k);
CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (1);
CREATE INDEX ON part (id);
SELECT feed_enable('part');
SELECT error_of($$SELECT feed_prepare('parted')$$);
DROP TABLE fleeting, above, below, parted;
SELECT count(*) AS null_for_null FROM feed_prepare(NULL);
-- A column has this name, but does not contain transaction numbers.
ALTER TABLE half ADD taken bigint, ADD text text DEFAULT 'x';
SELECT error_of(format('SELECT feed_prepare(''half'', %L)', c)) FROM unnest('{taken,text,id}'::name[]) AS c;
DROP TABLE half;

-- Steps that an interrupted run has completed are not repeated; an index that it left invalid is rebuilt.
CREATE TABLE torn (k int, xact bigint NOT NULL DEFAULT xact_id()) PARTITION BY LIST (k);
CREATE TABLE torn_1 PARTITION OF torn FOR VALUES IN (1);
CREATE TABLE torn_2 PARTITION OF torn FOR VALUES IN (2);
\set ECHO none
SELECT s FROM feed_prepare('torn') WITH ORDINALITY AS f(s, n) WHERE n <= 4 \gexec
\set ECHO all
UPDATE pg_index SET indisvalid = false WHERE indrelid = 'torn_2'::regclass;
SELECT prepared('torn');
\set ECHO none
SELECT feed_prepare('torn') \gexec
\set ECHO all
SELECT indrelid::regclass AS table, indisvalid FROM pg_index WHERE indrelid::regclass::text ~ '^torn' ORDER BY 1;
SELECT prepared('torn');
DROP TABLE torn;

-- Nested partitions in several schemas, with names that need quotes and names of maximum length.
CREATE SCHEMA "Other one";
CREATE TABLE "Big 'un %s" (at int, n int) PARTITION BY RANGE (at);
CREATE TABLE "Other one"."abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ-1234567%I" PARTITION OF "Big 'un %s" FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (at);
CREATE TABLE "Other one"."数据数据数据数据数据数据数据数据数据数据数" PARTITION OF "Other one"."abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ-1234567%I" FOR VALUES FROM (0) TO (5);
CREATE TABLE plain PARTITION OF "Big 'un %s" FOR VALUES FROM (10) TO (20);
INSERT INTO "Big 'un %s" SELECT g % 15, g FROM generate_series(1, 300) AS g WHERE g % 15 < 5 OR g % 15 >= 10;
SELECT prepared('"Big ''un %s"', 'The "number"');
\set ECHO none
SELECT feed_prepare('"Big ''un %s"', 'The "number"') \gexec
\set ECHO all
SELECT indrelid::regclass AS table, indisvalid FROM pg_index WHERE indrelid IN (SELECT relid FROM pg_partition_tree('"Big ''un %s"')) ORDER BY indrelid::regclass::text COLLATE "C";
INSERT INTO "Big 'un %s" VALUES (1, 301), (11, 302);
SELECT feed_create('big', '"Big ''un %s"');
SELECT count(*), max(n) FROM feed_read('big', null::"Big 'un %s", 1);
SELECT n FROM feed_read('big', null::"Big 'un %s", 1) ORDER BY n;
SELECT feed_drop('big');
SET client_min_messages = warning;
DROP TABLE "Big 'un %s";
DROP SCHEMA "Other one" CASCADE;
RESET client_min_messages;
-- A table that is readable by its key needs no other column. A feed that read by another column would skip rows.
CREATE TABLE keyed (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
SELECT feed_enable('keyed');
SELECT error_of($$SELECT feed_prepare('keyed')$$);
SELECT prepared('keyed', 'id');
ALTER TABLE keyed ADD xact bigint NOT NULL DEFAULT 0, ALTER xact SET DEFAULT xact_id();
CREATE INDEX ON keyed (xact);
SELECT feed_enable('keyed', 'xact'), feed_enable('keyed', 'id'), feed_create('keyed', 'keyed', key_column => 'id');
INSERT INTO keyed (n) VALUES (1);
SELECT n FROM feed_read('keyed', null::keyed);
INSERT INTO keyed (n, xact) VALUES (2, 0);
SELECT error_of($$SELECT feed_enable('keyed', 'xact')$$);
SELECT error_of($$SELECT exact_count_start('keyed', 'xact')$$);
ALTER TABLE keyed ALTER id DROP DEFAULT;
SELECT error_of($$SELECT feed_enable('keyed')$$);
SELECT n FROM feed_read('keyed', null::keyed);
SELECT feed_drop('keyed');
DROP TABLE keyed;
-- The base must not be lower than the base of the numbers that a feed has read.
CREATE TABLE lowered (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(1000), n int);
SELECT feed_create('lowered', 'lowered', 'now');
ALTER TABLE lowered ALTER id SET DEFAULT uuid_xact_nextval();
SELECT regexp_replace(error_of($$SELECT feed_enable('lowered')$$), '\d{3,}', 'N', 'g');
SELECT feed_rebase('lowered') > 900 AS raised;
INSERT INTO lowered (n) VALUES (1);
SELECT n FROM feed_read('lowered', null::lowered);
SELECT feed_drop('lowered');
DROP TABLE lowered;
DROP FUNCTION prepared;
DROP VIEW steps;
