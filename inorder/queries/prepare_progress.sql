-- How far the build of an index is.
SELECT pg_catalog.format('%s: %s %%', phase, CASE WHEN blocks_total OPERATOR(pg_catalog.>) 0 THEN 100 * blocks_done / blocks_total ELSE 0 END)
FROM pg_catalog.pg_stat_progress_create_index WHERE pid OPERATOR(pg_catalog.=) {pid}
