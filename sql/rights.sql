-- Last: privileges on the objects of the internal schema.

-- Default privileges of the superuser who runs this script may have granted privileges on each object above.
DO $$
DECLARE
    object record;
BEGIN
    FOR object IN
        SELECT format('SCHEMA %I', n.nspname) AS named, a.grantee
        FROM pg_namespace AS n CROSS JOIN LATERAL aclexplode(n.nspacl) AS a
        WHERE n.nspname = 'inorder_internal' AND a.grantee <> n.nspowner
        UNION ALL
        SELECT format('TABLE %s', c.oid::regclass), a.grantee
        FROM pg_class AS c CROSS JOIN LATERAL aclexplode(c.relacl) AS a
        WHERE c.relnamespace = 'inorder_internal'::regnamespace AND c.relkind = 'r' AND a.grantee <> c.relowner
        UNION ALL
        SELECT format('FUNCTION %s', p.oid::regprocedure), a.grantee
        FROM pg_proc AS p CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
        WHERE p.pronamespace = 'inorder_internal'::regnamespace AND a.grantee <> p.proowner
        UNION ALL
        SELECT format('TYPE %s', t.oid::regtype), a.grantee
        FROM pg_type AS t CROSS JOIN LATERAL aclexplode(coalesce(t.typacl, acldefault('T', t.typowner))) AS a
        WHERE t.typnamespace = 'inorder_internal'::regnamespace AND a.grantee <> t.typowner
          -- Array types and row types of tables have no privileges of their own.
          AND NOT EXISTS (SELECT FROM pg_type AS e WHERE e.typarray = t.oid)
          AND NOT EXISTS (SELECT FROM pg_class AS c WHERE c.reltype = t.oid AND c.relkind = 'r')
    LOOP
        EXECUTE format('REVOKE ALL ON %s FROM %s', object.named,
                       CASE object.grantee WHEN 0 THEN 'PUBLIC' ELSE object.grantee::regrole::text END);
    END LOOP;
END $$;

-- For pg_dump and pg_restore by the role that installs the extension, and by the owner of the database.
GRANT USAGE ON SCHEMA inorder_internal TO @extowner@, pg_database_owner;
GRANT SELECT, INSERT ON inorder_internal.feed_table, inorder_internal.feed, inorder_internal.worker_batch,
    inorder_internal.counted_table TO @extowner@, pg_database_owner;
-- COPY FROM evaluates CHECK constraints and input functions as the role that restores; these need no privilege. It
-- also evaluates the generation expression of a column as that role, which does.
GRANT EXECUTE ON FUNCTION inorder_internal.is_written_here(anyelement) TO @extowner@, pg_database_owner;

-- Called by the public functions and the view: these functions read the catalog, and return nothing that it does not
-- show.
GRANT EXECUTE ON FUNCTION inorder_internal.time_steps(timestamptz, timestamptz, interval) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.tree(regclass) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.next_transaction(bigint) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.key_base(pg_node_tree, oid[]) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.key_columns(regclass) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.base_of(regclass) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.seen_feeds() TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.seen_batches() TO PUBLIC;
-- feed_advance() calls these, which access nothing.
GRANT EXECUTE ON FUNCTION inorder_internal.are_numbers(int8multirange) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.common(int8multirange, int8multirange) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.say_not_following(
    @extschema@.feed_position, @extschema@.feed_batch, text, text) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.say_beyond(text) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.advanced(
    @extschema@.feed_position, @extschema@.feed_batch, int8multirange) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.plus(int8multirange, int8multirange) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.minus(int8multirange, int8multirange) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.few_of(int8multirange) TO PUBLIC;

-- Of their arguments only.
GRANT EXECUTE ON FUNCTION inorder_internal.numbers_text(int8multirange) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.text_numbers(text) TO PUBLIC;
GRANT EXECUTE ON FUNCTION inorder_internal.from_jsonb(anyelement, jsonb) TO PUBLIC;

-- What PUBLIC may select, regardless of default privileges.
GRANT SELECT ON @extschema@.feeds, @extschema@.feed_batches TO PUBLIC;
