-- What the server has counted so far: WAL as a whole, blocks of one table and its one index.
-- pg_stat_wal: 14 and later; pg_statio_all_indexes: every version.
SELECT w.wal_bytes::bigint, w.wal_records, w.wal_fpi,
       i.idx_blks_hit, i.idx_blks_read,
       t.heap_blks_hit, t.heap_blks_read
FROM pg_stat_wal AS w,
     pg_statio_all_indexes AS i
     JOIN pg_statio_all_tables AS t ON t.relid = i.relid
WHERE i.indexrelid = %(index)s::regclass;
