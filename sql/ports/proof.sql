-- Checks of a table before it is read. The checks prove that no row has bypassed the guard, and that an index finds the
-- rows.
--
-- The checks read the catalog, under locks on the table and all of its partitions. In the extension the result, called
-- a proof, is cached for later reads (table_proof.c).

CREATE FUNCTION inorder_internal.leaves(relation regclass) RETURNS regclass[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF inorder_internal.is_plain(relation) THEN
        RETURN ARRAY[relation];
    END IF;
    RETURN ARRAY(SELECT c.oid::regclass FROM unnest(inorder_internal.tree(relation)) AS t
                 JOIN pg_class AS c ON c.oid = t AND c.relkind = 'r' ORDER BY c.oid);
END $$;

-- Return the indexes that find the rows of a table by number, one for each table that holds rows. Raise an error if one
-- of these tables has no index.
CREATE FUNCTION inorder_internal.prove_indexes(t inorder_internal.feed_table) RETURNS oid[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    leaves regclass[] := inorder_internal.leaves(t.relation);
    indexes oid[] := ARRAY(
        SELECT i.index FROM unnest(leaves) WITH ORDINALITY AS l(leaf, place)
        LEFT JOIN LATERAL (SELECT k.attnum FROM pg_attribute AS k
                           WHERE k.attrelid = l.leaf AND k.attname = t.key_column AND NOT k.attisdropped) AS a ON true
        CROSS JOIN LATERAL inorder_internal.index_of(l.leaf, a.attnum, t.is_partial) AS i ORDER BY l.place);
    missing int := array_position(indexes, NULL);
BEGIN
    IF missing IS NOT NULL THEN
        PERFORM inorder_internal.refuse_outdated(t);
        RAISE 'table % no longer has a valid btree index that begins with column %', leaves[missing],
              quote_ident(t.key_column)
        USING ERRCODE = 'object_not_in_prerequisite_state', DETAIL = 'Each read would scan the whole table.',
              HINT = format('CREATE INDEX ON %s (%I). The owner must then call feed_enable(%L).', leaves[missing],
                            t.key_column, t.relation);
    END IF;
    RETURN indexes;
END $$;

-- Find a table of the tree that lacks the guard; null if all tables have the guard.
CREATE FUNCTION inorder_internal.unguarded_member(t inorder_internal.feed_table) RETURNS regclass
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off
    SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN (SELECT m FROM unnest(inorder_internal.tree(t.relation)) AS m
            CROSS JOIN LATERAL inorder_internal.guard_state(m, t) AS g WHERE NOT g.is_valid LIMIT 1);
END $$;

-- Raise the error about a table without the guard or, if the newest snapshot sees the guard, the error about a table
-- that was enabled again.
CREATE FUNCTION inorder_internal.refuse_unguarded(t inorder_internal.feed_table, member regclass) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF inorder_internal.unguarded_member(t) IS NULL THEN
        PERFORM inorder_internal.say_outdated(t.relation);
    END IF;
    PERFORM inorder_internal.refuse_outdated(t);
    RAISE 'table % has lost the guard of column %', member, quote_ident(t.key_column)
    USING ERRCODE = 'object_not_in_prerequisite_state',
          DETAIL = 'Triggers were disabled, dropped or changed. Rows that were written in the meantime may have '
                   'numbers of transactions that readers have already read.',
          HINT = format('The owner must call feed_enable(%L).', t.relation);
END $$;

-- Return the index that finds the rows of a table without partitions, if the table passes all checks of prove_table()
-- except that of the order. If it does not, the result is null, and prove_table() reports the fault or finds that the
-- table is readable.
CREATE FUNCTION inorder_internal.find_valid_index(t inorder_internal.feed_table, caller oid) RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off
    SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    -- One query replaces thirty statements, because starting a statement takes longer than executing it.
    index oid := (
        SELECT i.index FROM pg_attribute AS a
        CROSS JOIN LATERAL inorder_internal.guard_state(t.relation, t) AS g
        CROSS JOIN LATERAL inorder_internal.index_of(t.relation, a.attnum, t.is_partial) AS i
        WHERE a.attrelid = t.relation::oid AND a.attname = t.key_column AND NOT a.attisdropped AND g.is_valid
          AND (NOT t.is_generated OR t.base = (
              SELECT inorder_internal.key_base(d.adbin, inorder_internal.generator()) FROM pg_attrdef AS d
              WHERE d.adrelid = t.relation::oid AND d.adnum = a.attnum)));
BEGIN
    -- The current state of the table is checked, because the check of the guard may have waited for a session that
    -- dropped the table or enabled row security.
    RETURN CASE WHEN has_table_privilege(t.relation, 'SELECT') IS NOT NULL
                 AND NOT inorder_internal.hides_rows(caller, t.relation) THEN index END;
END $$;

-- Return the indexes that find the rows of a table. Raise an error unless, according to the snapshot, a read by the
-- caller returns the right rows.
CREATE FUNCTION inorder_internal.prove_table(t inorder_internal.feed_table, caller oid) RETURNS oid[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    index oid := CASE WHEN inorder_internal.is_plain(t.relation) THEN inorder_internal.find_valid_index(t, caller) END;
BEGIN
    IF index IS NULL THEN
        PERFORM inorder_internal.check_table(t, caller);
        IF NOT inorder_internal.is_plain(t.relation) THEN
            PERFORM inorder_internal.refuse_unguarded(t, m.unguarded)
            FROM inorder_internal.unguarded_member(t) AS m(unguarded) WHERE m.unguarded IS NOT NULL;
        END IF;
        PERFORM inorder_internal.prove_columns(t);
        RETURN inorder_internal.prove_indexes(t);
    END IF;
    -- If rows are ordered only by a key of type uuid, the order needs no further check.
    IF NOT t.is_uuid OR cardinality(t.order_columns) <> 1 OR t.order_columns[1] IS DISTINCT FROM t.key_column THEN
        PERFORM inorder_internal.prove_order(t);
    END IF;
    RETURN ARRAY[index];
END $$;

-- Raise the error about columns that have changed since the caller's query was planned.
CREATE FUNCTION inorder_internal.say_columns_changed(relation regclass, why text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE 'columns of % were changed after this query began', relation
    USING ERRCODE = 'serialization_failure', DETAIL = why, HINT = 'Try again.';
END $$;
