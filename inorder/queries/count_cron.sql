-- What makes pg_cron fold an exact count: a statement in a statement, each quoted.
SELECT pg_catalog.format('SELECT cron.schedule(%L, %L, %L);', 'inorder count ' || {table}, {schedule},
                         pg_catalog.format('SELECT %I.exact_count_fold(%L::pg_catalog.regclass)', {schema}, {table}))
