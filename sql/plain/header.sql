-- inorder @version@, the SQL edition: for servers that do not allow users to install a C extension.
--
-- Any role with CREATE on the database can run this file, with psql -v ON_ERROR_STOP=1 -f this-file or a migration
-- tool. The file is one statement, which is executed as a whole or not at all. docs/hosted.md lists the functions that
-- this edition lacks, and its limits. script/edition generates this file.
--
-- No function is SECURITY DEFINER: each function runs with the privileges of its caller. The function feed_admit() at
-- the end of the file grants the privileges that a role needs.

DO $$
DECLARE
    missing text;
BEGIN
    -- SET LOCAL would need a transaction. The last statement restores the setting.
    PERFORM pg_catalog.set_config('inorder.search_path', pg_catalog.current_setting('search_path'), false),
            pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);
    IF current_setting('server_version_num')::int < 150000 THEN
        RAISE 'inorder needs PostgreSQL 15 or later, not %', current_setting('server_version')
        USING ERRCODE = 'feature_not_supported';
    END IF;
    -- The list contains all names that this file uses. Some of them are names of functions, tables and views of the
    -- server.
    SELECT string_agg(u.name, ', ' ORDER BY u.name) INTO missing
    FROM unnest('{@names@}'::name[]) AS u(name)
    WHERE EXISTS (SELECT FROM pg_proc AS p WHERE p.proname = u.name AND p.pronamespace = 'pg_catalog'::regnamespace
                                              AND NOT has_function_privilege('public', p.oid, 'EXECUTE'))
       OR EXISTS (SELECT FROM pg_class AS c WHERE c.relname = u.name AND c.relnamespace = 'pg_catalog'::regnamespace
                                              AND NOT has_table_privilege('public', c.oid, 'SELECT'));
    IF missing IS NOT NULL THEN
        RAISE 'this server does not let every role use %', missing USING ERRCODE = 'feature_not_supported',
              HINT = 'The SQL edition of inorder needs these functions and views of PostgreSQL: let the administrator '
                     'grant EXECUTE or SELECT to PUBLIC.';
    END IF;
    BEGIN
        PERFORM pg_walfile_name(pg_current_wal_insert_lsn());
    EXCEPTION WHEN OTHERS THEN
        RAISE 'this server does not show its position in the WAL: %', SQLERRM USING ERRCODE = 'feature_not_supported',
              HINT = 'Aurora shows the position if the parameter rds.logical_replication is 1.';
    END;
END $$;

-- The script fails if one of these schemas exists already. The script does not take over objects that other roles have
-- created there.
CREATE SCHEMA @extschema@;
COMMENT ON SCHEMA @extschema@ IS 'inorder @version@, SQL edition.';
CREATE SCHEMA inorder_internal;
COMMENT ON SCHEMA inorder_internal IS
'State and internal functions of inorder, which may change in any version.';

CREATE FUNCTION inorder_internal.sql_edition() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN '@version@'::text;

-- The type of the columns in which the state refers to tables. A dump contains the name of the table. If there is no
-- such table in the restored database, restoring the row causes an error.
CREATE DOMAIN inorder_internal.table_ref AS regclass;
COMMENT ON DOMAIN inorder_internal.table_ref IS
'Internal type: the OID of a table, which a dump contains as the name of the table.';
