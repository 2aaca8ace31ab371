-- Logging the changes of a table: what its owner calls.

-- Error unless the caller is the owner of a table whose changes can be logged; also if who owns its schema could not be
-- its owner: he could put a table of his in the place of the log, into which the triggers' function then writes as the
-- owner of the table.
CREATE FUNCTION inorder_internal.check_loggable(caller oid, relation regclass) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    problem text := inorder_internal.log_problem(relation);
    owner oid;
    keeper oid;  -- of the schema
BEGIN
    PERFORM inorder_internal.check_local(relation);
    SELECT c.relowner, CASE WHEN n.nspowner = 'pg_database_owner'::regrole THEN d.datdba ELSE n.nspowner END
    INTO owner, keeper FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace, pg_database AS d
    WHERE c.oid = relation AND d.datname = current_database();
    -- The function of the triggers runs as who makes it: as nobody whom the owner of the table could not be.
    IF owner <> caller THEN
        RAISE 'the changes of table % can be logged by its owner only', relation
        USING ERRCODE = 'insufficient_privilege',
              HINT = format('SET ROLE %s', quote_ident(inorder_internal.role_name(owner)));
    ELSIF problem IS NOT NULL THEN
        RAISE 'cannot log the changes of %: it %', relation, problem
        USING ERRCODE = CASE WHEN problem LIKE '% primary key%' THEN 'object_not_in_prerequisite_state'
                             ELSE 'wrong_object_type' END,
              HINT = CASE WHEN problem LIKE '% no primary key'
                          THEN format('ALTER TABLE %s ADD PRIMARY KEY (...). A copy finds rows by it.', relation)
                          WHEN problem LIKE '% partition, %' THEN 'Log those of the table above it.'
                          WHEN problem LIKE '% type %'
                          THEN 'The types are those of numbers, texts, times, uuid, bytea, bit strings and addresses.'
                          ELSE 'Tables can that are permanent, and have no children but partitions.' END;
    -- Since 16 a member may be granted neither the privileges of a role nor to become it.
    ELSIF NOT pg_has_role(keeper, owner, CASE WHEN current_setting('server_version_num')::int >= 160000
                                              THEN 'USAGE, SET, MEMBER WITH ADMIN OPTION' ELSE 'MEMBER' END) THEN
        RAISE 'role % owns the schema of table %, and could replace its log',
              quote_ident(inorder_internal.role_name(keeper)), relation
        USING ERRCODE = 'insufficient_privilege',
              HINT = format('Put the table into a schema of its owner, or GRANT %s TO %s.',
                            quote_ident(inorder_internal.role_name(owner)),
                            quote_ident(inorder_internal.role_name(keeper)));
    END IF;
    PERFORM inorder_internal.refuse_hidden(caller, relation);
END $$;

-- The name of the log that a table gets: names have 63 bytes, and characters may have four.
CREATE FUNCTION inorder_internal.log_name(relation regclass) RETURNS text
LANGUAGE sql STABLE
RETURN (SELECT format('%I.%I', n.nspname, concat(
            left(c.relname::text, 55 - octet_length(c.relname::text) + char_length(c.relname::text)), '_changes'))
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = relation);

-- A name of a column beside those of a key.
CREATE FUNCTION inorder_internal.name_beside(wanted name, taken name[]) RETURNS name
LANGUAGE sql IMMUTABLE
RETURN (SELECT concat(wanted, repeat('_'::text, n))::name FROM generate_series(0, cardinality(taken)) AS n
        WHERE concat(wanted, repeat('_'::text, n))::name <> ALL (taken) ORDER BY n LIMIT 1);

-- The statement that makes the log of a table.
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

-- The triggers of other tables of its owner that write into the log of a table.
CREATE FUNCTION inorder_internal.strange_triggers(relation regclass, log regclass) RETURNS SETOF pg_trigger
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT g.* FROM pg_trigger AS g JOIN inorder_internal.logging_triggers() AS t ON t.name = g.tgname
    JOIN pg_class AS o ON o.oid = g.tgrelid JOIN pg_class AS c ON c.oid = relation::oid AND c.relowner = o.relowner
    WHERE inorder_internal.log_number(g.tgargs) = log::oid::text AND g.tgparentid = 0::oid
      AND g.tgrelid <> ALL (inorder_internal.tree(relation)::oid[]);
END;

-- Error unless a table is a log of the changes of another one, or can be.
CREATE FUNCTION inorder_internal.check_log(relation regclass, log regclass) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    columns record := inorder_internal.log_columns(relation, log);
    owner oid := (SELECT c.relowner FROM pg_class AS c WHERE c.oid = relation);
    other regclass;
BEGIN
    -- Of another role it would have triggers of his, which the function of the log then fires as the owner.
    IF owner <> (SELECT c.relowner FROM pg_class AS c WHERE c.oid = log) THEN
        RAISE 'table % does not belong to the owner of %', log, relation
        USING ERRCODE = 'insufficient_privilege', HINT = 'Rename that table; then call changes_enable() again.';
    ELSIF columns.types <> columns.wanted THEN
        RAISE 'table % is no log of the changes of %', log, relation USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = format('Its columns have the types (%s), those of a log (%s).',
                              array_to_string(columns.types, ', '), array_to_string(columns.wanted, ', ')),
              HINT = 'Rename that table, with which its feeds stay; then call changes_enable() again.';
    END IF;
    IF EXISTS (SELECT FROM pg_proc AS p JOIN pg_class AS c ON c.relname = p.proname AND c.relnamespace = p.pronamespace
               WHERE c.oid = log AND p.pronargs = 0
                 AND (p.proowner <> owner OR strpos(p.prosrc, 'Made by inorder for') = 0
                      AND log IS DISTINCT FROM inorder_internal.log_of(relation))) THEN
        RAISE 'function %() exists, and does not log the changes of %', log, relation
        USING ERRCODE = 'duplicate_function', HINT = 'Rename that function.';
    END IF;
    -- One that had the name before is no longer logged.
    SELECT g.tgrelid INTO other FROM inorder_internal.strange_triggers(relation, log) AS g
    WHERE g.tgname = 'zz_inorder_changes_insert' AND inorder_internal.log_name(g.tgrelid) = log::text;
    IF other IS NOT NULL THEN
        RAISE 'table % is the log of the changes of %', log, other
        USING ERRCODE = 'duplicate_table',
              HINT = format('Rename %s; or, if it was a part of %2$s, call changes_resync(%2$L).', relation, other);
    END IF;
END $$;

-- The statement that makes the function which logs the changes of a table.
CREATE FUNCTION inorder_internal.function_statement(relation regclass, log regclass) RETURNS text
LANGUAGE sql STABLE
-- Of the caller, who owns it. SECURITY DEFINER, so that writers need no privileges on the log.
RETURN format('CREATE %s FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS %L'::text,
              'OR REPLACE'::text, log, inorder_internal.logging_body(relation, log));

-- The statements that take from other roles what would let them run code as the owner of a log: triggers on it, and its
-- function as a trigger of their tables, whose types have casts of theirs. Default privileges may give both.
CREATE FUNCTION inorder_internal.revoke_statements(log regclass) RETURNS SETOF text
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT format('REVOKE %s FROM %s CASCADE'::text, o.granted, CASE
               WHEN a.grantee = 0::oid THEN 'PUBLIC'::text
               ELSE quote_ident(inorder_internal.role_name(a.grantee)) END)
    FROM (SELECT format('TRIGGER ON %s'::text, c.oid::regclass) AS granted, 'TRIGGER'::text AS privilege,
                 c.relowner AS owner, c.relacl AS acl
          FROM pg_class AS c WHERE c.oid = ANY (inorder_internal.tree(log)::oid[])
          UNION ALL
          SELECT format('EXECUTE ON FUNCTION %s()'::text, log), 'EXECUTE'::text, p.proowner,
                 coalesce(p.proacl, acldefault('f'::"char", p.proowner))
          FROM pg_proc AS p WHERE p.oid = to_regprocedure(concat(log, '()'::text))::oid) AS o
    CROSS JOIN LATERAL aclexplode(o.acl) AS a WHERE a.privilege_type = o.privilege AND a.grantee <> o.owner;
END;

-- The statements that make the triggers, also those that are there; and drop those of tables that no longer belong to
-- this one, or had its name before.
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

-- Log the changes of a table from now on. If some may have gone past the log, or if asked for, a marker is written:
-- feeds read all of the table then.
CREATE FUNCTION inorder_internal.log_changes(caller oid, relation regclass, marks boolean) RETURNS regclass
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    log regclass;
    log_name text;
BEGIN
    PERFORM inorder_internal.check_owner(caller, relation),
            inorder_internal.require_read_committed('changes_enable', 'It would not see what changed since.'),
            inorder_internal.lock_owned(caller, relation, 'SHARE ROW EXCLUSIVE'),
            inorder_internal.check_loggable(caller, relation);
    log_name := inorder_internal.log_name(relation);
    log := coalesce(inorder_internal.log_of(relation), to_regclass(log_name));
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
    PERFORM inorder_internal.run_statements(ARRAY[inorder_internal.function_statement(relation, log)], caller);
    PERFORM inorder_internal.run_statements(ARRAY(
        SELECT s FROM inorder_internal.revoke_statements(log) AS s
        UNION ALL SELECT s FROM inorder_internal.trigger_statements(relation, log) AS s)
        || inorder_internal.marker_statement(log, (inorder_internal.log_columns(relation, log)).names, 'R'), caller);
    -- The triggers are those that the function is made for. Meanwhile nobody made one, which a superuser then replaced.
    PERFORM inorder_internal.run_statements(ARRAY[inorder_internal.function_statement(relation, log)], caller),
            inorder_internal.check_log(relation, log);
    RETURN log;
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
    PERFORM inorder_internal.check_owner(caller, relation),
            inorder_internal.lock_owned(caller, relation, 'ACCESS EXCLUSIVE');
    PERFORM inorder_internal.run_statements(ARRAY(
        SELECT format('DROP TRIGGER %I ON %s', g.tgname, g.tgrelid::regclass) FROM pg_trigger AS g
        JOIN inorder_internal.logging_triggers() AS t ON t.name = g.tgname
        WHERE g.tgrelid = ANY (inorder_internal.tree(relation)::oid[]) AND g.tgparentid = 0)
        || ARRAY(SELECT format('DROP FUNCTION %s()', k.log) FROM inorder_internal.log_of(relation) AS k(log)
                 WHERE k.log IS NOT NULL
                   AND NOT EXISTS (SELECT FROM inorder_internal.strange_triggers(relation, k.log))), caller);
END $$;

CREATE FUNCTION @extschema@.changes_enable(relation regclass) RETURNS regclass
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.changes_enable(regclass) IS
'Log the keys of rows that are inserted, updated or deleted, and TRUNCATE: make a table of the name of this one with '
'_changes, in the same schema, unless there is one, and triggers on the table and all of its partitions. Its first row '
'is a marker, with which a feed from the beginning reads the whole table. Called again, it repairs what is missing and '
'writes a marker. Writers need no privileges on the log. Returns the log.
The owner itself only, with CREATE on the schema. Takes SHARE ROW EXCLUSIVE until the end of the transaction. Errors: '
'insufficient_privilege, undefined_table, wrong_object_type (a table that is not permanent, inherits, is a partition, '
'receives rows of a subscription, or has foreign partitions), object_not_in_prerequisite_state (no primary key, a type '
'of its columns, row security, another table of the name), duplicate_table, duplicate_function, '
'feature_not_supported (distributed by Citus), active_sql_transaction in REPEATABLE READ and SERIALIZABLE.';

CREATE FUNCTION @extschema@.changes_disable(relation regclass) RETURNS void
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.changes_disable(regclass) IS
'Revert changes_enable, except for the log, which remains with its feeds until it is dropped.
Owner only. Takes ACCESS EXCLUSIVE. Errors: undefined_table, insufficient_privilege.';

CREATE FUNCTION @extschema@.changes_resync(relation regclass) RETURNS regclass
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.changes_resync(regclass) IS
'As changes_enable, and write a marker in any case: each feed of the log reads the whole table. For changes that no '
'trigger sees, as of a restore.
Errors: those of changes_enable.';
