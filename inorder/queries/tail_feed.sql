-- The table of a feed, its owner, whether it has an order column, and whether nobody else tails it.
SELECT c.oid, nspname, relname, pg_catalog.format('%I.%I', nspname, relname), pg_catalog.current_database(), r.oid,
       order_column IS NOT NULL, {inorder}.feed_claim({name}::pg_catalog.text, r.oid::pg_catalog.regrole)
FROM {inorder}.feeds JOIN pg_catalog.pg_roles r ON rolname = owner
JOIN pg_catalog.pg_class c ON c.oid = relation JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace
WHERE name = {name}::pg_catalog.text AND owner = coalesce({owner}::pg_catalog.name, CURRENT_USER)
