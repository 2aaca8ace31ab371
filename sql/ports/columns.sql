-- Functions for additional tables, triggers and functions of a table, for the versions of its catalog rows, and for the
-- privilege to write into it.

-- Return a column definition for a statement: the given type, with the modifier and the collation of the given column.
CREATE FUNCTION inorder_internal.column_definition(a pg_attribute, type oid) RETURNS text
LANGUAGE sql STABLE
RETURN concat(format_type(type, (a).atttypmod),
              CASE WHEN (a).attcollation <> 0::oid THEN concat(' COLLATE '::text, (a).attcollation::regcollation) END);

-- The statement that creates a trigger function, or replaces the existing function. The caller has checked the owner of
-- the existing function. If another role creates the function in the meantime, the statement fails.
CREATE FUNCTION inorder_internal.function_statement(function text, body text) RETURNS text
LANGUAGE sql STABLE
RETURN format('CREATE %s FUNCTION %s() RETURNS trigger LANGUAGE plpgsql AS %L'::text,
              CASE WHEN to_regprocedure(function || '()'::text) IS NOT NULL THEN 'OR REPLACE'::text ELSE ''::text END,
              function, body);

-- Return a column name that is not used by another column.
CREATE FUNCTION inorder_internal.name_beside(wanted name, taken name[]) RETURNS name
LANGUAGE sql IMMUTABLE
RETURN (SELECT concat(wanted, repeat('_'::text, n))::name FROM generate_series(0, cardinality(taken)) AS n
        WHERE concat(wanted, repeat('_'::text, n))::name <> ALL (taken) ORDER BY n LIMIT 1);

-- Return a hash of the versions of catalog rows of some tables. The hash includes the rows of the given columns (all
-- columns if "columns" is null), of triggers whose names have a prefix, and of attachments to a parent. The hash does
-- not include statistics and the names of tables. A sum of hashes takes less time than a hash of sorted strings.
CREATE FUNCTION inorder_internal.versions(members oid[], columns name[], prefix name) RETURNS numeric
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN (SELECT sum(v.version) FROM unnest(members) AS m(oid) CROSS JOIN LATERAL (
                SELECT hash_record_extended(ROW(m.oid, a.attnum, a.xmin), 0) FROM pg_attribute AS a
                WHERE a.attrelid = m.oid AND a.attnum > 0 AND (columns IS NULL OR a.attname = ANY (columns))
                UNION ALL
                -- The transaction that creates a trigger may change the trigger again, but only before the version is
                -- stored. The column cmin is not used. Its field in the row also holds cmax, which remains when a
                -- transaction that changes the row is rolled back.
                SELECT hash_record_extended(ROW(m.oid, g.tgname, g.tgenabled, g.tgfoid, g.xmin), 0)
                FROM pg_trigger AS g
                WHERE g.tgrelid = m.oid AND g.tgname >= prefix AND g.tgname < concat(prefix, '~')::name
                UNION ALL
                SELECT hash_record_extended(ROW(m.oid, i.inhparent, i.xmin), 0) FROM pg_inherits AS i
                WHERE i.inhrelid = m.oid) AS v(version));
END $$;

-- Return the reason why statement triggers do not see all changes of a table, or null.
CREATE FUNCTION inorder_internal.statement_problem(relation regclass) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN coalesce(inorder_internal.problem(relation), CASE
        WHEN EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhrelid = relation)
        THEN 'is a partition, or inherits from a table: statements on the parent do not fire statement triggers '
                 'of the child'
        WHEN EXISTS (SELECT FROM pg_trigger AS g WHERE g.tgrelid = relation AND g.tgname = 'zz_inorder_changes')
        THEN 'is a log of changes, whose rows are written without a statement'
        WHEN EXISTS (SELECT FROM pg_trigger AS g
                     WHERE g.tgrelid = relation AND g.tgname ~ '^zz_inorder_count_[0-9a-f]+_copy$')
        THEN 'is the table of deltas of a count by group, whose rows are written without a statement' END);
END $$;

-- Return true if a role may write into a table or its partitions: directly, through a view whose owner may write, or
-- through a foreign key that deletes or updates rows. If a foreign key changes rows, their triggers run, before
-- PostgreSQL 18, as the role that changed the referenced table.
CREATE FUNCTION inorder_internal.may_write(role oid, relation regclass, privileges text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN has_table_privilege(role, relation, privileges) OR EXISTS (
        WITH RECURSIVE reached(oid, wanted, columns) AS (
            SELECT m.oid, privileges, 'INSERT, UPDATE'
            FROM unnest(inorder_internal.tree(relation)::oid[]) AS m(oid)
            UNION
            SELECT a.* FROM reached AS r CROSS JOIN LATERAL (
                SELECT v.oid, r.wanted, r.columns FROM pg_depend AS d JOIN pg_rewrite AS w ON w.oid = d.objid
                JOIN pg_class AS v ON v.oid = w.ev_class AND v.relkind = 'v'
                WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = r.oid
                  AND d.classid = 'pg_rewrite'::regclass
                  AND pg_relation_is_updatable(v.oid, true) <> 0
                  -- A view with security_invoker uses the privileges of the caller, and adds no privileges.
                  AND NOT EXISTS (SELECT FROM pg_options_to_table(v.reloptions) AS o
                                  WHERE o.option_name = 'security_invoker' AND o.option_value::boolean)
                  AND (has_table_privilege(v.relowner, r.oid, r.wanted)
                       OR has_any_column_privilege(v.relowner, r.oid, r.columns))
                UNION ALL
                SELECT k.confrelid, 'UPDATE, DELETE', 'UPDATE' FROM pg_constraint AS k
                WHERE k.conrelid = r.oid AND k.contype = 'f'
                  AND NOT (k.confupdtype IN ('a', 'r') AND k.confdeltype IN ('a', 'r'))) AS a)
        SELECT FROM reached AS r
        WHERE has_table_privilege(role, r.oid, r.wanted) OR has_any_column_privilege(role, r.oid, r.columns));
END $$;

