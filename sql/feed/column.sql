-- A column that a feed depends on, besides that of the number: rows come in its order, or workers divide them by its
-- hash. It is proved in the table and in each partition, which are locked, before each use: rows without a place in the
-- order, or a key that changed its share, would be lost or repeated.

CREATE FUNCTION inorder_internal.refuse_column(
    relation regclass, column_name text, divides boolean, fault text, hint text
) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE 'column % of table % %', quote_ident(column_name), relation, fault
    USING ERRCODE = 'object_not_in_prerequisite_state',
          DETAIL = CASE WHEN divides THEN 'Workers divide its feed by the hash of that column.'
                        ELSE 'Its feed delivers rows in the order of that column.' END,
          HINT = hint;
END $$;

CREATE FUNCTION inorder_internal.may_be_null(a pg_attribute) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Since 18 a constraint may be there that existing rows need not satisfy.
    RETURN NOT a.attnotnull
        OR EXISTS (SELECT FROM pg_constraint AS c
                   WHERE c.conrelid = a.attrelid AND c.contype = 'n' AND c.conkey = ARRAY[a.attnum]
                     AND NOT c.convalidated);
END $$;

-- Error unless a column of a table that is proved gives an order or, if it divides rows, is in one share for good.
CREATE FUNCTION inorder_internal.prove_column(t inorder_internal.feed_table, column_name name, divides boolean)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    number smallint := (SELECT a.attnum FROM pg_attribute AS a WHERE a.attrelid = t.relation::oid
                        AND a.attname = column_name AND a.attnum > 0 AND NOT a.attisdropped);
    c record;
BEGIN
    IF number IS NULL THEN
        RAISE 'column % of table % does not exist', quote_ident(column_name), t.relation
        USING ERRCODE = 'undefined_column';
    END IF;
    SELECT a.attrelid::regclass AS relation, f.fault INTO c
    FROM unnest(inorder_internal.tree(t.relation)) AS m(relation) JOIN pg_class AS r ON r.oid = m.relation
    JOIN pg_attribute AS a ON a.attrelid = r.oid AND a.attname = column_name AND NOT a.attisdropped
    LEFT JOIN pg_collation AS l ON l.oid = a.attcollation
    CROSS JOIN LATERAL (SELECT CASE
        WHEN NOT divides AND a.atttypid NOT IN ('bigint'::regtype, 'integer'::regtype, 'smallint'::regtype)
        THEN 'is not a smallint, integer or bigint'
        WHEN a.attgenerated <> '' THEN 'is generated'
        WHEN inorder_internal.may_be_null(a) THEN 'may be null'
        WHEN divides AND NOT l.collisdeterministic THEN 'has a nondeterministic collation'
        WHEN NOT divides AND r.relkind = 'r'
             AND (SELECT i.found FROM inorder_internal.index_of(r.oid, a.attnum, true) AS i) IS NULL
        THEN 'is not the first one of a valid btree index' END AS fault) AS f
    WHERE f.fault IS NOT NULL ORDER BY a.attrelid LIMIT 1;
    IF c.fault IS NULL THEN
        PERFORM inorder_internal.check_order_column(t, column_name) WHERE NOT divides;
        PERFORM inorder_internal.keep_proof_of_column(t, number, divides);
        RETURN;
    END IF;
    PERFORM inorder_internal.refuse_column(
        c.relation, column_name, divides, c.fault,
        CASE WHEN c.fault LIKE 'may be null'
             THEN format('ALTER TABLE %s ALTER COLUMN %I SET NOT NULL', t.relation, column_name)
             WHEN c.fault LIKE '% btree index' THEN format('CREATE INDEX ON %s (%I)', t.relation, column_name)
             WHEN c.fault LIKE '% collation'
             THEN 'Keys that are equal by it may be in different shares. Choose a column whose equal values have equal '
                  'bytes.'
             WHEN c.fault LIKE 'is not %' THEN 'Choose another column, or give it such a type.'
             WHEN divides THEN 'Choose a column whose values are stored as they are inserted.'
             ELSE 'Choose a column whose values are drawn from a sequence.' END);
END $$;
