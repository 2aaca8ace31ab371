-- Undo feed_enable() for the tables in a schema, once they have no feeds.
SELECT {inorder}.feed_disable(relid)
FROM {inorder}.feed_table JOIN pg_catalog.pg_class c ON c.oid = relid JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace
WHERE nspname = %(schema)s;
