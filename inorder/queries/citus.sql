-- citus_column: Return the columns of a table that contain transaction numbers. The second value is true if the column
-- is generated, and the third if an index on the whole table begins with the column.
SELECT a.attname, a.attgenerated OPERATOR(pg_catalog.=) 's',
       EXISTS (SELECT FROM pg_catalog.pg_index AS i
               WHERE i.indrelid OPERATOR(pg_catalog.=) a.attrelid AND i.indkey[0] OPERATOR(pg_catalog.=) a.attnum
                 AND i.indisvalid AND i.indpred IS NULL)
FROM pg_catalog.pg_attribute AS a
JOIN pg_catalog.pg_attrdef AS f ON f.adrelid OPERATOR(pg_catalog.=) a.attrelid AND f.adnum OPERATOR(pg_catalog.=) a.attnum
JOIN pg_catalog.pg_depend AS d ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_attrdef'::pg_catalog.regclass
                              AND d.objid OPERATOR(pg_catalog.=) f.oid
                              AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
JOIN pg_catalog.pg_proc AS p ON p.oid OPERATOR(pg_catalog.=) d.refobjid
JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace
WHERE a.attrelid OPERATOR(pg_catalog.=) {table}::pg_catalog.oid AND NOT a.attisdropped
  AND n.nspname OPERATOR(pg_catalog.=) {schema}::pg_catalog.name
  AND p.proname OPERATOR(pg_catalog.=) ANY (ARRAY['xact_id_generated', 'xact_id', 'uuid_xact_nextval']::pg_catalog.name[])
  AND ({column}::pg_catalog.name IS NULL OR a.attname OPERATOR(pg_catalog.=) {column}::pg_catalog.name)
ORDER BY a.attnum

-- citus_is_there: Return true if this database has the extension citus.
SELECT EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname OPERATOR(pg_catalog.=) 'citus')

-- citus_nodes: Return the addresses of the nodes.
SELECT groupid, nodename, nodeport FROM pg_catalog.pg_dist_node WHERE noderole OPERATOR(pg_catalog.=) 'primary'

-- citus_shard_name: Return the name of a shard. The schema public is added, because Citus omits it.
SELECT pg_catalog.concat(CASE WHEN n.nspname OPERATOR(pg_catalog.=) 'public' THEN 'public.' END,
                         pg_catalog.shard_name(c.oid::pg_catalog.regclass, {shard}::pg_catalog.int8))
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
WHERE c.oid OPERATOR(pg_catalog.=) {table}::pg_catalog.oid

-- citus_shards: Return the shards of a distributed table with their nodes. The schema public is added, because Citus
-- omits it.
SELECT s.shardid,
       pg_catalog.concat(CASE WHEN n.nspname OPERATOR(pg_catalog.=) 'public' THEN 'public.' END,
                         pg_catalog.shard_name(s.logicalrelid, s.shardid)),
       p.groupid, d.nodename, d.nodeport, t.partmethod, s.shardminvalue, s.shardmaxvalue
FROM pg_catalog.pg_dist_partition AS t
JOIN pg_catalog.pg_class AS c ON c.oid OPERATOR(pg_catalog.=) t.logicalrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
JOIN pg_catalog.pg_dist_shard AS s ON s.logicalrelid OPERATOR(pg_catalog.=) t.logicalrelid
JOIN pg_catalog.pg_dist_placement AS p ON p.shardid OPERATOR(pg_catalog.=) s.shardid
JOIN pg_catalog.pg_dist_node AS d ON d.groupid OPERATOR(pg_catalog.=) p.groupid
                                 AND d.noderole OPERATOR(pg_catalog.=) 'primary'
WHERE t.logicalrelid OPERATOR(pg_catalog.=) {table}::pg_catalog.oid
ORDER BY s.shardid, p.groupid

-- shard_has: Return those of the given primary keys that a table has.
SELECT k.key
FROM (SELECT pg_catalog.concat(ROW({key})) AS key
      FROM {inorder}.reader_start({table}::pg_catalog.oid::pg_catalog.regclass, 'beginning'::pg_catalog.text,
                                  NULL::pg_catalog.name) AS p
      CROSS JOIN LATERAL {inorder}.reader_next_batch({table}::pg_catalog.oid::pg_catalog.regclass, p,
                                                     NULL::pg_catalog.int4, false) AS b
      CROSS JOIN LATERAL {inorder_text}.reader_batch_rows({table}::pg_catalog.oid::pg_catalog.regclass, b,
                                                          (NULL::{name}[])[1]) AS e) AS k
JOIN pg_catalog.unnest({keys}::pg_catalog.text[]) AS v(key) ON v.key OPERATOR(pg_catalog.=) k.key COLLATE pg_catalog."C"

-- shard_key_columns: Return the primary key columns of a table.
SELECT a.attname
FROM pg_catalog.pg_index AS i
CROSS JOIN LATERAL pg_catalog.unnest(i.indkey::pg_catalog.int2[]) WITH ORDINALITY AS k(attnum, place)
JOIN pg_catalog.pg_attribute AS a ON a.attrelid OPERATOR(pg_catalog.=) i.indrelid AND a.attnum OPERATOR(pg_catalog.=) k.attnum
WHERE i.indrelid OPERATOR(pg_catalog.=) {table}::pg_catalog.oid AND i.indisprimary
  AND k.place OPERATOR(pg_catalog.<=) i.indnkeyatts
ORDER BY k.place

-- shard_numbers: Return the transactions in a set that have rows in a table, with the number of these rows, and the
-- primary key of one row. The extension reads the rows, so that no code of the table's owner runs.
SELECT e.{column}, pg_catalog.count(*), pg_catalog.min(pg_catalog.concat(ROW({key})) COLLATE pg_catalog."C")
FROM {inorder}.reader_start({table}::pg_catalog.oid::pg_catalog.regclass, 'beginning'::pg_catalog.text,
                            NULL::pg_catalog.name) AS p
CROSS JOIN LATERAL {inorder}.reader_next_batch({table}::pg_catalog.oid::pg_catalog.regclass, p,
                                               NULL::pg_catalog.int4, false) AS b
CROSS JOIN LATERAL {inorder_text}.reader_batch_rows({table}::pg_catalog.oid::pg_catalog.regclass, b,
                                                    (NULL::{name}[])[1]) AS e
WHERE e.{column} OPERATOR(pg_catalog.<@) {transactions}::pg_catalog.int8multirange
GROUP BY e.{column}

-- shard_rows: Return the number of rows in a table.
SELECT pg_catalog.count(*)
FROM {inorder}.reader_start({table}::pg_catalog.oid::pg_catalog.regclass, 'beginning'::pg_catalog.text,
                            NULL::pg_catalog.name) AS p
CROSS JOIN LATERAL {inorder}.reader_next_batch({table}::pg_catalog.oid::pg_catalog.regclass, p,
                                               NULL::pg_catalog.int4, false) AS b
CROSS JOIN LATERAL {inorder_text}.reader_batch_rows({table}::pg_catalog.oid::pg_catalog.regclass, b,
                                                    (NULL::{name}[])[1]) AS e

-- shard_without: Return a set of transactions without the given numbers.
SELECT ({transactions}::pg_catalog.int8multirange OPERATOR(pg_catalog.-) coalesce(
    (SELECT pg_catalog.range_agg(pg_catalog.int8range(n, n + 1)) FROM pg_catalog.unnest({numbers}::pg_catalog.int8[]) AS n),
    '{{}}'::pg_catalog.int8multirange))::pg_catalog.text

-- shard_writers: Return true if a transaction that has written to a table or to one of its partitions is still open or
-- prepared.
SELECT EXISTS (SELECT FROM pg_catalog.pg_locks AS l JOIN pg_catalog.pg_database AS d ON d.oid OPERATOR(pg_catalog.=) l.database
               WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
                 AND l.relation OPERATOR(pg_catalog.=) ANY (ARRAY(
                     SELECT p.relid::pg_catalog.oid
                     FROM pg_catalog.pg_partition_tree({table}::pg_catalog.oid::pg_catalog.regclass) AS p
                     UNION ALL SELECT {table}::pg_catalog.oid))
                 AND l.mode OPERATOR(pg_catalog.=) 'RowExclusiveLock')

-- shards_waiting: Return the shards that have rows after their positions, as places in the given list. reader_wait()
-- reads an index. Requesting a batch would take twenty times as long.
SELECT s.place
FROM ROWS FROM (pg_catalog.unnest({tables}::pg_catalog.oid[]), pg_catalog.unnest({positions}::pg_catalog.text[]))
     WITH ORDINALITY AS s(relation, position, place)
WHERE {inorder}.reader_wait(
    s.relation::pg_catalog.regclass,
    s.position::pg_catalog.jsonb::{inorder}.feed_position,
    '0'::pg_catalog.interval)
