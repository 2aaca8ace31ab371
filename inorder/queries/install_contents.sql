-- What would be lost with the state of inorder.
SELECT 'feed' AS kind, f.name, coalesce(c.oid::regclass::text, 'a table that is gone') AS relation, f.owner_name::text AS owner
FROM inorder_internal.feed AS f LEFT JOIN pg_class AS c ON c.oid = f.relation
UNION ALL
SELECT 'count', NULL, c.oid::regclass::text, NULL
FROM inorder_internal.counted_table AS t JOIN pg_class AS c ON c.oid = t.relation
UNION ALL
SELECT 'table', NULL, c.oid::regclass::text, NULL
FROM inorder_internal.feed_table AS t JOIN pg_class AS c ON c.oid = t.relation
ORDER BY 1, 3, 2, 4
