-- Wait until a feed has rows, for a second, or half of a shorter statement_timeout.
SELECT {inorder}.feed_wait({name}::pg_catalog.text, least(
    '1 second'::pg_catalog.interval,
    nullif(pg_catalog.current_setting('statement_timeout')::pg_catalog.interval, '0'::pg_catalog.interval)
    OPERATOR(pg_catalog./) '2'::pg_catalog.float8), {owner}::pg_catalog.oid::pg_catalog.regrole)
