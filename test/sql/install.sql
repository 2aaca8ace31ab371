-- The extension installs without superuser, and every function of it is
-- described and labelled as it behaves.
CREATE ROLE inorder_owner;
CREATE DATABASE inorder_trusted OWNER inorder_owner;
\c inorder_trusted
SET ROLE inorder_owner;
CREATE EXTENSION inorder;
SELECT uuid_v7_nextval() < uuid_v7_nextval() AS usable;
RESET ROLE;
\c contrib_regression
DROP DATABASE inorder_trusted;
DROP ROLE inorder_owner;

CREATE EXTENSION inorder;
CREATE VIEW members AS
SELECT d.classid, d.objid FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND extname = 'inorder';
-- What users call is immutable, strict and safe in parallel but for these and the aggregates.
SELECT p.oid::regprocedure AS function, provolatile AS volatility, proparallel AS parallel, proisstrict AS strict
FROM members JOIN pg_proc p ON p.oid = objid AND classid = 'pg_proc'::regclass
WHERE prokind = 'f' AND (provolatile, proparallel, proisstrict) <> ('i', 's', true)
  AND obj_description(p.oid, 'pg_proc') NOT LIKE 'Internal %'
ORDER BY p.oid::regprocedure::text COLLATE "C";
-- Nothing is without a comment, and what users call tells its ranges.
SELECT pg_describe_object(classid, objid, 0) AS undescribed FROM members
WHERE obj_description(objid, classid::regclass::name) IS NULL
  AND classid NOT IN ('pg_opclass'::regclass, 'pg_opfamily'::regclass, 'pg_cast'::regclass) AND NOT (classid = 'pg_type'::regclass AND EXISTS (SELECT FROM pg_type t LEFT JOIN pg_class c ON c.oid = typrelid WHERE t.oid = objid AND (typcategory = 'A' OR relkind <> 'c')));
SELECT p.oid::regprocedure AS no_range_told FROM members JOIN pg_proc p ON p.oid = objid AND classid = 'pg_proc'::regclass
WHERE proname ~ '(nextval|floor|ceiling|xact_id|_time)$' AND obj_description(objid, 'pg_proc') !~ 'Range|RFC 9562|operator|281474976710655|^Internal ';
DROP VIEW members;

-- What must not run in a worker does not, and what may does.
CREATE TABLE wide AS SELECT generate_series(1, 20000) AS n;
ANALYZE wide;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
CREATE SEQUENCE plan_seq;
EXPLAIN (COSTS OFF) SELECT uuid_sequence_nextval('plan_seq') FROM wide;
EXPLAIN (COSTS OFF) SELECT uuid_xact_nextval() FROM wide;
EXPLAIN (COSTS OFF) SELECT xact_id() FROM wide;
EXPLAIN (COSTS OFF) SELECT uuid_v7_nextval() FROM wide;
EXPLAIN (COSTS OFF) SELECT uuid_time_nextval() FROM wide;
-- Labelled safe, and run in workers: 20,000 keys, none twice.
WITH made AS MATERIALIZED (SELECT uuid_time_nextval() AS id FROM wide) SELECT count(DISTINCT id) FROM made;
DROP TABLE wide;
DROP SEQUENCE plan_seq;

-- For the tests that follow: the first bytes of a key as a number, what a
-- statement fails with, and how it is planned.
CREATE FUNCTION prefix(id uuid, bytes int) RETURNS bigint LANGUAGE sql AS $$
    SELECT ('x' || lpad(left(replace(id::text, '-', ''), 2 * bytes), 16, '0'))::bit(64)::bigint
$$;

CREATE FUNCTION error_of(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    detail text;
BEGIN
    EXECUTE statement;
    RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
    RETURN SQLSTATE || ' ' || SQLERRM || CASE detail WHEN '' THEN '' ELSE E'\n' || detail END;
END $$;
CREATE FUNCTION plan_of(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE 'EXPLAIN (COSTS OFF) ' || statement;
END $$;
