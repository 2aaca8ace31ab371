---- check_log_function: plpgsql
BEGIN
    IF EXISTS (SELECT FROM pg_proc AS f JOIN pg_class AS c ON c.oid = log
               WHERE f.oid = inorder_internal.logging_function(log)
                 AND (f.proowner <> c.relowner
                      OR strpos(f.prosrc, 'is not the log that the triggers of') = 0
                         AND log IS DISTINCT FROM inorder_internal.log_of(relation))) THEN
        RAISE 'function %() exists, and does not log the changes of %', log, relation
        USING ERRCODE = 'duplicate_function', HINT = 'Rename that function, or give it to the owner of the table.';
    END IF;
END
---- writing_statements: sql
BEGIN ATOMIC
    SELECT inorder_internal.function_statement(log::text, inorder_internal.logging_body(relation, log))
    UNION ALL
    SELECT format('GRANT INSERT (%s) ON %s TO PUBLIC', string_agg(quote_ident(c.name), ', '::text), log)
    FROM unnest((inorder_internal.log_columns(relation, log)).names[2:]) AS c(name)
    UNION ALL
    SELECT format('CREATE %s TRIGGER zz_inorder_marker AFTER INSERT ON %s FOR EACH ROW WHEN (NEW.%I %s) '
                  'EXECUTE FUNCTION inorder_internal.check_marker(%L)', 'OR REPLACE'::text, log,
                  c.names[cardinality(c.names)], inorder_internal.is_marker(), relation::oid)
    FROM inorder_internal.log_columns(relation, log) AS c;
END;
---- unwriting_statements: sql
BEGIN ATOMIC
    SELECT format('DROP FUNCTION %s()', log)
    WHERE EXISTS (SELECT FROM pg_proc AS f JOIN pg_class AS c ON c.oid = log::oid AND c.relowner = f.proowner
                  WHERE f.oid = inorder_internal.logging_function(log))
      AND NOT EXISTS (SELECT FROM inorder_internal.strange_triggers(relation, log))
    UNION ALL
    SELECT format('REVOKE INSERT (%s) ON %s FROM PUBLIC', string_agg(quote_ident(c.name), ', '::text), log)
    FROM unnest((inorder_internal.log_columns(relation, log)).names[2:]) AS c(name);
END;
