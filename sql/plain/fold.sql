-- The counts of a fold, in one snapshot: what has ended in it is visible in it.

-- The steps of a fold of a table that is locked, and how many rows each found.
CREATE FUNCTION inorder_internal.fold_counts(t inorder_internal.feed_table, caller oid)
RETURNS TABLE (step inorder_internal.fold_step, more bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_memoize = off
    SET constraint_exclusion = off
AS $$
BEGIN
    PERFORM inorder_internal.prove_ground(t, caller);
    FOR step IN SELECT s.* FROM inorder_internal.fold_steps(t, caller) AS s LOOP
        EXECUTE step.query INTO more;
        RETURN NEXT;
    END LOOP;
    PERFORM inorder_internal.check_files(t.relation);
END $$;
