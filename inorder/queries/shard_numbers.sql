-- The transactions of a set that have rows in a table, how many, and the primary key of one of them. The extension reads the
-- rows, so that nothing runs that the owner of the table has put in its place.
SELECT e.{column}, pg_catalog.count(*), pg_catalog.min(pg_catalog.concat(ROW({key})) COLLATE pg_catalog."C")
FROM {inorder}.reader_start({table}::pg_catalog.oid::pg_catalog.regclass, 'beginning') AS p
CROSS JOIN LATERAL {inorder}.reader_next_batch({table}::pg_catalog.oid::pg_catalog.regclass, p) AS b
CROSS JOIN LATERAL {inorder}.reader_batch_rows({table}::pg_catalog.oid::pg_catalog.regclass, b,
                                               (NULL::{name}[])[1]) AS e
WHERE e.{column} OPERATOR(pg_catalog.<@) {transactions}::pg_catalog.int8multirange
GROUP BY e.{column}
