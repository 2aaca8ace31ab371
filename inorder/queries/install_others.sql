-- What is in the schemas of the SQL edition and has none of the names of its objects.
SELECT pg_describe_object(o.class, o.id, 0) AS described
FROM (SELECT 'pg_class'::regclass, c.oid, c.relnamespace, c.relname FROM pg_class AS c
      WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
        -- A sequence goes with its column.
        AND NOT EXISTS (SELECT FROM pg_depend AS d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
                        AND c.relkind = 'S' AND d.deptype IN ('a', 'i'))
      UNION ALL SELECT 'pg_proc'::regclass, p.oid, p.pronamespace, p.proname FROM pg_proc AS p
      UNION ALL SELECT 'pg_operator'::regclass, r.oid, r.oprnamespace, r.oprname FROM pg_operator AS r
      UNION ALL SELECT 'pg_type'::regclass, t.oid, t.typnamespace, t.typname FROM pg_type AS t
      WHERE NOT EXISTS (SELECT FROM pg_type AS e WHERE e.typarray = t.oid)
        AND NOT EXISTS (SELECT FROM pg_class AS c WHERE c.reltype = t.oid AND c.relkind <> 'c')
        AND NOT EXISTS (SELECT FROM pg_range AS g WHERE g.rngmultitypid = t.oid)) AS o(class, id, namespace, name)
WHERE o.namespace IN (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = ANY ({schemas}::name[]))
  AND o.name <> ALL ({names}::name[])
ORDER BY 1
