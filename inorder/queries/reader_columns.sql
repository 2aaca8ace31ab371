-- The columns of a table: name, type as in SQL, then the name of the type below its domains if it is one of the
-- server's, its modifier, and likewise the type of an array's elements.
WITH RECURSIVE c AS (
    SELECT a.attnum, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod) AS written, t.oid, a.atttypmod AS typmod
    FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_type AS t ON t.oid OPERATOR(pg_catalog.=) a.atttypid
    WHERE a.attrelid OPERATOR(pg_catalog.=) {table}::pg_catalog.oid AND a.attnum OPERATOR(pg_catalog.>) 0
      AND NOT a.attisdropped
    UNION ALL
    SELECT c.attnum, c.attname, c.written, t.typbasetype, t.typtypmod
    FROM c JOIN pg_catalog.pg_type AS t ON t.oid OPERATOR(pg_catalog.=) c.oid
    WHERE t.typtype OPERATOR(pg_catalog.=) 'd'
)
SELECT c.attname::pg_catalog.text, c.written,
       CASE WHEN t.typnamespace OPERATOR(pg_catalog.=) 'pg_catalog'::pg_catalog.regnamespace
            THEN t.typname::pg_catalog.text END,
       c.typmod,
       CASE WHEN e.typnamespace OPERATOR(pg_catalog.=) 'pg_catalog'::pg_catalog.regnamespace
            THEN e.typname::pg_catalog.text END
FROM c JOIN pg_catalog.pg_type AS t ON t.oid OPERATOR(pg_catalog.=) c.oid
LEFT JOIN pg_catalog.pg_type AS e ON e.typarray OPERATOR(pg_catalog.=) t.oid
WHERE t.typtype OPERATOR(pg_catalog.<>) 'd'
ORDER BY c.attnum
