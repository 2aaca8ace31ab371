-- What decides which edition of inorder this database can have, and which one it has. Nothing of the user's is called.
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
       -- Who owns the functions can change what they do: the guard's is of whom the others are.
       EXISTS (SELECT FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
               JOIN pg_roles AS r ON r.oid = p.proowner
               WHERE p.proname = 'feed_guard' AND p.pronargs = 0
                 AND (n.oid = e.extnamespace OR e.oid IS NULL AND n.nspname = s.sql_schema)
                 AND (r.rolsuper OR r.rolname = current_user
                      OR r.oid = (SELECT d.datdba FROM pg_database AS d
                                  WHERE d.datname = current_database()))) AS is_trusted_owner,
       quote_ident({schema}) <> {schema} AS is_keyword,
       a.default_version AS c_version,
       coalesce(v.trusted OR NOT v.superuser, false) AS is_trusted,
       -- As sql/plain/header.sql does.
       ARRAY(SELECT u.name::text FROM unnest({names}::name[]) AS u(name)
             WHERE EXISTS (SELECT FROM pg_proc AS p WHERE p.proname = u.name AND p.pronamespace = 'pg_catalog'::regnamespace
                           AND NOT has_function_privilege('public', p.oid, 'EXECUTE'))
                OR EXISTS (SELECT FROM pg_class AS c WHERE c.relname = u.name
                           AND c.relnamespace = 'pg_catalog'::regnamespace
                           AND NOT has_table_privilege('public', c.oid, 'SELECT')) ORDER BY 1) AS revoked
FROM (VALUES (1)) AS one
LEFT JOIN pg_extension AS e ON e.extname = 'inorder'
LEFT JOIN pg_available_extensions AS a ON a.name = 'inorder'
LEFT JOIN pg_available_extension_versions AS v ON v.name = 'inorder' AND v.version = a.default_version
-- The schema of the guard is that of the public functions.
LEFT JOIN (SELECT substring(pg_get_function_sqlbody(p.oid) FROM '''(.*)''') AS sql_version, g.sql_schema
           FROM pg_proc AS p,
                (SELECT n.nspname::text AS sql_schema FROM pg_proc AS q JOIN pg_namespace AS n ON n.oid = q.pronamespace
                 WHERE q.proname = 'feed_guard' AND q.pronargs = 0
                   AND q.proowner = (SELECT i.nspowner FROM pg_namespace AS i WHERE i.nspname = 'inorder_internal')
                 LIMIT 1) AS g
           WHERE p.proname = 'sql_edition' AND p.pronargs = 0
             AND p.pronamespace = (SELECT i.oid FROM pg_namespace AS i WHERE i.nspname = 'inorder_internal')
          ) AS s ON e.oid IS NULL
