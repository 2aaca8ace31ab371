---- feed_rebase: plpgsql writes
DECLARE
    t inorder_internal.feed_table;
    described record;
    highest bigint;
    base bigint;
BEGIN
    -- No row of an unfinished transaction may carry the old base: this waits for all of them.
    PERFORM inorder_internal.lock_owned(relation, 'ACCESS EXCLUSIVE');
    SELECT * INTO described FROM inorder_internal.describe_restored(relation, coalesce(beyond, 0));
    t := described.t;
    base := t.base;
    IF described.highest_query IS NOT NULL THEN
        highest := inorder_internal.find_number(described.highest_query);
        base := inorder_internal.raised_base(t, coalesce(beyond, 0), highest);
        IF base > t.base THEN
            PERFORM inorder_internal.run_all(ARRAY[inorder_internal.base_statement(t, base)]);
        END IF;
    END IF;
    PERFORM inorder_internal.adopt_roles(relation), inorder_internal.enable_table(relation, t.key_column),
            inorder_internal.accept_feeds(t);
    RETURN base;
END
