---- feed_passed_partitions: plpgsql reads
DECLARE
    caller oid := inorder_internal.caller();
    t inorder_internal.feed_table;
    query text;
BEGIN
    t := inorder_internal.open_latest(caller, relation, 'feed_passed_partitions');
    query := inorder_internal.passed_parts_query(t, caller);
    IF query IS NOT NULL THEN
        RETURN QUERY EXECUTE query;
    END IF;
END
