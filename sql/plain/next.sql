---- probe_rows: plpgsql keys
DECLARE
    -- The rest of a set, or of a transaction, is searched later by value or key, because a search by number would read
    -- again all rows that were read before.
    has_rows boolean := (b.ordering).from_value IS NOT NULL;
    is_old boolean := inorder_internal.has_old(t, b.transactions);
    newest bigint;
    probe text;
BEGIN
    -- Most searches find nothing. If no row of the table has the number of the first transaction of the batch or a
    -- higher number, the batch has no rows, and the table has no numbers that this server has not reached. In most
    -- other searches the newest row is in the batch.
    IF NOT inorder_internal.differ(p.members, b.members) THEN
        newest := inorder_internal.find_number(t, format(
            'SELECT %s FROM %s WHERE e.%I OPERATOR(pg_catalog.>=) %s ORDER BY e.%3$I DESC LIMIT 1',
            inorder_internal.number_text(t), inorder_internal.named(t.relation), t.key_column,
            inorder_internal.bound(t, CASE WHEN is_old THEN 1 ELSE lower(b.transactions) END)), false, caller);
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
---- next_by_index: sql STABLE
-- If no transaction has ended since the position was made, there are no rows, and no proof is needed.
RETURN CASE WHEN isempty(inorder_internal.minus(inorder_internal.ended_transactions((t).base), (p).transactions))
                 AND (p).partial IS NULL AND upper((p).transactions) <= inorder_internal.next_transaction((t).base)
            THEN ROW(NULL, false, true, NULL, NULL, false)::inorder_internal.found_batch END;
