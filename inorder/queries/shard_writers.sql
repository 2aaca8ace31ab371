-- Whether a transaction has written to a table or one of its partitions and is still open, perhaps prepared.
SELECT EXISTS (SELECT FROM pg_catalog.pg_locks AS l JOIN pg_catalog.pg_database AS d ON d.oid OPERATOR(pg_catalog.=) l.database
               WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
                 AND l.relation OPERATOR(pg_catalog.=) ANY (ARRAY(
                     SELECT p.relid::pg_catalog.oid
                     FROM pg_catalog.pg_partition_tree({table}::pg_catalog.oid::pg_catalog.regclass) AS p
                     UNION ALL SELECT {table}::pg_catalog.oid))
                 AND l.mode OPERATOR(pg_catalog.=) 'RowExclusiveLock')
