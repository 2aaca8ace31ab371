-- A table that rows are to be like: what it is, whether it can be read, its size, and what its server has counted.
-- The oid is found by the user's search_path; all else is said with an empty one, so that names are qualified.
SELECT c.relkind::text, c.relpersistence::text, format('%%I.%%I', n.nspname, c.relname),
       has_table_privilege(c.oid, 'SELECT'), row_security_active(c.oid),
       pg_get_partkeydef(c.oid), coalesce(sum(pg_table_size(leaf.oid)), 0)::bigint,
       coalesce(sum(pg_relation_size(leaf.oid)), 0)::bigint / current_setting('block_size')::int,
       coalesce(sum(pg_total_relation_size(leaf.oid)), 0)::bigint,
       coalesce(sum(s.n_tup_ins), 0)::bigint, coalesce(sum(s.n_tup_upd), 0)::bigint,
       coalesce(sum(s.n_tup_hot_upd), 0)::bigint, coalesce(sum(s.n_tup_del), 0)::bigint,
       (SELECT count(*) FROM pg_constraint WHERE conrelid = c.oid AND contype = 'f'),
       (SELECT count(*) FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal),
       coalesce((SELECT option_value::int FROM pg_options_to_table(c.reloptions) WHERE option_name = 'fillfactor'), 0)
FROM pg_class AS c
     JOIN pg_namespace AS n ON n.oid = c.relnamespace
     CROSS JOIN LATERAL (SELECT c.oid AS oid WHERE c.relkind <> 'p'
                         UNION ALL SELECT relid FROM pg_partition_tree(c.oid) WHERE isleaf AND c.relkind = 'p') AS leaf
     LEFT JOIN pg_stat_all_tables AS s ON s.relid = leaf.oid
WHERE c.oid = %(table)s::oid
GROUP BY c.oid, n.oid, c.relkind, c.relpersistence, n.nspname, c.relname, c.reloptions;
