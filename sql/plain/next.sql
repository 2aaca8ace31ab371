---- next_by_index: sql STABLE
RETURN CASE WHEN inorder_internal.is_idle(t, p, caller)
            THEN ROW(NULL, false, true, NULL, NULL, false)::inorder_internal.found_batch END;
