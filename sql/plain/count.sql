---- forget_parts: plpgsql keys
BEGIN
    DELETE FROM inorder_internal.count_part AS p
    WHERE p.relation = table_relation
      AND NOT EXISTS (SELECT FROM unnest(inorder_internal.leaves(table_relation)) AS l WHERE l = p.part);
END
---- exact_count: plpgsql tables
DECLARE
    caller oid := inorder_internal.caller();
    t inorder_internal.feed_table := inorder_internal.count_of_table(relation, caller);
    k record;
    amount bigint;
BEGIN
    -- STABLE: all is read in the snapshot of the calling statement, which may be older than the locks of the count.
    PERFORM inorder_internal.prove_ground(t, caller);
    SELECT * INTO k FROM inorder_internal.known_parts(t);
    EXECUTE inorder_internal.count_query(t, caller, k.leaves, k.others, k.stored,
                                         array_fill(true, ARRAY[cardinality(k.leaves)])) INTO amount;
    PERFORM inorder_internal.check_files(relation);
    RETURN amount;
END
---- exact_count_fold: plpgsql writes
DECLARE
    caller oid := inorder_internal.caller();
    t inorder_internal.feed_table;
    folded bigint := 0;
    f record;
BEGIN
    PERFORM inorder_internal.check_owner(caller, relation);
    -- Sessions that fold take turns; sessions that count or write do not wait.
    PERFORM FROM inorder_internal.counted_table AS k WHERE k.relation = exact_count_fold.relation FOR NO KEY UPDATE;
    PERFORM inorder_internal.forget_parts(relation);
    t := inorder_internal.count_of_table(relation, caller);
    PERFORM inorder_internal.lock_tree(relation, 'ACCESS SHARE');
    FOR f IN SELECT * FROM inorder_internal.fold_counts(t, caller) LOOP
        folded := folded + f.more;
        IF f.more > 0 OR (f.step).fewer_gaps THEN
            PERFORM inorder_internal.keep_part(relation, f.step, f.more);
        END IF;
    END LOOP;
    RETURN folded;
END
---- exact_count_start: plpgsql writes
BEGIN
    PERFORM inorder_internal.check_owner(inorder_internal.caller(), relation),
            inorder_internal.ensure_enabled(inorder_internal.caller(), relation, key_column), inorder_internal.start_count(relation);
    RETURN @extschema@.exact_count_fold(relation);
END
