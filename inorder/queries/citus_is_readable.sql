-- A position in a shard, which is an error unless it is readable.
SELECT {inorder}.reader_start({table}::pg_catalog.oid::pg_catalog.regclass, 'now')
