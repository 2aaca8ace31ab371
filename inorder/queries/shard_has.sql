-- Which of these primary keys a table has.
SELECT k.key
FROM (SELECT pg_catalog.concat(ROW({key})) AS key
      FROM {inorder}.reader_start({table}::pg_catalog.oid::pg_catalog.regclass, 'beginning') AS p
      CROSS JOIN LATERAL {inorder}.reader_next_batch({table}::pg_catalog.oid::pg_catalog.regclass, p) AS b
      CROSS JOIN LATERAL {inorder}.reader_batch_rows({table}::pg_catalog.oid::pg_catalog.regclass, b,
                                               (NULL::{name}[])[1]) AS e) AS k
JOIN pg_catalog.unnest({keys}::pg_catalog.text[]) AS v(key) ON v.key OPERATOR(pg_catalog.=) k.key COLLATE pg_catalog."C"
