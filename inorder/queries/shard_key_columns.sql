-- The columns of the primary key of a table.
SELECT a.attname
FROM pg_catalog.pg_index AS i
CROSS JOIN LATERAL pg_catalog.unnest(i.indkey::pg_catalog.int2[]) WITH ORDINALITY AS k(attnum, place)
JOIN pg_catalog.pg_attribute AS a ON a.attrelid OPERATOR(pg_catalog.=) i.indrelid AND a.attnum OPERATOR(pg_catalog.=) k.attnum
WHERE i.indrelid OPERATOR(pg_catalog.=) {table}::pg_catalog.oid AND i.indisprimary
  AND k.place OPERATOR(pg_catalog.<=) i.indnkeyatts
ORDER BY k.place
