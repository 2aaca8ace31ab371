-- Drop all feeds of the tables in a schema.
SELECT {inorder}.feed_drop(name, r.oid::pg_catalog.regrole)
FROM {inorder}.feeds JOIN pg_catalog.pg_roles r ON rolname = owner
JOIN pg_catalog.pg_class c ON c.oid = relation JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace
WHERE nspname = %(schema)s;
