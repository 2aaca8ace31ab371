-- Objects of the user's that depend on objects of inorder: triggers of the guard, defaults, generated columns, and
-- whatever else.
WITH member (classid, objid) AS (
    SELECT d.classid, d.objid FROM pg_depend AS d
    WHERE d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
      AND d.refobjid = (SELECT e.oid FROM pg_extension AS e WHERE e.extname = 'inorder')
    UNION
    SELECT o.classid, o.oid
    FROM (SELECT 'pg_proc'::regclass, p.oid, p.pronamespace FROM pg_proc AS p
          UNION ALL SELECT 'pg_class'::regclass, c.oid, c.relnamespace FROM pg_class AS c
          UNION ALL SELECT 'pg_type'::regclass, t.oid, t.typnamespace FROM pg_type AS t)
         AS o(classid, oid, namespace)
    WHERE o.namespace IN (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = ANY ({schemas}::name[]))
), ours (classid, objid) AS (
    SELECT m.classid, m.objid FROM member AS m
    UNION
    SELECT 'pg_type'::regclass, t.oid FROM pg_type AS t JOIN member AS m ON m.classid = 'pg_class'::regclass
                                                                        AND m.objid = t.typrelid
    UNION
    SELECT 'pg_type'::regclass, t.typarray FROM pg_type AS t JOIN member AS m ON m.classid = 'pg_type'::regclass
                                                                             AND m.objid = t.oid
    UNION
    -- The relations of composite types, and what holds the large values of tables.
    SELECT 'pg_class'::regclass, c.oid FROM pg_class AS c JOIN member AS m ON m.classid = 'pg_type'::regclass
                                                                          AND m.objid = c.reltype
    UNION
    SELECT 'pg_class'::regclass, c.reltoastrelid FROM pg_class AS c JOIN member AS m ON m.classid = 'pg_class'::regclass
                                                                                    AND m.objid = c.oid
    WHERE c.reltoastrelid <> 0
    UNION
    SELECT 'pg_cast'::regclass, k.oid
    FROM pg_cast AS k JOIN member AS m ON m.classid = 'pg_proc'::regclass AND m.objid = k.castfunc
    WHERE EXISTS (SELECT FROM member AS y LEFT JOIN pg_class AS c ON y.classid = 'pg_class'::regclass AND c.oid = y.objid
                  WHERE y.classid = 'pg_type'::regclass AND y.objid IN (k.castsource, k.casttarget)
                     OR c.reltype IN (k.castsource, k.casttarget))
), dependent AS (
    SELECT DISTINCT d.classid, d.objid, d.objsubid, coalesce(a.adrelid, g.tgrelid, r.ev_class, k.conrelid, p.polrelid,
                                                             i.indrelid, c.oid, 0) AS relation,
           a.adnum, g.tgname, coalesce(g.tgparentid, 0) AS parent, g.tgfoid
    FROM pg_depend AS d JOIN ours AS o ON o.classid = d.refclassid AND o.objid = d.refobjid
    LEFT JOIN pg_attrdef AS a ON d.classid = 'pg_attrdef'::regclass AND a.oid = d.objid
    LEFT JOIN pg_trigger AS g ON d.classid = 'pg_trigger'::regclass AND g.oid = d.objid
    LEFT JOIN pg_rewrite AS r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
    LEFT JOIN pg_constraint AS k ON d.classid = 'pg_constraint'::regclass AND k.oid = d.objid AND k.conrelid <> 0
    LEFT JOIN pg_policy AS p ON d.classid = 'pg_policy'::regclass AND p.oid = d.objid
    LEFT JOIN pg_index AS i ON d.classid = 'pg_class'::regclass AND i.indexrelid = d.objid
    LEFT JOIN pg_class AS c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
    WHERE NOT EXISTS (SELECT FROM ours AS s WHERE s.classid = d.classid AND s.objid = d.objid)
      -- The operators and functions of an operator class are part of it.
      AND d.classid NOT IN ('pg_amop'::regclass, 'pg_amproc'::regclass)
)
SELECT CASE WHEN d.parent <> 0 THEN 'clone'
            WHEN d.tgname IN ('zz_inorder_guard', 'zz_inorder_update', 'zz_inorder_delete', 'zz_inorder_truncate')
            THEN 'guard'
            WHEN d.tgname = 'inorder_notify' THEN 'notify'
            WHEN t.attgenerated <> '' THEN 'generated'
            WHEN d.adnum IS NOT NULL THEN 'default'
            ELSE 'other' END AS kind,
       d.relation::regclass::text AS relation_name, t.attname::text AS column_name,
       coalesce(d.tgname::text, pg_get_expr(f.adbin, f.adrelid)) AS definition,
       CASE WHEN d.classid = 'pg_rewrite'::regclass AND c.relkind IN ('v', 'm')
            THEN pg_describe_object('pg_class'::regclass, d.relation, 0)
            ELSE pg_describe_object(d.classid, d.objid, d.objsubid) END AS described,
       coalesce(pg_has_role(c.relowner, 'USAGE'), false) AS is_owner,
       coalesce(t.attinhcount > 0, false) AS is_inherited,
       EXISTS (SELECT FROM pg_inherits AS h JOIN dependent AS u ON u.relation = h.inhparent
               JOIN pg_attribute AS w ON w.attrelid = u.relation AND w.attnum = u.adnum
               WHERE h.inhrelid = d.relation AND w.attname = t.attname) AS follows_parent,
       -- What DROP COLUMN drops with the column.
       ARRAY(SELECT pg_describe_object(e.classid, e.objid, e.objsubid) FROM pg_depend AS e
             WHERE e.refclassid = 'pg_class'::regclass AND e.refobjid = d.relation AND e.refobjsubid = t.attnum
               AND e.deptype = 'a' AND e.classid NOT IN ('pg_attrdef'::regclass, 'pg_trigger'::regclass)
               AND NOT EXISTS (SELECT FROM pg_constraint AS k WHERE e.classid = 'pg_constraint'::regclass
                               AND k.oid = e.objid AND k.contype = 'n')
             ORDER BY 1) AS goes_along
FROM dependent AS d
LEFT JOIN pg_class AS c ON c.oid = d.relation
LEFT JOIN pg_attribute AS t ON t.attrelid = d.relation AND t.attnum = coalesce(d.adnum, nullif(d.objsubid, 0))
LEFT JOIN pg_attrdef AS f ON f.adrelid = d.relation AND f.adnum = d.adnum
WHERE NOT EXISTS (SELECT FROM ours AS s WHERE s.classid = 'pg_class'::regclass AND s.objid = d.relation)
  AND NOT EXISTS (SELECT FROM pg_type AS y JOIN ours AS s ON s.classid = 'pg_type'::regclass AND s.objid = y.oid
                  WHERE d.classid = 'pg_type'::regclass AND y.typarray = d.objid)
ORDER BY 1, 2, 3, 5
