-- What a read stands on, in the SQL edition: the proofs of ground.c, leaf.c and files.c.
--
-- Everything is read from the catalog in the snapshot in which rows are looked for, under locks on the table and all of
-- its partitions, and is not kept: so each proof costs what it costs, for each read that finds something new.

-- Lock a table with all its partitions, for which privileges on the table suffice.
CREATE FUNCTION inorder_internal.lock_tree(relation regclass, mode text)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    EXECUTE format('LOCK TABLE %s IN %s MODE', relation, mode);
    -- By name, and so perhaps another table that had this name then.
    IF NOT EXISTS (SELECT FROM pg_locks AS l
                   WHERE l.pid = pg_backend_pid() AND l.relation = lock_tree.relation AND l.granted
                     AND l.mode = replace(initcap(lock_tree.mode), ' ', '') || 'Lock') THEN
        RAISE 'table % was renamed while it was locked', relation USING ERRCODE = 'serialization_failure',
              HINT = 'Try again.';
    END IF;
END $$;

-- Error unless a table that holds rows has an index for them.
CREATE FUNCTION inorder_internal.prove_index(t inorder_internal.feed_table, leaf regclass)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT (SELECT i.found FROM pg_attribute AS a
            CROSS JOIN LATERAL inorder_internal.has_index(leaf, a.attnum, t.ordered) AS i
            WHERE a.attrelid = leaf AND a.attname = t.key_column AND NOT a.attisdropped) THEN
        PERFORM inorder_internal.refuse_leaf(t.relation, leaf, format(
            CASE WHEN t.ordered THEN 'has no valid btree index any more that begins with column %I'
                 ELSE 'has no valid index any more that begins with column %I' END, t.key_column),
            'Each read would look at all of its rows.');
    END IF;
END $$;

-- A table of the tree without the guard, or null.
CREATE FUNCTION inorder_internal.unguarded_member(t inorder_internal.feed_table)
RETURNS regclass
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off
AS $$
BEGIN
    RETURN (SELECT m FROM unnest(inorder_internal.tree(t.relation)) AS m
            CROSS JOIN LATERAL inorder_internal.guard_state(m, t.relation, inorder_internal.known_columns(t), t.is_uuid,
                t.is_generated, t.base, inorder_internal.guard_function()) AS g
            WHERE NOT g.stands LIMIT 1);
END $$;

-- Whether all that prove_ground() asks for, but the order, holds for a table without partitions. If not, prove_ground()
-- says why, or that it may be read all the same.
CREATE FUNCTION inorder_internal.stands(t inorder_internal.feed_table)
RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off
AS $$
BEGIN
    -- One statement instead of thirty: each costs more to begin than to execute.
    IF NOT EXISTS (
        SELECT FROM pg_class AS c
        JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = t.key_column AND NOT a.attisdropped
        CROSS JOIN LATERAL inorder_internal.guard_state(c.oid, c.oid, inorder_internal.known_columns(t), t.is_uuid,
            t.is_generated, t.base, inorder_internal.guard_function()) AS g
        CROSS JOIN LATERAL inorder_internal.has_index(c.oid, a.attnum, t.ordered) AS i
        WHERE c.oid = t.relation AND c.relkind = 'r' AND c.relpersistence = 'p' AND NOT c.relhassubclass
          AND c.relam = (SELECT m.oid FROM pg_am AS m WHERE m.amname = 'heap') AND g.stands AND i.found
          AND (NOT t.is_generated OR t.base = (
              SELECT inorder_internal.key_base(d.adbin, ARRAY[inorder_internal.generator()]) FROM pg_attrdef AS d
              WHERE d.adrelid = c.oid AND d.adnum = a.attnum)))
    THEN
        RETURN false;
    END IF;
    -- As it is now: the look at the guard has locked the table, and may have waited for who dropped it or hid rows.
    RETURN has_table_privilege(t.relation, 'SELECT') IS NOT NULL AND NOT row_security_active(t.relation);
END $$;

-- Error unless the caller's read of a table would be right, by what the snapshot sees.
CREATE FUNCTION inorder_internal.prove_ground(t inorder_internal.feed_table, caller oid)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    unguarded regclass;
BEGIN
    IF inorder_internal.stands(t) THEN
        -- A key of type uuid is the order.
        IF NOT t.is_uuid OR t.order_columns <> ARRAY[t.key_column] THEN
            PERFORM inorder_internal.prove_order(t);
        END IF;
        RETURN;
    END IF;
    -- First, since not all that is asked of a partition is answered for the snapshot.
    IF NOT inorder_internal.is_plain(t.relation) THEN
        PERFORM inorder_internal.seen_members(t.relation, NULL);
    END IF;
    PERFORM inorder_internal.check_table(t, caller);
    IF NOT inorder_internal.is_plain(t.relation) THEN
        unguarded := inorder_internal.unguarded_member(t);
    END IF;
    IF unguarded IS NOT NULL THEN
        PERFORM inorder_internal.refuse_leaf(t.relation, unguarded, format('has lost the guard of column %I',
                                                                           t.key_column),
            'Its triggers were disabled, dropped or changed. Rows that came meanwhile may have numbers that readers have '
            'passed.');
    END IF;
    PERFORM inorder_internal.prove_columns(t);
    -- Most have an index, and one statement sees that sooner than one for each partition.
    PERFORM inorder_internal.prove_index(t, leaf)
    FROM unnest(inorder_internal.leaves(t.relation)) AS leaf
    LEFT JOIN LATERAL (SELECT k.attnum FROM pg_attribute AS k
                       WHERE k.attrelid = leaf AND k.attname = t.key_column AND NOT k.attisdropped) AS a ON true
    WHERE NOT (SELECT i.found FROM inorder_internal.has_index(leaf, a.attnum, t.ordered) AS i);
END $$;

-- The members, if the snapshot sees the files and partitions that are read; else an error. Of tables that are locked,
-- which those of a query are after it.
CREATE FUNCTION inorder_internal.seen_members(relation regclass, members @extschema@.feed_member[])
RETURNS @extschema@.feed_member[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    seen regclass[];
    fault text;
BEGIN
    -- Most tables have neither partitions nor children.
    IF EXISTS (SELECT FROM pg_class AS c
               WHERE c.oid = relation AND c.relkind = 'r' AND NOT c.relhassubclass
                 AND c.relfilenode = pg_relation_filenode(c.oid)
                 AND current_setting('transaction_isolation') = 'read committed') THEN
        RETURN members;
    END IF;
    -- The tables as the snapshot sees them, each with its file then and now.
    seen := inorder_internal.tree(relation);
    -- What this transaction did to one since is another row of the catalog, which does not hide the one of the snapshot.
    fault := (SELECT format('table %s was written anew', c.oid::regclass) FROM pg_class AS c
              WHERE c.oid = ANY (seen) AND c.relkind = 'r'
                AND c.relfilenode IS DISTINCT FROM pg_relation_filenode(c.oid) LIMIT 1);
    IF fault IS NULL AND EXISTS (SELECT FROM pg_class AS c WHERE c.oid = relation AND c.relkind = 'p')
       AND seen <> ARRAY(SELECT p.relid FROM pg_partition_tree(relation) AS p ORDER BY p.relid) THEN
        fault := format('partitions of %s were attached, detached or dropped', relation);
    END IF;
    IF fault IS NOT NULL THEN
        RAISE '% after the snapshot of this transaction was taken', fault USING ERRCODE = 'serialization_failure',
              DETAIL = 'The snapshot does not see the rows where they are now.',
              HINT = 'Try again in a new transaction.';
    END IF;
    RETURN members;
END $$;

-- The members that were proved; error unless the tables of the tree and their guards are the same.
CREATE FUNCTION inorder_internal.unchanged_members(
    t inorder_internal.feed_table, known @extschema@.feed_member[]
)
RETURNS @extschema@.feed_member[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET @pinned@
AS $$
BEGIN
    IF inorder_internal.members(t) IS DISTINCT FROM known THEN
        RAISE 'partitions of % were attached, detached or changed while it was read', t.relation
        USING ERRCODE = 'serialization_failure', HINT = 'Try again.';
    END IF;
    RETURN known;
END $$;

-- The error about rows that have other columns than the result of the query that asked for them.
CREATE FUNCTION inorder_internal.say_columns_changed(relation regclass, found text)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- The server noticed it: the result has the columns that the table had when the query of the caller was planned.
    RAISE 'columns of % were changed after this query began', relation
    USING ERRCODE = 'serialization_failure', DETAIL = found, HINT = 'Try again.';
END $$;
