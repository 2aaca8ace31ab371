-- Change from the SQL edition to the C extension, in one transaction: see hosted.md.
--
-- 1. Let the consumers finish their batches, and stop them. In the view feeds unfinished_batch and partial must be null
--    and dead_batches 0. Read feeds in the order of a column to the end.
-- 2. "inorder uninstall" names the objects that need inorder, and does nothing while such objects exist. Drop the
--    views and indexes. Call changes_disable for each logged table, and changes_enable after this script.
-- 3. Copy this script, and replace events.id and orders.xact by your own columns, in both places. For a generated
--    column, write DROP EXPRESSION, which keeps the column's values, and then SET DEFAULT xact_id().
-- 4. Run the copy by psql -v ON_ERROR_STOP=1 -f, as a superuser. An error leaves everything unchanged.
--
-- To change back, replace each statement that has a comment "-- back:" by the statements in this comment.
SET search_path = public, inorder;
BEGIN;
CREATE TEMP TABLE tables ON COMMIT DROP AS
SELECT c.oid::regclass AS relation, t.key_column, c.oid IN (SELECT k.relation FROM inorder_internal.counted_table AS k) AS counted
FROM inorder_internal.feed_table AS t JOIN pg_class AS c ON c.oid = t.relation;
SELECT format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', relation) FROM tables \gexec

CREATE TEMP TABLE put_back ON COMMIT DROP AS
SELECT 1 AS step, format('SELECT feed_enable(%L, %L)', relation, key_column) AS statement FROM tables
UNION ALL
SELECT 2, format('SET LOCAL ROLE %I; SELECT feed_create(%L, %L, %L, order_column => %L, whole_transactions => %L, '
                 'partition_by => %L, shares => %L); RESET ROLE', owner, name, relation,
                 CASE WHEN order_column IS NULL THEN 'beginning' ELSE 'now' END, order_column, whole_transactions,
                 partition_by, shares)
FROM feeds WHERE relation IS NOT NULL
UNION ALL
SELECT 3, format('SELECT feed_seek(%L, %L::int8multirange, %L)', name, position, quote_ident(owner))
FROM feeds WHERE relation IS NOT NULL AND order_column IS NULL
UNION ALL
SELECT 4, format('SELECT feed_grant(%L, %L, %L)', f.name, quote_ident(m.name), quote_ident(f.owner_name))
FROM tables AS t JOIN inorder_internal.feed AS f ON f.relation = t.relation, unnest(f.movers) AS m
UNION ALL
SELECT 5, format('SELECT exact_count_start(%L)', relation) FROM tables WHERE counted;

ALTER TABLE events ALTER COLUMN id DROP DEFAULT;                              -- each column
ALTER TABLE orders ALTER COLUMN xact DROP DEFAULT;
DO $$ BEGIN
    ASSERT NOT EXISTS (SELECT FROM pg_depend AS d JOIN pg_proc AS p ON d.refclassid = 'pg_proc'::regclass AND d.refobjid = p.oid
                       WHERE d.classid = 'pg_attrdef'::regclass AND p.pronamespace = 'inorder'::regnamespace),
           'another column has a default or an expression of inorder';
    ASSERT NOT EXISTS (SELECT FROM feeds WHERE relation IS NOT NULL AND (
                           CASE WHEN feed_wait(name, '0', quote_ident(owner)::regrole) THEN order_column IS NOT NULL END
                           OR partial IS NOT NULL OR unfinished_batch IS NOT NULL OR dead_batches > 0 OR position IS NULL)),
           'a feed has something unfinished, is in the order of a column and has not read all rows, or has too many gaps';
END $$;

SELECT feed_drop(name, quote_ident(owner)::regrole) FROM feeds;
SELECT exact_count_stop(relation) FROM tables WHERE counted;
SELECT feed_disable(relation) FROM tables;
DROP SCHEMA inorder, inorder_internal CASCADE;                                -- back: DROP EXTENSION inorder; DROP SCHEMA IF EXISTS inorder;
CREATE SCHEMA inorder; GRANT USAGE ON SCHEMA inorder TO PUBLIC; CREATE EXTENSION inorder SCHEMA inorder;    -- back: \i inorder-sql.sql
ALTER TABLE events ALTER COLUMN id SET DEFAULT uuid_xact_nextval();           -- each column
ALTER TABLE orders ALTER COLUMN xact SET DEFAULT xact_id(1000);
SELECT statement FROM put_back ORDER BY step \gexec
COMMIT;
