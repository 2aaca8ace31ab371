-- Checks that are made before a table gets its guard or its column. If the catalog shows that writes or reads would
-- fail later, an error is raised. If a failure depends on the statements of writers, a warning is issued. The warnings
-- have the SQLSTATE of the guard's errors.

-- Raise an error if triggers of a table would cause errors after the guard is created. Such a trigger fires after the
-- guard and may change a row, or makes each UPDATE recompute a generated number.
CREATE FUNCTION inorder_internal.check_triggers(t inorder_internal.feed_table) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    recomputing record;
BEGIN
    PERFORM inorder_internal.say_later_trigger(g.tgrelid, g.tgname::text)
    FROM pg_trigger AS g WHERE g.oid = inorder_internal.later_trigger(t);
    -- If there is a BEFORE UPDATE trigger FOR EACH ROW, even if it is disabled, the server computes generated columns
    -- again in each UPDATE. Bits 1, 2 and 16 of tgtype mean FOR EACH ROW, BEFORE and UPDATE.
    SELECT g.tgname AS name, g.tgrelid::regclass AS relation INTO recomputing FROM pg_trigger AS g
    WHERE t.is_generated AND g.tgrelid = ANY (inorder_internal.tree(t.relation)::oid[]) AND g.tgtype & 19 = 19
    ORDER BY g.tgparentid <> 0, g.tgname LIMIT 1;
    IF FOUND THEN
        RAISE 'each UPDATE of % would change its transaction number, which is generated', t.relation
        USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = format('With a BEFORE UPDATE trigger, here %I of %s, the server computes generated columns '
                              'again.', recomputing.name, recomputing.relation),
              HINT = format('Drop the trigger, or read the table by another column: feed_prepare(%L, name) adds a '
                            'column of that name, whose default is the number.', t.relation);
    END IF;
END $$;

-- Return the foreign keys whose actions delete rows of a table, or change a column that readers depend on.
CREATE FUNCTION inorder_internal.acting_keys(t inorder_internal.feed_table) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (
        SELECT string_agg(format('%I of %s to %s', c.conname, c.conrelid::regclass, c.confrelid::regclass), ', '
                          ORDER BY c.conname, c.conrelid)
        FROM pg_constraint AS c
        WHERE c.conrelid = ANY (inorder_internal.tree(t.relation)::oid[]) AND c.contype = 'f' AND c.conparentid = 0
          AND (c.confdeltype = 'c'
               -- SET NULL, SET DEFAULT and ON UPDATE CASCADE matter only for columns that readers depend on.
               OR (c.confdeltype IN ('n', 'd') OR c.confupdtype IN ('c', 'n', 'd'))
                  AND EXISTS (SELECT FROM pg_attribute AS a
                              WHERE a.attrelid = c.conrelid AND a.attnum = ANY (c.conkey)
                                AND a.attname = ANY (inorder_internal.known_columns(t)))));
END $$;

-- Return up to ten roles that may write into a table or its views, but lack the privilege to call the function that
-- generates the numbers. Return null if there are no such roles. Relations with the same privileges are examined once,
-- because writers may be waiting.
CREATE FUNCTION inorder_internal.hindered_writers(t inorder_internal.feed_table, generator oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (
        WITH RECURSIVE reached(oid) AS (
            SELECT m.oid FROM unnest(inorder_internal.tree(t.relation)::oid[]) AS m(oid)
            UNION
            SELECT v.oid FROM reached AS r
            JOIN pg_depend AS d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = r.oid
                               AND d.classid = 'pg_rewrite'::regclass
            JOIN pg_rewrite AS w ON w.oid = d.objid
            JOIN pg_class AS v ON v.oid = w.ev_class AND v.relkind = 'v'
            WHERE pg_relation_is_updatable(v.oid, true) <> 0
        ), asked AS MATERIALIZED (
            SELECT DISTINCT ON (c.relowner, c.relacl::text, a.oid) c.oid, a.oid AS of_columns
            FROM reached AS r JOIN pg_class AS c ON c.oid = r.oid
            LEFT JOIN LATERAL (SELECT k.attrelid AS oid FROM pg_attribute AS k
                               WHERE k.attrelid = c.oid AND k.attacl IS NOT NULL LIMIT 1) AS a ON true
        )
        SELECT string_agg(h.name, ', ' ORDER BY h.name)
        FROM (SELECT quote_ident(r.rolname) AS name FROM pg_roles AS r
              WHERE NOT r.rolsuper AND r.oid >= 16384 AND NOT has_function_privilege(r.oid, generator, 'EXECUTE')
                AND EXISTS (SELECT FROM asked AS k
                            WHERE has_table_privilege(r.oid, k.oid, 'INSERT')
                               OR has_any_column_privilege(r.oid, k.of_columns, 'INSERT'))
              ORDER BY r.rolname LIMIT 10) AS h);
END $$;

-- Warn of writes that the guard will refuse, and of rows that feeds will not deliver. The applications that write must
-- be changed first.
CREATE FUNCTION inorder_internal.warn_of_writers(t inorder_internal.feed_table) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    members oid[] := inorder_internal.tree(t.relation)::oid[];
    log_hint text := format('To follow such a table, let its owner call changes_enable(%L) instead or, from a shell, '
                            'run inorder prepare %s --changes.', t.relation, inorder_internal.shell_word(t.relation));
    keys text := inorder_internal.acting_keys(t);
    statistics record := inorder_internal.written_over(t.relation);
    generator oid := inorder_internal.generator_of(t);
    hindered_roles text := inorder_internal.hindered_writers(t, generator);
BEGIN
    IF inorder_internal.has_log(t.relation) THEN
        RAISE WARNING 'the changes of table % are logged, and the table becomes insert-only', t.relation
        USING ERRCODE = 'restrict_violation', DETAIL = 'A feed of the log also delivers updates and deletes.',
              HINT = 'Call feed_create() for the log or, from a shell, run inorder tail --changes.';
    ELSIF statistics.deleted > 0 OR statistics.updated > 0 THEN
        RAISE WARNING 'rows of table % were deleted or updated', t.relation
        USING ERRCODE = 'restrict_violation',
              DETAIL = format('Since statistics were reset, deleted rows: %s, updated rows: %s. With a '
                              'feed or an exact count, DELETE is an error, and no feed delivers an updated row again.',
                              statistics.deleted, statistics.updated),
              HINT = log_hint;
    END IF;
    IF keys IS NOT NULL THEN
        RAISE WARNING 'foreign keys delete or change rows of table %', t.relation
        USING ERRCODE = 'restrict_violation',
              DETAIL = format('%s: if the guard refuses such a change, the statement on the other table fails.', keys),
              HINT = log_hint;
    END IF;
    IF NOT t.is_generated AND EXISTS (SELECT FROM pg_subscription_rel AS s WHERE s.srrelid = ANY (members)) THEN
        RAISE WARNING 'table % receives rows of a subscription', t.relation
        USING ERRCODE = 'restrict_violation',
              DETAIL = format('Rows with transaction numbers of the publisher are refused. Column %I must not be '
                              'published.', t.key_column),
              HINT = 'DROP SUBSCRIPTION first.';
    END IF;
    IF hindered_roles IS NOT NULL THEN
        RAISE WARNING 'roles that write into table % lack the privilege to call %', t.relation, generator::regprocedure
        USING ERRCODE = 'restrict_violation', DETAIL = format('INSERT fails for %s.', hindered_roles),
              HINT = 'Grant these roles EXECUTE, or call feed_admit(role, only_writes => true) in the SQL edition.';
    END IF;
END $$;
