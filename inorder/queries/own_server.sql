-- What the lab may see and do on a user's server. Nothing here needs a right; 15 and later.
-- pg_stat_database.numbackends, not pg_stat_activity, which hides other roles' sessions.
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
               WHERE extname = 'inorder' AND has_schema_privilege(n.oid, 'USAGE')),
       EXISTS (SELECT FROM pg_extension JOIN pg_proc ON pronamespace = extnamespace AND proname = 'pgstatindex'
               WHERE extname = 'pgstattuple' AND has_schema_privilege(extnamespace, 'USAGE')
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
