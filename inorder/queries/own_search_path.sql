-- Where the extensions are that the lab calls, and nothing else of the user's.
SELECT set_config('search_path', concat_ws(', ', 'pg_catalog', string_agg(DISTINCT quote_ident(nspname), ', ')), false)
FROM pg_catalog.pg_extension JOIN pg_catalog.pg_namespace n ON n.oid = extnamespace
WHERE extname IN ('inorder', 'pgstattuple') AND nspname <> 'pg_catalog';
