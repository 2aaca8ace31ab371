---- has_unread: plpgsql
BEGIN
    -- A query would wait for locks and plan over the table, for roles that may not read it: so it is not known.
    RETURN NULL;
END
---- statistics_of: plpgsql
BEGIN
    -- The view shows statistics of tables that the caller may read.
    SELECT s.histogram_bounds::text, s.most_common_vals::text, s.most_common_freqs INTO bounds, common, shares
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = t.key_column
    JOIN pg_stats AS s ON s.schemaname = n.nspname AND s.tablename = c.relname AND s.attname = a.attname
    WHERE c.oid = t.relation AND a.atttypid = CASE WHEN t.is_uuid THEN 'uuid'::regtype ELSE 'bigint'::regtype END
    ORDER BY s.inherited DESC LIMIT 1;
END
