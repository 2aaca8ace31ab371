-- The transactions of a set that have rows in a table, how many, and the primary key of one of them; each partition for itself.
SELECT n.number, n.amount, pg_catalog.jsonb_build_object({key})::pg_catalog.text
FROM (SELECT tableoid AS part, {column} AS number, pg_catalog.count(*) AS amount, pg_catalog.min(ctid) AS place
      FROM {relation}
      WHERE {column} OPERATOR(pg_catalog.<@) {transactions}::pg_catalog.int8multirange
      GROUP BY 1, 2) AS n
JOIN {relation} AS e ON e.ctid OPERATOR(pg_catalog.=) n.place AND e.tableoid OPERATOR(pg_catalog.=) n.part
ORDER BY n.number
