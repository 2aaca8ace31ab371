-- edition_other: Return the schema of an edition that extension_schema and sql_edition_schema do not return because an
-- owner is not trusted, this owner, and the owner of the functions. An owner of the functions can replace them. An owner
-- of the schema can replace the functions, or the objects that they refer to by name.
WITH home AS (
    SELECT e.extnamespace AS schema, (SELECT p.proowner FROM pg_catalog.pg_proc AS p
                                      WHERE p.pronamespace = e.extnamespace AND p.proname = 'feed_guard'
                                        AND p.pronargs = 0) AS functions_owner
    FROM pg_catalog.pg_extension AS e WHERE e.extname = 'inorder'
    UNION ALL
    SELECT p.pronamespace, i.nspowner
    FROM pg_catalog.pg_namespace AS i
    JOIN pg_catalog.pg_proc AS p ON p.proname = 'feed_guard' AND p.proowner = i.nspowner AND p.pronargs = 0
    WHERE i.nspname = 'inorder_internal'
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_extension AS e WHERE e.extname = 'inorder')
)
SELECT pg_catalog.quote_ident(n.nspname) AS quoted, r.rolname::text AS owner, n.nspname::text AS schema,
       pg_catalog.pg_get_userbyid(h.functions_owner)::text AS functions_owner
FROM home AS h JOIN pg_catalog.pg_namespace AS n ON n.oid = h.schema
JOIN pg_catalog.pg_database AS d ON d.datname = pg_catalog.current_database()
JOIN pg_catalog.pg_roles AS c ON c.rolname = CURRENT_USER
JOIN pg_catalog.pg_roles AS r
  ON r.oid = h.functions_owner
  OR r.oid = CASE n.nspowner WHEN 'pg_database_owner'::pg_catalog.regrole THEN d.datdba ELSE n.nspowner END
WHERE NOT (r.rolsuper OR r.oid = c.oid OR r.oid = d.datdba AND NOT c.rolsuper)
ORDER BY r.oid = h.functions_owner DESC
LIMIT 1

-- extension_schema: Return the schema of the extension, true if the server is a standby, and true if the caller may use
-- the schema. There is no row unless the caller trusts the owner of the functions (see sql_edition_schema) and the
-- owner of the schema, who could replace them.
SELECT n.nspname, pg_catalog.pg_is_in_recovery(), pg_catalog.has_schema_privilege(n.oid, 'USAGE')
FROM pg_catalog.pg_extension AS e JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace
JOIN pg_catalog.pg_database AS d ON d.datname = pg_catalog.current_database()
JOIN pg_catalog.pg_roles AS c ON c.rolname = CURRENT_USER
WHERE e.extname = 'inorder' AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_roles AS r
    WHERE NOT (r.rolsuper OR r.oid = c.oid OR r.oid = d.datdba AND NOT c.rolsuper)
      AND (r.oid = CASE n.nspowner WHEN 'pg_database_owner'::pg_catalog.regrole THEN d.datdba ELSE n.nspowner END
           OR r.oid = (SELECT p.proowner FROM pg_catalog.pg_proc AS p
                       WHERE p.pronamespace = n.oid AND p.proname = 'feed_guard' AND p.pronargs = 0)))

-- install_callers: Return user-defined functions whose source calls public functions of inorder without a dependency.
-- The second value is true if another object, such as a trigger, depends on the function.
WITH ours AS (
    SELECT p.oid, p.proname, p.pronamespace FROM pg_proc AS p
    WHERE p.pronamespace IN (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = ANY ({schemas}::name[]))
       OR EXISTS (SELECT FROM pg_depend AS d JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'inorder'
                  WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
                    AND d.refclassid = 'pg_extension'::regclass)
), called AS (
    SELECT concat('\m(', string_agg(DISTINCT o.proname, '|'), ')"?\s*\(') AS pattern FROM ours AS o
    JOIN pg_namespace AS n ON n.oid = o.pronamespace AND n.nspname <> 'inorder_internal'
)
SELECT pg_describe_object('pg_proc'::regclass, p.oid, 0) AS described,
       EXISTS (SELECT FROM pg_depend AS d WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid = p.oid) AS is_used
FROM pg_proc AS p CROSS JOIN called AS c
-- The server's own functions have lower OIDs (FirstNormalObjectId).
WHERE p.oid >= 16384 AND p.prosqlbody IS NULL AND p.oid NOT IN (SELECT o.oid FROM ours AS o) AND p.prosrc ~ c.pattern
ORDER BY 1

-- install_contents: Return the feeds, counts and tables that would be lost with the state of inorder.
SELECT 'feed' AS kind, f.name, coalesce('table ' || c.oid::regclass::text, 'a dropped table') AS relation, f.owner_name::text AS owner
FROM inorder_internal.feed AS f LEFT JOIN pg_class AS c ON c.oid = f.relation
UNION ALL
SELECT 'count', NULL, c.oid::regclass::text, NULL
FROM inorder_internal.counted_table AS t JOIN pg_class AS c ON c.oid = t.relation
UNION ALL
SELECT 'table', NULL, c.oid::regclass::text, NULL
FROM inorder_internal.feed_table AS t JOIN pg_class AS c ON c.oid = t.relation
ORDER BY 1, 3, 2, 4

-- install_counts: Return the counts by groups, like count_view, with their columns and the objects of each count.
SELECT t.oid::regclass::text AS relation_name, array_to_string(s.columns, ',') AS columns, s.columns::text AS given,
       ARRAY[o.deltas::regclass::text] || ARRAY(
           SELECT pg_describe_object(u.classid, u.objid, 0)
           FROM (SELECT 'pg_class'::regclass, v.oid UNION ALL
                 SELECT 'pg_proc'::regclass, p.oid FROM pg_proc AS p
                 WHERE p.pronamespace = f.pronamespace AND p.pronargs = 0
                   AND p.proname IN (f.proname, concat(v.relname, '_fold')::name) UNION ALL
                 SELECT 'pg_trigger'::regclass, w.oid FROM pg_trigger AS w
                 WHERE starts_with(w.tgname, left(g.tgname, -3))
                   AND (w.tgrelid IN (t.oid, o.deltas) OR w.tgrelid IN (SELECT m.relid FROM pg_partition_tree(t.oid) AS m)))
               AS u(classid, objid)) AS parts
FROM pg_class AS t
JOIN pg_trigger AS g ON g.tgrelid = t.oid AND g.tgparentid = 0 AND g.tgname ~ '^zz_inorder_count_[0-9a-f]+_row$'
JOIN pg_proc AS f ON f.oid = g.tgfoid AND f.proowner = t.relowner
JOIN pg_class AS v ON v.relnamespace = f.pronamespace AND v.relname = left(f.proname, -7) AND v.relowner = t.relowner
CROSS JOIN LATERAL (SELECT ARRAY(SELECT a.attname FROM pg_attribute AS a
                                 WHERE a.attrelid = v.oid AND a.attnum > 0 AND a.attnum < v.relnatts
                                 ORDER BY a.attnum)) AS s(columns)
LEFT JOIN LATERAL (SELECT k.oid FROM pg_class AS k
                   WHERE k.relnamespace = f.pronamespace AND k.relname = f.proname) AS o(deltas) ON true
ORDER BY 1, 2

-- install_dependents: Return user objects that depend on objects of inorder: guard triggers, defaults, generated
-- columns, and all other objects.
WITH member (classid, objid) AS (
    SELECT d.classid, d.objid FROM pg_depend AS d
    WHERE d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
      AND d.refobjid = (SELECT e.oid FROM pg_extension AS e WHERE e.extname = 'inorder')
    UNION
    SELECT o.classid, o.oid
    FROM (SELECT 'pg_proc'::regclass, p.oid, p.pronamespace FROM pg_proc AS p
          UNION ALL SELECT 'pg_class'::regclass, c.oid, c.relnamespace FROM pg_class AS c
          UNION ALL SELECT 'pg_type'::regclass, t.oid, t.typnamespace FROM pg_type AS t)
         AS o(classid, oid, namespace)
    WHERE o.namespace IN (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = ANY ({schemas}::name[]))
), ours (classid, objid) AS (
    SELECT m.classid, m.objid FROM member AS m
    UNION
    SELECT 'pg_type'::regclass, t.oid FROM pg_type AS t JOIN member AS m ON m.classid = 'pg_class'::regclass
                                                                        AND m.objid = t.typrelid
    UNION
    SELECT 'pg_type'::regclass, t.typarray FROM pg_type AS t JOIN member AS m ON m.classid = 'pg_type'::regclass
                                                                             AND m.objid = t.oid
    UNION
    -- The relations of composite types, and TOAST tables, are members, too.
    SELECT 'pg_class'::regclass, c.oid FROM pg_class AS c JOIN member AS m ON m.classid = 'pg_type'::regclass
                                                                          AND m.objid = c.reltype
    UNION
    SELECT 'pg_class'::regclass, c.reltoastrelid FROM pg_class AS c JOIN member AS m ON m.classid = 'pg_class'::regclass
                                                                                    AND m.objid = c.oid
    WHERE c.reltoastrelid <> 0
    UNION
    SELECT 'pg_cast'::regclass, k.oid
    FROM pg_cast AS k JOIN member AS m ON m.classid = 'pg_proc'::regclass AND m.objid = k.castfunc
    WHERE EXISTS (SELECT FROM member AS y LEFT JOIN pg_class AS c ON y.classid = 'pg_class'::regclass AND c.oid = y.objid
                  WHERE y.classid = 'pg_type'::regclass AND y.objid IN (k.castsource, k.casttarget)
                     OR c.reltype IN (k.castsource, k.casttarget))
), dependent AS (
    SELECT DISTINCT d.classid, d.objid, d.objsubid, coalesce(a.adrelid, g.tgrelid, r.ev_class, k.conrelid, p.polrelid,
                                                             i.indrelid, c.oid, 0) AS relation,
           a.adnum, g.tgname, coalesce(g.tgparentid, 0) AS parent, g.tgfoid
    FROM (SELECT d.classid, d.objid, d.objsubid
          FROM pg_depend AS d JOIN ours AS o ON o.classid = d.refclassid AND o.objid = d.refobjid
          -- In the SQL edition, the triggers that log changes belong to the table owners.
          UNION ALL SELECT 'pg_trigger'::regclass, g.oid, 0 FROM pg_trigger AS g
          WHERE g.tgname LIKE 'zz\_inorder\_changes\_%') AS d
    LEFT JOIN pg_attrdef AS a ON d.classid = 'pg_attrdef'::regclass AND a.oid = d.objid
    LEFT JOIN pg_trigger AS g ON d.classid = 'pg_trigger'::regclass AND g.oid = d.objid
    LEFT JOIN pg_rewrite AS r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
    LEFT JOIN pg_constraint AS k ON d.classid = 'pg_constraint'::regclass AND k.oid = d.objid AND k.conrelid <> 0
    LEFT JOIN pg_policy AS p ON d.classid = 'pg_policy'::regclass AND p.oid = d.objid
    LEFT JOIN pg_index AS i ON d.classid = 'pg_class'::regclass AND i.indexrelid = d.objid
    LEFT JOIN pg_class AS c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
    WHERE NOT EXISTS (SELECT FROM ours AS s WHERE s.classid = d.classid AND s.objid = d.objid)
      -- Operators and functions of an operator class are part of the class.
      AND d.classid NOT IN ('pg_amop'::regclass, 'pg_amproc'::regclass)
)
SELECT CASE WHEN d.parent <> 0 THEN 'clone'
            WHEN d.tgname IN ('zz_inorder_guard', 'zz_inorder_update', 'zz_inorder_delete', 'zz_inorder_truncate')
            THEN 'guard'
            WHEN t.attgenerated <> '' THEN 'generated'
            WHEN d.adnum IS NOT NULL THEN 'default'
            WHEN d.classid = 'pg_class'::regclass AND d.objsubid > 0 AND c.relkind IN ('r', 'p') AND y.typname = 'uuid_v1'
            THEN 'uuid_v1'
            ELSE 'other' END AS kind,
       d.relation::regclass::text AS relation_name, t.attname::text AS column_name,
       coalesce(d.tgname::text, pg_get_expr(f.adbin, f.adrelid)) AS definition,
       CASE WHEN d.classid = 'pg_rewrite'::regclass AND c.relkind IN ('v', 'm')
            THEN pg_describe_object('pg_class'::regclass, d.relation, 0)
            ELSE pg_describe_object(d.classid, d.objid, d.objsubid) END AS described,
       coalesce(pg_has_role(c.relowner, 'USAGE'), false) AS is_owner,
       coalesce(t.attinhcount > 0, false) AS is_inherited,
       EXISTS (SELECT FROM pg_index AS x WHERE x.indrelid = d.relation AND x.indisprimary
               AND t.attnum = ANY (x.indkey::int2[])) AS is_primary,
       coalesce(t.atttypid = 'uuid'::regtype, false) AS is_uuid,
       EXISTS (SELECT FROM pg_inherits AS h JOIN dependent AS u ON u.relation = h.inhparent
               JOIN pg_attribute AS w ON w.attrelid = u.relation AND w.attnum = u.adnum
               WHERE h.inhrelid = d.relation AND w.attname = t.attname) AS follows_parent,
       -- DROP COLUMN drops these objects together with the column.
       ARRAY(SELECT DISTINCT pg_describe_object(e.classid, e.objid, e.objsubid) FROM pg_depend AS e
             WHERE e.refclassid = 'pg_class'::regclass AND e.refobjid = d.relation AND e.refobjsubid = t.attnum
               AND e.deptype = 'a' AND e.classid NOT IN ('pg_attrdef'::regclass, 'pg_trigger'::regclass)
               AND NOT EXISTS (SELECT FROM pg_constraint AS k WHERE e.classid = 'pg_constraint'::regclass
                               AND k.oid = e.objid AND k.contype = 'n')
             ORDER BY 1) AS goes_along
FROM dependent AS d
LEFT JOIN pg_class AS c ON c.oid = d.relation
LEFT JOIN pg_attribute AS t ON t.attrelid = d.relation AND t.attnum = coalesce(d.adnum, nullif(d.objsubid, 0))
LEFT JOIN pg_attrdef AS f ON f.adrelid = d.relation AND f.adnum = d.adnum
LEFT JOIN pg_type AS y ON y.oid = t.atttypid
WHERE NOT EXISTS (SELECT FROM ours AS s WHERE s.classid = 'pg_class'::regclass AND s.objid = d.relation)
  AND NOT EXISTS (SELECT FROM pg_type AS y JOIN ours AS s ON s.classid = 'pg_type'::regclass AND s.objid = y.oid
                  WHERE d.classid = 'pg_type'::regclass AND y.typarray = d.objid)
ORDER BY 1, 2, 3, 5

-- install_facts: Return the facts that decide which edition of inorder this database can have, and the installed
-- edition. No user-defined function is called.
SELECT current_setting('server_version_num')::int AS version_number,
       current_setting('server_version') AS version,
       pg_is_in_recovery() AS is_standby,
       current_setting('transaction_read_only')::boolean AS is_read_only,
       current_database()::text AS database,
       current_user::text AS role,
       (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS is_superuser,
       has_database_privilege(current_database(), 'CREATE') AS can_create,
       has_language_privilege('plpgsql', 'USAGE') AS can_use_plpgsql,
       e.extversion AS extension_version,
       (SELECT n.nspname::text FROM pg_namespace AS n WHERE n.oid = e.extnamespace) AS extension_schema,
       coalesce(e.extnamespace::regnamespace::text, quote_ident(s.sql_schema)) AS quoted,
       pg_get_userbyid(e.extowner)::text AS extension_owner,
       (SELECT pg_get_userbyid(n.nspowner)::text FROM pg_namespace AS n WHERE n.nspname = {schema}) AS schema_owner,
       coalesce((SELECT r.rolsuper OR r.rolname = current_user OR r.rolname = 'pg_database_owner' OR r.oid = b.datdba
                 FROM pg_namespace AS n JOIN pg_roles AS r ON r.oid = n.nspowner, pg_database AS b
                 WHERE n.nspname = {schema} AND b.datname = current_database()), true) AS is_trusted_schema,
       (SELECT pg_get_userbyid(n.nspowner)::text FROM pg_namespace AS n
        WHERE n.nspname = 'inorder_internal') AS state_owner,
       s.sql_version, s.sql_schema,
       -- The owner of a function can change the function. All functions of inorder belong to the owner of feed_guard().
       EXISTS (SELECT FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
               JOIN pg_roles AS r ON r.oid = p.proowner
               WHERE p.proname = 'feed_guard' AND p.pronargs = 0
                 AND (n.oid = e.extnamespace OR e.oid IS NULL AND n.nspname = s.sql_schema)
                 AND (r.rolsuper OR r.rolname = current_user
                      OR r.oid = (SELECT d.datdba FROM pg_database AS d
                                  JOIN pg_roles AS c ON c.rolname = current_user AND NOT c.rolsuper
                                  WHERE d.datname = current_database()))) AS is_trusted_owner,
       quote_ident({schema}) <> {schema} AS is_keyword,
       a.default_version AS c_version,
       coalesce(v.trusted OR NOT v.superuser, false) AS is_trusted,
       -- sql/plain/header.sql has the same test.
       ARRAY(SELECT u.name::text FROM unnest({names}::name[]) AS u(name)
             WHERE EXISTS (SELECT FROM pg_proc AS p WHERE p.proname = u.name AND p.pronamespace = 'pg_catalog'::regnamespace
                           AND NOT has_function_privilege('public', p.oid, 'EXECUTE'))
                OR EXISTS (SELECT FROM pg_class AS c WHERE c.relname = u.name
                           AND c.relnamespace = 'pg_catalog'::regnamespace
                           AND NOT has_table_privilege('public', c.oid, 'SELECT')) ORDER BY 1) AS revoked
FROM (VALUES (1)) AS single_row
LEFT JOIN pg_extension AS e ON e.extname = 'inorder'
LEFT JOIN pg_available_extensions AS a ON a.name = 'inorder'
LEFT JOIN pg_available_extension_versions AS v ON v.name = 'inorder' AND v.version = a.default_version
-- The guard is in the schema of the public functions.
LEFT JOIN (SELECT substring(pg_get_function_sqlbody(p.oid) FROM '''(.*)''') AS sql_version, g.sql_schema
           FROM pg_proc AS p,
                (SELECT n.nspname::text AS sql_schema FROM pg_proc AS q JOIN pg_namespace AS n ON n.oid = q.pronamespace
                 WHERE q.proname = 'feed_guard' AND q.pronargs = 0
                   AND q.proowner = (SELECT i.nspowner FROM pg_namespace AS i WHERE i.nspname = 'inorder_internal')
                 LIMIT 1) AS g
           WHERE p.proname = 'sql_edition' AND p.pronargs = 0
             AND p.pronamespace = (SELECT i.oid FROM pg_namespace AS i WHERE i.nspname = 'inorder_internal')
          ) AS s ON e.oid IS NULL

-- install_others: Return objects in the schemas of the SQL edition that do not have the name of an object of the
-- edition.
SELECT pg_describe_object(o.class, o.id, 0) AS described
FROM (SELECT 'pg_class'::regclass, c.oid, c.relnamespace, c.relname FROM pg_class AS c
      WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
        -- A sequence is dropped together with its column.
        AND NOT EXISTS (SELECT FROM pg_depend AS d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
                        AND c.relkind = 'S' AND d.deptype IN ('a', 'i'))
      UNION ALL SELECT 'pg_proc'::regclass, p.oid, p.pronamespace, p.proname FROM pg_proc AS p
      UNION ALL SELECT 'pg_operator'::regclass, r.oid, r.oprnamespace, r.oprname FROM pg_operator AS r
      UNION ALL SELECT 'pg_type'::regclass, t.oid, t.typnamespace, t.typname FROM pg_type AS t
      WHERE NOT EXISTS (SELECT FROM pg_type AS e WHERE e.typarray = t.oid)
        AND NOT EXISTS (SELECT FROM pg_class AS c WHERE c.reltype = t.oid AND c.relkind <> 'c')
        AND NOT EXISTS (SELECT FROM pg_range AS g WHERE g.rngmultitypid = t.oid)) AS o(class, id, namespace, name)
WHERE o.namespace IN (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = ANY ({schemas}::name[]))
  AND o.name <> ALL ({names}::name[])
ORDER BY 1

-- install_search_path: Return a row if the search_path of the database, for all roles, has a schema.
SELECT FROM pg_db_role_setting AS s
JOIN pg_database AS d ON d.oid = s.setdatabase CROSS JOIN unnest(s.setconfig) AS u(setting)
WHERE d.datname = current_database() AND s.setrole = 0 AND u.setting ~ '^search_path='
  AND {schema} IN (SELECT btrim(w.name, ' "') FROM regexp_split_to_table(substr(u.setting, 13), ',') AS w(name))

-- install_schema_kept: Return a row if a schema must be kept, because it has objects or belongs to another role.
SELECT FROM pg_namespace AS n
WHERE n.nspname = {schema}
  AND (n.nspname = 'public' OR NOT pg_has_role(n.nspowner, 'USAGE')
       OR EXISTS (SELECT FROM pg_depend AS d WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = n.oid))

-- sql_edition_schema: Return the schema of the SQL edition's functions, true if the server is a standby, true if the
-- caller may use the schema, or if feed_admit() would permit this, and true if the caller was admitted. There is no
-- row unless the caller trusts the owner of the edition and the owner of the schema, who could replace the functions.
-- Callers trust themselves, superusers and the owner of the database. A superuser does not trust the owner of the
-- database, whose functions would run with the privileges of the superuser.
SELECT n.nspname, pg_catalog.pg_is_in_recovery(),
       pg_catalog.has_schema_privilege(n.oid, 'USAGE')
       OR n.nspowner = i.nspowner AND NOT pg_catalog.has_schema_privilege(i.oid, 'USAGE'),
       pg_catalog.has_schema_privilege(i.oid, 'USAGE')
FROM pg_catalog.pg_namespace AS i
JOIN pg_catalog.pg_proc AS p ON p.proname = 'feed_guard' AND p.proowner = i.nspowner AND p.pronargs = 0
JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
JOIN pg_catalog.pg_database AS d ON d.datname = pg_catalog.current_database()
JOIN pg_catalog.pg_roles AS c ON c.rolname = CURRENT_USER
WHERE i.nspname = 'inorder_internal' AND NOT EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'inorder')
  AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_roles AS r
    WHERE NOT (r.rolsuper OR r.oid = c.oid OR r.oid = d.datdba AND NOT c.rolsuper)
      AND (r.oid = i.nspowner
           OR r.oid = CASE n.nspowner WHEN 'pg_database_owner'::pg_catalog.regrole THEN d.datdba ELSE n.nspowner END))

-- library_databases: Return the databases that accept connections, and the version of the server.
SELECT pg_catalog.array_agg(d.datname::pg_catalog.text ORDER BY d.datname), pg_catalog.current_setting('server_version_num')
FROM pg_catalog.pg_database AS d WHERE d.datallowconn

-- library_used: Return true if a function of this database is in the extension's library.
SELECT EXISTS (SELECT FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_language AS l ON l.oid = p.prolang
               WHERE l.lanname = 'c' AND p.probin ~ '(^|/)inorder(\.so)?$')

-- sender: Return the server that sends WAL to this standby, and the connection string for it. Columns that the role may
-- not see are null.
SELECT w.sender_host, w.sender_port,
       (SELECT s.setting FROM pg_catalog.pg_settings AS s WHERE s.name OPERATOR(pg_catalog.=) 'primary_conninfo')
FROM (VALUES (1)) AS single_row LEFT JOIN pg_catalog.pg_stat_wal_receiver AS w ON true
