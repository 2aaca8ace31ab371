---- is_plain: plpgsql keys
BEGIN
    RETURN coalesce((SELECT c.relkind = 'r' AND c.relpersistence = 'p' AND NOT c.relhassubclass
                     FROM pg_class AS c WHERE c.oid = relation), false);
END
---- key_base: plpgsql keys
DECLARE
    tree text := expression;
BEGIN
    -- A call of one of the functions, with no argument or one without columns; nothing is evaluated.
    IF tree !~ format('^\{FUNCEXPR :funcid (%s) ', array_to_string(functions, '|')) OR functions = '{}' THEN
        RETURN NULL;
    ELSIF tree ~ ' :args <> ' AND tree !~ ' :args \(' THEN
        RETURN 0;
    ELSIF tree ~ '\{(VAR|SUBLINK|PARAM|OPEXPR|CASE) ' OR tree ~ ' :constisnull true ' THEN
        RETURN NULL;
    END IF;
    -- A bigint is written '5'::bigint, a smaller number that was converted (5)::bigint.
    RETURN substring(pg_get_expr(expression, 0) FROM '^[^()]*\(''?\(?''?(-?\d{1,18})''?\)?(?:::(?:bigint|integer|smallint))?\)$')::bigint;
END
---- hides_rows: plpgsql keys
BEGIN
    -- Of the current user, who is the caller.
    RETURN row_security_active(relation);
END
---- guarded: sql
BEGIN ATOMIC
    SELECT array_agg(g.xmin::text::bigint ORDER BY g.tgname) || array_agg(d.xmin::text::bigint)
                                                                FILTER (WHERE d.oid IS NOT NULL)
    FROM pg_trigger AS g
    LEFT JOIN pg_attribute AS a ON g.tgname = 'zz_inorder_guard' AND a.attrelid = g.tgrelid AND a.attnum = g.tgattr[0]
                                   AND a.attgenerated = 's'
    LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE g.tgrelid = relation AND g.tgname IN ('zz_inorder_guard', 'zz_inorder_update', 'zz_inorder_delete');
END;
---- check_local: plpgsql keys
BEGIN
    IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
        RAISE 'the SQL edition of inorder cannot determine whether Citus has distributed %', relation
        USING ERRCODE = 'feature_not_supported', HINT = 'The C extension can.';
    END IF;
END
