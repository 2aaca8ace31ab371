-- The rows of a table.
SELECT pg_catalog.count(*)
FROM {inorder}.feed_start({table}::pg_catalog.oid::pg_catalog.regclass, 'beginning') AS p
CROSS JOIN LATERAL {inorder}.feed_batch_after({table}::pg_catalog.oid::pg_catalog.regclass, p) AS b
CROSS JOIN LATERAL {inorder}.feed_rows({table}::pg_catalog.oid::pg_catalog.regclass, b,
                                               (NULL::{name}[])[1]) AS e
