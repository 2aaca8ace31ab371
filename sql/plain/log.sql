-- Logging changes without C: each table has a function in PL/pgSQL that writes its log. The function has the name and
-- schema of the log, and runs as the role that changes rows. Every role therefore has the privilege to insert into the
-- log, and the triggers of the log check each row. An additional key is harmless for a copy, and a marker makes the
-- copy read the whole table.

-- The trigger function that checks rows of a log. The trigger also marks the log, because its arguments are the OID and
-- the fingerprint of the logged table (mark_statements()).
CREATE FUNCTION inorder_internal.check_writer() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    relation regclass := TG_ARGV[0]::oid;
BEGIN
    IF pg_has_role((SELECT c.relowner FROM pg_class AS c WHERE c.oid = TG_RELID), 'USAGE')
       OR inorder_internal.may_write(inorder_internal.caller(), relation, 'INSERT, UPDATE, DELETE, TRUNCATE') THEN
        RETURN NULL;
    END IF;
    RAISE 'permission denied for log %', TG_RELID::regclass USING ERRCODE = 'insufficient_privilege',
          DETAIL = format('Role "%s" lacks the privilege to write into the logged table %s.', current_user, relation);
END $$;

-- The trigger function that checks the markers that TRUNCATE writes into a log.
CREATE FUNCTION inorder_internal.check_marker() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    relation regclass := TG_ARGV[0]::oid;
BEGIN
    IF pg_has_role((SELECT c.relowner FROM pg_class AS c WHERE c.oid = TG_RELID), 'USAGE')
       OR EXISTS (SELECT FROM unnest(inorder_internal.tree(relation)::oid[]) AS m(oid)
                  WHERE has_table_privilege(m.oid, 'TRUNCATE')) THEN
        RETURN NULL;
    END IF;
    RAISE 'permission denied for a marker in table %', TG_RELID::regclass USING ERRCODE = 'insufficient_privilege',
          DETAIL = format('Only the owner of the log, and roles that may truncate %s, may write rows without a key.',
                          relation);
END $$;

-- Return the function that writes a log, and has the same name as the log.
CREATE FUNCTION inorder_internal.logging_function(log regclass) RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT p.oid FROM pg_class AS c
            JOIN pg_proc AS p ON p.proname = c.relname AND p.pronamespace = c.relnamespace AND p.pronargs = 0
            WHERE c.oid = log AND c.relkind IN ('r', 'p'));
END $$;

-- Return the body of the function that writes a log, for the current columns of the table. The function runs with the
-- search_path of the caller, and must not depend on this search_path. Columns of the rows are not qualified with a
-- table name, because a qualified name may also refer to a function.
CREATE FUNCTION inorder_internal.logging_body(relation regclass, log regclass) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    columns name[] := (inorder_internal.log_columns(relation, log)).names;
    target text := format('INSERT INTO %s (%s)', log, (SELECT string_agg(quote_ident(c), ', ')
                                                       FROM unnest(columns[2:]) AS c));
    pieces text := '(pg_catalog.row_number() OVER () OPERATOR(pg_catalog.-) 1) OPERATOR(pg_catalog./) 32';
    keys record;
BEGIN
    SELECT string_agg(format(CASE WHEN k.is_exact THEN '%1$I AS c%2$s' ELSE
                                 '%1$I AS c%2$s, pg_catalog.concat(%1$I) COLLATE pg_catalog."C" AS t%2$s' END,
                             k.name, k.place), ', ' ORDER BY k.place) AS texts,
           string_agg(format('pg_catalog.array_agg(k.c%s)', k.place), ', ' ORDER BY k.place) AS arrays,
           string_agg(format('ARRAY[OLD.%1$I, NEW.%1$I]', k.name), ', ' ORDER BY k.place) AS changed
    INTO keys FROM inorder_internal.changed_key(relation) AS k;
    RETURN concat(format('
#variable_conflict use_column
BEGIN
    PERFORM FROM pg_catalog.pg_class AS c WHERE c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(%1$L)
        AND c.oid::pg_catalog.text OPERATOR(pg_catalog.=) TG_ARGV[0];
    IF NOT FOUND THEN
        RAISE %2$L, %1$L, TG_RELID::pg_catalog.regclass USING ERRCODE = ''object_not_in_prerequisite_state'',
            DETAIL = ''The log was dropped, restored, renamed or moved.'', HINT = pg_catalog.format(
                ''The owner must call changes_resync(%%L).'',
                coalesce(pg_catalog.pg_partition_root(TG_RELID), TG_RELID::pg_catalog.regclass));
    ELSIF TG_LEVEL OPERATOR(pg_catalog.=) ''ROW''::pg_catalog.text THEN
        %3$s VALUES (%4$s, ''U'');
        RETURN NEW;
', log, 'table % is not the log that the triggers of % write', target, keys.changed), (
    SELECT string_agg(format('    ELSIF TG_OP OPERATOR(pg_catalog.=) %L::pg_catalog.text THEN
        %s;
', t.event, CASE t.event WHEN 'TRUNCATE' THEN inorder_internal.marker_statement(log, columns, t.kind)
            ELSE format('%s SELECT %s, %L::pg_catalog."char" FROM (SELECT c.*, %s AS piece FROM (%s) AS c) AS k '
                        'GROUP BY k.piece', target, keys.arrays, t.kind, pieces, (
                SELECT string_agg(format('SELECT %s FROM %s', keys.texts, r), ' UNION ' ORDER BY r)
                FROM unnest('{new_rows, old_rows}'::text[]) AS r WHERE strpos(t.referencing, r) > 0)) END), '')
    FROM inorder_internal.logging_triggers() AS t WHERE t.event <> 'MOVE'), '    END IF;
    RETURN NULL;
END
');
END $$;

---- trigger_function: sql
RETURN log::text;

---- mark_trigger: sql
RETURN format('AFTER INSERT ON %s FOR EACH ROW EXECUTE FUNCTION inorder_internal.check_writer'::text, log);

---- is_written: plpgsql
BEGIN
    RETURN NOT EXISTS (
        SELECT FROM unnest(inorder_internal.tree(relation)::oid[]) AS m(oid)
        JOIN pg_trigger AS g ON g.tgrelid = m.oid
        JOIN inorder_internal.logging_triggers() AS t ON t.name = g.tgname
        JOIN pg_class AS c ON c.oid = relation JOIN pg_proc AS f ON f.oid = g.tgfoid
        WHERE f.proowner <> c.relowner OR f.oid IS DISTINCT FROM inorder_internal.logging_function(log)
           OR f.prosrc IS DISTINCT FROM inorder_internal.logging_body(relation, log)
           OR f.prosecdef OR f.proconfig IS NOT NULL);
END
