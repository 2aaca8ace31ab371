-- Wait until there are rows after a position, for a second, or half of a shorter statement_timeout.
SELECT {inorder}.reader_wait({table}::pg_catalog.oid::pg_catalog.regclass, p, least(
    '1 second'::pg_catalog.interval,
    nullif(pg_catalog.current_setting('statement_timeout')::pg_catalog.interval, '0'::pg_catalog.interval)
    OPERATOR(pg_catalog./) '2'::pg_catalog.float8))
FROM CAST({position}::pg_catalog.jsonb AS {inorder}.feed_position) AS p
