-- Tables and partitions with a guard: the transactions that last changed it, as inorder_internal.guarded() says it; that of
-- the expression last, if the number is generated. The C extension has no zz_inorder_delete.
SELECT g.tgrelid::text AS relation,
       array_agg(g.xmin::text::bigint ORDER BY g.tgname)
       || array_agg(d.xmin::text::bigint) FILTER (WHERE d.oid IS NOT NULL) AS stamps,
       count(d.oid) > 0 AS is_generated
FROM pg_trigger AS g
LEFT JOIN pg_attribute AS a ON g.tgname = 'zz_inorder_guard' AND a.attrelid = g.tgrelid AND a.attnum = g.tgattr[0]
                               AND a.attgenerated = 's'
LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE g.tgname IN ('zz_inorder_guard', 'zz_inorder_update', 'zz_inorder_delete')
GROUP BY g.tgrelid
