-- The name of a shard. Citus leaves out the schema public where it names one.
SELECT pg_catalog.concat(CASE WHEN n.nspname OPERATOR(pg_catalog.=) 'public' THEN 'public.' END,
                         pg_catalog.shard_name(c.oid::pg_catalog.regclass, {shard}::pg_catalog.int8))
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
WHERE c.oid OPERATOR(pg_catalog.=) {table}::pg_catalog.oid
