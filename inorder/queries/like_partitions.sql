-- Partitions of a table, each behind the one it is of: its number, that of the one above, its bounds, how it is divided.
WITH tree AS (
    SELECT relid, parentrelid, level, row_number() OVER (ORDER BY level, relid) - 1 AS number
    FROM pg_partition_tree(%(table)s::oid)
)
SELECT tree.number, above.number, pg_get_expr(c.relpartbound, c.oid), pg_get_partkeydef(c.oid),
       ARRAY(SELECT attname::text FROM pg_partitioned_table JOIN pg_attribute
             ON attrelid = partrelid AND attnum = ANY (partattrs) WHERE partrelid = c.oid)
FROM tree
     JOIN pg_class AS c ON c.oid = tree.relid
     LEFT JOIN tree AS above ON above.relid = tree.parentrelid
ORDER BY tree.number;
