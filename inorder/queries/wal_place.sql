-- Where the next WAL record goes, and everything before it on disk.
SELECT pg_current_wal_insert_lsn()::text FROM flush_wal();
