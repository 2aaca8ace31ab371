-- Privileges on the objects of the internal schema. This file comes last.

-- The privileges for pg_dump and pg_restore are granted to the role that owns the extension, and to the owner of the
-- database. @extowner@ is not used, because it is the role that executes the script, and an update may be executed by
-- another role.
--
-- COPY FROM evaluates CHECK constraints, input functions and generation expressions as the role that restores. Only
-- generation expressions need the EXECUTE privilege.
DO $$
DECLARE
    owner regrole := (SELECT e.extowner FROM pg_extension AS e WHERE e.extname = 'inorder');
    granted text;
BEGIN
    FOREACH granted IN ARRAY ARRAY[
        'USAGE ON SCHEMA inorder_internal',
        'SELECT, INSERT ON inorder_internal.feed_table, inorder_internal.feed, inorder_internal.feed_state, '
        'inorder_internal.worker_batch, inorder_internal.counted_table',
        'EXECUTE ON FUNCTION inorder_internal.is_written_here(anyelement)'] LOOP
        EXECUTE format('GRANT %s TO %s, pg_database_owner', granted, owner);
    END LOOP;
END $$;

-- Every role may execute the functions of inorder_text.
GRANT USAGE ON SCHEMA inorder_text TO PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA inorder_text TO PUBLIC;

-- Functions that public functions and the views call. These functions return only information that the catalog shows
-- to every role, and feeds and batches that the caller may see.
GRANT EXECUTE ON FUNCTION inorder_internal.time_steps(timestamptz, timestamptz, interval) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.tree(regclass) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.next_transaction(bigint) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.key_base(pg_node_tree, oid) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.key_columns(regclass) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.seen_feeds() TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.seen_batches() TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.by_index(text) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.query_of_batch(regclass, @extschema@.feed_batch) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.query_of_changes(regclass, @extschema@.feed_position,
                                                           @extschema@.feed_batch) TO PUBLIC;
-- Functions that reader_advance() calls: they access no table.
GRANT EXECUTE ON FUNCTION inorder_internal.are_numbers(int8multirange) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.say_not_following(
    @extschema@.feed_position, @extschema@.feed_batch, text, text) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.say_beyond(text) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.advance(@extschema@.feed_position, @extschema@.feed_batch) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.follows(@extschema@.feed_position, @extschema@.feed_batch) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.ordering_after(@extschema@.feed_position, @extschema@.feed_batch) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.one_number(bigint) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.position_format() TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.plus(int8multirange, int8multirange) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.minus(int8multirange, int8multirange) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.few_of(int8multirange) TO PUBLIC;

-- Functions that use only their arguments.
GRANT EXECUTE ON FUNCTION inorder_internal.of_jsonb(anyelement, jsonb, int) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.is_place(@extschema@.feed_position) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.is_state(
    bigint, @extschema@.feed_position, bigint, timestamptz[]) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.feed_to_text(@extschema@.feed_position) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.feed_to_text(@extschema@.feed_batch) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.feed_position_of(text) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.feed_batch_of(text) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.feed_to_jsonb(@extschema@.feed_position) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.feed_to_jsonb(@extschema@.feed_batch) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.feed_position_of(jsonb) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.feed_batch_of(jsonb) TO PUBLIC;

-- Functions that PUBLIC may execute, and views that PUBLIC may read, regardless of default privileges.
DO $$
DECLARE
    function regprocedure;
BEGIN
    -- The type feed_position is in the schema of the public functions. Functions of other roles in
    -- this schema are left out.
    FOR function IN SELECT p.oid FROM pg_proc AS p
                    JOIN pg_type AS t ON t.typnamespace = p.pronamespace
                    JOIN pg_attribute AS a ON a.atttypid = t.oid AND a.attname = 'position'
                    LEFT JOIN pg_extension AS e ON e.extname = 'inorder' AND e.extnamespace = p.pronamespace
                    WHERE a.attrelid = 'inorder_internal.feed_state'::regclass AND p.proacl IS NOT NULL
                      AND (e.oid IS NULL
                           OR EXISTS (SELECT FROM pg_depend AS d
                                      WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
                                        AND d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid)) LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', function);
    END LOOP;
END $$;
GRANT SELECT ON @extschema@.feeds, @extschema@.feed_batches TO PUBLIC;

-- State that the extension writes is valid, and is not checked again, because the check took 4 % of the time of a read
-- of 500 rows. (In the SQL edition callers write the state themselves.)
ALTER TABLE inorder_internal.feed_state DROP CONSTRAINT feed_state_check, ADD CHECK (
    inorder_internal.is_written_here("position")
    OR inorder_internal.is_state(seq, "position", batch, moved, polled, caught_up_at));

-- Reset the search_path of functions that only the owner can execute, and that only other functions call. These
-- functions are called only after become_owner() has set the search_path (state.c). Setting the search_path again in
-- each function took 10 % of the time of a call. (In the SQL edition callers can execute all functions, with any
-- search_path. PL/pgSQL resolves the types of variables once per session, at the first call, which may come from a
-- function of another role.)
DO $$
DECLARE
    function regprocedure;
BEGIN
    FOR function IN
        SELECT p.oid FROM pg_proc AS p
        WHERE p.pronamespace = 'inorder_internal'::regnamespace
          AND 'search_path=pg_catalog, pg_temp' = ANY (p.proconfig)
          AND NOT EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
                          WHERE a.grantee <> p.proowner)
          AND NOT EXISTS (SELECT FROM pg_depend AS d
                          WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid = p.oid
                            AND d.classid <> 'pg_proc'::regclass) LOOP
        EXECUTE format('ALTER FUNCTION %s RESET search_path', function);
    END LOOP;
END $$;
