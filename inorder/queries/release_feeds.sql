-- Drop all feeds of the tables in a schema.
SELECT {inorder}.feed_drop(name)
FROM {inorder}.feed JOIN pg_catalog.pg_class c ON c.oid = relid JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace
WHERE nspname = %(schema)s;
