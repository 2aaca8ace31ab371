-- exact_count() equals count(*) in the same snapshot, wherever it is called. track_counts is off, because feed_enable()
-- would otherwise warn about deleted and updated rows in some runs.
SET track_counts = off;
\set SHOW_CONTEXT never
CREATE FUNCTION same(name text DEFAULT 'counted') RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    plain bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM %s', name) INTO plain;
    RETURN CASE WHEN plain = exact_count(name::regclass) THEN 'exact ' ELSE 'wrong: ' || exact_count(name::regclass) || ' for ' END || plain;
END $$;
CREATE TABLE counted (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
SELECT error_of($$SELECT exact_count('counted')$$);
SELECT error_of($$SELECT exact_count_fold('counted')$$);
SELECT error_of($$SELECT exact_count_stop('counted')$$);
SELECT error_of($$SELECT exact_count_start(NULL)$$);
SELECT exact_count(NULL) IS NULL AS null_for_null;
SELECT error_of(format('SELECT %s(NULL)', f)) FROM unnest('{exact_count_fold,exact_count_stop}'::text[]) AS f;
SELECT exact_count_start('counted');
SELECT same();
SELECT exact_count_fold('counted');
INSERT INTO counted (n) SELECT generate_series(1, 100);
SELECT same();
SELECT exact_count_fold('counted') AS folded;
SELECT exact_count_fold('counted') AS nothing_new;
SELECT same();
SELECT rows FROM inorder_internal.count_part WHERE relation = 'counted'::regclass;

-- A transaction counts its own uncommitted rows, even with savepoints that are released or rolled back, and with folds
-- in between.
BEGIN;
INSERT INTO counted (n) VALUES (101);
SELECT same();
SELECT exact_count_fold('counted') AS not_yet;
SAVEPOINT a;
INSERT INTO counted (n) VALUES (102), (103);
SELECT same();
SAVEPOINT b;
INSERT INTO counted (n) VALUES (104);
SELECT exact_count_fold('counted') AS not_yet;
SELECT same();
ROLLBACK TO b;
SELECT same();
RELEASE a;
INSERT INTO counted (n) VALUES (105);
SELECT same();
COMMIT;
SELECT same();
SELECT exact_count_fold('counted') AS folded;
BEGIN;
INSERT INTO counted (n) VALUES (106);
SELECT same();
ROLLBACK;
SELECT same();
-- Count at every isolation level, and fold in the counting transaction.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT same();
INSERT INTO counted (n) VALUES (107);
SELECT same();
SELECT exact_count_fold('counted');
SELECT same();
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
INSERT INTO counted (n) VALUES (108);
SELECT same();
COMMIT;
BEGIN READ ONLY;
SELECT same();
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SELECT same();
COMMIT;
-- Rows of a prepared transaction are not counted, and a fold does not lose them.
BEGIN;
INSERT INTO counted (n) VALUES (109);
PREPARE TRANSACTION 'inorder count';
INSERT INTO counted (n) VALUES (110);
SELECT exact_count_fold('counted') AS folded;
SELECT (SELECT count(*) FROM unnest(counted)) AS ranges FROM inorder_internal.count_part;
SELECT same();
COMMIT PREPARED 'inorder count';
SELECT same();
SELECT exact_count_fold('counted') AS folded;
SELECT (SELECT count(*) FROM unnest(counted)) AS ranges FROM inorder_internal.count_part;
SELECT same();
-- Count in the statement that inserts rows, and in a query on the rows.
WITH added AS (INSERT INTO counted (n) VALUES (111) RETURNING 1) SELECT exact_count('counted') = (SELECT count(*) FROM counted) AS same FROM added;
SELECT DISTINCT exact_count('counted') - count(*) OVER () AS difference FROM counted;
-- Count with parallel workers, and without index scans.
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET enable_indexscan = off;
SELECT same(), exact_count_fold('counted') AS folded;
-- The first count after a change of the table is part of a parallel query.
ALTER TABLE counted SET (fillfactor = 99);
SELECT exact_count('counted') = (SELECT count(*) FROM counted) AS same;
RESET ALL;
SET track_counts = off;

-- After a table rewrite, each call counts all rows until the next fold.
VACUUM FULL counted;
INSERT INTO counted (n) VALUES (112);
SELECT same();
SELECT exact_count_fold('counted') = (SELECT count(*) FROM counted) AS all_again;
SELECT same();
CLUSTER counted USING counted_pkey;
SELECT same();
SELECT exact_count_stop('counted');
SELECT error_of($$SELECT exact_count('counted')$$);
SELECT feed_disable('counted');
TRUNCATE counted;
INSERT INTO counted (n) SELECT generate_series(1, 10);
-- The count of a table with existing rows is exact from the start, even in a transaction that has inserted rows into
-- the table.
BEGIN;
INSERT INTO counted (n) VALUES (11);
SELECT exact_count_start('counted') AS of_others;
SELECT same();
INSERT INTO counted (n) VALUES (12);
SELECT same();
COMMIT;
SELECT same();
SELECT exact_count_fold('counted') AS folded;
SELECT exact_count_start('counted') AS nothing_new;
SELECT same();
SELECT error_of($$SELECT feed_disable('counted')$$);
DROP TABLE counted;
-- The state of a dropped table is removed when the next table is made readable.
SELECT count(*) AS left_over FROM inorder_internal.count_part;
CREATE TABLE next (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval());
SELECT feed_enable('next');
SELECT count(*) AS left_over FROM inorder_internal.count_part;
DROP TABLE next;

-- Count tables with the other forms of the transaction number, and with other indexes.
CREATE PROCEDURE exercise(definition text, index text) LANGUAGE plpgsql AS $$
DECLARE
    answers text[];
BEGIN
    EXECUTE 'CREATE TABLE counted (n int, ' || definition || ')';
    EXECUTE index;
    EXECUTE 'INSERT INTO counted (n) SELECT generate_series(1, 50)';
    COMMIT;
    PERFORM exact_count_start('counted');
    COMMIT;
    FOR i IN 1 .. 4 LOOP
        EXECUTE 'INSERT INTO counted (n) SELECT generate_series(1, $1)' USING i;
        answers := answers || same();
        IF i % 2 = 0 THEN
            PERFORM exact_count_fold('counted');
        END IF;
        answers := answers || same();
        COMMIT;
        answers := answers || same();
    END LOOP;
    RAISE INFO '% %: %', definition, coalesce(index, ''), answers;
    PERFORM exact_count_stop('counted');
    DROP TABLE counted;
END $$;
CALL exercise('xact bigint DEFAULT xact_id()', 'CREATE INDEX ON counted (xact)');
CALL exercise('xact bigint DEFAULT xact_id()', 'CREATE INDEX ON counted (xact) WHERE xact > 0');
CALL exercise('xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED', 'CREATE INDEX ON counted (xact)');
CALL exercise('xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED', 'CREATE INDEX ON counted (xact) WHERE xact > 0');
CALL exercise('id uuid DEFAULT uuid_xact_nextval()', 'CREATE INDEX ON counted (id)');
CALL exercise('xact bigint DEFAULT xact_id(1000000)', 'CREATE INDEX ON counted (xact)');
DROP PROCEDURE exercise;

-- Attach, detach and empty partitions.
CREATE TABLE counted (id uuid DEFAULT uuid_xact_nextval(), n int, PRIMARY KEY (id, n)) PARTITION BY LIST (n);
SELECT exact_count_start('counted');
SELECT same();
CREATE TABLE c1 PARTITION OF counted FOR VALUES IN (1);
CREATE TABLE c2 PARTITION OF counted FOR VALUES IN (2) PARTITION BY RANGE (id);
CREATE TABLE c2_all PARTITION OF c2 DEFAULT;
INSERT INTO counted (n) SELECT 1 + g % 2 FROM generate_series(1, 20) AS g;
SELECT same();
SELECT exact_count_fold('counted') AS folded;
INSERT INTO c1 (n) VALUES (1), (1);
INSERT INTO c2_all (n) VALUES (2);
SELECT same();
CREATE TABLE c3 PARTITION OF counted FOR VALUES IN (3);
INSERT INTO counted (n) VALUES (3), (1);
SELECT same();
SELECT exact_count_fold('counted') AS folded;
SELECT same();
ALTER TABLE counted DETACH PARTITION c1;
SELECT same();
INSERT INTO c1 (n) SELECT 1 FROM generate_series(1, 5);
ALTER TABLE counted ATTACH PARTITION c1 FOR VALUES IN (1);
SELECT same();
SELECT exact_count_fold('counted') > 0 AS c1_again;
SELECT same();
ALTER TABLE counted DETACH PARTITION c1;
-- Between two folds, rows of a detached partition are deleted, and the partition is attached again with the same number
-- of rows or a different number.
DELETE FROM c1 WHERE ctid IN (SELECT ctid FROM c1 LIMIT 3);
ALTER TABLE counted ATTACH PARTITION c1 FOR VALUES IN (1);
SELECT same();
CREATE TABLE c4 (LIKE counted INCLUDING DEFAULTS);
INSERT INTO c4 (n) SELECT 4 FROM generate_series(1, 7);
ALTER TABLE counted ATTACH PARTITION c4 FOR VALUES IN (4);
SELECT same();
SELECT exact_count_fold('counted') > 0 AS both_again;
SELECT same();
DROP TABLE c3;
SELECT same();
VACUUM FULL c4;
SELECT same();
ALTER TABLE c4 DISABLE TRIGGER ALL;
TRUNCATE c4;
SELECT same();
ALTER TABLE c4 ENABLE TRIGGER ALL;
SELECT feed_enable('counted');
SELECT same();
-- Detach and attach a subtree as a whole.
ALTER TABLE counted DETACH PARTITION c2;
DELETE FROM c2 WHERE ctid IN (SELECT ctid FROM c2_all LIMIT 2);
ALTER TABLE counted ATTACH PARTITION c2 FOR VALUES IN (2);
SELECT same();
SELECT exact_count_fold('counted') IS NOT NULL AS folded;
SELECT same();
SELECT array_agg(part::text ORDER BY part::text) AS parts FROM inorder_internal.count_part;
-- A partition cannot be counted alone, because it already has the guard of its parent.
SELECT error_of($$SELECT exact_count_start('c1')$$);
SELECT exact_count_stop('counted');
DROP TABLE counted;
DROP FUNCTION same;
-- For a reader without privileges on partitions, the function selects partitions by their bounds. The column names in
-- these bounds are not qualified.
CREATE ROLE inorder_counter;
CREATE TABLE counted (id uuid DEFAULT uuid_xact_nextval(), feed_is_table int, PRIMARY KEY (id, feed_is_table)) PARTITION BY LIST (feed_is_table);
CREATE TABLE c1 PARTITION OF counted FOR VALUES IN (1);
CREATE TABLE c2 PARTITION OF counted FOR VALUES IN (2);
GRANT SELECT ON counted TO inorder_counter;
SELECT exact_count_start('counted');
INSERT INTO counted (feed_is_table) VALUES (1), (2), (2);
SET ROLE inorder_counter;
SELECT exact_count('counted');
RESET ROLE;
DROP TABLE counted;
DROP ROLE inorder_counter;
