-- The log of a table that is updated and deleted from: the keys of the rows that changed, which feeds read.
--
-- Triggers write it (logging_triggers()), on the table and on each of its partitions, by one function for each table,
-- which has the name and schema of the log. The columns of a log are known by their places, since a key may have
-- columns of any name: the transaction number, the primary key, the kind of the change. A row has up to 32 keys of a
-- statement, as an array for each column: what a row and its place in the index cost would be most of the price. A row
-- without keys is a marker: whatever the table had before, it now has the rows that it has.

-- A type, such as that of a column, as text of a statement.
CREATE FUNCTION inorder_internal.column_definition(a pg_attribute, type oid) RETURNS text
LANGUAGE sql STABLE
RETURN concat(format_type(type, (a).atttypmod),
              CASE WHEN (a).attcollation <> 0::oid THEN concat(' COLLATE '::text, (a).attcollation::regcollation) END);

-- The primary key of a table in the order of its columns, with those of its log. Where equal values may differ, their
-- text distinguishes them.
CREATE FUNCTION inorder_internal.changed_key(relation regclass)
RETURNS TABLE (place bigint, name name, type oid, definition text, is_exact boolean)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT k.place, a.attname, a.atttypid, inorder_internal.column_definition(a, y.typarray),
           a.atttypid <> ALL ('{numeric, float4, float8, interval, bpchar}'::regtype[]::oid[])
               AND coalesce(l.collisdeterministic, true)
    FROM pg_index AS i
    CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY AS k(attnum, place)
    JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
    JOIN pg_type AS y ON y.oid = a.atttypid
    LEFT JOIN pg_collation AS l ON l.oid = a.attcollation
    WHERE i.indrelid = relation AND i.indisprimary AND i.indisvalid AND k.place <= i.indnkeyatts ORDER BY k.place;
END;

-- Why the changes of a table cannot be logged, or null.
CREATE FUNCTION inorder_internal.log_problem(relation regclass) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    type regtype := (SELECT k.type FROM inorder_internal.changed_key(relation) AS k
                  WHERE k.type <> ALL (inorder_internal.order_types()) ORDER BY k.place LIMIT 1);
BEGIN
    RETURN coalesce(inorder_internal.problem(relation), CASE
        WHEN EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhrelid = relation)
        THEN 'is a partition, or inherits from a table, whose statements fire no statement trigger of its'
        WHEN EXISTS (SELECT FROM pg_subscription_rel AS s
                     WHERE s.srrelid = ANY (inorder_internal.tree(relation)::oid[]))
        THEN 'receives rows of a subscription, which fire no statement trigger'
        WHEN NOT EXISTS (SELECT FROM inorder_internal.changed_key(relation)) THEN 'has no primary key'
        WHEN type IS NOT NULL
        THEN format('has a column of type %s in its primary key, whose values others may compare', type) END);
END $$;

-- What writes a log has its name. In PL/pgSQL, as all that each read calls: SQL with a query is planned anew each time.
CREATE FUNCTION inorder_internal.logging_function(log regclass) RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT p.oid FROM pg_class AS c
            JOIN pg_proc AS p ON p.proname = c.relname AND p.pronamespace = c.relnamespace AND p.pronargs = 0
            WHERE c.oid = log AND c.relkind IN ('r', 'p'));
END $$;

-- The number of the log, which is the first argument of the triggers, since names may be swapped.
CREATE FUNCTION inorder_internal.log_number(arguments bytea) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN substring(encode(arguments, 'escape'::text), '^[0-9]+'::text);

-- The log of a table; null if it has none.
CREATE FUNCTION inorder_internal.log_of(relation regclass) RETURNS regclass
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    log oid := (SELECT inorder_internal.log_number(g.tgargs)::oid FROM pg_trigger AS g
                WHERE g.tgrelid = relation AND g.tgname = 'zz_inorder_changes_insert');
BEGIN
    RETURN CASE WHEN inorder_internal.logging_function(log) IS NOT NULL THEN log END;
END $$;

-- The columns of a log in order, their types, and those that the log of a table has.
CREATE FUNCTION inorder_internal.log_columns(
    relation regclass, log regclass, OUT names name[], OUT types text[], OUT wanted text[]
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT array_agg(a.attname ORDER BY a.attnum),
           array_agg(inorder_internal.column_definition(a, a.atttypid) ORDER BY a.attnum) INTO names, types
    FROM pg_attribute AS a WHERE a.attrelid = log AND a.attnum > 0 AND NOT a.attisdropped;
    wanted := ARRAY['uuid'] || ARRAY(SELECT k.definition FROM inorder_internal.changed_key(relation) AS k
                                     ORDER BY k.place) || ARRAY['"char"'];
END $$;

-- The triggers that log changes: of which statements, and the rows that these have. The last one is for each row of a
-- partitioned table whose key changes: the trigger for UPDATE has none that MERGE moves to another partition.
CREATE FUNCTION inorder_internal.logging_triggers()
RETURNS TABLE (name name, event text, kind text, referencing text)
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
    SELECT concat('zz_inorder_changes_', lower(v.event))::name, v.event, left(v.event, 1), v.referencing
    FROM (VALUES ('INSERT', 'REFERENCING NEW TABLE AS new_rows'),
                 ('UPDATE', 'REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows'),
                 ('DELETE', 'REFERENCING OLD TABLE AS old_rows'), ('TRUNCATE', ''), ('MOVE', NULL))
        AS v(event, referencing);
END;

-- The function that the triggers of a table call.
CREATE FUNCTION inorder_internal.trigger_function(log regclass) RETURNS text
LANGUAGE sql STABLE
RETURN '@extschema@.changes_trigger()'::regprocedure::oid::regproc::text;

-- What a table was when its changes began to be logged: other columns, triggers or partitions may have let some go past
-- the log. Names and statistics do not matter.
CREATE FUNCTION inorder_internal.fingerprint(relation regclass) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT hashtextextended(string_agg(concat_ws(' ', m.oid, v.version), ','
                                               ORDER BY m.oid, v.version COLLATE "C"), 0)
            FROM unnest(inorder_internal.tree(relation)::oid[]) AS m(oid) CROSS JOIN LATERAL (
                SELECT concat_ws(' ', 'column', a.attnum, a.xmin) FROM pg_attribute AS a
                WHERE a.attrelid = m.oid AND a.attnum > 0
                UNION ALL
                -- Who changes a trigger again in the transaction that made it comes before the marker is read. Its cmin
                -- would change with each transaction that rolls back.
                SELECT concat_ws(' ', 'trigger', g.tgname, g.tgenabled, g.tgfoid, g.xmin) FROM pg_trigger AS g
                JOIN inorder_internal.logging_triggers() AS t ON t.name = g.tgname WHERE g.tgrelid = m.oid
                UNION ALL
                SELECT concat_ws(' ', 'below', i.inhparent, i.xmin) FROM pg_inherits AS i WHERE i.inhrelid = m.oid)
                AS v(version));
END $$;

-- What the function that logs changes looks at first. If the log that the triggers name was dropped or renamed, another
-- role may have put a table in its place; if it was given away without the function, its triggers would run as the
-- owner of this one. Of another table of the owner, on which others may have made a trigger, nothing is logged: its
-- types may have casts that they made.
CREATE FUNCTION inorder_internal.logging_checks(relation regclass, log regclass) RETURNS text
LANGUAGE sql STABLE
RETURN format('    PERFORM FROM pg_catalog.pg_class AS c
    WHERE c.oid OPERATOR(pg_catalog.=) %1$L::pg_catalog.regclass
        AND c.oid::pg_catalog.text OPERATOR(pg_catalog.=) TG_ARGV[0]
        AND pg_catalog.pg_get_userbyid(c.relowner) OPERATOR(pg_catalog.=) current_user;
    IF NOT FOUND THEN
        RAISE %2$L, %1$L, TG_RELID::pg_catalog.regclass USING ERRCODE = ''insufficient_privilege'';
    ELSIF TG_RELID OPERATOR(pg_catalog.<>) %3$L::pg_catalog.oid AND NOT EXISTS (
        SELECT FROM pg_catalog.pg_partition_ancestors(TG_RELID) AS a(relation)
        WHERE a.relation::pg_catalog.oid OPERATOR(pg_catalog.=) %3$L::pg_catalog.oid) THEN
        RETURN NEW;
    END IF;
'::text, log, 'table % is not the log of the changes of %'::text, relation::oid);

-- The body of the function that logs the changes of a table, as it has to be now. It runs as the owner of table and
-- log: whatever settings its caller has, nothing is found by the search_path, or runs that others made.
CREATE FUNCTION inorder_internal.logging_body(relation regclass, log regclass) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    columns name[] := (inorder_internal.log_columns(relation, log)).names;
    target text := format('INSERT INTO %s (%s)', log, (SELECT string_agg(quote_ident(c), ', ')
                                                       FROM unnest(columns[2:]) AS c));
    pieces text := '(pg_catalog.row_number() OVER () OPERATOR(pg_catalog.-) 1) OPERATOR(pg_catalog./) 32';
    keys record;
BEGIN
    SELECT string_agg(format(CASE WHEN k.is_exact THEN 'e.%1$I AS c%2$s' ELSE
                                 'e.%1$I AS c%2$s, pg_catalog.concat(e.%1$I) COLLATE pg_catalog."C" AS t%2$s' END,
                             k.name, k.place), ', ' ORDER BY k.place) AS texts,
           string_agg(format('pg_catalog.array_agg(k.c%s)', k.place), ', ' ORDER BY k.place) AS arrays,
           string_agg(format('ARRAY[OLD.%1$I, NEW.%1$I]', k.name), ', ' ORDER BY k.place) AS changed
    INTO keys FROM inorder_internal.changed_key(relation) AS k;
    RETURN concat('
#variable_conflict use_column
BEGIN
    -- Made by inorder for ', inorder_internal.fingerprint(relation), '.
', inorder_internal.logging_checks(relation, log), format(
'    IF TG_LEVEL OPERATOR(pg_catalog.=) ''ROW''::pg_catalog.text THEN
        %s VALUES (%s, ''U'');
        RETURN NEW;
', target, keys.changed), (
    SELECT string_agg(format('    ELSIF TG_OP OPERATOR(pg_catalog.=) %L::pg_catalog.text THEN
        %s;
', t.event, CASE t.event WHEN 'TRUNCATE' THEN inorder_internal.marker_statement(log, columns, t.kind)
            ELSE format('%s SELECT %s, %L::pg_catalog."char" FROM (SELECT c.*, %s AS piece FROM (%s) AS c) AS k '
                        'GROUP BY k.piece', target, keys.arrays, t.kind, pieces, (
                SELECT string_agg(format('SELECT %s FROM %s AS e', keys.texts, r), ' UNION ' ORDER BY r)
                FROM unnest('{new_rows, old_rows}'::text[]) AS r WHERE strpos(t.referencing, r) > 0)) END), '')
    FROM inorder_internal.logging_triggers() AS t WHERE t.event <> 'MOVE'), '    END IF;
    RETURN NULL;
END
');
END $$;

CREATE FUNCTION inorder_internal.marker_statement(log regclass, columns name[], kind text) RETURNS text
LANGUAGE sql STABLE
RETURN format('INSERT INTO %s (%I) VALUES (%L::pg_catalog."char")'::text, log, columns[cardinality(columns)], kind);

-- Whether all changes of a table since it was last read are in its log, if the log is what it was. Its key has the
-- types of the table's: comparing values of others would run what their owner has made.
CREATE FUNCTION inorder_internal.is_logged(relation regclass) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    log regclass := inorder_internal.log_of(relation);
BEGIN
    RETURN coalesce((SELECT p.prosrc = inorder_internal.logging_body(relation, log) FROM pg_proc AS p
                     WHERE p.oid = inorder_internal.logging_function(log)), false)
       AND inorder_internal.log_problem(relation) IS NULL
       AND (SELECT c.types = c.wanted FROM inorder_internal.log_columns(relation, log) AS c);
END $$;
