-- What a read stands on, instead of ground.c and files.c: read from the catalog in the snapshot in which rows are looked for,
-- under locks on the table and all of its partitions, and not kept. So each proof costs what it costs.

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

-- The members, if the snapshot sees the files and partitions of a table that is locked; else an error.
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
