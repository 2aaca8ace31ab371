-- What a table consists of, partitions and TOAST included: whether it is the table, its TOAST table or an index, and
-- the name of the index, that of the partitioned one; its file as pg_waldump names it; its size.
WITH leaf AS (
    SELECT %(table)s::regclass::oid AS oid UNION SELECT relid FROM pg_partition_tree(%(table)s::regclass)
), part AS (
    SELECT 'table' AS what, c.oid FROM leaf JOIN pg_class AS c USING (oid)
    UNION ALL SELECT 'TOAST', reltoastrelid FROM leaf JOIN pg_class AS c USING (oid) WHERE reltoastrelid <> 0
    UNION ALL SELECT 'TOAST', indexrelid FROM leaf JOIN pg_class AS c USING (oid) JOIN pg_index ON indrelid = reltoastrelid
    UNION ALL SELECT (SELECT relname FROM pg_class WHERE oid = coalesce(pg_partition_root(indexrelid), indexrelid)), indexrelid
    FROM leaf JOIN pg_index ON indrelid = leaf.oid
)
SELECT part.what::text,
       concat_ws('/', coalesce(nullif(c.reltablespace, 0), d.dattablespace), d.oid, pg_relation_filenode(c.oid)),
       pg_relation_size(c.oid)
FROM part
     JOIN pg_class AS c ON c.oid = part.oid
     JOIN pg_database AS d ON d.datname = current_database()
WHERE c.relkind IN ('r', 't', 'i');
