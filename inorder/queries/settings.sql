-- The settings that decide what an insert costs.
SELECT name, setting || coalesce(' ' || unit, '') FROM pg_settings
WHERE name IN ('shared_buffers', 'debug_io_direct', 'fsync', 'synchronous_commit', 'full_page_writes',
               'wal_level', 'wal_compression', 'max_wal_size', 'checkpoint_timeout', 'autovacuum', 'jit',
               'server_version', 'data_checksums', 'io_method', 'wal_buffers')
ORDER BY name;
