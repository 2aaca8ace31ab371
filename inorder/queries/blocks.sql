-- Blocks counted so far of one table and of its index, if it has one. pg_statio_*: every version.
SELECT coalesce(i.idx_blks_hit, 0), coalesce(i.idx_blks_read, 0), t.heap_blks_hit, t.heap_blks_read
FROM pg_statio_all_tables AS t
     LEFT JOIN pg_statio_all_indexes AS i ON i.indexrelid = to_regclass(%(index)s)
WHERE t.relid = %(table)s::regclass;
