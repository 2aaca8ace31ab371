-- Tables and partitions with a guard: the transactions that last changed it, as inorder_internal.guarded() says it; that of
-- the expression last, if the number is generated. The C extension has no zz_inorder_delete. Also as a feed that has not
-- moved since may know them, with their places, as inorder_internal.version() says it.
SELECT g.tgrelid::text AS relation,
       array_agg(g.xmin::text::bigint ORDER BY g.tgname)
       || array_agg(d.xmin::text::bigint) FILTER (WHERE d.oid IS NOT NULL) AS stamps,
       array_agg(g.place << 32 | g.xmin::text::bigint ORDER BY g.tgname)
       || array_agg(((hashtext(concat(d.ctid, pg_relation_filenode('pg_attrdef'))) & 1048575) + 1048576)::bigint << 32
                    | d.xmin::text::bigint) FILTER (WHERE d.oid IS NOT NULL) AS placed,
       count(d.oid) > 0 AS is_generated
FROM (SELECT *, xmin, ((hashtext(concat(ctid, pg_relation_filenode('pg_trigger'))) & 1048575) + 1048576)::bigint AS place
      FROM pg_trigger) AS g
LEFT JOIN pg_attribute AS a ON g.tgname = 'zz_inorder_guard' AND a.attrelid = g.tgrelid AND a.attnum = g.tgattr[0]
                               AND a.attgenerated = 's'
LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE g.tgname IN ('zz_inorder_guard', 'zz_inorder_update', 'zz_inorder_delete')
GROUP BY g.tgrelid
