---- guard_statements: plpgsql keys
BEGIN
    RETURN QUERY SELECT d.definition
    FROM inorder_internal.guard_definitions(t.relation, t.relation, inorder_internal.known_columns(t), t.is_uuid,
                                            t.is_generated, t.base, inorder_internal.guard_function()) AS d;
    RETURN NEXT format('ALTER TABLE %s ENABLE ALWAYS TRIGGER zz_inorder_guard, ENABLE ALWAYS TRIGGER zz_inorder_update, '
                       'ENABLE ALWAYS TRIGGER zz_inorder_delete', t.relation);
END
---- unguard_statements: sql
BEGIN ATOMIC
    SELECT format('DROP TRIGGER %I ON %s'::text, g.tgname, g.tgrelid::regclass)
    FROM pg_trigger AS g
    WHERE g.tgrelid = ANY (inorder_internal.tree(relation)::oid[]) AND g.tgparentid = 0::oid
      AND (g.tgname = 'zz_inorder_truncate'
           OR g.tgrelid = relation AND g.tgname IN ('zz_inorder_guard', 'zz_inorder_update', 'zz_inorder_delete'));
END;
