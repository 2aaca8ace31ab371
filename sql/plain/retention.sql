---- feed_passed: plpgsql
DECLARE
    caller oid := inorder_internal.caller();
    t inorder_internal.feed_table;
BEGIN
    PERFORM inorder_internal.require_read_committed(
        'feed_passed', 'Rows and feeds that came since this transaction began would not be seen.');
    PERFORM inorder_internal.check_reader(caller, relation);
    t := inorder_internal.table_of(relation);
    PERFORM inorder_internal.lock_tree(relation, 'ACCESS SHARE'), inorder_internal.prove_ground(t, caller);
    RETURN inorder_internal.passed(t);
END
---- feed_passed_partitions: plpgsql reads
DECLARE
    caller oid := inorder_internal.caller();
    t inorder_internal.feed_table;
    query text;
BEGIN
    PERFORM inorder_internal.require_read_committed(
        'feed_passed_partitions', 'Rows and feeds that came since this transaction began would not be seen.');
    PERFORM inorder_internal.check_reader(caller, relation);
    t := inorder_internal.table_of(relation);
    PERFORM inorder_internal.lock_tree(relation, 'ACCESS SHARE'), inorder_internal.prove_ground(t, caller);
    query := inorder_internal.passed_parts_query(t, caller);
    IF query IS NOT NULL THEN
        RETURN QUERY EXECUTE query;
    END IF;
END
