-- Bytes of tables and indexes read into shared buffers and written out of them so far, and buffers taken from
-- another block, by all processes of the server. pg_stat_io: 16 and later; counted in bytes since 18.
SELECT coalesce(sum(read_bytes), 0)::bigint, coalesce(sum(write_bytes), 0)::bigint, coalesce(sum(evictions), 0)::bigint
FROM pg_stat_io WHERE object = 'relation';
