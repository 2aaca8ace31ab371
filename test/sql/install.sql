-- A role that is not a superuser can install the extension. Every function has a comment, and the right volatility and
-- parallel labels.
\set SHOW_CONTEXT never
CREATE ROLE inorder_owner;
CREATE ROLE inorder_other;
CREATE DATABASE inorder_trusted OWNER inorder_owner;
\c inorder_trusted
-- The script runs as the superuser, whose default privileges grant everything.
ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO PUBLIC, inorder_other;
ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC;
ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO inorder_other WITH GRANT OPTION;
ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO PUBLIC, inorder_other;
ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO inorder_other WITH GRANT OPTION;
ALTER DEFAULT PRIVILEGES GRANT ALL ON TYPES TO PUBLIC, inorder_other;
SET ROLE inorder_owner;
-- The script does not take over an existing schema.
CREATE SCHEMA inorder_internal;
CREATE EXTENSION inorder;
DROP SCHEMA inorder_internal;
CREATE EXTENSION inorder;
SELECT uuid_v7_nextval() < uuid_v7_nextval() AS usable;
CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
SELECT feed_create('f', 'events');
INSERT INTO events (n) VALUES (1);
SELECT n FROM feed_read('f', null::events);
-- The extension belongs to the installer; all of its objects belong to the superuser.
SELECT pg_describe_object(classid, objid, objsubid) AS belongs_to_installer FROM pg_shdepend
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND deptype = 'o' AND refobjid = 'inorder_owner'::regrole ORDER BY 1;
CREATE TEMP VIEW members AS
SELECT d.classid, d.objid FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND extname = 'inorder';
SELECT o.owner, o.class, count(*) > 0 AS some FROM members JOIN (
    SELECT 'pg_proc'::regclass AS class, oid, proowner::regrole AS owner FROM pg_proc UNION ALL SELECT 'pg_type'::regclass, oid, typowner::regrole FROM pg_type
    UNION ALL SELECT 'pg_class'::regclass, oid, relowner::regrole FROM pg_class UNION ALL SELECT 'pg_namespace'::regclass, oid, nspowner::regrole FROM pg_namespace
    UNION ALL SELECT 'pg_operator'::regclass, oid, oprowner::regrole FROM pg_operator UNION ALL SELECT 'pg_opclass'::regclass, oid, opcowner::regrole FROM pg_opclass
    UNION ALL SELECT 'pg_opfamily'::regclass, oid, opfowner::regrole FROM pg_opfamily) AS o ON o.class = classid AND o.oid = objid
GROUP BY o.owner, o.class ORDER BY o.owner::text, o.class::text;
-- Roles other than the superuser that have privileges in the internal schema.
SELECT a.grantee::regrole, string_agg(a.privilege_type, ', ' ORDER BY a.privilege_type) AS schema
FROM pg_namespace, aclexplode(nspacl) AS a WHERE nspname = 'inorder_internal' AND a.grantee <> nspowner GROUP BY a.grantee ORDER BY a.grantee::regrole::text;
SELECT relname, a.grantee::regrole, string_agg(a.privilege_type, ', ' ORDER BY a.privilege_type) AS rights, bool_or(a.is_grantable) AS grantable
FROM pg_class, aclexplode(relacl) AS a WHERE relnamespace = 'inorder_internal'::regnamespace AND a.grantee <> relowner
GROUP BY relname, a.grantee ORDER BY relname, a.grantee::regrole::text;
SELECT a.grantee::regrole, p.oid::regprocedure AS function FROM pg_proc AS p, aclexplode(coalesce(proacl, acldefault('f', proowner))) AS a
WHERE pronamespace = 'inorder_internal'::regnamespace AND a.grantee <> proowner ORDER BY p.oid::regprocedure::text COLLATE "C", a.grantee::regrole::text;
SELECT t.oid::regtype AS type, a.grantee::regrole FROM pg_type AS t, aclexplode(coalesce(typacl, acldefault('T', typowner))) AS a
WHERE typnamespace = 'inorder_internal'::regnamespace AND a.grantee <> typowner AND t.typelem = 0
  AND NOT EXISTS (SELECT FROM pg_class AS c WHERE c.reltype = t.oid AND c.relkind = 'r') ORDER BY 1, 2;
-- All roles have SELECT on the view.
SELECT has_table_privilege('inorder_other', 'feeds', 'SELECT') AS sees;
-- The installer can dump and restore the state.
SELECT name, owner_name, relation FROM inorder_internal.feed;
INSERT INTO inorder_internal.feed_table VALUES ('4294967295', 'id', true, false, '{id}', 0, true);
SELECT inorder_internal.sweep();
DELETE FROM inorder_internal.feed;
UPDATE inorder_internal.feed_table SET base = 7;
TRUNCATE inorder_internal.count_part;
SELECT FROM inorder_internal.feed FOR UPDATE;
CREATE TABLE inorder_internal.x ();
DROP TABLE inorder_internal.feed;
DROP SCHEMA inorder_internal CASCADE;
ALTER EXTENSION inorder DROP TABLE inorder_internal.feed;
ALTER EXTENSION inorder SET SCHEMA pg_temp;
-- Rows that the installer adds for a table that does not exist are ignored, and removed later.
SELECT feed_enable('events');
SELECT relation FROM inorder_internal.feed_table;
SET ROLE inorder_other;
SELECT count(*) FROM inorder_internal.feed;
SET ROLE inorder_owner;
-- The installer drops the extension, and creates it again in another schema.
SELECT feed_drop('f');
DROP EXTENSION inorder;
DROP TABLE events;
DROP EXTENSION inorder;
SELECT count(*) AS left_over FROM pg_namespace WHERE nspname = 'inorder_internal';
CREATE SCHEMA "Else where";
CREATE EXTENSION inorder SCHEMA "Else where";
SELECT ("Else where".feed_take_batch('f', 'w')).number;
RESET ROLE;
\c contrib_regression
DROP DATABASE inorder_trusted;
DROP ROLE inorder_owner, inorder_other;

-- A database with another encoding, and with default privileges that grant nothing.
CREATE DATABASE inorder_euc_jp TEMPLATE template0 ENCODING 'EUC_JP' LC_COLLATE 'C' LC_CTYPE 'C';
\c inorder_euc_jp
SET client_encoding = 'UTF8';
ALTER DEFAULT PRIVILEGES REVOKE ALL ON FUNCTIONS FROM PUBLIC;
ALTER DEFAULT PRIVILEGES REVOKE ALL ON TYPES FROM PUBLIC;
CREATE EXTENSION inorder;
SELECT proname AS internal_for_all FROM pg_proc WHERE pronamespace = 'inorder_internal'::regnamespace AND has_function_privilege('pg_monitor', oid, 'EXECUTE') ORDER BY 1;
CREATE TABLE 注文 (番号 uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), 品 text);
SELECT feed_create('新しい', '注文'), feed_create(repeat('あ', 200), '注文');
INSERT INTO 注文 (品) VALUES ('本');
SELECT 品 FROM feed_read('新しい', null::注文);
SELECT left(name, 4) AS name, length(name), relation, key_column FROM feeds ORDER BY length(name);
\c contrib_regression
DROP DATABASE inorder_euc_jp;

CREATE EXTENSION inorder;
CREATE VIEW members AS
SELECT d.classid, d.objid FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND extname = 'inorder';
-- Functions for users are immutable, strict and parallel safe, except for the aggregates and these functions.
SELECT p.oid::regprocedure AS function, provolatile AS volatility, proparallel AS parallel, proisstrict AS strict
FROM members JOIN pg_proc p ON p.oid = objid AND classid = 'pg_proc'::regclass
WHERE prokind = 'f' AND (provolatile, proparallel, proisstrict) <> ('i', 's', true)
  AND obj_description(p.oid, 'pg_proc') NOT LIKE 'Internal %'
ORDER BY p.oid::regprocedure::text COLLATE "C";
-- Every object that users see has a comment.
SELECT pg_describe_object(classid, objid, 0) AS undescribed FROM members
WHERE obj_description(objid, classid::regclass::name) IS NULL
  AND pg_describe_object(classid, objid, 0) !~ '^(function inorder_(internal|text)|type inorder_internal)\.'
  AND classid NOT IN ('pg_opclass'::regclass, 'pg_opfamily'::regclass, 'pg_cast'::regclass) AND NOT (classid = 'pg_type'::regclass AND EXISTS (SELECT FROM pg_type t LEFT JOIN pg_class c ON c.oid = typrelid WHERE t.oid = objid AND (typcategory = 'A' OR relkind <> 'c')));
-- Argument names need no quotes.
SELECT p.oid::regprocedure AS function, a AS quoted FROM members JOIN pg_proc p ON p.oid = objid AND classid = 'pg_proc'::regclass, unnest(proargnames) AS a
WHERE quote_ident(a) <> a;
-- No function is SECURITY DEFINER, or looks up objects in the caller's search_path. For functions that only the owner
-- can execute, the search_path was set before.
SELECT p.oid::regprocedure AS runs_as_its_owner FROM members JOIN pg_proc p ON p.oid = objid AND classid = 'pg_proc'::regclass WHERE prosecdef;
SELECT p.oid::regprocedure AS by_path, lanname FROM members JOIN pg_proc p ON p.oid = objid AND classid = 'pg_proc'::regclass JOIN pg_language l ON l.oid = prolang
WHERE lanname = 'plpgsql' AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)
   AND (EXISTS (SELECT FROM aclexplode(coalesce(proacl, acldefault('f', proowner))) AS a WHERE a.grantee <> proowner)
        OR EXISTS (SELECT FROM pg_depend AS d WHERE d.refobjid = p.oid AND d.refclassid = 'pg_proc'::regclass AND d.classid <> 'pg_proc'::regclass))
   OR lanname = 'sql' AND prosqlbody IS NULL
   OR lanname NOT IN ('plpgsql', 'sql', 'c', 'internal');
SELECT oid::regclass AS view, reloptions FROM members JOIN pg_class ON oid = objid AND classid = 'pg_class'::regclass WHERE relkind = 'v';
-- The state tables: the rows that are dumped, and the primary key of each table.
SELECT relname, c.condition FROM pg_extension, unnest(extconfig, extcondition) AS c(oid, condition) JOIN pg_class USING (oid) WHERE extname = 'inorder' ORDER BY relname;
SELECT oid::regclass AS table, (SELECT pg_get_constraintdef(k.oid) FROM pg_constraint AS k WHERE k.conrelid = c.oid AND contype = 'p') AS key, relpersistence, relrowsecurity
FROM members JOIN pg_class AS c ON oid = objid AND classid = 'pg_class'::regclass WHERE relkind NOT IN ('v', 'c') ORDER BY relname;
DROP VIEW members;

-- Parallel unsafe functions do not run in a parallel worker; parallel safe functions do.
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
-- A parallel safe function returns 20,000 different keys in parallel workers.
WITH made AS MATERIALIZED (SELECT uuid_time_nextval() AS id FROM wide) SELECT count(DISTINCT id) FROM made;
DROP TABLE wide;
DROP SEQUENCE plan_seq;

-- All twelve bits after the milliseconds of a key are in use.
SELECT count(DISTINCT substr(uuid_v7_nextval()::text, 16, 3)) > 2000 AS fractions FROM generate_series(1, 20000);

-- Functions for the following tests return the first bytes of a key as a number, the error of a statement, and its
-- plan.
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

-- A trigger function cannot be called as an ordinary function.
SELECT error_of('SELECT feed_guard()');
