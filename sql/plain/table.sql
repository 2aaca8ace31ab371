---- is_plain: plpgsql keys
BEGIN
    -- Not if the snapshot sees two rows, an older one and this transaction's own: then seen_members() refuses it.
    RETURN (SELECT count(*) = 1 AND bool_and(c.relkind = 'r' AND c.relpersistence = 'p' AND NOT c.relhassubclass
                                             AND c.relam = (SELECT a.oid FROM pg_am AS a WHERE a.amname = 'heap'))
            FROM pg_class AS c WHERE c.oid = relation);
END
---- key_base: plpgsql keys
DECLARE
    tree text := expression;
BEGIN
    -- A call of one of the functions, with no argument or one without columns; nothing is evaluated.
    IF tree !~ format('^[{]FUNCEXPR :funcid (%s) ', array_to_string(functions, '|')) OR functions = '{}' THEN
        RETURN NULL;
    ELSIF tree ~ ' :args <> ' AND tree !~ ' :args [(]' THEN
        RETURN 0;
    ELSIF tree ~ '[{](VAR|SUBLINK|PARAM|OPEXPR|CASE) ' OR tree ~ ' :constisnull true ' THEN
        RETURN NULL;
    END IF;
    -- A bigint is written '5'::bigint, a smaller number that was converted (5)::bigint.
    RETURN substring(pg_get_expr(expression, 0)
                     FROM '^[^()]*[(](?:base => )?''?[(]?''?(-?[0-9]{1,18})''?[)]?'
                          '(?:::(?:bigint|integer|smallint))?[)]$')::bigint;
END
---- hides_rows: plpgsql keys
BEGIN
    -- Of the current user, who is the caller.
    RETURN row_security_active(relation);
END
---- guarded: plpgsql keys
BEGIN
    RETURN (SELECT array_agg(inorder_internal.version(g.xmin, g.ctid, 'pg_trigger', is_placed) ORDER BY g.tgname)
                   || array_agg(inorder_internal.version(d.xmin, d.ctid, 'pg_attrdef', is_placed))
                      FILTER (WHERE d.oid IS NOT NULL)
            FROM pg_trigger AS g
            LEFT JOIN pg_attribute AS a ON g.tgname = 'zz_inorder_guard' AND a.attrelid = g.tgrelid
                                           AND a.attnum = g.tgattr[0] AND a.attgenerated = 's'
            LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
            WHERE g.tgrelid = relation AND g.tgname IN ('zz_inorder_guard', 'zz_inorder_update', 'zz_inorder_delete'));
END
---- order_definition: plpgsql keys
BEGIN
    RETURN (SELECT array_agg(format('%I %s%s', a.attname, format_type(a.atttypid, a.atttypmod),
                                    CASE WHEN a.attcollation = '"default"'::regcollation
                                         THEN concat(' COLLATE ', inorder_internal.default_collation())
                                         WHEN a.attcollation <> 0
                                         THEN concat(' COLLATE ', a.attcollation::regcollation) END)
                             ORDER BY c.place)
            FROM unnest(t.order_columns) WITH ORDINALITY AS c(name, place)
            JOIN pg_attribute AS a ON a.attrelid = t.relation AND a.attname = c.name AND NOT a.attisdropped);
END
---- members: plpgsql keys
BEGIN
    RETURN (
        WITH RECURSIVE tree AS (
            SELECT t.relation::oid AS relid, '{}'::bigint[] AS attached
            UNION ALL
            SELECT i.inhrelid, p.attached || inorder_internal.version(i.xmin, i.ctid, 'pg_inherits', is_placed)
            FROM tree AS p CROSS JOIN LATERAL (
                SELECT h.inhrelid, h.xmin, h.ctid FROM pg_inherits AS h
                WHERE h.inhparent = p.relid AND NOT h.inhdetachpending OFFSET 0) AS i
        )
        SELECT array_agg(ROW(c.oid, format('%I.%I', n.nspname, c.relname), (SELECT inorder_internal.server_system()),
                             tree.attached, inorder_internal.guarded(c.oid, is_placed),
                             CASE WHEN c.oid = t.relation THEN inorder_internal.order_definition(t)
                             END)::@extschema@.feed_member ORDER BY c.oid)
        FROM tree
        CROSS JOIN LATERAL (SELECT k.oid, k.relname, k.relnamespace FROM pg_class AS k
                            WHERE k.oid = tree.relid OFFSET 0) AS c
        JOIN pg_namespace AS n ON n.oid = c.relnamespace);
END
---- check_local: plpgsql keys
BEGIN
    IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
        RAISE 'the SQL edition of inorder cannot determine whether Citus has distributed %', relation
        USING ERRCODE = 'feature_not_supported', HINT = 'The C extension can.';
    END IF;
END
