-- Return the highest number in a table, from the given number on; null if the table has no such rows.
CREATE FUNCTION inorder_internal.newest_number(t inorder_internal.feed_table, number bigint, caller oid) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    key text := (inorder_internal.as_caller(t, format(
        'SELECT ARRAY[pg_catalog.concat(e.%1$I)] FROM %2$s '
        'WHERE e.%1$I OPERATOR(pg_catalog.>=) %3$s ORDER BY e.%1$I DESC LIMIT 1',
        t.key_column, inorder_internal.named(t.relation), inorder_internal.bound(t, number)), false, caller))[1];
BEGIN
    RETURN inorder_internal.number_of(t, key);
END $$;

-- Return the index that finds the rows of a table without partitions. The result is null unless the table would pass
-- the checks of prove_table(), as it did when the members of a position were stored. The guard is the same, and
-- contains the attribute number of the column with the transaction number. The order of the rows is not checked here.
CREATE FUNCTION inorder_internal.find_remembered_index(
    t inorder_internal.feed_table, remembered @extschema@.feed_member[]
) RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN (SELECT i.index FROM pg_trigger AS g
            JOIN pg_attribute AS a ON a.attrelid = g.tgrelid AND a.attnum = g.tgattr[0]
            CROSS JOIN LATERAL inorder_internal.seen_kinds(g.tgrelid) AS c
            CROSS JOIN LATERAL inorder_internal.guard_versions(g.tgrelid, false) AS v
            CROSS JOIN LATERAL inorder_internal.index_of(g.tgrelid, a.attnum, t.is_partial) AS i
            WHERE g.tgrelid = t.relation AND g.tgname = 'zz_inorder_guard' AND g.tgenabled = 'A'
              AND a.attname = t.key_column AND NOT a.attisdropped
              AND remembered[1].relation = g.tgrelid
              AND remembered[1].guarded = v.versions
              AND c.is_plain AND NOT row_security_active(g.tgrelid));
END $$;

---- probe_rows: plpgsql keys
DECLARE
    -- If a set or a transaction was read in part, its unread rows are looked up later by value or key. A lookup by
    -- number would read all of its rows again.
    has_rows boolean := (b.ordering).from_value IS NOT NULL;
    is_old boolean := inorder_internal.has_old(t, b.transactions);
    newest bigint;
    probe text;
BEGIN
    -- Most searches find nothing. If no row of the table has the number of the first transaction of the batch or a
    -- higher number, the batch has no rows, and the table has no numbers that this server has not reached. In most
    -- other searches the newest row is in the batch.
    IF NOT inorder_internal.differ(p.members, b.members) THEN
        newest := inorder_internal.newest_number(t, CASE WHEN is_old THEN 1 ELSE lower(b.transactions) END, caller);
        IF newest IS NULL AND NOT is_old THEN
            RETURN has_rows;
        END IF;
        has_rows := has_rows OR coalesce(inorder_internal.whole_transactions(b) @> newest, false);
        IF has_rows AND newest < inorder_internal.next_transaction(t.base) THEN
            RETURN true;
        END IF;
    END IF;
    probe := inorder_internal.probe_query(t, p, b, caller);
    IF NOT has_rows THEN
        probe := concat('(', probe, ') UNION ALL ', inorder_internal.rows_query(t, b), ' LIMIT 1');
    END IF;
    RETURN inorder_internal.find_fault(t, probe, caller) OR has_rows;
END
---- next_by_index: plpgsql VOLATILE keys
DECLARE
    numbers int8multirange := inorder_internal.minus(inorder_internal.ended_transactions(t.base), p.transactions);
    next bigint := inorder_internal.next_transaction(t.base);
    n inorder_internal.found_batch;
    index oid;
    pages bigint;
    newest bigint;
BEGIN
    IF p.partial IS NOT NULL OR upper(p.transactions) > next THEN
        RETURN NULL;
    ELSIF NOT isempty(numbers) THEN
        IF cardinality(p.members) IS DISTINCT FROM 1 OR (p.ordering).column_name IS NOT NULL
           OR inorder_internal.has_old(t, numbers) OR current_setting('transaction_isolation') <> 'read committed' THEN
            RETURN NULL;
        END IF;
        -- A table without new rows is not checked again if it is unchanged since the position was made.
        PERFORM inorder_internal.lock_tree(t.relation, 'ACCESS SHARE');
        index := inorder_internal.find_remembered_index(t, p.members);
        IF index IS NULL THEN
            RETURN NULL;
        ELSIF NOT t.is_uuid THEN
            PERFORM inorder_internal.prove_order(t);
        END IF;
        pages := pg_stat_get_xact_blocks_fetched(index) + pg_stat_get_xact_blocks_fetched(t.relation);
        newest := inorder_internal.newest_number(t, lower(numbers), caller);
        pages := pg_stat_get_xact_blocks_fetched(index) + pg_stat_get_xact_blocks_fetched(t.relation) - pages;
        n.is_costly := pages > 1000 AND current_setting('transaction_read_only') = 'off';
        IF newest IS NOT NULL OR n.is_costly THEN
            n.has_rows := CASE WHEN numbers @> newest AND newest < next THEN true END;
            RETURN n;
        END IF;
    END IF;
    n.has_rows := false;
    n.is_all := true;
    n.is_costly := false;
    RETURN n;
END
