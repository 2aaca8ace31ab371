-- Existing tables: the statements that make them readable.

-- A table and its partitions, each with the name of the index on a column that feed_prepare() makes, and that of the
-- one above; and whether an earlier run has made it (null: it is not there; false: it is not valid) and attached it.
CREATE FUNCTION inorder_internal.index_tree(root regclass, key_column name) RETURNS TABLE (
    relation regclass, depth int, is_parent boolean, index text, qualified text, above text, is_done boolean,
    is_attached boolean
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY
    WITH RECURSIVE tree AS (
        SELECT root::oid AS oid, NULL::oid AS parent, 1 AS depth
        UNION ALL
        SELECT i.inhrelid, t.oid, t.depth + 1 FROM tree AS t JOIN pg_inherits AS i ON i.inhparent = t.oid
    ), named AS (
        -- Ten characters are at most 40 of the 63 bytes.
        SELECT t.*, c.relkind = 'p' AS is_parent, n.nspname AS schema,
               left(c.relname, 10) || '_' || c.oid || '_number' AS index
        FROM tree AS t JOIN pg_class AS c USING (oid) JOIN pg_namespace AS n ON n.oid = c.relnamespace
    )
    SELECT m.oid::regclass, m.depth, m.is_parent, m.index, format('%I.%I', m.schema, m.index),
           CASE WHEN p.oid IS NOT NULL THEN format('%I.%I', p.schema, p.index) END, e.is_done, e.is_attached
    FROM named AS m LEFT JOIN named AS p ON p.oid = m.parent
    LEFT JOIN LATERAL (
        SELECT i.indisvalid OR m.is_parent AS is_done,
               EXISTS (SELECT FROM pg_inherits AS h WHERE h.inhrelid = c.oid) AS is_attached
        FROM pg_class AS c JOIN pg_index AS i ON i.indexrelid = c.oid
        JOIN pg_attribute AS a ON a.attrelid = m.oid AND a.attnum = i.indkey[0] AND a.attname = key_column
        WHERE c.relname = m.index AND i.indrelid = m.oid) AS e ON true;
END $$;

-- The statements that index a column of a table or of a tree of partitions without blocking writers. What an earlier
-- run has made is omitted, and an index that it left invalid is dropped first.
CREATE FUNCTION inorder_internal.index_statements(relation regclass, key_column name)
RETURNS SETOF text
LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    member record;
BEGIN
    -- CONCURRENTLY does not work on a partitioned table: create an invalid index ON ONLY it, then one on each leaf,
    -- and attach these.
    FOR member IN SELECT * FROM inorder_internal.index_tree(relation, key_column) AS m ORDER BY m.depth, m.relation LOOP
        IF NOT member.is_done THEN
            RETURN NEXT format('DROP INDEX CONCURRENTLY %s', member.qualified);
        END IF;
        IF member.is_done IS NOT TRUE THEN
            -- Existing rows have number 0: they are not in it, and are read by the primary key.
            RETURN NEXT format(
                'CREATE INDEX %s%I ON %s%s (%I) WHERE %5$I OPERATOR(pg_catalog.<>) ''0''::pg_catalog.int8',
                CASE WHEN member.is_parent THEN '' ELSE 'CONCURRENTLY ' END, member.index,
                CASE WHEN member.is_parent THEN 'ONLY ' ELSE '' END, member.relation, key_column);
        END IF;
        IF member.above IS NOT NULL AND member.is_attached IS NOT TRUE THEN
            RETURN NEXT format('ALTER INDEX %s ATTACH PARTITION %s', member.above, member.qualified);
        END IF;
    END LOOP;
END $$;

-- The number of the column if the table has it; error if it is of another kind, or the table could not be read with it.
CREATE FUNCTION inorder_internal.check_preparable(relation regclass, key_column name)
RETURNS smallint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    key_attnum smallint;
BEGIN
    -- What feed_enable() would refuse, the last of the statements.
    PERFORM inorder_internal.check_exists(relation), inorder_internal.check_local(relation),
            inorder_internal.check_kind(relation), inorder_internal.check_alone(relation);
    SELECT attnum INTO key_attnum FROM pg_attribute
    WHERE attrelid = relation AND attname = key_column AND NOT attisdropped;
    IF key_attnum IS NOT NULL
       AND key_attnum NOT IN (SELECT k.attnum FROM inorder_internal.key_columns(relation) AS k) THEN
        RAISE 'column % of % already exists and has no default that returns transaction numbers',
            quote_ident(key_column), relation USING ERRCODE = 'duplicate_column',
              HINT = 'Name another column to be added; or, if this one holds such numbers, give it its default, '
                     'xact_id() or uuid_xact_nextval().';
    END IF;
    PERFORM inorder_internal.refuse_another(relation, key_column);
    RETURN key_attnum;
END $$;

CREATE FUNCTION inorder_internal.feed_prepare(caller oid, relation regclass, key_column name)
RETURNS SETOF text
LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    schema text := inorder_internal.public_schema();
    key_attnum smallint := inorder_internal.check_preparable(relation, key_column);
BEGIN
    IF key_attnum IS NULL THEN
        IF cardinality(inorder_internal.order_columns(relation, -1::smallint)) = 0 THEN
            RAISE NOTICE 'feeds will read the existing rows of % as one piece', relation
            USING DETAIL = 'It has no primary key by which they could be read in pieces.',
                  HINT = 'Add one before feed_enable() is called.';
        END IF;
        -- First with a constant default, which avoids a rewrite: existing rows count as transaction 0.
        RETURN NEXT format('ALTER TABLE %s ADD COLUMN %I bigint NOT NULL DEFAULT 0, '
                           'ALTER COLUMN %2$I SET DEFAULT %s.xact_id(''0''::pg_catalog.int8)',
                           relation, key_column, schema);
    END IF;
    IF key_attnum IS NULL OR inorder_internal.has_partial_index(relation, key_attnum) IS NULL THEN
        RETURN QUERY SELECT * FROM inorder_internal.index_statements(relation, key_column);
    END IF;
    RETURN NEXT format('ANALYZE %s', relation);
    RETURN NEXT format('SELECT %s.feed_enable(%L::pg_catalog.regclass, %L::pg_catalog.name)', schema, relation,
                       key_column);
END $$;

CREATE FUNCTION @extschema@.feed_prepare(relation regclass, key_column name DEFAULT 'xact') RETURNS SETOF text
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_prepare(regclass, name) IS
'Return the statements that make an existing table with any key readable, one per row. All can be executed online: '
'a bigint column with default xact_id() (no rewrite; existing rows count as transaction 0), a btree index of all '
'other numbers CONCURRENTLY, ANALYZE, and feed_enable. Omits steps already done. In psql, execute them by its command '
'gexec.
The first takes ACCESS EXCLUSIVE for a moment; set lock_timeout. A feed reads the existing rows by the primary key, in '
'pieces; without one, as one piece. Errors: wrong_object_type (it could not be read afterwards), duplicate_column (a '
'column of this name without such a default), object_not_in_prerequisite_state (readable by another column already, or '
'in one tree with another table).';
