-- The function that generated columns call, in a schema: how it is made, who may call it, and functions of inorder that
-- name it.
SELECT pg_get_functiondef(p.oid) AS definition, obj_description(p.oid, 'pg_proc') AS comment,
       p.proowner::regrole::text AS owner,
       ARRAY(SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END
             FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a ORDER BY 1) AS callers,
       ARRAY(SELECT pg_get_functiondef(d.objid) FROM pg_depend AS d
             WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid = p.oid AND d.classid = 'pg_proc'::regclass
             ORDER BY d.objid) AS named_by
FROM pg_proc AS p
WHERE p.pronamespace = (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = {schema})
  AND p.proname = 'xact_id_generated' AND p.proargtypes = 'bigint'::regtype::oid::text::oidvector
