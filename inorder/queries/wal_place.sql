-- Where the WAL ends. At the end of a page the next record's place is behind a header that is not on disk yet, of 24
-- bytes (XLogPageHeaderData), or 40 at the beginning of a file (XLogLongPageHeaderData).
SELECT (place - CASE WHEN (place - '0/0') % pg_size_bytes(current_setting('wal_segment_size')) = 40 THEN 40
                     WHEN (place - '0/0') % current_setting('wal_block_size')::int = 24 THEN 24
                     ELSE 0 END)::text
FROM pg_current_wal_insert_lsn() AS place;
