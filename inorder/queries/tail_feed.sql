-- The table of a feed, and whether nobody else tails it.
SELECT c.oid, nspname, relname, pg_catalog.format('%I.%I', nspname, relname), pg_catalog.current_database(),
       pg_catalog.pg_try_advisory_lock(pg_catalog.hashtext('inorder.tail'), pg_catalog.hashtext(name))
FROM {inorder}.feed JOIN pg_catalog.pg_class c ON c.oid = relid JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace
WHERE name = {name}
