-- inorder @version@, the SQL edition: for servers on which no C extension can be installed.
--
-- Any role with CREATE on the database runs it, in one transaction: psql -1 -v ON_ERROR_STOP=1 -f this-file, or a tool
-- for migrations. Which functions it lacks, and what it cannot know, is in docs/hosted.md. inorder/install/edition.py
-- wrote it.
--
-- No function is SECURITY DEFINER: each runs with the privileges of its caller, and row security decides which rows of
-- the state these may read and write (rights.sql, last).

DO $$
DECLARE
    missing text;
BEGIN
    -- Not SET LOCAL, which needs a transaction. The last statement sets it back.
    PERFORM pg_catalog.set_config('inorder.search_path', pg_catalog.current_setting('search_path'), false),
            pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);
    IF current_setting('server_version_num')::int < 150000 THEN
        RAISE 'inorder needs PostgreSQL 15 or later, not %', current_setting('server_version')
        USING ERRCODE = 'feature_not_supported';
    END IF;
    SELECT string_agg(f, ', ') INTO missing
    FROM unnest(ARRAY['pg_control_system()', 'pg_current_wal_insert_lsn()', 'pg_walfile_name(pg_lsn)',
                      'pg_current_snapshot()', 'pg_current_xact_id()', 'pg_is_in_recovery()',
                      'pg_try_advisory_lock(bigint)']) AS f
    WHERE to_regprocedure(f) IS NULL OR NOT has_function_privilege('public', f, 'EXECUTE');
    IF missing IS NOT NULL THEN
        RAISE 'this server does not let every role call %', missing USING ERRCODE = 'feature_not_supported',
              HINT = 'The SQL edition of inorder needs these functions of PostgreSQL, of which EXECUTE was revoked.';
    END IF;
END $$;

-- If one of these exists already, the script fails: what others have put there is not taken over.
CREATE SCHEMA @extschema@;
COMMENT ON SCHEMA @extschema@ IS 'inorder @version@, SQL edition.';
CREATE SCHEMA inorder_internal;
COMMENT ON SCHEMA inorder_internal IS
'State and internal functions of inorder. Its contents may change in any version.';

CREATE FUNCTION inorder_internal.sql_edition()
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN '@version@'::text;
COMMENT ON FUNCTION inorder_internal.sql_edition() IS
'Internal function. The version of the SQL edition that is installed.';

