-- Whether a transaction has written to a table and is still open, perhaps prepared.
SELECT EXISTS (SELECT FROM pg_catalog.pg_locks AS l JOIN pg_catalog.pg_database AS d ON d.oid OPERATOR(pg_catalog.=) l.database
               WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
                 AND l.relation OPERATOR(pg_catalog.=) {table}::pg_catalog.oid
                 AND l.mode OPERATOR(pg_catalog.=) 'RowExclusiveLock')
