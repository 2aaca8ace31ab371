-- As block_io.sql, where pg_stat_io counts operations of op_bytes: 16 and 17.
SELECT coalesce(sum(reads * op_bytes), 0)::bigint, coalesce(sum(writes * op_bytes), 0)::bigint,
       coalesce(sum(evictions), 0)::bigint
FROM pg_stat_io WHERE object = 'relation';
