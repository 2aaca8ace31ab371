-- What a table is called.
SELECT c.oid, nspname, relname, pg_catalog.format('%I.%I', nspname, relname), pg_catalog.current_database()
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace
WHERE c.oid = {oid}::pg_catalog.oid
