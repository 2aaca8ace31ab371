-- In addition to the column with the number, a feed may depend on another column. Rows are delivered in the order of
-- this column (order.sql), or workers divide the rows by the hash of this column (shares.sql). Before each use of the
-- column, the table and its partitions are locked, and the column is checked in each of these tables. Otherwise rows
-- would be lost or repeated, because they have no place in the order, or because their key has moved to another share.

-- Raise an error about a column. "relation" is the table or partition that has the fault.
CREATE FUNCTION inorder_internal.refuse_column(
    t inorder_internal.feed_table, relation regclass, column_name text, divides boolean, fault text
) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text := quote_ident(column_name);
    detail text := CASE WHEN divides THEN 'Workers divide the feed by the hash of that column.'
                        ELSE 'The feed delivers rows in the order of that column.' END;
    code text := 'object_not_in_prerequisite_state';
BEGIN
    CASE fault
        WHEN 'type' THEN
            RAISE 'column % of table % is not a smallint, integer or bigint', name, relation
            USING ERRCODE = code, DETAIL = detail, HINT = 'Choose another column, or give this column such a type.';
        WHEN 'key type' THEN
            RAISE 'column % of table % is not a smallint, integer, bigint, uuid, text or varchar', name, relation
            USING ERRCODE = code, DETAIL = detail, HINT = 'Choose another column.';
        WHEN 'generated' THEN
            RAISE 'column % of table % is generated', name, relation
            USING ERRCODE = code, DETAIL = detail,
                  HINT = CASE WHEN divides THEN 'Choose a column that is not generated.'
                              ELSE 'Choose a column whose values are drawn from a sequence.' END;
        WHEN 'null' THEN
            RAISE 'column % of table % may be null', name, relation
            USING ERRCODE = code, DETAIL = detail,
                  HINT = format('ALTER TABLE %s ALTER COLUMN %s SET NOT NULL', t.relation, name);
        WHEN 'collation' THEN
            RAISE 'column % of table % has a nondeterministic collation', name, relation
            USING ERRCODE = code, DETAIL = detail,
                  HINT = 'Keys that are equal by this collation may be in different shares. Choose a column whose '
                         'equal values have equal bytes.';
        WHEN 'index' THEN
            RAISE 'column % of table % is not the first column of a valid btree index', name, relation
            USING ERRCODE = code, DETAIL = detail, HINT = format('CREATE INDEX ON %s (%s)', t.relation, name);
    END CASE;
END $$;

-- Raise an error unless a column of a checked table can define an order. If "divides" is true, the column must instead
-- assign each row permanently to one share.
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
        THEN 'type'
        WHEN a.attgenerated <> '' THEN 'generated'
        WHEN inorder_internal.may_be_null(a) THEN 'null'
        WHEN divides AND NOT l.collisdeterministic THEN 'collation'
        WHEN NOT divides AND r.relkind = 'r'
             AND (SELECT i.index FROM inorder_internal.index_of(r.oid, a.attnum, false) AS i) IS NULL
        THEN 'index' END AS fault) AS f
    WHERE f.fault IS NOT NULL ORDER BY a.attrelid LIMIT 1;
    IF c.fault IS NULL THEN
        PERFORM inorder_internal.check_order_column(t, column_name) WHERE NOT divides;
        PERFORM inorder_internal.keep_proof_of_column(t, number, divides);
        RETURN;
    END IF;
    PERFORM inorder_internal.refuse_column(t, c.relation, column_name, divides, c.fault);
END $$;

-- Return the hash function of the server for keys of this type; null if the type is not supported.
CREATE FUNCTION inorder_internal.share_kind(type oid) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN type IN ('int2'::regtype::oid, 'int4'::regtype::oid, 'int8'::regtype::oid) THEN 'int8'::text
            WHEN type IN ('text'::regtype::oid, 'varchar'::regtype::oid) THEN 'text'::text
            WHEN type = 'uuid'::regtype::oid THEN 'uuid'::text END;

-- Return a value that differs between servers that hash keys differently: the hash of a constant and, for text, the
-- encoding of the database. The collation and its version do not matter.
CREATE FUNCTION inorder_internal.hash_fingerprint(kind text) RETURNS text
LANGUAGE sql STABLE
-- Integers are hashed by value, and text is hashed by its bytes.
RETURN CASE kind
    WHEN 'int8'::text THEN hashint8extended(1::bigint, 0::bigint)::text
    WHEN 'uuid'::text THEN uuid_hash_extended('00112233-4455-6677-8899-aabbccddeeff'::uuid, 0::bigint)::text
    WHEN 'text'::text THEN concat(hashtextextended('inorder'::text COLLATE "C", 0::bigint), ' '::text,
                                  getdatabaseencoding()) END;

CREATE FUNCTION inorder_internal.new_share_key(relation regclass, column_name text, shares int)
RETURNS inorder_internal.share_key
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    attnum smallint;
    kind text;
BEGIN
    SELECT a.attnum, inorder_internal.share_kind(a.atttypid) INTO attnum, kind FROM pg_attribute AS a
    WHERE a.attrelid = relation AND a.attname = column_name::name AND a.attnum > 0 AND NOT a.attisdropped;
    -- If the column is missing or has an unsuitable type, its attribute number is set to 0, which no column has. Each
    -- read then raises an error.
    RETURN ROW(column_name, CASE WHEN kind IS NULL THEN 0::smallint ELSE attnum END, coalesce(kind, 'text'), shares,
               inorder_internal.hash_fingerprint(coalesce(kind, 'text')));
END $$;

-- Raise an error about a column that was renamed or replaced.
CREATE FUNCTION inorder_internal.say_other_column(t inorder_internal.feed_table, column_name text, divides boolean)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    type oid := inorder_internal.type_of_column(t.relation, column_name::name);
    detail text := CASE WHEN divides THEN 'Workers divide the feed by the hash of that column.'
                        ELSE 'The feed delivers rows in the order of that column.' END;
    hint text;
BEGIN
    IF type IS NULL THEN
        hint := format('The column was renamed or dropped. Restore its name or, for another column, call %s and '
                       'feed_create()%s.', inorder_internal.feed_call(t.relation, 'feed_drop'),
                       CASE WHEN NOT divides THEN ' or, if the reader keeps the position, reader_start()' ELSE '' END);
    ELSIF divides AND inorder_internal.share_kind(type) IS NULL THEN
        PERFORM inorder_internal.refuse_column(t, t.relation, column_name, true, 'key type');
    ELSE
        hint := format('The column was renamed, dropped or created again%s. Restore that column or, to accept the '
                       'column that has the name now, call %s. If this call is refused, use ''beginning'' or '
                       '''now''.%s', CASE WHEN divides THEN ', or its type was changed' ELSE '' END,
                       inorder_internal.seek_call(t.relation),
                       CASE WHEN divides THEN '' ELSE ' If the reader keeps the position, call reader_start().' END);
    END IF;
    IF divides THEN
        RAISE 'column % of table % is not the column by which its feed was divided', quote_ident(column_name),
              t.relation
        USING ERRCODE = 'object_not_in_prerequisite_state', DETAIL = detail, HINT = hint;
    END IF;
    RAISE 'column % of table % is not the column by which its feed is ordered', quote_ident(column_name), t.relation
    USING ERRCODE = 'object_not_in_prerequisite_state', DETAIL = detail, HINT = hint;
END $$;

-- Return the table. Raise an error if the column that orders its rows, or divides them into shares, has changed, or is
-- no longer suitable.
CREATE FUNCTION inorder_internal.prove_known_column(
    t inorder_internal.feed_table, column_name text, attnum smallint, divides boolean, kind text
) RETURNS inorder_internal.feed_table
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    -- The type of the column may have changed, and another feed may have had the column checked with the new type.
    IF inorder_internal.column_is_proved(t, column_name, attnum, divides)
       AND (kind IS NULL OR inorder_internal.share_kind(inorder_internal.type_of_column(
               t.relation, column_name::name)) = kind) THEN
        RETURN t;
    -- A row whose key has moved to another share would be lost or repeated.
    ELSIF NOT EXISTS (SELECT FROM pg_attribute AS a
                      WHERE a.attrelid = t.relation AND a.attname = column_name AND a.attnum = attnum AND a.attnum > 0
                        AND inorder_internal.present_name(t.relation, a.attnum) = column_name
                        AND (kind IS NULL OR inorder_internal.share_kind(a.atttypid) = kind)) THEN
        PERFORM inorder_internal.say_other_column(t, column_name, divides);
    END IF;
    PERFORM inorder_internal.prove_column(t, column_name::name, divides);
    RETURN t;
END $$;

-- Raise an error if the column that orders the rows of a position has changed, or is no longer suitable.
CREATE FUNCTION inorder_internal.prove_known_order(
    t inorder_internal.feed_table, p @extschema@.feed_position
) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (p.ordering).column_name IS NOT NULL THEN
        PERFORM inorder_internal.prove_known_column(t, (p.ordering).column_name, (p.ordering).attnum, false, NULL);
    END IF;
END $$;
