-- What the server has counted so far: WAL as a whole, blocks of one table and of its index, if it has one.
-- pg_stat_wal: 14 and later; pg_statio_all_tables, pg_statio_all_indexes: every version.
SELECT w.wal_bytes::bigint, w.wal_records, w.wal_fpi,
       coalesce(i.idx_blks_hit, 0), coalesce(i.idx_blks_read, 0),
       t.heap_blks_hit, t.heap_blks_read
FROM pg_stat_wal AS w,
     pg_statio_all_tables AS t
     LEFT JOIN pg_statio_all_indexes AS i ON i.indexrelid = to_regclass(%(index)s)
WHERE t.relid = %(table)s::regclass;
