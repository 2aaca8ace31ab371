-- Where the extension lives, and whether the server is a standby.
SELECT nspname, pg_catalog.pg_is_in_recovery()
FROM pg_catalog.pg_extension JOIN pg_catalog.pg_namespace n ON n.oid = extnamespace
WHERE extname = 'inorder'
