-- Every object in two schemas: what it is, its name, and all that defines it. The owner of the schema is called "owner".
WITH place AS (
    -- The schema of the public functions may have been there before, of another role: "owner" is who has the internal
    -- one.
    SELECT n.oid, n.nspname, i.nspowner FROM pg_namespace AS n JOIN pg_namespace AS i ON i.nspname LIKE '%\_internal'
    WHERE n.nspname = ANY ({schemas}::name[]) AND i.nspname = ANY ({schemas}::name[])
), relation AS (
    SELECT c.*, p.nspowner, c.oid::regclass::text AS named FROM pg_class AS c JOIN place AS p ON p.oid = c.relnamespace
), object (kind, named, definition, owner, acl, class, id, nspowner) AS (
    -- Its owner is not compared, see above. Who may use the schema of the public functions is the user's to say; who may
    -- create there could overload them.
    SELECT 'schema', p.nspname::text, '', p.nspowner,
           nullif(ARRAY(SELECT makeaclitem(a.grantee, a.grantor, a.privilege_type, false)
                 FROM pg_namespace AS n, aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) AS a
                 WHERE n.oid = p.oid AND (p.nspname LIKE '%\_internal'
                                          OR a.privilege_type = 'CREATE' AND p.nspname <> 'public')), '{{}}'),
           'pg_namespace'::regclass, p.oid, p.nspowner
    FROM place AS p
    UNION ALL
    SELECT 'cast', format('%s to %s', k.castsource::regtype, k.casttarget::regtype),
           concat_ws(' ', k.castfunc::regprocedure, k.castcontext, k.castmethod), p.nspowner, NULL,
           'pg_cast'::regclass, k.oid, p.nspowner
    FROM pg_cast AS k JOIN pg_type AS t ON t.oid IN (k.castsource, k.casttarget) JOIN place AS p ON p.oid = t.typnamespace
    UNION ALL
    SELECT 'column', format('%s.%I', r.named, a.attname), '', r.relowner, a.attacl,
           'pg_class'::regclass, r.oid, r.nspowner
    FROM pg_attribute AS a JOIN relation AS r ON r.oid = a.attrelid WHERE a.attacl IS NOT NULL AND NOT a.attisdropped
    UNION ALL
    SELECT 'function', f.oid::regprocedure::text,
           CASE f.prokind WHEN 'a' THEN a::text ELSE pg_get_functiondef(f.oid) END,
           f.proowner, coalesce(f.proacl, acldefault('f', f.proowner)), 'pg_proc'::regclass, f.oid, p.nspowner
    FROM pg_proc AS f JOIN place AS p ON p.oid = f.pronamespace
    LEFT JOIN (SELECT g.aggfnoid, g.aggkind, g.aggtransfn, g.aggfinalfn, g.aggcombinefn, g.aggsortop::regoperator,
                      g.aggtranstype::regtype FROM pg_aggregate AS g) AS a ON a.aggfnoid = f.oid
    UNION ALL
    SELECT 'relation', r.named,
           concat_ws(E'\n', r.relkind, r.relrowsecurity, r.relforcerowsecurity, r.reloptions::text,
                     CASE WHEN r.relkind = 'v' THEN pg_get_viewdef(r.oid) END,
                     (SELECT string_agg(concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
                                                  a.attgenerated, a.attstorage, pg_get_expr(d.adbin, d.adrelid),
                                                  col_description(a.attrelid, a.attnum)), E'\n' ORDER BY a.attnum)
                      FROM pg_attribute AS a
                      LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
                      WHERE a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped)),
           r.relowner, coalesce(r.relacl, acldefault('r', r.relowner)), 'pg_class'::regclass, r.oid, r.nspowner
    FROM relation AS r WHERE r.relkind IN ('r', 'v', 'c', 'S', 'p', 'm')
    UNION ALL
    SELECT 'index', pg_get_indexdef(i.indexrelid), concat(i.indisvalid), r.relowner, NULL, 'pg_class'::regclass,
           i.indexrelid, r.nspowner
    FROM pg_index AS i JOIN relation AS r ON r.oid = i.indrelid
    UNION ALL
    SELECT 'constraint', concat(r.named, ' ', k.conname), concat(pg_get_constraintdef(k.oid), k.convalidated), r.relowner,
           NULL, 'pg_constraint'::regclass, k.oid, r.nspowner
    FROM pg_constraint AS k JOIN relation AS r ON r.oid = k.conrelid
    UNION ALL
    SELECT 'trigger', concat(r.named, ' ', g.tgname), concat(pg_get_triggerdef(g.oid), g.tgenabled), r.relowner, NULL,
           'pg_trigger'::regclass, g.oid, r.nspowner
    FROM pg_trigger AS g JOIN relation AS r ON r.oid = g.tgrelid WHERE NOT g.tgisinternal
    UNION ALL
    SELECT 'rule', concat(r.named, ' ', w.rulename), pg_get_ruledef(w.oid), r.relowner, NULL, 'pg_rewrite'::regclass,
           w.oid, r.nspowner
    FROM pg_rewrite AS w JOIN relation AS r ON r.oid = w.ev_class WHERE w.rulename <> '_RETURN'
    UNION ALL
    SELECT 'policy', concat(r.named, ' ', y.polname),
           concat_ws(E'\n', y.polcmd, y.polpermissive, y.polroles::regrole[]::text,
                     pg_get_expr(y.polqual, y.polrelid), pg_get_expr(y.polwithcheck, y.polrelid)),
           r.relowner, NULL, 'pg_policy'::regclass, y.oid, r.nspowner
    FROM pg_policy AS y JOIN relation AS r ON r.oid = y.polrelid
    UNION ALL
    SELECT 'type', t.oid::regtype::text,
           concat_ws(' ', t.typtype, t.typlen, t.typbyval, t.typalign, t.typstorage, t.typinput, t.typoutput,
                     t.typreceive, t.typsend, t.typnotnull, CASE WHEN t.typbasetype <> 0 THEN t.typbasetype::regtype END,
                     (SELECT string_agg(e.enumlabel, ' ' ORDER BY e.enumsortorder) FROM pg_enum AS e
                      WHERE e.enumtypid = t.oid)),
           t.typowner, coalesce(t.typacl, acldefault('T', t.typowner)), 'pg_type'::regclass, t.oid, p.nspowner
    FROM pg_type AS t JOIN place AS p ON p.oid = t.typnamespace
    WHERE NOT EXISTS (SELECT FROM pg_type AS e WHERE e.typarray = t.oid)
      AND NOT EXISTS (SELECT FROM pg_class AS c WHERE c.reltype = t.oid AND c.relkind <> 'c')
    UNION ALL
    SELECT 'operator', o.oid::regoperator::text,
           concat_ws(' ', o.oprcode, o.oprrest, o.oprjoin, o.oprcom::regoperator, o.oprnegate::regoperator,
                     o.oprcanmerge, o.oprcanhash), o.oprowner, NULL, 'pg_operator'::regclass, o.oid, p.nspowner
    FROM pg_operator AS o JOIN place AS p ON p.oid = o.oprnamespace
)
SELECT o.kind, o.named, o.definition,
       coalesce((SELECT string_agg(concat(CASE a.grantee WHEN o.owner THEN 'owner' WHEN 0 THEN 'PUBLIC'
                                               ELSE pg_get_userbyid(a.grantee)::text END, ' ', a.privilege_type),
                                   ', ' ORDER BY a.grantee = 0, a.grantee = o.owner, a.privilege_type)
                 FROM aclexplode(o.acl) AS a
                 WHERE a.grantee NOT IN (o.owner, {installer}::regrole, 'pg_database_owner'::regrole)), '') AS privileges,
       o.owner = o.nspowner AS is_owned,
       CASE WHEN o.kind = 'schema' AND o.named NOT LIKE '%\_internal' OR o.kind = 'column' THEN ''
            ELSE coalesce(obj_description(o.id, o.class::text), '') END AS comment
FROM object AS o
