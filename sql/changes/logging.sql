-- Functions with which the owner of a table starts and stops logging its changes.

-- Raise an error unless the caller is the owner of a table whose changes can be logged.
CREATE FUNCTION inorder_internal.check_loggable(caller oid, relation regclass) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    problem text := inorder_internal.log_problem(relation);
    owner oid := (SELECT c.relowner FROM pg_class AS c WHERE c.oid = relation);
BEGIN
    PERFORM inorder_internal.check_local(relation);
    -- The log belongs to the role that creates the log; this role must own the table.
    IF owner <> caller THEN
        RAISE 'must be owner of table % to log its changes', relation
        USING ERRCODE = 'insufficient_privilege',
              HINT = format('SET ROLE %s', quote_ident(inorder_internal.role_name(owner)));
    ELSIF problem IS NOT NULL THEN
        RAISE 'cannot log the changes of %: it %', relation, problem
        USING ERRCODE = CASE WHEN problem LIKE '% primary key%' THEN 'object_not_in_prerequisite_state'
                             ELSE 'wrong_object_type' END,
              HINT = CASE WHEN problem LIKE '% no primary key'
                          THEN format('ALTER TABLE %s ADD PRIMARY KEY (...). A copy finds rows by this key.', relation)
                          WHEN problem LIKE '% partition, %' THEN 'Log the changes of the parent table.'
                          WHEN problem LIKE '% type %'
                          THEN 'Supported types are numbers, texts, times, uuid, bytea, bit strings and addresses.'
                          ELSE 'The table must be permanent, and have no children except partitions.' END;
    END IF;
    PERFORM inorder_internal.refuse_hidden(caller, relation);
END $$;

-- Return the name of the log of a table. A name has at most 63 bytes, and a character has up to four bytes.
CREATE FUNCTION inorder_internal.log_name(relation regclass) RETURNS text
LANGUAGE sql STABLE
RETURN (SELECT format('%I.%I', n.nspname, concat(
            left(c.relname::text, 55 - octet_length(c.relname::text) + char_length(c.relname::text)), '_changes'))
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = relation);

-- Return the statement that creates the log of a table.
CREATE FUNCTION inorder_internal.log_statement(relation regclass, log text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN format('CREATE TABLE %s (%I pg_catalog.uuid PRIMARY KEY '
                  'DEFAULT %s.uuid_xact_nextval(''0''::pg_catalog.int8), %s, %I pg_catalog."char" NOT NULL)',
                  log, inorder_internal.name_beside('change', array_agg(k.name)), inorder_internal.public_schema(),
                  string_agg(format('%I %s', k.name, k.definition), ', ' ORDER BY k.place),
                  inorder_internal.name_beside('op', array_agg(k.name)))
    FROM inorder_internal.changed_key(relation) AS k;
END $$;

-- Return triggers that write into the log of a table, but belong to other tables of the same owner.
CREATE FUNCTION inorder_internal.strange_triggers(relation regclass, log regclass) RETURNS SETOF pg_trigger
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT g.* FROM pg_trigger AS g JOIN inorder_internal.logging_triggers() AS t ON t.name = g.tgname
    JOIN pg_class AS o ON o.oid = g.tgrelid JOIN pg_class AS c ON c.oid = relation::oid AND c.relowner = o.relowner
    WHERE inorder_internal.named_by(g.tgargs) = log::oid AND g.tgparentid = 0::oid
      AND g.tgrelid <> ALL (inorder_internal.tree(relation)::oid[]);
END;

CREATE FUNCTION inorder_internal.say_strange_trigger(relation regclass, name name) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE 'trigger "%" of table % may call a function that does not belong to the owner of the table', name, relation
    USING ERRCODE = 'object_not_in_prerequisite_state',
          DETAIL = 'Each role that changes rows writes into the log.',
          HINT = format('The owner of the table must revoke the privilege TRIGGER from other roles, and run '
                        'DROP TRIGGER %I ON %s.', name, relation);
END $$;

-- Raise an error if writing into a log runs code of a role other than the owner of the log. The code would run with the
-- privileges of every role that changes rows of the logged table. A role that formerly had the TRIGGER privilege, or
-- owned the log, may have created such code. The functions of the guard, which belong to the owner of the state, are
-- accepted. In the SQL edition the guard's triggers have conditions; other triggers with conditions are refused.
CREATE FUNCTION inorder_internal.refuse_strange_code(log regclass) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    offender record;
BEGIN
    SELECT g.tgname AS name, g.tgrelid::regclass AS relation INTO offender
    FROM pg_trigger AS g JOIN pg_proc AS f ON f.oid = g.tgfoid JOIN pg_class AS c ON c.oid = log
    WHERE g.tgrelid = ANY ((SELECT inorder_internal.tree(log))::oid[]) AND NOT g.tgisinternal
      AND (g.tgqual IS NOT NULL AND f.pronamespace <> 'inorder_internal'::regnamespace
           AND f.oid <> inorder_internal.guard_function()
           -- The trigger depends on its function, and on the functions that its condition calls.
           OR EXISTS (SELECT FROM pg_depend AS d
                      LEFT JOIN pg_proc AS p ON d.refclassid = 'pg_proc'::regclass AND p.oid = d.refobjid
                      LEFT JOIN pg_operator AS o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
                      LEFT JOIN pg_type AS y ON d.refclassid = 'pg_type'::regclass AND y.oid = d.refobjid
                      JOIN pg_roles AS r ON r.oid = coalesce(p.proowner, o.oprowner, y.typowner)
                      WHERE d.classid = 'pg_trigger'::regclass AND d.objid = g.oid AND NOT r.rolsuper
                        AND r.oid <> c.relowner
                        AND p.pronamespace IS DISTINCT FROM 'inorder_internal'::regnamespace
                        AND p.oid IS DISTINCT FROM inorder_internal.guard_function()))
    ORDER BY g.tgname LIMIT 1;
    IF FOUND THEN
        PERFORM inorder_internal.say_strange_trigger(offender.relation, offender.name);
    END IF;
    SELECT r.rulename AS name, r.ev_class::regclass AS relation INTO offender FROM pg_rewrite AS r
    WHERE r.ev_class = ANY ((SELECT inorder_internal.tree(log))::oid[]) ORDER BY r.rulename LIMIT 1;
    IF FOUND THEN
        RAISE 'table % has a rule "%"', offender.relation, offender.name
        USING ERRCODE = 'object_not_in_prerequisite_state', DETAIL = 'The rule could keep changes out of the log.',
              HINT = format('DROP RULE %I ON %s', offender.name, offender.relation);
    END IF;
END $$;

-- Return true if the columns of the primary key of a logged table differ from the key columns of its log.
CREATE FUNCTION inorder_internal.has_other_key(relation regclass, log regclass) RETURNS boolean
LANGUAGE sql STABLE
RETURN coalesce(log = inorder_internal.log_of(relation), false)
    AND EXISTS (SELECT FROM inorder_internal.changed_key(relation))
    AND (SELECT c.types <> c.wanted FROM inorder_internal.log_columns(relation, log) AS c);

-- Return the HINT for a table whose primary key has other columns than its log.
CREATE FUNCTION inorder_internal.steps_to_another_log(relation regclass, log regclass) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    log_name text := inorder_internal.log_name(relation);
BEGIN
    RETURN format('The primary key has other columns than the log. In one transaction, the owner must rename table %s '
                  'and call changes_enable(%L), which creates another log. Then call %s and %s or, if the reader keeps '
                  'the position, reader_start(%L).', log, relation, inorder_internal.feed_call(log, 'feed_drop'),
                  inorder_internal.feed_call(log, 'feed_create', ', ' || quote_literal(log_name)), log_name);
END $$;

-- Raise an error unless a table is, or can be, the log of the changes of another table.
CREATE FUNCTION inorder_internal.check_log(relation regclass, log regclass) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    columns record := inorder_internal.log_columns(relation, log);
    logged_table regclass;
BEGIN
    IF (SELECT c.relowner FROM pg_class AS c WHERE c.oid = relation)
       <> (SELECT c.relowner FROM pg_class AS c WHERE c.oid = log) THEN
        RAISE 'table % does not belong to the owner of %', log, relation
        USING ERRCODE = 'insufficient_privilege', HINT = 'Rename that table, then call changes_enable() again.';
    ELSIF columns.types <> columns.wanted THEN
        RAISE 'table % cannot be the log of the changes of %', log, relation
        USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = format('The columns have types (%s); the columns of a log have types (%s).',
                              array_to_string(columns.types, ', '), array_to_string(columns.wanted, ', ')),
              HINT = CASE WHEN inorder_internal.has_other_key(relation, log)
                          THEN inorder_internal.steps_to_another_log(relation, log)
                          ELSE 'Rename that table, then call changes_enable() again. Feeds of that table remain.' END;
    ELSIF NOT EXISTS (SELECT FROM inorder_internal.key_columns(log)) THEN
        RAISE 'log % has no transaction number', log
        USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = 'The default of the first column of a log must be uuid_xact_nextval().',
              HINT = inorder_internal.default_statement(log);
    ELSIF EXISTS (SELECT FROM pg_trigger AS g JOIN inorder_internal.logging_triggers() AS t ON t.name = g.tgname
               WHERE g.tgrelid = log) THEN
        RAISE 'table % cannot be a log, because its changes are logged', log
        USING ERRCODE = 'object_not_in_prerequisite_state', HINT = format('Call changes_disable(%L) first.', log);
    ELSIF EXISTS (SELECT FROM inorder_internal.group_sets(log)) THEN
        RAISE 'table % cannot be a log, because its rows are counted by group', log
        USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Call exact_count_stop first, for each view.';
    END IF;
    PERFORM inorder_internal.refuse_strange_code(log), inorder_internal.check_log_function(relation, log);
    -- The log may belong to another table that is still logged, and for which log_name() returns the same name.
    SELECT g.tgrelid INTO logged_table FROM inorder_internal.strange_triggers(relation, log) AS g
    WHERE g.tgname = 'zz_inorder_changes_insert' AND inorder_internal.log_name(g.tgrelid) = log::text;
    IF logged_table IS NOT NULL THEN
        RAISE 'table % is the log of the changes of %', log, logged_table
        USING ERRCODE = 'duplicate_table',
              HINT = format('Rename %s or, if it was a partition of %2$s, call changes_resync(%2$L).',
                            relation, logged_table);
    END IF;
END $$;

-- Raise an error if another function has the name of the log, because the function that writes the log must have this
-- name. The extension has no such function.
CREATE FUNCTION inorder_internal.check_log_function(relation regclass, log regclass) RETURNS void
LANGUAGE sql STABLE
RETURN NULL::void;

-- Return the statements that grant write access to the log to each role that may write into the logged table.
-- unwriting_statements() returns the statements that revoke this access. The extension needs no such statements.
CREATE FUNCTION inorder_internal.writing_statements(relation regclass, log regclass) RETURNS SETOF text
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT NULL::text WHERE false;
END;

CREATE FUNCTION inorder_internal.unwriting_statements(relation regclass, log regclass) RETURNS SETOF text
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT NULL::text WHERE false;
END;

-- Return the statements that revoke the TRIGGER privilege on a log from other roles. Default privileges may have
-- granted this privilege. A trigger created by one of these roles would run with the privileges of every role that
-- changes rows of the logged table.
CREATE FUNCTION inorder_internal.revoke_statements(log regclass) RETURNS SETOF text
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT format('REVOKE TRIGGER ON %s FROM %s CASCADE'::text, c.oid::regclass, CASE
               WHEN a.grantee = 0::oid THEN 'PUBLIC'::text
               ELSE quote_ident(inorder_internal.role_name(a.grantee)) END)
    FROM pg_class AS c CROSS JOIN LATERAL aclexplode(c.relacl) AS a
    WHERE c.oid = ANY ((SELECT inorder_internal.tree(log))::oid[]) AND a.privilege_type = 'TRIGGER'::text
      AND a.grantee <> c.relowner;
END;

-- Return the statements that create all triggers again, and drop triggers of other tables that write into the log. Such
-- a table may be a former partition, or may formerly have had the name of this table.
CREATE FUNCTION inorder_internal.trigger_statements(relation regclass, log regclass) RETURNS SETOF text
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT format('DROP TRIGGER %I ON %s', g.tgname, g.tgrelid::regclass)
    FROM inorder_internal.strange_triggers(relation, log) AS g
    UNION ALL
    SELECT s.statement FROM unnest(inorder_internal.tree(relation)) AS m
    CROSS JOIN inorder_internal.logging_triggers() AS t
    CROSS JOIN LATERAL (
        SELECT string_agg(format('OLD.%1$I IS DISTINCT FROM NEW.%1$I', k.name), ' OR ')
                   FILTER (WHERE a.attgenerated = '') AS changes,
               string_agg(format(', %L', a.attnum), '' ORDER BY k.place) AS numbers
        FROM inorder_internal.changed_key(relation) AS k
        JOIN pg_attribute AS a ON a.attrelid = m::oid AND a.attname = k.name) AS k
    CROSS JOIN LATERAL (VALUES
        (format('CREATE %s TRIGGER %I %s EXECUTE FUNCTION %s(%L%s)', 'OR REPLACE', t.name,
                CASE WHEN t.event <> 'MOVE'
                     THEN format('AFTER %s ON %s %s FOR EACH STATEMENT', t.event, m, t.referencing)
                     ELSE format('BEFORE UPDATE ON %s FOR EACH ROW WHEN (%s)', m, k.changes) END,
                inorder_internal.trigger_function(log), log::oid, k.numbers)),
        (format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', m, t.name))) AS s(statement)
    WHERE t.event <> 'MOVE' OR m = relation AND EXISTS (SELECT FROM pg_partitioned_table WHERE partrelid = m::oid);
END;

-- Return the log of a table. If there is no log, return the table that has the name of the log, or null.
CREATE FUNCTION inorder_internal.present_log(relation regclass) RETURNS regclass
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- If the log lacks the columns of a new primary key, the owner must rename the log. A new log is then created.
    RETURN coalesce(
        (SELECT k.log FROM inorder_internal.log_of(relation) AS k(log)
         CROSS JOIN LATERAL inorder_internal.log_columns(relation, k.log) AS c WHERE c.types = c.wanted),
        to_regclass(inorder_internal.log_name(relation)));
END $$;

-- Start logging the changes of a table. If changes may be missing from the log, or "marks" is true, a marker is
-- written, which makes feeds read the whole table.
CREATE FUNCTION inorder_internal.log_changes(caller oid, relation regclass, marks boolean) RETURNS regclass
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    log regclass;
    log_name text;
BEGIN
    PERFORM inorder_internal.check_owner(caller, relation),
            inorder_internal.require_read_committed(
                'changes_enable', 'Changes since this transaction began would not be seen.'),
            inorder_internal.lock_owned(caller, relation, 'SHARE ROW EXCLUSIVE');
    PERFORM inorder_internal.check_loggable(caller, relation);
    log_name := inorder_internal.log_name(relation);
    log := inorder_internal.present_log(relation);
    IF log IS NULL THEN
        PERFORM inorder_internal.run_statements(ARRAY[inorder_internal.log_statement(relation, log_name)], caller);
        log := log_name::regclass;
    END IF;
    PERFORM inorder_internal.check_log(relation, log);
    IF NOT inorder_internal.is_enabled(log, NULL) THEN
        PERFORM inorder_internal.feed_enable(caller, log, NULL);
    ELSIF NOT marks AND inorder_internal.is_logged(relation) THEN
        RETURN log;
    END IF;
    PERFORM inorder_internal.run_statements(ARRAY(
        SELECT s FROM inorder_internal.revoke_statements(log) AS s
        UNION ALL SELECT s FROM inorder_internal.writing_statements(relation, log) AS s
        UNION ALL SELECT s FROM inorder_internal.trigger_statements(relation, log) AS s)
        || inorder_internal.marker_statement(log, (inorder_internal.log_columns(relation, log)).names, 'R'), caller);
    -- The fingerprint includes the triggers, and is computed after their creation. If triggers have been changed in
    -- the meantime, the checks below raise an error.
    PERFORM inorder_internal.run_statements(inorder_internal.mark_statements(relation, log), caller),
            inorder_internal.check_log(relation, log);
    IF NOT inorder_internal.is_logged(relation) THEN
        RAISE 'the log of the changes of % differs from what changes_enable() creates', relation
        USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Retry, unless an event trigger changes the log.';
    END IF;
    RETURN log;
END $$;

CREATE FUNCTION inorder_internal.changes_prepare(caller oid, relation regclass) RETURNS SETOF text
LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    log regclass;
BEGIN
    PERFORM inorder_internal.check_exists(relation), inorder_internal.check_loggable(caller, relation);
    log := inorder_internal.present_log(relation);
    IF log IS NOT NULL THEN
        PERFORM inorder_internal.check_log(relation, log);
    END IF;
    IF inorder_internal.has_own_guard(relation) THEN
        RAISE WARNING 'table % stays insert-only', relation
        USING ERRCODE = 'restrict_violation', DETAIL = 'The table also has the guard of feeds and exact counts.',
              HINT = format('To update or delete rows, call feed_disable(%L).', relation);
    END IF;
    IF log IS NULL OR NOT inorder_internal.is_enabled(log, NULL) OR NOT inorder_internal.is_logged(relation) THEN
        RETURN NEXT format('SELECT %s.changes_enable(%L::pg_catalog.regclass)', inorder_internal.public_schema(),
                           relation);
    END IF;
END $$;

CREATE FUNCTION inorder_internal.changes_enable(caller oid, relation regclass) RETURNS regclass
LANGUAGE sql VOLATILE
RETURN inorder_internal.log_changes(caller, relation, false);

CREATE FUNCTION inorder_internal.changes_resync(caller oid, relation regclass) RETURNS regclass
LANGUAGE sql VOLATILE
RETURN inorder_internal.log_changes(caller, relation, true);

CREATE FUNCTION inorder_internal.changes_disable(caller oid, relation regclass) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM inorder_internal.lock_owned(caller, relation, 'ACCESS EXCLUSIVE');
    PERFORM inorder_internal.run_statements(ARRAY(
        SELECT format('DROP TRIGGER %I ON %s', g.tgname, g.tgrelid::regclass) FROM pg_trigger AS g
        JOIN inorder_internal.logging_triggers() AS t ON t.name = g.tgname
        WHERE g.tgrelid = ANY ((SELECT inorder_internal.tree(relation))::oid[]) AND g.tgparentid = 0)
        || ARRAY(SELECT s FROM inorder_internal.log_of(relation) AS k(log)
                 CROSS JOIN LATERAL (
                     SELECT format('DROP TRIGGER %I ON %s', g.tgname, k.log) FROM pg_trigger AS g
                     WHERE g.tgrelid = k.log AND g.tgname IN ('zz_inorder_changes', 'zz_inorder_marker')
                     UNION ALL SELECT inorder_internal.unwriting_statements(relation, k.log)) AS u(s)
                 WHERE k.log IS NOT NULL), caller);
END $$;

CREATE FUNCTION @extschema@.changes_prepare(relation regclass) RETURNS SETOF text
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.changes_prepare(regclass) IS
'Return the statement that starts logging the changes of a table; no row if the changes are already logged.';

CREATE FUNCTION @extschema@.changes_enable(relation regclass) RETURNS regclass
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.changes_enable(regclass) IS
'Log each TRUNCATE of a table, and the keys of inserted, updated and deleted rows; return the log.';

CREATE FUNCTION @extschema@.changes_disable(relation regclass) RETURNS void
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.changes_disable(regclass) IS
'Revert changes_enable, but keep the log and its feeds until the log is dropped.';

CREATE FUNCTION @extschema@.changes_resync(relation regclass) RETURNS regclass
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.changes_resync(regclass) IS
'Write a marker that makes each feed of the log read the whole table again.';
