-- A table by its name, written as in SQL and found by the user's search_path.
SELECT %s::pg_catalog.regclass::pg_catalog.oid
