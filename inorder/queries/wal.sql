-- WAL written so far, by the whole server. pg_stat_wal: 14 and later.
SELECT wal_bytes::bigint, wal_records, wal_fpi FROM pg_stat_wal;
