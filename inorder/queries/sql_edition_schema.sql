-- Where the functions of the SQL edition are, and whether the server is a standby. Only if it belongs to whom the caller
-- trusts in any case: himself, the owner of the database, or a superuser.
SELECT n.nspname, pg_catalog.pg_is_in_recovery()
FROM pg_catalog.pg_namespace AS i
JOIN pg_catalog.pg_proc AS p ON p.proname = 'feed_guard' AND p.proowner = i.nspowner AND p.pronargs = 0
JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
JOIN pg_catalog.pg_roles AS r ON r.oid = i.nspowner
WHERE i.nspname = 'inorder_internal'
  AND (r.rolsuper OR r.rolname = CURRENT_USER
       OR r.oid = (SELECT d.datdba FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database()))
