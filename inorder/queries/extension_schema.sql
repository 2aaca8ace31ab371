-- Where the extension lives.
SELECT nspname
FROM pg_catalog.pg_extension JOIN pg_catalog.pg_namespace n ON n.oid = extnamespace
WHERE extname = 'inorder'
