-- A position to begin with.
SELECT p::pg_catalog.jsonb
FROM {inorder}.reader_start({table}::pg_catalog.oid::pg_catalog.regclass, {start}::pg_catalog.text,
                          {order_by}::pg_catalog.name) AS p
