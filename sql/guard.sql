-- The guard: how a table is made readable, stays insert-only, and is carried over into another cluster.
--
-- The functions that users call are in src/enable.c. They run the statements that are made here with the rights of
-- their caller, who owns the table, and see to it that these did what they say.

-- In the schema of the users, since their tables name it, and so do the dumps of these.
CREATE FUNCTION @extschema@.feed_guard()
RETURNS trigger
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION @extschema@.feed_guard() IS
'Internal function. Trigger on tables with a feed or an exact count: refuses rows that carry the number of another '
'transaction than the one that inserts them (check_violation), and DELETE, TRUNCATE and UPDATE of what readers rely '
'on (restrict_violation). feed_enable makes it.';

CREATE FUNCTION inorder_internal.is_guarded(
    relation regclass, columns name[], is_uuid boolean, is_generated boolean, base bigint, guard oid
)
RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT;
COMMENT ON FUNCTION inorder_internal.is_guarded(regclass, name[], boolean, boolean, bigint, oid) IS
'Internal function. Whether the triggers of the guard are on a table as feed_enable() makes them: function, events, '
'always enabled, without a WHEN clause, for these columns, with this base; and the first column of its type, '
'generated or not.';

CREATE FUNCTION inorder_internal.has_guard(t inorder_internal.feed_table)
RETURNS boolean
LANGUAGE sql STABLE
RETURN inorder_internal.is_guarded((t).relation, inorder_internal.known_columns(t), (t).is_uuid, (t).is_generated,
                                   (t).base, '@extschema@.feed_guard()'::regprocedure::oid);
COMMENT ON FUNCTION inorder_internal.has_guard(inorder_internal.feed_table) IS
'Internal function. Whether the guard of a table stands.';

CREATE FUNCTION inorder_internal.public_schema()
RETURNS text
LANGUAGE sql STABLE
RETURN (SELECT quote_ident(n.nspname) FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
        WHERE p.oid = '@extschema@.feed_guard()'::regprocedure::oid);
COMMENT ON FUNCTION inorder_internal.public_schema() IS
'Internal function. The schema of what users call, by its present name, as text of a statement.';

CREATE FUNCTION inorder_internal.guard_statements(t inorder_internal.feed_table)
RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    call text := format('EXECUTE FUNCTION %s.feed_guard(%L)', inorder_internal.public_schema(), t.base);
    columns text;
BEGIN
    SELECT string_agg(quote_ident(c), ', ') INTO columns FROM unnest(inorder_internal.known_columns(t)) AS c;
    -- Triggers fire by name: nothing changes the key after these. Nobody gives a generated column a value,
    -- and a BEFORE UPDATE trigger would make the server compute it anew at every update.
    RETURN NEXT format('CREATE TRIGGER zz_inorder_guard %s OR UPDATE OF %s ON %s FOR EACH ROW %s',
                       CASE WHEN t.is_generated THEN 'AFTER DELETE' ELSE 'BEFORE INSERT OR DELETE' END,
                       columns, t.relation, call);
    RETURN NEXT format('CREATE TRIGGER zz_inorder_update %s UPDATE ON %s FOR EACH ROW %s',
                       CASE WHEN t.is_generated THEN 'AFTER' ELSE 'BEFORE' END, t.relation, call);
    RETURN NEXT format('ALTER TABLE %s ENABLE ALWAYS TRIGGER zz_inorder_guard, '
                       'ENABLE ALWAYS TRIGGER zz_inorder_update', t.relation);
    -- Those of rows come to partitions by themselves, those of statements do not.
    RETURN QUERY SELECT s.statement FROM unnest(inorder_internal.tree(t.relation)) AS member,
        LATERAL (VALUES (format('CREATE TRIGGER zz_inorder_truncate BEFORE TRUNCATE ON %s %s', member, call)),
                        (format('ALTER TABLE %s ENABLE ALWAYS TRIGGER zz_inorder_truncate', member))) AS s(statement);
END $$;
COMMENT ON FUNCTION inorder_internal.guard_statements(inorder_internal.feed_table) IS
'Internal function. The statements that guard a table.';

CREATE FUNCTION inorder_internal.unguard_statements(relation regclass)
RETURNS SETOF text
LANGUAGE sql STABLE STRICT
BEGIN ATOMIC
    SELECT format('DROP TRIGGER %I ON %s'::text, g.tgname, g.tgrelid::regclass)
    FROM pg_trigger AS g
    WHERE g.tgrelid = ANY (inorder_internal.tree(relation)::oid[]) AND g.tgparentid = 0::oid
      AND (g.tgname = 'zz_inorder_truncate'
           OR g.tgrelid = relation AND g.tgname IN ('zz_inorder_guard', 'zz_inorder_update'));
END;
COMMENT ON FUNCTION inorder_internal.unguard_statements(regclass) IS
'Internal function. The statements that drop the guard of a table.';

CREATE FUNCTION inorder_internal.is_enabled(relation regclass, key_column name)
RETURNS boolean
LANGUAGE sql STABLE
RETURN EXISTS (
    SELECT FROM inorder_internal.feed_table AS t
    WHERE t.relation = is_enabled.relation AND t.key_column = coalesce(is_enabled.key_column, t.key_column)
      AND inorder_internal.has_guard(t));
COMMENT ON FUNCTION inorder_internal.is_enabled(regclass, name) IS
'Internal function. Whether feed_enable() was called for a table, and its guard stands.';

CREATE FUNCTION inorder_internal.check_alone(relation regclass)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    other regclass;
BEGIN
    SELECT f.relation INTO other FROM inorder_internal.feed_table AS f
    WHERE f.relation <> check_alone.relation AND EXISTS (SELECT FROM pg_class WHERE oid = f.relation)
      AND (check_alone.relation = ANY (inorder_internal.tree(f.relation))
           OR f.relation = ANY (inorder_internal.tree(check_alone.relation)))
    ORDER BY 1 LIMIT 1;
    IF FOUND THEN
        RAISE 'table % is in one tree of partitions with %, which is readable already', relation, other
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = format('Use that one, or call feed_disable(%L) first.', other);
    END IF;
END $$;
COMMENT ON FUNCTION inorder_internal.check_alone(regclass) IS
'Internal function. Error if a partition or a parent of the table has a guard of its own.';

CREATE FUNCTION inorder_internal.describe_new(relation regclass, key_column name, OUT t inorder_internal.feed_table,
                                              OUT probe text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    t := inorder_internal.describe(relation, key_column);
    PERFORM inorder_internal.check_alone(relation);
    probe := format('(%s) UNION ALL (%s) LIMIT 1', inorder_internal.beyond_query(t),
                    inorder_internal.unnumbered_query(t));
END $$;
COMMENT ON FUNCTION inorder_internal.describe_new(regclass, name) IS
'Internal function. How a table will be read, and the query that finds what is in the way.';

CREATE FUNCTION inorder_internal.keep_table(t inorder_internal.feed_table)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT inorder_internal.has_guard(t) THEN
        PERFORM inorder_internal.say_unguarded(t);
    END IF;
    PERFORM inorder_internal.sweep();
    INSERT INTO inorder_internal.feed_table AS f SELECT t.*
    ON CONFLICT (relation) DO UPDATE
    SET (key_column, is_uuid, is_generated, order_columns, base, ordered)
        = ROW(excluded.key_column, excluded.is_uuid, excluded.is_generated, excluded.order_columns, excluded.base,
              excluded.ordered);
END $$;
COMMENT ON FUNCTION inorder_internal.keep_table(inorder_internal.feed_table) IS
'Internal function. Remember that a table is readable, once its guard stands.';

CREATE FUNCTION inorder_internal.forget_table(relation regclass)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    users text;
BEGIN
    SELECT string_agg(u.what, ', ' ORDER BY u.what) INTO users
    FROM (SELECT format('feed %L of %I', f.name, f.owner_name) FROM inorder_internal.feed AS f
          WHERE f.relation = forget_table.relation
          UNION SELECT 'its exact count' FROM inorder_internal.count_part AS p
          WHERE p.relation = forget_table.relation) AS u(what);
    IF users IS NOT NULL THEN
        RAISE 'table % is still in use by %', relation, users
        USING ERRCODE = 'dependent_objects_still_exist', HINT = 'Call feed_drop() and exact_count_stop() first.';
    END IF;
    DELETE FROM inorder_internal.feed_table AS t WHERE t.relation = forget_table.relation;
END $$;
COMMENT ON FUNCTION inorder_internal.forget_table(regclass) IS
'Internal function. Forget that a table is readable; error while something reads it.';

---------------------------------------------------------------------------
-- After a restore
---------------------------------------------------------------------------

CREATE FUNCTION inorder_internal.describe_restored(relation regclass, beyond bigint,
                                                   OUT t inorder_internal.feed_table, OUT highest_query text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF beyond NOT BETWEEN 0 AND 281474976710655 THEN
        RAISE 'beyond must be between 0 and 281474976710655, not %', beyond
        USING ERRCODE = 'numeric_value_out_of_range';
    END IF;
    t := inorder_internal.describe(relation, (SELECT f.key_column FROM inorder_internal.feed_table AS f
                                              WHERE f.relation = describe_restored.relation));
    IF t.is_generated THEN
        RAISE 'column % of % is generated: a restore computes it anew', quote_ident(t.key_column), relation
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = 'Its rows are one new batch: start feeds again by feed_seek(name, ''beginning'') or '
                     'feed_seek(name, ''now'').';
    END IF;
    -- Not max(uuid), which most servers lack.
    highest_query := format('SELECT %s FROM %sTRUE AND e.%I IS NOT NULL ORDER BY e.%3$I DESC LIMIT 1',
                            inorder_internal.number_text(t), inorder_internal.whole_table(t), t.key_column);
END $$;
COMMENT ON FUNCTION inorder_internal.describe_restored(regclass, bigint) IS
'Internal function. How a restored table is read, and the query for its highest number.';

CREATE FUNCTION inorder_internal.raised_base(t inorder_internal.feed_table, beyond bigint, highest bigint)
RETURNS bigint
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT greatest((t).base, coalesce(max(n.number), 0::bigint) + 1 - inorder_internal.next_transaction(0::bigint))
    FROM (SELECT highest UNION ALL SELECT beyond
          UNION ALL SELECT (f.position).partial FROM inorder_internal.feed AS f WHERE f.relation = (t).relation
          UNION ALL SELECT upper((f.position).transactions) - 1 FROM inorder_internal.feed AS f
                    WHERE f.relation = (t).relation
          UNION ALL SELECT upper((f.pending).transactions) - 1 FROM inorder_internal.feed AS f
                    WHERE f.relation = (t).relation
          UNION ALL SELECT upper(p.counted) - 1 FROM inorder_internal.count_part AS p
                    WHERE p.relation = (t).relation) AS n(number);
END;
COMMENT ON FUNCTION inorder_internal.raised_base(inorder_internal.feed_table, bigint, bigint) IS
'Internal function. The base with which new numbers go on above all known ones.';

CREATE FUNCTION inorder_internal.base_statement(t inorder_internal.feed_table, base bigint)
RETURNS text
LANGUAGE sql STABLE
RETURN format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s.%I(%L::pg_catalog.int8)', (t).relation, (t).key_column,
              inorder_internal.public_schema(),
              CASE WHEN (t).is_uuid THEN 'uuid_xact_nextval' ELSE 'xact_id' END, base);
COMMENT ON FUNCTION inorder_internal.base_statement(inorder_internal.feed_table, bigint) IS
'Internal function. The statement that sets the base in the default of the column.';

CREATE FUNCTION inorder_internal.adopt_roles(table_relation regclass)
RETURNS void
LANGUAGE sql VOLATILE
-- In a restored database roles have other oids. The owner of the table vouches for their names.
-- A role that has made another feed of the same name meanwhile keeps that.
BEGIN ATOMIC
    UPDATE inorder_internal.feed AS f
    SET owner = coalesce((SELECT r.oid FROM pg_roles AS r
                          WHERE r.rolname = f.owner_name AND NOT EXISTS (
                              SELECT FROM inorder_internal.feed AS o
                              WHERE o.name = f.name AND o.owner_name = f.owner_name AND o.id <> f.id
                                AND (o.owner = r.oid OR o.relation = f.relation AND o.id < f.id))), f.owner),
        movers = ARRAY(SELECT ROW(r.oid, m.name)::inorder_internal.role_ref
                       FROM unnest(f.movers) AS m JOIN pg_roles AS r ON r.rolname = m.name)
    WHERE f.relation = table_relation;
END;
COMMENT ON FUNCTION inorder_internal.adopt_roles(regclass) IS
'Internal function. Let the roles of this cluster have the feeds of a restored table, by name.';

---------------------------------------------------------------------------
-- Tables that exist
---------------------------------------------------------------------------

CREATE FUNCTION inorder_internal.index_statements(relation regclass, key_column name, method name)
RETURNS SETOF text
LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    member record;
    options text := CASE method WHEN 'brin' THEN ' WITH (autosummarize = on)' ELSE '' END;
BEGIN
    -- There is no CONCURRENTLY on a partitioned table: an empty index first, then one on each leaf, attached.
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
    IF key_attnum IS NOT NULL AND key_attnum NOT IN (SELECT k.attnum FROM inorder_internal.key_columns(relation) AS k) THEN
        RAISE 'column % of % is there already and has no default that gives transaction numbers',
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
        -- Constant at first, which takes no rewrite: what is there counts as transaction 0.
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

---------------------------------------------------------------------------
-- What users call
---------------------------------------------------------------------------

CREATE FUNCTION @extschema@.feed_enable(relation regclass, key_column name DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_enable(regclass, name) IS
'Make a table readable by feeds and exact counts: find its column with the transaction number (by name where there '
'are several) and its index, and guard both. feed_create and exact_count_start call it if nobody did. Call it again '
'after renaming a column or changing the index.
Owner only. Takes SHARE ROW EXCLUSIVE for a moment, waiting for writers. Errors: undefined_column, ambiguous_column, '
'undefined_object (no index), wrong_object_type, undefined_table, insufficient_privilege, active_sql_transaction in '
'REPEATABLE READ and SERIALIZABLE.';

CREATE FUNCTION @extschema@.feed_disable(relation regclass)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_disable(regclass) IS
'Undo feed_enable: drop the guard, so that rows may be updated and deleted again. Owner only. Errors: '
'dependent_objects_still_exist while the table has a feed or an exact count, undefined_table, '
'insufficient_privilege.';

CREATE FUNCTION @extschema@.feed_rebase(relation regclass, beyond bigint DEFAULT 0)
RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_rebase(regclass, bigint) IS
'After a restore into a server with lower transaction ids: raise the base in the column default and the guard, so '
'that new numbers go on above those in the table, in the positions of its feeds, which stay as they are, and above '
'beyond, for positions that readers keep themselves. Feeds go to the roles that have the names of those they belonged '
'to. Returns the base; one that is high enough is kept.
Range: beyond 0 to 281474976710655. Owner only. Takes ACCESS EXCLUSIVE, waiting for everyone; reads the highest '
'number by the index if it is a btree, otherwise the whole table. Errors: object_not_in_prerequisite_state for a '
'generated column, which a restore computes anew; numeric_value_out_of_range; those of feed_enable.';

CREATE FUNCTION @extschema@.feed_prepare(
    relation regclass, key_column name DEFAULT 'xact', method name DEFAULT 'brin'
)
RETURNS SETOF text
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_prepare(regclass, name, name) IS
'The statements that make an existing table of any key readable, one a row, each online: a bigint column with '
'xact_id() as default (no rewrite; rows that are there count as transaction 0), its index (brin or btree) '
'concurrently, ANALYZE, and feed_enable. psql performs them by its command gexec. What is there '
'already is left out.
The first takes ACCESS EXCLUSIVE for a moment; set lock_timeout. Errors: invalid_parameter_value (method), '
'wrong_object_type, duplicate_column (a column of this name without such a default).';
