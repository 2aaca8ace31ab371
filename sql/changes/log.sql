-- The log of the changes of a table: the keys of rows that were inserted, updated or deleted. Feeds read this log.
--
-- Triggers on the table and on each of its partitions write the log (logging_triggers()), with the privileges of the
-- role that changes rows. The triggers call changes_trigger() or, in the SQL edition, one function for each table. The
-- columns of a log (the transaction number, the primary key, the kind of the change) are identified by their order,
-- because a key may have columns with any name. A row contains up to 32 keys of a statement, in one array per column.
-- With one row per key, most of the cost would be caused by rows and index entries. A row without keys is a marker: the
-- copy must replace all of its rows with the rows of the table.

-- Return the primary key of a table, in the order of its columns, with the corresponding columns of its log. The column
-- is_exact is true if equal values of the type are identical. Equal values of other types are distinguished by their
-- output.
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

-- Return the reason why the changes of a table cannot be logged, or null.
CREATE FUNCTION inorder_internal.log_problem(relation regclass) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    type regtype := (SELECT k.type FROM inorder_internal.changed_key(relation) AS k
                  WHERE k.type <> ALL (inorder_internal.order_types()) ORDER BY k.place LIMIT 1);
BEGIN
    RETURN coalesce(inorder_internal.statement_problem(relation), CASE
        WHEN EXISTS (SELECT FROM pg_subscription_rel AS s
                     WHERE s.srrelid = ANY ((SELECT inorder_internal.tree(relation))::oid[]))
        THEN 'receives rows of a subscription, which fire no statement trigger'
        WHEN NOT EXISTS (SELECT FROM inorder_internal.changed_key(relation)) THEN 'has no primary key'
        -- Statement triggers see the value of a generated column before the partition computes the value.
        WHEN EXISTS (SELECT FROM inorder_internal.changed_key(relation) AS k
                     JOIN pg_attribute AS a ON a.attrelid = relation AND a.attname = k.name AND a.attgenerated <> ''
                     JOIN pg_partitioned_table AS p ON p.partrelid = a.attrelid)
        THEN 'is partitioned, and has a generated column in its primary key'
        WHEN type IS NOT NULL
        THEN format('has a column of type %s in its primary key, which is not supported', type) END);
END $$;

-- Return the first argument of a trigger, if this argument is an OID; otherwise null.
CREATE FUNCTION inorder_internal.named_by(arguments bytea) RETURNS oid
LANGUAGE sql IMMUTABLE
RETURN least(substring(encode(arguments, 'escape'::text), '^[0-9]{1,10}'::text)::bigint, 4294967295)::oid;

-- Return the log of a table; null if the table has no log. Any role with the TRIGGER privilege on a table may create a
-- trigger that names any table as the log. The log must therefore also name the table, and belong to the owner of the
-- table. A log names its table through a trigger that is ENABLE ALWAYS. Only the owner can set ENABLE ALWAYS, and
-- replacing the trigger resets this setting.
CREATE FUNCTION inorder_internal.log_of(relation regclass) RETURNS regclass
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT l.oid FROM pg_class AS c
            JOIN pg_trigger AS g ON g.tgrelid = c.oid AND g.tgname = 'zz_inorder_changes_insert'
            JOIN pg_class AS l ON l.oid = inorder_internal.named_by(g.tgargs) AND l.relowner = c.relowner
            JOIN pg_trigger AS m ON m.tgrelid = l.oid AND m.tgname = 'zz_inorder_changes'
            WHERE c.oid = relation AND inorder_internal.named_by(m.tgargs) = c.oid AND m.tgenabled = 'A');
END $$;

-- Return the table whose changes a log contains; null if the table is not a log.
CREATE FUNCTION inorder_internal.logged_by(log regclass) RETURNS regclass
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT k.relation::regclass FROM pg_trigger AS m
            CROSS JOIN LATERAL inorder_internal.named_by(m.tgargs) AS k(relation)
            WHERE m.tgrelid = log AND m.tgname = 'zz_inorder_changes' AND inorder_internal.log_of(k.relation) = log);
END $$;

-- Return the columns of a log in order, the types of the columns, and the types that the columns should have.
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

-- Return the triggers that log changes: the statements for which they fire, and their transition tables. The last
-- trigger fires for each row of a partitioned table whose key changes, because the trigger for UPDATE does not see rows
-- that MERGE moves to another partition.
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

-- Return the function that the triggers of a table call.
CREATE FUNCTION inorder_internal.trigger_function(log regclass) RETURNS text
LANGUAGE sql STABLE
RETURN '@extschema@.changes_trigger()'::regprocedure::oid::regproc::text;

-- Return the fingerprint of a table, which is stored when the logging of its changes begins. If the key, the columns,
-- the triggers or the partitions have changed since then, changes may be missing from the log. Statistics and the name
-- of the table do not affect the fingerprint.
CREATE FUNCTION inorder_internal.table_fingerprint(relation regclass) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN hashtextextended(concat_ws(
        ',', inorder_internal.versions(inorder_internal.tree(relation)::oid[], NULL, 'zz_inorder_changes_'),
        (SELECT string_agg(concat_ws(' ', 'key', k.place, k.name), ',' ORDER BY k.place)
         FROM inorder_internal.changed_key(relation) AS k)), 0);
END $$;

-- Return the condition that a row is a marker: a row of kind R (the owner has requested the marker) or T (the table was
-- truncated).
CREATE FUNCTION inorder_internal.is_marker() RETURNS text
LANGUAGE sql IMMUTABLE
RETURN 'OPERATOR(pg_catalog.=) ANY (''{R,T}''::pg_catalog."char"[])'::text;

CREATE FUNCTION inorder_internal.marker_statement(log regclass, columns name[], kind text) RETURNS text
LANGUAGE sql STABLE
RETURN format('INSERT INTO %s (%I) VALUES (%L::pg_catalog."char")'::text, log, columns[cardinality(columns)], kind);

-- Return the definition of the trigger that marks a log. In the extension this trigger never fires, because the guard
-- refuses TRUNCATE.
CREATE FUNCTION inorder_internal.mark_trigger(log regclass) RETURNS text
LANGUAGE sql STABLE
RETURN format('AFTER TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION %s'::text, log,
              inorder_internal.trigger_function(log));

-- Return the statements that mark a table as the log of another table, and store the current fingerprint of that other
-- table. These statements create the trigger that names the other table.
CREATE FUNCTION inorder_internal.mark_statements(relation regclass, log regclass) RETURNS text[]
LANGUAGE sql STABLE
RETURN ARRAY[
    format('CREATE %s TRIGGER zz_inorder_changes %s(%L, %L)'::text, 'OR REPLACE'::text,
           inorder_internal.mark_trigger(log), relation::oid, inorder_internal.table_fingerprint(relation)),
    format('ALTER TABLE %s ENABLE ALWAYS TRIGGER zz_inorder_changes'::text, log)];

-- Return true if the triggers of a table call the function that writes the log of this table. The extension has one
-- function in C for all tables.
CREATE FUNCTION inorder_internal.is_written(relation regclass, log regclass) RETURNS boolean
LANGUAGE sql STABLE
RETURN true;

-- Return true if the log must contain every change made to its table since changes_enable() or changes_resync(). The
-- key columns of the log must have the same types as the key columns of the table. Comparing values of other types
-- could execute code of the type's owner.
CREATE FUNCTION inorder_internal.is_logged(relation regclass) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    log regclass := inorder_internal.log_of(relation);
BEGIN
    RETURN EXISTS (SELECT FROM pg_trigger AS m WHERE m.tgrelid = log AND m.tgname = 'zz_inorder_changes'
                   -- Each argument ends with a zero byte, which encode() writes as four characters.
                   AND substring(encode(m.tgargs, 'escape'), '^[0-9]+.000(-?[0-9]+).000$')
                       = inorder_internal.table_fingerprint(relation)::text)
       AND inorder_internal.is_written(relation, log)
       AND inorder_internal.log_problem(relation) IS NULL
       AND (SELECT c.types = c.wanted FROM inorder_internal.log_columns(relation, log) AS c);
END $$;
