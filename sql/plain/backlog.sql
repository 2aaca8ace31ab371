---- statistics_of: plpgsql
DECLARE
    place record;
BEGIN
    -- The names first: joined with them, the view would be read for all columns of this name in the database.
    SELECT n.nspname, c.relname INTO place
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = t.key_column
    WHERE c.oid = t.relation AND a.atttypid = CASE WHEN t.is_uuid THEN 'uuid'::regtype ELSE 'bigint'::regtype END;
    SELECT s.histogram_bounds::text, s.most_common_vals::text, s.most_common_freqs INTO bounds, common, shares
    FROM pg_stats AS s
    WHERE s.schemaname = place.nspname AND s.tablename = place.relname AND s.attname = t.key_column
    ORDER BY s.inherited DESC LIMIT 1;
END
