-- Whether this transaction has locked a table: LOCK TABLE finds it by name, which may have led to another one.
SELECT EXISTS (SELECT FROM pg_catalog.pg_locks AS l
               WHERE l.relation OPERATOR(pg_catalog.=) {table}::pg_catalog.oid AND l.granted
                 AND l.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid())
