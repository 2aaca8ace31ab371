-- block_io: Return the bytes of tables and indexes read into shared buffers, the bytes written from them, and the
-- buffers reused for another block, by all processes of the server. pg_stat_io counts bytes since version 18.
SELECT coalesce(sum(read_bytes), 0)::bigint, coalesce(sum(write_bytes), 0)::bigint, coalesce(sum(evictions), 0)::bigint
FROM pg_stat_io WHERE object = 'relation';

-- block_io_16: The same as block_io, for versions 16 and 17, where pg_stat_io counts operations of op_bytes each.
SELECT coalesce(sum(reads * op_bytes), 0)::bigint, coalesce(sum(writes * op_bytes), 0)::bigint,
       coalesce(sum(evictions), 0)::bigint
FROM pg_stat_io WHERE object = 'relation';

-- blocks: For the index (0 without an index) and for the table, return how many accesses found the block in shared
-- buffers, and how many blocks were read. The views pg_statio_* exist in every version.
SELECT coalesce(i.idx_blks_hit, 0), coalesce(i.idx_blks_read, 0), t.heap_blks_hit, t.heap_blks_read
FROM pg_statio_all_tables AS t
     LEFT JOIN pg_statio_all_indexes AS i ON i.indexrelid = to_regclass(%(index)s)
WHERE t.relid = %(table)s::regclass;

-- checkpoints: Return the number of requested checkpoints, because of WAL or of CHECKPOINT. pg_stat_checkpointer exists
-- since version 17.
SELECT num_requested FROM pg_stat_checkpointer;

-- checkpoints_15: Return the number of requested checkpoints, for versions up to 16.
SELECT checkpoints_req FROM pg_stat_bgwriter;

-- index_pages: Return the leaf density of a btree in percent, and its number of leaf pages. pgstatindex() reads the
-- whole index, and returns NaN for an index without leaf pages.
SELECT nullif(avg_leaf_density, 'NaN'), leaf_pages FROM pgstatindex(%(index)s::regclass);

-- lasting_processes: Return the processes of the server that are not sessions, and the process of this session. When a
-- session ends, it disappears from pg_stat_activity before its process does.
SELECT pid FROM pg_stat_activity WHERE backend_type <> 'client backend' OR pid = pg_backend_pid();

-- misplaced: Return the number of rows in a table, and the number of rows whose place in the order of ids differs from
-- their place in the order of transactions. age() orders transactions correctly across a wraparound. The rows of a
-- transaction are ordered by id.
SELECT count(*), count(*) FILTER (WHERE by_id <> by_transaction)
FROM (SELECT row_number() OVER (ORDER BY id) AS by_id,
             row_number() OVER (ORDER BY age(xmin) DESC, id) AS by_transaction
      FROM {table}) AS ranked

-- other_sessions: Return the number of other client sessions, of all applications or of one. The counters of a session
-- are complete when the session has ended.
SELECT count(*) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND %(name)s IN ('', application_name);

-- own_search_path: Set the search_path to the schemas of the extensions that the lab calls, and to no other user
-- schema. A schema is left out unless the caller trusts its owner (see extension_schema) and all roles that may create
-- objects in it. Otherwise, functions and operators of an untrusted role would be called.
SELECT pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog',
           pg_catalog.string_agg(DISTINCT pg_catalog.quote_ident(n.nspname), ', ')), false)
FROM pg_catalog.pg_extension AS e JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace
JOIN pg_catalog.pg_database AS d ON d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
JOIN pg_catalog.pg_roles AS c ON c.rolname OPERATOR(pg_catalog.=) CURRENT_USER
JOIN pg_catalog.pg_roles AS r ON r.oid OPERATOR(pg_catalog.=) CASE
    WHEN n.nspowner OPERATOR(pg_catalog.=) 'pg_database_owner'::pg_catalog.regrole THEN d.datdba ELSE n.nspowner END
WHERE e.extname OPERATOR(pg_catalog.=) ANY ('{inorder,pgstattuple}'::pg_catalog.name[])
  AND n.nspname OPERATOR(pg_catalog.<>) 'pg_catalog'::pg_catalog.name
  AND (r.rolsuper OR r.oid OPERATOR(pg_catalog.=) c.oid OR r.oid OPERATOR(pg_catalog.=) d.datdba AND NOT c.rolsuper)
  AND NOT EXISTS (
      SELECT FROM pg_catalog.aclexplode(n.nspacl) AS a
      LEFT JOIN pg_catalog.pg_roles AS g ON g.oid OPERATOR(pg_catalog.=) a.grantee
      WHERE a.privilege_type OPERATOR(pg_catalog.=) 'CREATE' AND a.grantee OPERATOR(pg_catalog.<>) n.nspowner
        AND NOT (coalesce(g.rolsuper, false) OR a.grantee OPERATOR(pg_catalog.=) c.oid
                 OR a.grantee OPERATOR(pg_catalog.=) d.datdba AND NOT c.rolsuper));

-- own_server: Return the privileges and settings of the caller on the user's server. The query needs no privilege, and
-- runs on version 15 and later. Sessions are counted in pg_stat_database, because pg_stat_activity hides sessions of
-- other roles.
SELECT split_part(current_setting('server_version'), ' ', 1),
       current_user::text,
       current_database()::text,
       pg_is_in_recovery(),
       current_setting('track_counts') = 'on',
       has_database_privilege(current_database(), 'CREATE'),
       (SELECT coalesce(obj_description(oid, 'pg_namespace'), '') FROM pg_namespace WHERE nspname = %(schema)s),
       pg_has_role(current_user, 'pg_checkpoint', 'USAGE'),
       has_table_privilege('pg_catalog.pg_stat_wal', 'SELECT')
           AND has_function_privilege('pg_catalog.pg_stat_get_wal()', 'EXECUTE'),
       has_function_privilege('pg_catalog.pg_control_checkpoint()', 'EXECUTE'),
       EXISTS (SELECT FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace
               WHERE extname = 'inorder' AND nspname = ANY (current_schemas(false))),
       EXISTS (SELECT FROM pg_extension JOIN pg_proc ON pronamespace = extnamespace AND proname = 'pgstatindex'
               JOIN pg_namespace n ON n.oid = extnamespace
               WHERE extname = 'pgstattuple' AND nspname = ANY (current_schemas(false))
                     AND proargtypes[0] = 'regclass'::regtype AND has_function_privilege(pg_proc.oid, 'EXECUTE')),
       least(current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
                 - coalesce(current_setting('reserved_connections', true)::int, 0)
                 - (SELECT sum(numbackends) FROM pg_stat_database)::int,
             (SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = current_user),
             (SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = current_database())),
       pg_size_bytes(current_setting('shared_buffers')),
       current_setting('synchronous_commit'),
       current_setting('lc_messages'),
       current_setting('track_commit_timestamp') = 'on',
       EXISTS (SELECT FROM pg_roles WHERE pg_has_role(current_user, oid, 'MEMBER') AND (rolsuper OR rolname IN
               ('pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files')));

-- relation_file: Return the file of a relation in the format of pg_waldump: tablespace, database and file number. There
-- is no row if the relation does not exist.
SELECT concat_ws('/', coalesce(nullif(c.reltablespace, 0), d.dattablespace), d.oid, pg_relation_filenode(c.oid))
FROM pg_class AS c, pg_database AS d
WHERE c.oid = to_regclass(%(index)s) AND d.datname = current_database();

-- relation_sizes: Return the size in bytes of the main fork of a table, and of its index if it has one.
SELECT pg_relation_size(%(table)s::regclass), coalesce(pg_relation_size(to_regclass(%(index)s)), 0);

-- release_feeds: Drop all feeds of the tables in a schema.
SELECT {inorder}.feed_drop(name, r.oid::pg_catalog.regrole)
FROM {inorder}.feeds JOIN pg_catalog.pg_roles r ON rolname = owner
JOIN pg_catalog.pg_class c ON c.oid = relation JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace
WHERE nspname = %(schema)s;

-- release_tables: Undo feed_enable() for the tables in a schema, once they have no feeds.
SELECT {inorder}.feed_disable(tgrelid::pg_catalog.regclass)
FROM pg_catalog.pg_trigger JOIN pg_catalog.pg_class c ON c.oid = tgrelid
JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace
WHERE nspname = %(schema)s AND tgname = 'zz_inorder_guard' AND tgparentid = 0;

-- settings: Return the settings that determine the cost of an insert.
SELECT name, setting || coalesce(' ' || unit, '') FROM pg_settings
WHERE name IN ('shared_buffers', 'debug_io_direct', 'fsync', 'synchronous_commit', 'full_page_writes',
               'wal_level', 'wal_compression', 'max_wal_size', 'checkpoint_timeout', 'autovacuum', 'jit',
               'server_version', 'data_checksums', 'io_method', 'wal_buffers')
ORDER BY name;

-- wal: Return the WAL that the whole server has written so far. pg_stat_wal exists since version 14.
SELECT wal_bytes::bigint, wal_records, wal_fpi FROM pg_stat_wal;

-- wal_place: Return the end of the WAL. At the start of a page, the insert position is after the page header, which is
-- not on disk yet. The header has 24 bytes (XLogPageHeaderData), or 40 at the start of a file (XLogLongPageHeaderData).
SELECT (place - CASE WHEN (place - '0/0') % pg_size_bytes(current_setting('wal_segment_size')) = 40 THEN 40
                     WHEN (place - '0/0') % current_setting('wal_block_size')::int = 24 THEN 24
                     ELSE 0 END)::text
FROM pg_current_wal_insert_lsn() AS place;
