-- Revoke all privileges on the objects of the internal schemas; rights.sql grants the privileges that roles need.
--
-- Default privileges of the superuser who runs this script may have granted privileges on the objects that the script
-- has created.
DO $$
DECLARE
    object record;
BEGIN
    FOR object IN
        SELECT format('SCHEMA %I', n.nspname) AS named, a.grantee
        FROM pg_namespace AS n CROSS JOIN LATERAL aclexplode(n.nspacl) AS a
        WHERE n.nspname IN ('inorder_internal', 'inorder_text') AND a.grantee <> n.nspowner
        UNION ALL
        SELECT format('TABLE %s', c.oid::regclass), a.grantee
        FROM pg_class AS c CROSS JOIN LATERAL aclexplode(c.relacl) AS a
        WHERE c.relnamespace = 'inorder_internal'::regnamespace AND c.relkind = 'r' AND a.grantee <> c.relowner
        UNION ALL
        SELECT format('FUNCTION %s', p.oid::regprocedure), a.grantee
        FROM pg_proc AS p CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
        WHERE p.pronamespace::regnamespace::text IN ('inorder_internal', 'inorder_text') AND a.grantee <> p.proowner
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
