-- The rows of a table.
SELECT pg_catalog.count(*)
FROM {inorder}.reader_start({table}::pg_catalog.oid::pg_catalog.regclass, 'beginning') AS p
CROSS JOIN LATERAL {inorder}.reader_next_batch({table}::pg_catalog.oid::pg_catalog.regclass, p) AS b
CROSS JOIN LATERAL {inorder}.reader_batch_rows({table}::pg_catalog.oid::pg_catalog.regclass, b,
                                               (NULL::{name}[])[1]) AS e
