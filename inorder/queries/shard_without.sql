-- A set of transactions without some of them.
SELECT ({transactions}::pg_catalog.int8multirange OPERATOR(pg_catalog.-) coalesce(
    (SELECT pg_catalog.range_agg(pg_catalog.int8range(n, n + 1)) FROM pg_catalog.unnest({numbers}::pg_catalog.int8[]) AS n),
    '{{}}'::pg_catalog.int8multirange))::pg_catalog.text
