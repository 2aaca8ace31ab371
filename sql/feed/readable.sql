-- The guard makes a table readable, and keeps it insert-only.
--
-- The bodies of the public functions are in enable.sql. The functions of this file generate statements. The bodies in
-- enable.sql execute these statements with the privileges of the caller, who owns the table, and verify the result.

-- Return the current name of the schema of the public functions, quoted for use in a statement.
CREATE FUNCTION inorder_internal.public_schema() RETURNS text
LANGUAGE sql STABLE
RETURN (SELECT quote_ident(n.nspname) FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
        WHERE p.oid = '@extschema@.feed_guard()'::regprocedure::oid);

-- Return the statements that create the triggers of the guard on a table. Partitions inherit the row triggers.
CREATE FUNCTION inorder_internal.guard_statements(t inorder_internal.feed_table) RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY SELECT d.definition FROM inorder_internal.guard_definitions(t.relation, t) AS d;
    RETURN NEXT (SELECT format('ALTER TABLE %s %s', t.relation,
                               string_agg(format('ENABLE ALWAYS TRIGGER %s', d.name), ', ' ORDER BY d.name))
                 FROM inorder_internal.guard_definitions(t.relation, t) AS d);
END $$;

-- Return the statements that create the trigger for TRUNCATE on partitions that lack it.
CREATE FUNCTION inorder_internal.truncate_statements(t inorder_internal.feed_table) RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY SELECT s.statement FROM unnest(inorder_internal.tree(t.relation)) AS member,
        LATERAL (VALUES (inorder_internal.truncate_definition(member, t)),
                        (format('ALTER TABLE %s ENABLE ALWAYS TRIGGER zz_inorder_truncate', member))) AS s(statement)
        -- If another trigger has this name, the statement fails.
        WHERE NOT EXISTS (SELECT FROM pg_trigger AS g WHERE g.tgrelid = member AND g.tgname = 'zz_inorder_truncate'
                                                        AND g.tgfoid = inorder_internal.guard_function());
END $$;

CREATE FUNCTION inorder_internal.unguard_statements(relation regclass) RETURNS SETOF text
LANGUAGE sql STABLE STRICT
BEGIN ATOMIC
    SELECT format('DROP TRIGGER %I ON %s'::text, g.tgname, g.tgrelid::regclass)
    FROM pg_trigger AS g
    WHERE g.tgrelid = ANY ((SELECT inorder_internal.tree(relation))::oid[]) AND g.tgparentid = 0::oid
      AND (g.tgname = 'zz_inorder_truncate'
           OR g.tgrelid = relation AND g.tgname IN ('zz_inorder_guard', 'zz_inorder_update', 'zz_inorder_delete'));
END;

-- Return true if feed_enable() was called for a table, and the guard of the table is intact. Unless key_column is null,
-- the table must have been enabled with this column.
CREATE FUNCTION inorder_internal.is_enabled(relation regclass, key_column name) RETURNS boolean
LANGUAGE sql STABLE
-- Checking a guard may lock its table. A subquery therefore finds the row whose guard is checked, because a WHERE
-- clause might also check the guards of other tables.
RETURN coalesce(inorder_internal.has_guard((
    SELECT t FROM inorder_internal.feed_table AS t
    WHERE t.relation = is_enabled.relation AND t.key_column = coalesce(is_enabled.key_column, t.key_column))), false);

-- Raise an error if a table is enabled with a column other than the given column. If feeds of the table continued with
-- the numbers in the given column, they could skip rows.
CREATE FUNCTION inorder_internal.refuse_another(relation regclass, key_column name) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    present_column name := (SELECT f.key_column FROM inorder_internal.feed_table AS f
                            WHERE f.relation = refuse_another.relation);
BEGIN
    IF present_column <> key_column AND inorder_internal.is_enabled(relation, present_column) THEN
        RAISE 'table % is already enabled with column %', relation, quote_ident(present_column)
        USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = 'The positions of its feeds consist of numbers in that column.',
              HINT = format('To read the table by column %I, first call feed_drop() for its feeds, then '
                            'feed_disable(%L).', key_column, relation);
    END IF;
END $$;

-- Return true if a table has a guard of its own, and not only the guard of its parent. The function looks for the
-- trigger. The stored state is not enough, because another role may have stored a row for a parent or a partition.
CREATE FUNCTION inorder_internal.has_own_guard(relation regclass) RETURNS boolean
LANGUAGE sql STABLE
RETURN EXISTS (SELECT FROM pg_trigger AS g WHERE g.tgrelid = relation AND g.tgname = 'zz_inorder_guard'
                                              AND g.tgparentid = 0::oid);

-- Raise an error if a partition or a parent of the table has its own guard.
CREATE FUNCTION inorder_internal.check_alone(relation regclass) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    readable_table regclass;
BEGIN
    SELECT f.relation INTO readable_table FROM inorder_internal.feed_table AS f
    WHERE f.relation <> check_alone.relation AND inorder_internal.has_own_guard(f.relation)
      AND f.relation = ANY ((SELECT inorder_internal.tree(check_alone.relation))
                            || ARRAY(SELECT a.relid FROM pg_partition_ancestors(check_alone.relation) AS a(relid)))
    ORDER BY 1 LIMIT 1;
    IF FOUND THEN
        RAISE 'table % is in the same partition tree as %, which is already enabled', relation, readable_table
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = format('Use that table, or call feed_disable(%L) first.', readable_table);
    END IF;
END $$;

CREATE FUNCTION inorder_internal.keep_table(t inorder_internal.feed_table) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- The statements that created the guard contained names of functions, and these names may have referred to other
    -- functions.
    IF NOT inorder_internal.has_guard(t) OR EXISTS (SELECT FROM inorder_internal.truncate_statements(t)) THEN
        t.written_here := true;  -- the table was not restored, but lost the guard after the last statement
        PERFORM inorder_internal.say_unguarded(t);
    END IF;
    PERFORM inorder_internal.sweep();
    INSERT INTO inorder_internal.feed_table AS f
        (relation, key_column, is_uuid, is_generated, order_columns, base, is_partial, known_as)
    VALUES (t.relation, t.key_column, t.is_uuid, t.is_generated, t.order_columns, t.base, t.is_partial,
            (SELECT ARRAY[n.schema, n.relname] FROM inorder_internal.names_of(t.relation) AS n))
    ON CONFLICT (relation) DO UPDATE
    SET (key_column, is_uuid, is_generated, order_columns, base, is_partial, known_as)
        = ROW(excluded.key_column, excluded.is_uuid, excluded.is_generated, excluded.order_columns, excluded.base,
              excluded.is_partial, excluded.known_as);
END $$;

-- Return the members of a position with the current guard in place of the previous guard.
CREATE FUNCTION inorder_internal.renewed(
    remembered @extschema@.feed_member[], before @extschema@.feed_member[], after @extschema@.feed_member[]
) RETURNS @extschema@.feed_member[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    m record;
    result remembered%TYPE := remembered;
BEGIN
    FOR m IN SELECT k.place, a.guarded
             FROM unnest(remembered) WITH ORDINALITY AS k(relation, name, system, attached, guarded, ordered_by, place)
             JOIN unnest(before) AS b ON b.relation = k.relation AND b.system = k.system
                                     AND inorder_internal.are_versions(k.attached::text[], b.attached)
                                     AND inorder_internal.are_versions(k.guarded::text[], b.guarded)
             JOIN unnest(after) AS a ON a.relation = k.relation LOOP
        result[m.place].guarded := m.guarded;
    END LOOP;
    RETURN result;
END $$;

CREATE FUNCTION @extschema@.feed_enable(relation regclass, key_column name DEFAULT NULL) RETURNS void
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_enable(regclass, name) IS
'Make a table readable by feeds and exact counts: find the column with the transaction number and an index on it, '
'and create the guard.';

CREATE FUNCTION @extschema@.feed_disable(relation regclass) RETURNS void
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_disable(regclass) IS
'Revert feed_enable: drop the guard, so that rows can be updated and deleted again.';
