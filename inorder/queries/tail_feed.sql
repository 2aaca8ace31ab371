-- The table of a feed, its owner, whether it has an order column, and whether no other session tails it: an advisory lock
-- says so, which the server gives back when this session ends.
SELECT c.oid, nspname, relname, pg_catalog.format('%I.%I', nspname, relname), pg_catalog.current_database(), r.oid,
       order_column IS NOT NULL, pg_catalog.pg_try_advisory_lock(
           pg_catalog.hashtextextended(pg_catalog.concat_ws(' ', 'inorder tail', r.oid, name), 0::pg_catalog.int8))
FROM {inorder}.feeds JOIN pg_catalog.pg_roles r ON rolname = owner
JOIN pg_catalog.pg_class c ON c.oid = relation JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace
WHERE name = {name}::pg_catalog.text AND owner = coalesce({owner}::pg_catalog.name, CURRENT_USER)
