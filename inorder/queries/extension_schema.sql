-- Where the extension lives, and whether the server is a standby. Only if the caller trusts the owner of its functions in
-- any case: see sql_edition_schema.sql.
SELECT n.nspname, pg_catalog.pg_is_in_recovery()
FROM pg_catalog.pg_extension AS e JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace
WHERE e.extname = 'inorder'
  AND EXISTS (SELECT FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_roles AS r ON r.oid = p.proowner
              WHERE p.pronamespace = n.oid AND p.proname = 'feed_guard' AND p.pronargs = 0
                AND (r.rolsuper OR r.rolname = CURRENT_USER
                     OR r.oid = (SELECT d.datdba FROM pg_catalog.pg_database AS d
                                 WHERE d.datname = pg_catalog.current_database())))
