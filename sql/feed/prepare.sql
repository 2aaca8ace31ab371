-- The statements that make an existing table readable.

-- Find the index on a column that an earlier execution of the statements of feed_prepare() has created. On a partition,
-- the server may have created it because of the parent's index. Return null if there is no such index.
CREATE FUNCTION inorder_internal.made_index(member oid, key_column name, above oid) RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT i.indexrelid FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
            JOIN pg_attribute AS a ON a.attrelid = member AND a.attnum = i.indkey[0] AND a.attname = key_column
            LEFT JOIN pg_inherits AS h ON h.inhrelid = c.oid AND h.inhparent = above
            WHERE i.indrelid = member AND (h.inhrelid IS NOT NULL OR c.relname = inorder_internal.index_name(member))
            ORDER BY h.inhrelid LIMIT 1);
END $$;

-- Return the name of an index that feed_prepare() creates. Ten characters of the table's name take at most 40 of the 63
-- bytes of a name.
CREATE FUNCTION inorder_internal.index_name(member oid) RETURNS text
LANGUAGE sql STABLE
RETURN (SELECT concat(left(c.relname::text, 10), '_', c.oid, '_number') FROM pg_class AS c WHERE c.oid = member);

-- Return a table and its partitions, each with the index on a column that feed_prepare() creates.
--
--  index, qualified  name of the index
--  above             name of the parent's index
--  is_done           false if the index of a leaf is not valid, null if the index is missing, otherwise true
--  is_attached       true if the index is attached to the parent's index
CREATE FUNCTION inorder_internal.index_tree(root regclass, key_column name) RETURNS TABLE (
    relation regclass, depth int, is_parent boolean, index text, qualified text, above text, is_done boolean,
    is_attached boolean
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY
    WITH RECURSIVE tree AS (
        SELECT root::oid AS oid, NULL::oid AS parent, 1 AS depth,
               inorder_internal.made_index(root, key_column, NULL) AS index_oid
        UNION ALL
        SELECT i.inhrelid, t.oid, t.depth + 1, inorder_internal.made_index(i.inhrelid, key_column, t.index_oid)
        FROM tree AS t JOIN pg_inherits AS i ON i.inhparent = t.oid
    ), named AS (
        SELECT t.*, c.relkind = 'p' AS is_parent, n.nspname AS schema,
               coalesce(m.relname::text, inorder_internal.index_name(t.oid)) AS index
        FROM tree AS t JOIN pg_class AS c USING (oid) JOIN pg_namespace AS n ON n.oid = c.relnamespace
        LEFT JOIN pg_class AS m ON m.oid = t.index_oid
    )
    SELECT m.oid::regclass, m.depth, m.is_parent, m.index, format('%I.%I', m.schema, m.index),
           CASE WHEN p.oid IS NOT NULL THEN format('%I.%I', p.schema, p.index) END,
           CASE WHEN m.index_oid IS NOT NULL THEN i.indisvalid OR m.is_parent END,
           EXISTS (SELECT FROM pg_inherits AS h WHERE h.inhrelid = m.index_oid)
    FROM named AS m LEFT JOIN named AS p ON p.oid = m.parent LEFT JOIN pg_index AS i ON i.indexrelid = m.index_oid;
END $$;

-- Return the columns of the index: first the number, then the primary key. In such an index the rows of a transaction
-- are in the order in which they are delivered. The primary key is omitted if one of its columns has a variable length,
-- because an index does not accept long values.
CREATE FUNCTION inorder_internal.indexed_columns(relation regclass, key_column name) RETURNS name[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ordered name[] := inorder_internal.order_columns(relation, coalesce(
        (SELECT a.attnum FROM pg_attribute AS a WHERE a.attrelid = relation AND a.attname = key_column), -1::smallint));
BEGIN
    RETURN key_column || CASE
        WHEN cardinality(ordered) >= current_setting('max_index_keys')::int
             OR EXISTS (SELECT FROM pg_attribute AS a
                        WHERE a.attrelid = relation AND a.attname = ANY (ordered) AND a.attlen < 0)
        THEN '{}' ELSE ordered END;
END $$;

-- Raise an error if another session may still be building an index that is not valid.
CREATE FUNCTION inorder_internal.refuse_while_built(relation regclass, index text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
               WHERE d.datname = current_database() AND l.relation = refuse_while_built.relation AND l.granted
                 AND l.mode = 'ShareUpdateExclusiveLock' AND l.pid <> pg_backend_pid()) THEN
        RAISE 'index % is not valid, and another session may be building it', index
        USING ERRCODE = 'lock_not_available',
              DETAIL = format('That session has locked table %s in the mode of CREATE INDEX CONCURRENTLY, VACUUM and '
                              'ANALYZE.', relation),
              HINT = 'Try again when pg_locks no longer shows the lock.';
    END IF;
END $$;

-- Return the statements that create the indexes on a column of a table or of a tree of partitions. The statements do
-- not block writers. Indexes that an earlier execution of the statements has completed are omitted, and invalid indexes
-- of an earlier execution are dropped first. The caller has checked that the table itself has no valid index on the
-- column. The function to_regclass() is not used, because the role that calls feed_prepare() may lack USAGE on the
-- schemas of partitions.
CREATE FUNCTION inorder_internal.index_statements(relation regclass, key_column name)
RETURNS SETOF text
LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    member record;
    columns text := inorder_internal.column_list(inorder_internal.indexed_columns(relation, key_column), '%I');
    -- The index of a partitioned table becomes valid when the last index of a partition is attached. If that partition
    -- is detached or dropped before its index is attached, the index of the partitioned table never becomes valid.
    is_torn boolean := (SELECT bool_and(m.is_done IS TRUE AND (m.is_attached OR m.above IS NULL))
                        FROM inorder_internal.index_tree(relation, key_column) AS m);
BEGIN
    -- CONCURRENTLY does not work on a partitioned table: create an invalid index ON ONLY the table, then an index on
    -- each leaf, and attach the indexes of the leaves.
    FOR member IN SELECT * FROM inorder_internal.index_tree(relation, key_column) AS m ORDER BY m.depth, m.relation LOOP
        IF member.is_done IS NULL
           AND EXISTS (SELECT FROM pg_class AS t JOIN pg_class AS c USING (relnamespace)
                       WHERE t.oid = member.relation AND c.relname = member.index) THEN
            RAISE 'relation % exists, but is not an index on column %', member.qualified, key_column
            USING ERRCODE = 'duplicate_table',
                  HINT = 'Drop or rename that relation: feed_prepare() creates an index with this name.';
        ELSIF is_torn THEN
            IF member.above IS NULL THEN  -- the other indexes are dropped with this one
                RETURN NEXT format('DROP INDEX %s%s', CASE WHEN member.is_parent THEN '' ELSE 'CONCURRENTLY ' END,
                                   member.qualified);
            END IF;
            member.is_done := NULL;
            member.is_attached := false;
        ELSIF NOT member.is_done THEN
            PERFORM inorder_internal.refuse_while_built(member.relation, member.qualified);
            RETURN NEXT format('DROP INDEX CONCURRENTLY %s', member.qualified);
        END IF;
        IF member.is_done IS NOT TRUE THEN
            -- Existing rows have number 0. The index lacks the existing rows, which are read using the primary key.
            RETURN NEXT format(
                'CREATE INDEX %s%I ON %s%s (%s) WHERE %I OPERATOR(pg_catalog.<>) ''0''::pg_catalog.int8',
                CASE WHEN member.is_parent THEN '' ELSE 'CONCURRENTLY ' END, member.index,
                CASE WHEN member.is_parent THEN 'ONLY ' ELSE '' END, member.relation, columns, key_column);
        END IF;
        IF member.above IS NOT NULL AND member.is_attached IS NOT TRUE THEN
            RETURN NEXT format('ALTER INDEX %s ATTACH PARTITION %s', member.above, member.qualified);
        END IF;
    END LOOP;
END $$;

-- Raise an error if a column cannot be added to a table.
CREATE FUNCTION inorder_internal.check_extensible(relation regclass) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    c pg_class;
    fault text;
BEGIN
    SELECT * INTO c FROM pg_class AS k WHERE k.oid = relation;
    fault := CASE
        WHEN c.relispartition THEN 'is a partition'
        WHEN c.reloftype <> 0 THEN format('is of type %s', c.reloftype::regtype)
        -- Columns whose type is an array of the row type are also found. The server itself reports other types that
        -- contain the row type.
        ELSE (SELECT format('has a row type that column %I of %s uses', a.attname, a.attrelid::regclass)
              FROM pg_attribute AS a JOIN pg_class AS u ON u.oid = a.attrelid AND u.relkind IN ('r', 'm', 'p')
              WHERE NOT a.attisdropped AND a.atttypid IN (
                  WITH members AS (SELECT m.reltype FROM pg_class AS m
                                   WHERE m.oid = ANY ((SELECT inorder_internal.tree(relation))::oid[]))
                  SELECT m.reltype FROM members AS m
                  UNION ALL SELECT y.oid FROM members AS m JOIN pg_type AS y ON y.typelem = m.reltype)
              ORDER BY a.attrelid, a.attnum LIMIT 1) END;
    IF fault IS NOT NULL THEN
        RAISE 'no column can be added to table %: it %', relation, fault
        USING ERRCODE = 'wrong_object_type',
              HINT = CASE WHEN c.relispartition
                          THEN format('Prepare %s, of which this table is a partition.', pg_partition_root(relation))
                          ELSE format('To follow the table without another column, call changes_enable(%L) or, from '
                                      'a shell, run inorder prepare %s --changes.', relation,
                                      inorder_internal.shell_word(relation))
                          END;
    END IF;
END $$;

-- Raise an error if feed_enable(), the last of the statements, would refuse the values of an existing column. If the
-- caller is a superuser other than the owner, no rows are read. Planning a query evaluates functions in the owner's
-- indexes, and a superuser does not expect such an evaluation in a request for the statements.
CREATE FUNCTION inorder_internal.check_numbered(caller oid, t inorder_internal.feed_table) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM inorder_internal.prove_columns(t);
    IF has_table_privilege(caller, t.relation, 'SELECT')
       AND EXISTS (SELECT FROM pg_class AS c CROSS JOIN pg_roles AS r
                   WHERE c.oid = t.relation AND r.oid = caller AND (c.relowner = r.oid OR NOT r.rolsuper)) THEN
        PERFORM inorder_internal.refuse_numbers(t, caller);
    END IF;
END $$;

-- Raise an error if feed_enable(), the last of the statements, would refuse the table, either now or after the other
-- statements. Returns the description of the table with this column, which exists or will be added.
CREATE FUNCTION inorder_internal.check_preparable(caller oid, relation regclass, key_column name)
RETURNS inorder_internal.feed_table
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t inorder_internal.feed_table;
    column_number smallint;
BEGIN
    PERFORM inorder_internal.check_exists(relation), inorder_internal.check_local(relation),
            inorder_internal.check_kind(relation), inorder_internal.check_alone(relation);
    PERFORM inorder_internal.accepted(k) FROM inorder_internal.feed_table AS k
    WHERE k.relation = check_preparable.relation;
    SELECT a.attnum, a.atttypid = 'uuid'::regtype, a.attgenerated = 's' INTO column_number, t.is_uuid, t.is_generated
    FROM pg_attribute AS a WHERE a.attrelid = relation AND a.attname = key_column AND NOT a.attisdropped;
    IF column_number IS NULL THEN
        PERFORM inorder_internal.check_extensible(relation);
    ELSIF column_number NOT IN (SELECT k.attnum FROM inorder_internal.key_columns(relation) AS k) THEN
        RAISE 'column % of % already exists and has no default that returns transaction numbers',
            quote_ident(key_column), relation USING ERRCODE = 'duplicate_column',
              HINT = 'Pass another name for the new column. If this column has transaction numbers, set its default to '
                     'xact_id() or uuid_xact_nextval().';
    END IF;
    t.relation := relation;
    t.key_column := key_column;
    t.base := (SELECT k.base FROM inorder_internal.key_columns(relation) AS k WHERE k.attnum = column_number);
    t.is_uuid := coalesce(t.is_uuid, false);
    t.is_generated := coalesce(t.is_generated, false);
    t.order_columns := CASE WHEN t.is_uuid THEN ARRAY[key_column]
                            WHEN column_number IS NULL THEN inorder_internal.order_columns(relation, -1::smallint)
                            ELSE inorder_internal.order_columns(relation, column_number) END;
    PERFORM inorder_internal.refuse_another(relation, key_column), inorder_internal.check_triggers(t);
    IF EXISTS (SELECT FROM pg_class AS c JOIN pg_roles AS r ON r.oid = inorder_internal.looks_as(caller, relation)
               WHERE NOT r.rolbypassrls AND NOT r.rolsuper AND c.oid = relation AND c.relrowsecurity
                 AND c.relforcerowsecurity) THEN
        PERFORM inorder_internal.say_hidden(relation);
    END IF;
    IF column_number IS NOT NULL THEN
        PERFORM inorder_internal.check_numbered(caller, t);
    END IF;
    RETURN t;
END $$;

-- Return true if the statements of feed_prepare() would not change the table.
CREATE FUNCTION inorder_internal.is_prepared(t inorder_internal.feed_table) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    stored inorder_internal.feed_table;
    described inorder_internal.feed_table;
BEGIN
    SELECT * INTO stored FROM inorder_internal.feed_table AS k
    WHERE k.relation = t.relation AND k.key_column = t.key_column;
    IF NOT FOUND OR inorder_internal.unguarded_member(stored) IS NOT NULL
       OR EXISTS (SELECT FROM inorder_internal.truncate_statements(stored))
       OR (SELECT inorder_internal.has_partial_index(t.relation, a.attnum) IS NULL FROM pg_attribute AS a
           WHERE a.attrelid = t.relation AND a.attname = t.key_column) THEN
        RETURN false;
    END IF;
    described := inorder_internal.describe(t.relation, t.key_column);
    RETURN (described.is_uuid, described.is_generated, described.order_columns, described.base, described.is_partial)
           IS NOT DISTINCT FROM (stored.is_uuid, stored.is_generated, stored.order_columns, stored.base,
                                 stored.is_partial);
END $$;

-- Return the functions, views and rules that mention a table. Views and rules are found in the catalog, and the source
-- code of functions is searched for the name of the table. Functions of extensions and of inorder are not searched,
-- because they mention no user table.
CREATE FUNCTION inorder_internal.mentions(relation regclass) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (
        WITH named AS (
            SELECT c.reltype, lower(c.relname) AS word, nullif(quote_ident(c.relname), c.relname::text) AS quoted
            FROM pg_class AS c WHERE c.oid = relation
        )
        SELECT string_agg(m.what, ', ' ORDER BY m.what COLLATE "C")
        FROM (SELECT concat('function ', p.oid::regprocedure) AS what
              FROM named AS n CROSS JOIN pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
              WHERE p.oid >= 16384 AND l.lanname NOT IN ('internal', 'c')
                AND (n.word = ANY (regexp_split_to_array(lower(p.prosrc), '[^[:alnum:]_]+'))
                     OR strpos(p.prosrc, n.quoted) > 0 OR p.prorettype = n.reltype
                     OR n.reltype = ANY (p.proargtypes::oid[])
                     OR EXISTS (SELECT FROM pg_depend AS d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid
                                AND d.refclassid = 'pg_class'::regclass AND d.refobjid = relation))
                AND p.pronamespace <> 'inorder_internal'::regnamespace AND strpos(p.prosrc, 'inorder_internal.') = 0
                AND NOT EXISTS (SELECT FROM pg_depend AS d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid
                                AND d.deptype = 'e')
              UNION
              SELECT CASE WHEN r.rulename = '_RETURN' THEN format('view %s', r.ev_class::regclass)
                          ELSE format('rule %I of %s', r.rulename, r.ev_class::regclass) END
              FROM pg_depend AS d JOIN pg_rewrite AS r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
              WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = relation) AS m);
END $$;

-- Return the triggers of a table that copy whole rows: the source code of their functions contains INSERT without a
-- list of columns. Return null if there are none.
CREATE FUNCTION inorder_internal.copying_triggers(relation regclass) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT string_agg(format('%I of %s (function %s)', g.tgname, g.tgrelid::regclass, p.oid::regprocedure), ', '
                              ORDER BY g.tgname, g.tgrelid)
            FROM pg_trigger AS g JOIN pg_proc AS p ON p.oid = g.tgfoid
            WHERE g.tgrelid = ANY ((SELECT inorder_internal.tree(relation))::oid[]) AND g.tgparentid = 0
              AND NOT g.tgisinternal AND g.tgenabled <> 'D'
              AND regexp_replace(p.prosrc, '[[:space:]]+', ' ', 'g') ~* (
                  '(^|[^a-z_])insert into ("[^"]+"|[^" (;])+ (as [^ ]+ )?(overriding [a-z]+ value )?'
                  '(values|select)[^a-z_]([^;]*[.,])? ?[*]'));
END $$;

-- Report objects and statements that may depend on the number of columns of a table.
CREATE FUNCTION inorder_internal.say_column_comes(relation regclass, key_column name) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    members oid[] := inorder_internal.tree(relation)::oid[];
    published text := (
        SELECT string_agg(quote_ident(p.pubname), ', ' ORDER BY p.pubname) FROM pg_publication AS p
        WHERE p.puballtables
           OR EXISTS (SELECT FROM pg_publication_rel AS r WHERE r.prpubid = p.oid AND r.prrelid = ANY (members))
           OR EXISTS (SELECT FROM pg_publication_namespace AS s JOIN pg_class AS c ON c.relnamespace = s.pnnspid
                      WHERE s.pnpubid = p.oid AND c.oid = ANY (members)));
    copying text := inorder_internal.copying_triggers(relation);
BEGIN
    RAISE NOTICE 'column % will be added to table %', quote_ident(key_column), relation
    USING DETAIL = format(
              'Statements that depend on the number of columns will fail. A prepared SELECT * fails once in each '
              'session. COPY without a list of columns, INSERT ... SELECT * into another table, and ATTACH PARTITION '
              'of a table without the column always fail. Views and rules keep the columns that they have. In this '
              'database %s. The texts of functions were searched for the name; statements of applications are unknown.',
              coalesce('these objects mention the table: ' || inorder_internal.mentions(relation),
                       'no function, view or rule mentions the table')),
          HINT = 'Name the columns in such statements first.';
    IF copying IS NOT NULL THEN
        RAISE WARNING 'triggers of table % copy whole rows', relation
        USING ERRCODE = 'restrict_violation',
              DETAIL = format('In these functions INSERT has no list of columns: %s. Each statement that fires the '
                              'triggers will fail once rows have another column.', copying),
              HINT = 'Name the columns in these functions first.';
    END IF;
    IF published IS NOT NULL THEN
        RAISE WARNING 'table % is published', relation
        USING ERRCODE = 'restrict_violation',
              DETAIL = format('Subscribers of %s that lack column %I stop at the next row.', published, key_column),
              HINT = format('ALTER TABLE %s ADD COLUMN %I bigint on subscribers first.', relation, key_column);
    END IF;
    IF cardinality(inorder_internal.order_columns(relation, -1::smallint)) = 0 THEN
        RAISE NOTICE 'feeds will read the existing rows of % as one piece', relation
        USING DETAIL = 'The table has no primary key by which the rows could be read in pieces.',
              HINT = 'Add a primary key first, or create feeds with start ''now''.';
    END IF;
END $$;

CREATE FUNCTION inorder_internal.feed_prepare(caller oid, relation regclass, key_column name)
RETURNS SETOF text
LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    schema text := inorder_internal.public_schema();
    t inorder_internal.feed_table := inorder_internal.check_preparable(caller, relation, key_column);
    column_number smallint := (SELECT a.attnum FROM pg_attribute AS a
                               WHERE a.attrelid = relation AND a.attname = key_column AND NOT a.attisdropped);
BEGIN
    IF inorder_internal.is_prepared(t) THEN
        RETURN;
    ELSIF NOT inorder_internal.has_own_guard(relation) THEN
        PERFORM inorder_internal.warn_of_writers(t);
    END IF;
    IF column_number IS NULL THEN
        PERFORM inorder_internal.say_column_comes(relation, key_column);
        -- The first default is constant, which avoids a rewrite. Existing rows therefore count as rows of transaction
        -- 0.
        RETURN NEXT format('ALTER TABLE %s ADD COLUMN %I bigint NOT NULL DEFAULT 0, '
                           'ALTER COLUMN %2$I SET DEFAULT %s.xact_id(''0''::pg_catalog.int8)',
                           relation, key_column, schema);
    END IF;
    IF column_number IS NULL OR inorder_internal.has_partial_index(relation, column_number) IS NULL THEN
        RETURN QUERY SELECT * FROM inorder_internal.index_statements(relation, key_column);
    END IF;
    RETURN NEXT format('ANALYZE %s', relation);
    RETURN NEXT format('SELECT %s.feed_enable(%L::pg_catalog.regclass, %L::pg_catalog.name)', schema, relation,
                       key_column);
END $$;

CREATE FUNCTION @extschema@.feed_prepare(relation regclass, key_column name DEFAULT 'xact') RETURNS SETOF text
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_prepare(regclass, name) IS
'Return the statements that make an existing table readable, one per row; the table may have any key.';
