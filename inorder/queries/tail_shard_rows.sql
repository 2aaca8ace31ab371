-- The rows of a table.
SELECT pg_catalog.count(*) FROM {relation}
