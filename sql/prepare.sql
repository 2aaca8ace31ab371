-- Existing tables: the statements that make them readable.

CREATE FUNCTION inorder_internal.index_statements(relation regclass, key_column name, method name)
RETURNS SETOF text
LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    member record;
    options text := CASE method WHEN 'brin' THEN ' WITH (autosummarize = on)' ELSE '' END;
BEGIN
    -- CONCURRENTLY does not work on a partitioned table: create an invalid index ON ONLY it, then one on each leaf,
    -- and attach these.
    FOR member IN
        WITH RECURSIVE tree AS (
            SELECT oid, NULL::oid AS parent, 1 AS depth FROM pg_class WHERE oid = relation
            UNION ALL
            SELECT i.inhrelid, t.oid, t.depth + 1 FROM tree AS t JOIN pg_inherits AS i ON i.inhparent = t.oid
        ), named AS (
            -- Ten characters are at most 40 of the 63 bytes.
            SELECT t.*, c.relkind, left(c.relname, 10) || '_' || c.oid || '_number' AS index, n.nspname AS schema
            FROM tree AS t JOIN pg_class AS c USING (oid) JOIN pg_namespace AS n ON n.oid = c.relnamespace
        )
        SELECT m.*, CASE WHEN p.oid IS NOT NULL THEN format('%I.%I', p.schema, p.index) END AS above
        FROM named AS m LEFT JOIN named AS p ON p.oid = m.parent ORDER BY m.depth, m.oid
    LOOP
        RETURN NEXT format('CREATE INDEX %s%I ON %s%s USING %s (%I)%s',
            CASE WHEN member.relkind = 'p' THEN '' ELSE 'CONCURRENTLY ' END, member.index,
            CASE WHEN member.relkind = 'p' THEN 'ONLY ' ELSE '' END, member.oid::regclass, method, key_column,
            options);
        IF member.parent IS NOT NULL THEN
            RETURN NEXT format('ALTER INDEX %s ATTACH PARTITION %I.%I', member.above, member.schema, member.index);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION inorder_internal.index_statements(regclass, name, name) IS
'Internal function. The statements that index a column of a table or of a tree of partitions without blocking '
'writers.';

CREATE FUNCTION inorder_internal.check_preparable(relation regclass, key_column name, method name)
RETURNS smallint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    key_attnum smallint;
BEGIN
    IF method NOT IN ('brin', 'btree') THEN
        RAISE 'method must be brin or btree, not %', method USING ERRCODE = 'invalid_parameter_value';
    ELSIF NOT EXISTS (SELECT FROM pg_class WHERE oid = relation AND relkind IN ('r', 'p')) THEN
        RAISE '% is not a table', relation USING ERRCODE = 'wrong_object_type';
    END IF;
    SELECT attnum INTO key_attnum FROM pg_attribute
    WHERE attrelid = relation AND attname = key_column AND NOT attisdropped;
    IF key_attnum IS NOT NULL
       AND key_attnum NOT IN (SELECT k.attnum FROM inorder_internal.key_columns(relation) AS k) THEN
        RAISE 'column % of % already exists and has no default that returns transaction numbers',
            quote_ident(key_column), relation USING ERRCODE = 'duplicate_column',
              HINT = 'Name another column to be added; or, if this one holds such numbers, give it its default, '
                     'xact_id() or uuid_xact_nextval().';
    END IF;
    RETURN key_attnum;
END $$;
COMMENT ON FUNCTION inorder_internal.check_preparable(regclass, name, name) IS
'Internal function. The number of the column if the table has it; error if it is of another kind.';

CREATE FUNCTION inorder_internal.prepare_statements(relation regclass, key_column name, method name)
RETURNS SETOF text
LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    schema text := inorder_internal.public_schema();
    key_attnum smallint := inorder_internal.check_preparable(relation, key_column, method);
BEGIN
    IF key_attnum IS NULL THEN
        -- First with a constant default, which avoids a rewrite: existing rows count as transaction 0.
        RETURN NEXT format('ALTER TABLE %s ADD COLUMN %I bigint NOT NULL DEFAULT 0, '
                           'ALTER COLUMN %2$I SET DEFAULT %s.xact_id(''0''::pg_catalog.int8)',
                           relation, key_column, schema);
    END IF;
    IF key_attnum IS NULL OR inorder_internal.has_order(relation, key_attnum) IS NULL THEN
        RETURN QUERY SELECT * FROM inorder_internal.index_statements(relation, key_column, method);
    END IF;
    RETURN NEXT format('ANALYZE %s', relation);
    RETURN NEXT format('SELECT %s.feed_enable(%L::pg_catalog.regclass, %L::pg_catalog.name)', schema, relation,
                       key_column);
END $$;
COMMENT ON FUNCTION inorder_internal.prepare_statements(regclass, name, name) IS
'Internal function. The statements that make an existing table readable.';

CREATE FUNCTION @extschema@.feed_prepare(
    relation regclass, key_column name DEFAULT 'xact', method name DEFAULT 'brin'
)
RETURNS SETOF text
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_prepare(regclass, name, name) IS
'Return the statements that make an existing table with any key readable, one per row. All can be executed online: '
'a bigint column with default xact_id() (no rewrite; existing rows count as transaction 0), its index (brin or btree) '
'CONCURRENTLY, ANALYZE, and feed_enable. Omits steps already done. In psql, execute them by its command gexec.
The first takes ACCESS EXCLUSIVE for a moment; set lock_timeout. Errors: invalid_parameter_value (method), '
'wrong_object_type, duplicate_column (a column of this name without such a default).';
