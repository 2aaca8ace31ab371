-- Undo feed_enable() for the tables in a schema, once they have no feeds.
SELECT {inorder}.feed_disable(tgrelid::pg_catalog.regclass)
FROM pg_catalog.pg_trigger JOIN pg_catalog.pg_class c ON c.oid = tgrelid
JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace
WHERE nspname = %(schema)s AND tgname = 'zz_inorder_guard' AND tgparentid = 0;
