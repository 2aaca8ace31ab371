-- advise_checkpoints_15: Return the number of checkpoints since their counters were reset, and the seconds since then.
SELECT (checkpoints_timed + checkpoints_req)::float8 AS checkpoints,
       extract(epoch FROM clock_timestamp() - stats_reset)::float8 AS seconds
FROM pg_stat_bgwriter;

-- advise_checkpoints_17: The same as advise_checkpoints_15, for versions that have the view pg_stat_checkpointer.
SELECT (num_timed + num_requested)::float8 AS checkpoints,
       extract(epoch FROM clock_timestamp() - stats_reset)::float8 AS seconds
FROM pg_stat_checkpointer;

-- advise_columns: Return the columns that may be a key, hold a UUID, or be polled, with three facts about each: the
-- type (for a domain, its base type); the names of the functions in the default (now for CURRENT_TIMESTAMP); and the
-- sequence with its CACHE setting, if sessions take several numbers at a time. The functions are read from the
-- expression tree of the default, because pg_get_expr() would lock the table.
WITH made AS MATERIALIZED (
    SELECT d.adrelid AS leaf, d.adnum AS number, array_agg(p.proname::text) AS makers
    FROM pg_attrdef AS d
         CROSS JOIN LATERAL regexp_matches(d.adbin::text, ':funcid (\d+)|SQLVALUEFUNCTION', 'g') AS f(id)
         JOIN pg_proc AS p ON p.oid = coalesce(f.id[1]::oid, 'pg_catalog.now()'::regprocedure)
    GROUP BY d.adrelid, d.adnum
), used AS (
    SELECT d.adrelid AS leaf, d.adnum AS number, p.refobjid AS sequence
    FROM pg_depend AS p JOIN pg_attrdef AS d ON p.classid = 'pg_attrdef'::regclass AND p.objid = d.oid
    WHERE p.refclassid = 'pg_class'::regclass
    UNION SELECT p.refobjid, p.refobjsubid, p.objid
    FROM pg_depend AS p WHERE p.classid = 'pg_class'::regclass AND p.deptype = 'i'
), cached AS MATERIALIZED (
    SELECT used.*, s.seqcache, ARRAY[n.nspname::text, c.relname::text] AS name
    FROM pg_sequence AS s
         JOIN used ON used.sequence = s.seqrelid
         JOIN pg_class AS c ON c.oid = s.seqrelid
         JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE s.seqcache > 1
)
SELECT a.attrelid::int8 AS leaf, a.attnum::int AS number, a.attname::text AS name, b.typname::text AS type,
       coalesce(made.makers, '{}') AS makers, cached.seqcache::int8 AS cached, cached.name AS sequence
FROM pg_attribute AS a
     JOIN pg_class AS c ON c.oid = a.attrelid
     JOIN pg_type AS t ON t.oid = a.atttypid
     JOIN pg_type AS b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
     LEFT JOIN made ON made.leaf = a.attrelid AND made.number = a.attnum
     LEFT JOIN cached ON cached.leaf = a.attrelid AND cached.number = a.attnum
WHERE a.attrelid >= 16384 AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
  AND b.typnamespace = 'pg_catalog'::regnamespace
  AND b.typname IN ('uuid', 'text', 'varchar', 'bpchar', 'int2', 'int4', 'int8', 'timestamp', 'timestamptz');

-- advise_indexes: Return the indexes of all tables, with the number of the first column, and the pages as of the last
-- VACUUM or ANALYZE.
SELECT i.indrelid::int8 AS leaf, c.relname::text AS name, m.amname::text AS method, i.indisprimary AS is_primary,
       i.indkey[0]::int AS first, i.indnkeyatts::int AS columns, c.relpages::float8 AS pages
FROM pg_index AS i
     JOIN pg_class AS c ON c.oid = i.indexrelid
     JOIN pg_am AS m ON m.oid = c.relam
     JOIN pg_class AS t ON t.oid = i.indrelid
WHERE i.indrelid >= 16384 AND t.relkind = 'r' AND i.indislive
ORDER BY i.indexrelid;

-- advise_initdb: Return the age of the cluster in seconds. The upper half of the system identifier is the time of
-- initdb.
SELECT extract(epoch FROM clock_timestamp())::float8 - (system_identifier >> 32) AS seconds FROM pg_control_system();

-- advise_sample: Return the values of a column in some blocks. concat() calls the output function of the type. A cast
-- could call a user-defined function.
SELECT concat({column}) AS value
FROM ONLY {table} TABLESAMPLE SYSTEM ({percent})
WHERE {column} IS NOT NULL
LIMIT 1000;

-- advise_server: Return facts about the server, the seconds since the counters of the database were reset (null if they
-- were never reset), and the bytes of WAL per day.
SELECT current_setting('server_version_num')::int AS version, current_setting('server_version') AS version_text,
       d.datname::text AS database, pg_is_in_recovery() AS is_standby,
       pg_size_bytes(current_setting('effective_cache_size'))::float8 AS cache_bytes,
       extract(epoch FROM current_setting('checkpoint_timeout')::interval)::float8 AS checkpoint_timeout,
       current_setting('full_page_writes')::bool AS has_images,
       pg_has_role('pg_read_all_stats', 'USAGE') AS sees_all,
       extract(epoch FROM clock_timestamp() - pg_stat_get_db_stat_reset_time(d.oid))::float8 AS seconds,
       (SELECT 86400 * w.wal_bytes::float8 / greatest(1, extract(epoch FROM clock_timestamp() - w.stats_reset))
        FROM pg_stat_wal AS w) AS wal
FROM pg_database AS d
WHERE d.datname = current_database();

-- advise_statements: Return statements of this database that were called at least ten times, which leaves out ad-hoc
-- queries. A query string that is too long for the parser is truncated.
SELECT left(s.query, 10001) AS text, sum(s.calls)::float8 AS calls, sum(s.total_exec_time)::float8 / 1000 AS seconds,
       sum(s.rows)::float8 AS rows, sum(s.wal_fpi)::float8 AS images
FROM {view} AS s
WHERE s.dbid = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
  AND s.query ~* '\m(select|update|delete)\M'
GROUP BY 1
HAVING sum(s.calls) >= 10;

-- advise_statements_view: Return the schema of pg_stat_statements, its owner, and true if the owner is trusted: a
-- superuser or the current role. Any other owner could have replaced the view.
SELECT n.nspname::text AS schema, o.rolname::text AS owner, o.rolsuper OR o.rolname = current_user AS is_trusted
FROM pg_extension AS e
     JOIN pg_depend AS d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
     JOIN pg_class AS c ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND c.relname = 'pg_stat_statements'
     JOIN pg_namespace AS n ON n.oid = c.relnamespace
     JOIN pg_database AS b ON b.datname = current_database()
     JOIN pg_roles AS o ON o.oid = CASE n.nspowner WHEN 'pg_database_owner'::regrole THEN b.datdba ELSE n.nspowner END
WHERE e.extname = 'pg_stat_statements';

-- advise_statistics: Return statistics of the columns that the role may read. Values are included only if they may be
-- UUIDs.
SELECT a.attrelid::int8 AS leaf, a.attnum::int AS number, s.n_distinct::float8 AS distinct_values,
       s.correlation::float8 AS correlation, s.avg_width::int AS width,
       CASE WHEN b.typname = 'uuid' OR (b.typname IN ('text', 'varchar', 'bpchar') AND s.avg_width IN (33, 37))
            THEN coalesce(s.histogram_bounds::text::text[], '{}') || coalesce(s.most_common_vals::text::text[], '{}')
            ELSE '{}' END AS values
FROM pg_stats AS s
     JOIN pg_namespace AS n ON n.nspname = s.schemaname
     JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = s.tablename
     JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = s.attname
     JOIN pg_type AS t ON t.oid = a.atttypid
     JOIN pg_type AS b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
WHERE c.oid >= 16384 AND c.relkind = 'r' AND c.reltuples >= 1000 AND NOT s.inherited
  AND b.typnamespace = 'pg_catalog'::regnamespace;

-- advise_tables: Return tables, and partitions with their partitioned tables. Sizes are as of the last VACUUM or
-- ANALYZE, because measuring the files would lock the tables. Temporary tables and tables of extensions are left out.
SELECT c.oid::int8 AS leaf, s.nspname::text AS leaf_schema, c.relname::text AS leaf_name, n.nspname::text AS schema,
       r.relname::text AS name, c.relpersistence = 'p' AS is_logged, c.relpages::float8 AS pages,
       c.reltuples::float8 AS rows, coalesce(t.relpages, 0)::float8 AS toast_pages,
       pg_stat_get_tuples_inserted(c.oid)::float8 AS inserted, pg_stat_get_tuples_updated(c.oid)::float8 AS updated,
       pg_stat_get_tuples_hot_updated(c.oid)::float8 AS hot, pg_stat_get_tuples_deleted(c.oid)::float8 AS deleted,
       (SELECT bool_and(x.rolsuper OR x.rolname = current_user) FROM pg_roles AS x
        WHERE x.oid IN (c.relowner, CASE s.nspowner WHEN 'pg_database_owner'::regrole THEN b.datdba ELSE s.nspowner END)
       ) AS is_trusted
FROM pg_database AS b
     CROSS JOIN pg_class AS c
     JOIN pg_class AS r ON r.oid = coalesce(pg_partition_root(c.oid), c.oid)
     JOIN pg_namespace AS n ON n.oid = r.relnamespace
     JOIN pg_namespace AS s ON s.oid = c.relnamespace
     LEFT JOIN pg_class AS t ON t.oid = c.reltoastrelid
WHERE b.datname = current_database() AND c.oid >= 16384 AND c.relkind = 'r' AND c.relpersistence <> 't'
  AND NOT EXISTS (SELECT FROM pg_depend AS d
                  WHERE d.classid = 'pg_class'::regclass AND d.objid = r.oid AND d.deptype = 'e')
ORDER BY r.oid, c.oid;
