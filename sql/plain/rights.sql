-- The roles that may use inorder. This file comes last.
--
-- Each function runs with the privileges of its caller, and no code of a third party runs as the role that installed
-- inorder. The function feed_admit() grants the privileges that a role needs. Roles that are admitted can write all of
-- the state, and therefore must trust each other. Other roles, and PUBLIC, have no privileges on objects of inorder.

-- Return the objects of inorder, in the notation of GRANT, and the privileges that a role needs to use each of them.
CREATE FUNCTION inorder_internal.own_objects() RETURNS TABLE (
    kind text, name text, needed text, object oid, owner oid, acl aclitem[]
)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT o.kind, o.name, o.needed, o.object, o.owner, o.acl FROM (
        SELECT 'SCHEMA'::text, quote_ident(n.nspname), 'USAGE'::text, n.oid, n.nspowner,
               coalesce(n.nspacl, acldefault('n', n.nspowner)), n.oid
        FROM pg_namespace AS n
        UNION ALL
        SELECT 'TABLE'::text, c.oid::regclass::text,
               CASE c.relkind WHEN 'v' THEN 'SELECT'::text ELSE 'SELECT, INSERT, UPDATE, DELETE'::text END, c.oid, c.relowner,
               coalesce(c.relacl, acldefault('r', c.relowner)), c.relnamespace
        FROM pg_class AS c
        WHERE c.relkind = 'r' AND c.relnamespace = 'inorder_internal'::regnamespace::oid
           OR c.oid IN ('@extschema@.feeds'::regclass::oid, '@extschema@.feed_batches'::regclass::oid)
        UNION ALL
        SELECT 'FUNCTION'::text, p.oid::regprocedure::text, 'EXECUTE'::text, p.oid, p.proowner,
               coalesce(p.proacl, acldefault('f', p.proowner)), p.pronamespace
        FROM pg_proc AS p
        UNION ALL
        -- Row types of tables have no privileges of their own.
        SELECT 'TYPE'::text, t.oid::regtype::text, 'USAGE'::text, t.oid, t.typowner,
               coalesce(t.typacl, acldefault('T', t.typowner)), t.typnamespace
        FROM pg_type AS t LEFT JOIN pg_class AS c ON c.oid = t.typrelid
        WHERE t.typtype IN ('c', 'd') AND (t.typrelid = 0::oid OR c.relkind = 'c')) AS o(
        kind, name, needed, object, owner, acl, schema)
    JOIN pg_namespace AS i ON i.nspname = 'inorder_internal' AND i.nspowner = o.owner
    WHERE o.schema IN (i.oid, (SELECT p.pronamespace FROM pg_proc AS p
                               WHERE p.oid = '@extschema@.feed_guard()'::regprocedure::oid));
END;

-- Return the functions that run with the privileges of a role that writes into a table, or that reads a view of counts
-- by group. They are the functions of keys, guards, logs and counts, and the functions that these functions call.
CREATE FUNCTION inorder_internal.called_by_writers() RETURNS SETOF oid
LANGUAGE sql STABLE
BEGIN ATOMIC
    WITH RECURSIVE called(id) AS (
        SELECT o.object FROM inorder_internal.own_objects() AS o
        WHERE o.kind = 'FUNCTION'::text AND o.name ~ ('[.](uuid_[a-z0-9]+_nextval|xact_id|xact_id_generated|feed_guard|'
                                                      'guarded_number|is_foreign|check_writer|check_marker|'
                                                      'exact_count_(proof|writes|fold_soon))[(]'::text)
        UNION
        SELECT p.oid FROM called AS c
        CROSS JOIN LATERAL regexp_matches(pg_get_functiondef(c.id), 'inorder_internal[.]([a-z0-9_]+)'::text, 'g'::text) AS m
        JOIN pg_proc AS p ON p.proname = (m)[1]::name AND p.pronamespace = 'inorder_internal'::regnamespace::oid
    )
    SELECT c.id FROM called AS c;
END;

-- Grant a role the privileges to use everything or only to write into tables, or revoke all privileges. The role is in
-- the notation of GRANT.
CREATE FUNCTION inorder_internal.set_rights(role text, uses boolean, writes boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    statement text;
BEGIN
    FOR statement IN
        SELECT format('REVOKE ALL ON %s %s FROM %s CASCADE', o.kind, string_agg(o.name, ', '), role)
        FROM inorder_internal.own_objects() AS o GROUP BY o.kind
        UNION ALL
        SELECT format('GRANT %s ON %s %s TO %s', o.needed, o.kind, string_agg(o.name, ', '), role)
        FROM inorder_internal.own_objects() AS o
        WHERE uses OR writes AND (o.kind = 'SCHEMA' OR o.object IN (SELECT inorder_internal.called_by_writers()))
        GROUP BY o.kind, o.needed
        UNION ALL
        -- The guard looks up in feed_table whether the table was restored.
        SELECT format('GRANT SELECT ON inorder_internal.feed_table TO %s', role) WHERE writes AND NOT uses LOOP
        EXECUTE statement;
    END LOOP;
END $$;

-- Set the privileges of a role. Raise an error unless the caller is the role that installed inorder, or a member of
-- that role.
CREATE FUNCTION inorder_internal.admit(role regrole, uses boolean, writes boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    installer regrole := (SELECT n.nspowner FROM pg_namespace AS n WHERE n.nspname = 'inorder_internal');
BEGIN
    IF role IS NULL THEN
        RAISE 'role must not be null' USING ERRCODE = 'null_value_not_allowed';
    ELSIF role = 0 THEN
        RAISE 'PUBLIC cannot be admitted' USING ERRCODE = 'invalid_grant_operation',
              DETAIL = 'Each role that is admitted can move any feed.', HINT = 'Admit roles by name.';
    ELSIF NOT pg_has_role(installer, 'USAGE') THEN
        RAISE 'permission denied to admit or dismiss roles' USING ERRCODE = 'insufficient_privilege',
              DETAIL = format('Only role %s, which installed inorder, and its members may admit and dismiss roles.',
                              installer);
    ELSIF role <> installer THEN
        -- If two sessions granted or revoked privileges at the same time, they would change the same catalog rows,
        -- which is an error.
        LOCK TABLE inorder_internal.upgrade_mark IN SHARE UPDATE EXCLUSIVE MODE;
        PERFORM inorder_internal.set_rights(quote_ident(pg_get_userbyid(role)), uses, writes);
    END IF;
END $$;

CREATE FUNCTION @extschema@.feed_admit(role regrole, only_writes boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM inorder_internal.admit(role, only_writes IS NOT TRUE, true);
END $$;
COMMENT ON FUNCTION @extschema@.feed_admit(regrole, boolean) IS
'Let a role use the SQL edition of inorder, move any feed and change any count; with only_writes, let it only write '
'into tables.';

CREATE FUNCTION @extschema@.feed_dismiss(role regrole) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM inorder_internal.admit(role, false, false);
END $$;
COMMENT ON FUNCTION @extschema@.feed_dismiss(regrole) IS
'Revert feed_admit: revoke all privileges of a role on objects of inorder.';

-- Revoke privileges that default privileges have granted. In an update, also grant privileges on new objects to roles
-- that were admitted before.
DO $$
DECLARE
    is_update boolean := false;
    grantee record;
BEGIN
    FOR grantee IN
        SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS role,
               is_update AND bool_or(o.name = 'inorder_internal.feed') AS uses,
               is_update AND bool_or(o.name = 'inorder_internal') AS writes
        FROM inorder_internal.own_objects() AS o CROSS JOIN LATERAL aclexplode(o.acl) AS a
        WHERE a.grantee <> o.owner GROUP BY a.grantee LOOP
        PERFORM inorder_internal.set_rights(grantee.role, grantee.uses, grantee.writes);
    END LOOP;
    PERFORM set_config('search_path', current_setting('inorder.search_path'), false);
END $$;
