-- The description of a table, which determines how the table is read by transaction number.
--
-- The description is built from the catalog. No function here reads a row of the table, or evaluates an expression of
-- its owner.

CREATE FUNCTION inorder_internal.tree(relation regclass) RETURNS regclass[]
LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (
        WITH RECURSIVE tree AS (
            SELECT relation::oid AS relid
            UNION ALL
            -- While DETACH ... CONCURRENTLY waits for other sessions, no new query reads the partition. OFFSET 0 makes
            -- the planner use the index for each parent. A join would read all of pg_inherits.
            SELECT i.inhrelid FROM tree AS t CROSS JOIN LATERAL (
                SELECT p.inhrelid FROM pg_inherits AS p WHERE p.inhparent = t.relid AND NOT p.inhdetachpending OFFSET 0
            ) AS i
        )
        SELECT array_agg(t.relid::regclass ORDER BY t.relid) FROM tree AS t);
END $$;

-- Return true for a permanent heap table without partitions or children, which is the most frequent kind of table.
CREATE FUNCTION inorder_internal.is_plain(relation regclass) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT;

-- Return the reason why a table cannot be read by transaction number, regardless of its columns; null if there is no
-- reason.
CREATE FUNCTION inorder_internal.problem(relation regclass) RETURNS text
LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r pg_class;
    kinds text;
BEGIN
    IF inorder_internal.is_plain(relation) THEN
        RETURN NULL;
    END IF;
    SELECT * INTO r FROM pg_class WHERE oid = relation;
    IF r.relkind IN ('p', 'r') THEN
        SELECT string_agg(concat(c.relkind, c.relpersistence,
                                 CASE WHEN c.relkind = 'r' AND a.amname <> 'heap' THEN 'o' END), '') INTO kinds
        FROM pg_class AS c LEFT JOIN pg_am AS a ON a.oid = c.relam WHERE c.oid = ANY (inorder_internal.tree(relation));
    END IF;
    RETURN CASE
        WHEN r.relkind NOT IN ('r', 'p') THEN 'is not a table'
        WHEN r.relpersistence <> 'p' THEN 'is temporary or unlogged, and can lose its rows'
        WHEN kinds ~ 'o' THEN 'is not a heap table, or has a partition that is not a heap table'
        WHEN r.relkind = 'r' AND r.relhassubclass AND EXISTS (SELECT FROM pg_inherits WHERE inhparent = relation)
        THEN 'has child tables, into which rows can be inserted without the guard'
        WHEN kinds ~ 'f' THEN 'has foreign partitions, whose rows have transaction numbers of another server'
        WHEN kinds ~ '[ut]' THEN 'has partitions that are temporary or unlogged, and can lose their rows'
    END;
END $$;

-- Raise an error if a table cannot be read by transaction number, regardless of its columns.
CREATE FUNCTION inorder_internal.check_kind(relation regclass) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    problem text := inorder_internal.problem(relation);
BEGIN
    IF problem IS NOT NULL THEN
        RAISE 'feeds and exact counts cannot read %: it %', relation, problem USING ERRCODE = 'wrong_object_type';
    END IF;
END $$;

-- Return the catalog of the tables that Citus has distributed; null if Citus is not installed.
CREATE FUNCTION inorder_internal.citus_catalog() RETURNS regclass
LANGUAGE sql STABLE
RETURN to_regclass('pg_catalog.pg_dist_partition'::text);

-- Raise an error if Citus manages the table or a partition of the table, as a distributed table, a reference table or a
-- local table. A shard is an ordinary table on its node, and can be read there. No function of Citus is called. The
-- catalog is read only if it belongs to the extension citus, and is in pg_catalog. Only a superuser can create a table
-- there.
CREATE FUNCTION inorder_internal.check_local(relation regclass) RETURNS void
LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    catalog regclass := inorder_internal.citus_catalog();
    distributed regclass;
BEGIN
    IF catalog IS NULL
       OR NOT EXISTS (SELECT FROM pg_depend AS d JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'citus'
                      WHERE d.classid = 'pg_class'::regclass AND d.objid = catalog
                        AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e') THEN
        RETURN;
    ELSIF NOT EXISTS (SELECT FROM pg_class AS c JOIN pg_am AS m ON m.oid = c.relam AND m.amname = 'heap'
                      JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'logicalrelid'
                      WHERE c.oid = catalog AND a.atttypid IN ('regclass'::regtype, 'oid'::regtype)) THEN
        RAISE 'unknown version of Citus: % has an unexpected structure', catalog
        USING ERRCODE = 'feature_not_supported';
    END IF;
    EXECUTE format('SELECT p.logicalrelid FROM %s AS p WHERE p.logicalrelid = ANY ($1) LIMIT 1', catalog)
    INTO distributed USING inorder_internal.tree(relation)::oid[];
    IF distributed IS NOT NULL THEN
        RAISE 'table % is distributed by Citus: its shards can be read, not the table', distributed
        USING ERRCODE = 'feature_not_supported',
              DETAIL = 'The snapshot of this node does not cover the transactions of other nodes, nor a COMMIT '
                       'PREPARED that another node has not executed yet: rows would be lost.',
              HINT = 'Run inorder citus to make each shard readable on its node. Then inorder tail --shards and '
                     'inorder count --shards read all shards.';
    END IF;
END $$;

-- Return the base of an expression that is a call of a function: 0 without an argument, otherwise the constant
-- argument. Return null for any other expression. The expression is not evaluated.
CREATE FUNCTION inorder_internal.key_base(expression pg_node_tree, function oid) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;

-- Return the function that is called by the default or generation expression of a column with transaction numbers.
CREATE FUNCTION inorder_internal.generator_of(t inorder_internal.feed_table) RETURNS oid
LANGUAGE sql STABLE
RETURN CASE WHEN (t).is_uuid THEN '@extschema@.uuid_xact_nextval(bigint)'::regprocedure::oid
            WHEN (t).is_generated THEN inorder_internal.generator()
            ELSE '@extschema@.xact_id(bigint)'::regprocedure::oid END;

-- Return the columns whose default or generation expression returns transaction numbers, and the base of each.
CREATE FUNCTION inorder_internal.key_columns(relation regclass) RETURNS TABLE (attnum smallint, base bigint)
LANGUAGE sql STABLE STRICT
BEGIN ATOMIC
    SELECT k.attnum, k.base
    FROM (SELECT a.attnum, inorder_internal.key_base(d.adbin,
              CASE WHEN a.atttypid = 'uuid'::regtype AND a.attgenerated = ''
                   THEN '@extschema@.uuid_xact_nextval(bigint)'::regprocedure::oid
                   WHEN a.atttypid = 'bigint'::regtype AND a.attgenerated = ''
                   THEN '@extschema@.xact_id(bigint)'::regprocedure::oid
                   WHEN a.atttypid = 'bigint'::regtype AND a.attgenerated = 's'
                   THEN '@extschema@.xact_id_generated(bigint)'::regprocedure::oid END) AS base
          FROM pg_attribute AS a JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
          WHERE a.attrelid = relation AND NOT a.attisdropped) AS k
    WHERE k.base BETWEEN 0 AND 281474976710655;
END;

-- Return the types of key columns that can mark a position inside a transaction.
CREATE FUNCTION inorder_internal.order_types() RETURNS oid[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
-- The output of these types represents the same value in every session, and functions of the server compare their
-- values. User-defined types are excluded, because an enumeration may have an implicit cast, and then be compared by a
-- function of its owner. reg... types, money and arrays are excluded, because their output depends on more than the
-- value. timetz is excluded, because the server does not accept every time zone that it writes.
RETURN '{bool, int2, int4, int8, oid, numeric, float4, float8, uuid, text, varchar, bpchar, name, bytea, bit, varbit,
         date, time, timestamp, timestamptz, interval, inet, cidr, macaddr, macaddr8}'::regtype[]::oid[];

-- Return the columns of the primary key in their order, except the column with the number. The result is empty
-- if the type of one of these columns is not in order_types().
CREATE FUNCTION inorder_internal.order_columns(relation regclass, key_attnum smallint) RETURNS name[]
LANGUAGE sql STABLE
-- INCLUDE columns are left out. A generated column in the key is accepted only if the number is also generated.
-- Otherwise the guard fires before generated columns are computed, and does not see that an UPDATE changes such a
-- column.
BEGIN ATOMIC
    SELECT CASE WHEN bool_and(o.opcnamespace = 'pg_catalog'::regnamespace
                              AND a.atttypid = ANY (inorder_internal.order_types())
                              AND (a.attgenerated = ''::"char" OR n.attgenerated <> ''::"char"))
                THEN array_agg(a.attname ORDER BY k.place) ELSE '{}'::name[] END
    FROM pg_index AS i
    CROSS JOIN ROWS FROM (unnest(i.indkey::smallint[]), unnest(i.indclass::oid[])) WITH ORDINALITY
        AS k(attnum, class, place)
    JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
    JOIN pg_attribute AS n ON n.attrelid = i.indrelid AND n.attnum = key_attnum
    JOIN pg_opclass AS o ON o.oid = k.class
    WHERE i.indrelid = relation AND i.indisprimary AND a.attnum <> key_attnum;
END;

-- Report that the table of the feed is not the table of row_type: see feed_is_table().
CREATE FUNCTION inorder_internal.say_other_table(row_type regtype) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE '% is not the table that this query was made for', row_type
    USING ERRCODE = 'object_not_in_prerequisite_state',
          DETAIL = 'The table, or its schema, was renamed, and another relation has its name.',
          HINT = 'Create the query again, in a new transaction.';
END $$;

CREATE FUNCTION inorder_internal.may_be_null(a pg_attribute) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- In PostgreSQL 18 and later, a NOT NULL constraint may be NOT VALID: existing rows need not satisfy it.
    RETURN NOT a.attnotnull
        OR EXISTS (SELECT FROM pg_constraint AS c
                   WHERE c.conrelid = a.attrelid AND c.contype = 'n' AND c.conkey = ARRAY[a.attnum]
                     AND NOT c.convalidated);
END $$;

-- Return true if the predicate of an index has the form number <> 0 or number > 0. Rows with number 0 existed before
-- feed_prepare(). feed_prepare() uses <> 0, because such an index also shows that no number is below 0.
CREATE FUNCTION inorder_internal.leaves_out_old(index pg_index) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    column_name text := pg_get_indexdef(index.indexrelid, 1, false);
BEGIN
    RETURN pg_get_expr(index.indpred, index.indrelid) IN (
        concat('(', column_name, ' <> 0)'), concat('(', column_name, ' <> ''0''::bigint)'),
        concat('(', column_name, ' > 0)'), concat('(', column_name, ' > ''0''::bigint)'));
END $$;

-- Return a btree index that finds the rows of a table by a column, or null. If is_partial is true, the index may lack
-- the rows with number 0.
CREATE FUNCTION inorder_internal.index_of(relation oid, attnum smallint, is_partial boolean)
RETURNS TABLE (index oid)
LANGUAGE sql STABLE
-- The operator class must be one of the server's own, which have OIDs below 16384. The method 403 is btree.
BEGIN ATOMIC
    -- EXISTS would make the planner hash all indexes of the database. The operator classes do not depend on the table,
    -- and are looked up once for all partitions. They are looked up by name, because the catalog has an index on names.
    SELECT (SELECT i.indexrelid FROM pg_index AS i
            WHERE i.indrelid = relation AND i.indisvalid AND i.indkey[0] = attnum
              AND CASE WHEN i.indpred IS NOT DISTINCT FROM NULL THEN true
                       WHEN is_partial THEN inorder_internal.leaves_out_old(i) ELSE false END
              AND i.indclass[0] = ANY (ARRAY(
                  SELECT o.oid FROM pg_opclass AS o
                  WHERE o.opcmethod = 403::oid AND o.oid < 16384::oid
                    AND o.opcname = ANY ('{uuid_ops,int8_ops,int4_ops,int2_ops}'::name[])))
            LIMIT 1);
END;

-- Return false if an index on all rows begins with the column. Return true if only an index that leaves out rows with
-- number 0 begins with the column. Return null if no index begins with the column. feed_enable() stores the result, and
-- each read looks for an index of that kind.
CREATE FUNCTION inorder_internal.has_partial_index(relation regclass, key_attnum smallint) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT CASE WHEN w.index IS NOT NULL THEN false WHEN p.index IS NOT NULL THEN true END
    FROM inorder_internal.index_of(relation::oid, key_attnum, false) AS w
    CROSS JOIN inorder_internal.index_of(relation::oid, key_attnum, true) AS p;
END;

-- Return the table that has taken the former name of this table, for example in an online schema change; null if there
-- is no such table. The former name is the name that was stored when this table was enabled. Callers use this function
-- in an expression, because a separate statement would add its cost to each poll.
CREATE FUNCTION inorder_internal.namesake(t inorder_internal.feed_table) RETURNS regclass
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT;

-- Return the numbers of deleted and updated rows of a table and its partitions, according to statistics.
CREATE FUNCTION inorder_internal.written_over(relation regclass, OUT deleted bigint, OUT updated bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT sum(pg_stat_get_tuples_deleted(m)), sum(pg_stat_get_tuples_updated(m)) INTO deleted, updated
    FROM unnest(inorder_internal.tree(relation)::oid[]) AS m;
END $$;

-- Return true if the changes of a table are logged. The trigger that logs changes is found by its name.
CREATE FUNCTION inorder_internal.has_log(relation regclass) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM pg_trigger AS g
                   WHERE g.tgrelid = relation AND g.tgname = 'zz_inorder_changes_insert');
END $$;

-- Return the name of a table, quoted as a word of a shell command.
CREATE FUNCTION inorder_internal.shell_word(relation regclass) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE WHEN relation::text ~ '^[a-z0-9_.]+$' THEN relation::text
                ELSE concat('''', replace(relation::text, '''', concat('''', chr(92), '''''')), '''') END;
END $$;

-- Return the statement that gives the first column of a log its default.
CREATE FUNCTION inorder_internal.default_statement(log regclass) RETURNS text
LANGUAGE sql STABLE
RETURN (SELECT format('ALTER TABLE %s ALTER %I SET DEFAULT %s()', log, a.attname,
                      '@extschema@.uuid_xact_nextval(bigint)'::regprocedure::oid::regproc)
        FROM pg_attribute AS a WHERE a.attrelid = log AND a.attnum > 0 AND NOT a.attisdropped
        ORDER BY a.attnum LIMIT 1);

-- Return a hint that explains how to make a table readable: with feed_enable(), with another column, with a log of its
-- changes or, for an exact count, with a count by group.
CREATE FUNCTION inorder_internal.way_to_read(relation regclass, counts boolean) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    statistics record := inorder_internal.written_over(relation);
    shell text := format(' or, from a shell, run inorder prepare %s', inorder_internal.shell_word(relation));
BEGIN
    RETURN CASE
        WHEN EXISTS (SELECT FROM inorder_internal.key_columns(relation))
        THEN format('Its owner must call feed_enable(%L).', relation)
        WHEN EXISTS (SELECT FROM pg_trigger AS g WHERE g.tgrelid = relation AND g.tgname = 'zz_inorder_changes')
        THEN format('The table is a log of changes. Its owner must run %s.',
                    inorder_internal.default_statement(relation))
        WHEN counts AND (statistics.deleted > 0 OR statistics.updated > 0 OR inorder_internal.has_log(relation))
        THEN format('Rows of the table are updated or deleted. To count them, its owner must call '
                    'exact_count_start(%L, by => ''{}'').', relation)
        WHEN inorder_internal.has_log(relation)
        THEN 'The changes of the table are logged: read the log or, from a shell, run inorder tail --changes.'
        WHEN statistics.deleted > 0 OR statistics.updated > 0
        THEN format('Rows of the table are updated or deleted. To follow its changes, let its owner call '
                    'changes_enable(%L)%s --changes.', relation, shell)
        ELSE format('Its owner must run the statements that feed_prepare(%L) returns%s.', relation, shell) END;
END $$;

-- Return the description of a table: the column with the transaction number, the base, the columns that order the rows
-- of a transaction, and the kind of the index.
CREATE FUNCTION inorder_internal.describe(relation regclass, key_column name, counts boolean DEFAULT false)
RETURNS inorder_internal.feed_table
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t inorder_internal.feed_table;
    key_attnum smallint;
    amount bigint;
BEGIN
    PERFORM inorder_internal.check_local(relation), inorder_internal.check_kind(relation);
    t.relation := relation;
    SELECT count(*) OVER (), a.attnum, a.attname, a.atttypid = 'uuid'::regtype, a.attgenerated = 's', k.base
    INTO amount, key_attnum, t.key_column, t.is_uuid, t.is_generated, t.base
    FROM inorder_internal.key_columns(relation) AS k JOIN pg_attribute AS a USING (attnum)
    WHERE a.attrelid = relation AND (describe.key_column IS NULL OR a.attname = describe.key_column)
    ORDER BY a.attnum;
    IF amount IS DISTINCT FROM 1 THEN
        RAISE 'table % has % with the transaction number', relation,
            CASE WHEN amount > 1 THEN 'several columns'
                 WHEN key_column IS NOT NULL THEN format('no column %I', key_column) ELSE 'no column' END
        USING ERRCODE = CASE WHEN amount > 1 THEN 'ambiguous_column' ELSE 'undefined_column' END,
              DETAIL = 'The column is recognized by its default, uuid_xact_nextval() or xact_id(), or as '
                       'GENERATED ALWAYS AS (xact_id_generated()) STORED; the argument may be a constant.',
              HINT = CASE WHEN amount > 1 THEN 'Pass the name of the column to use.'
                          ELSE inorder_internal.way_to_read(relation, counts) END;
    END IF;
    t.is_partial := inorder_internal.has_partial_index(relation, key_attnum);
    IF t.is_partial IS NULL THEN
        RAISE 'table % has no index that begins with column %', relation, quote_ident(t.key_column)
        USING ERRCODE = 'undefined_object',
              HINT = format('A valid btree index of the default operator class, on all rows or WHERE %I <> 0, is '
                            'needed: CREATE INDEX ON %s (%1$I).', t.key_column, relation);
    END IF;
    t.order_columns := CASE WHEN t.is_uuid THEN ARRAY[t.key_column]
                            ELSE inorder_internal.order_columns(relation, key_attnum) END;
    RETURN t;
END $$;

-- Return the columns that readers depend on. The first column has the transaction number.
CREATE FUNCTION inorder_internal.known_columns(t inorder_internal.feed_table) RETURNS name[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN (t).is_uuid THEN (t).order_columns ELSE (t).key_column || (t).order_columns END;

-- Return the trigger that refuses TRUNCATE of a table or partition, in the format of pg_get_triggerdef().
CREATE FUNCTION inorder_internal.truncate_definition(relation regclass, t inorder_internal.feed_table) RETURNS text
LANGUAGE sql STABLE
RETURN format('CREATE TRIGGER zz_inorder_truncate BEFORE TRUNCATE ON %s FOR EACH STATEMENT '
              'EXECUTE FUNCTION %s(%L)'::text, relation, inorder_internal.guard_function()::regproc, (t).base);

-- Return the guard's triggers on a table or partition, in the format of pg_get_triggerdef(). Partitions inherit the row
-- triggers, but not the trigger for TRUNCATE.
CREATE FUNCTION inorder_internal.guard_definitions(relation regclass, t inorder_internal.feed_table)
RETURNS TABLE (name name, definition text)
LANGUAGE sql STABLE
-- Triggers fire in the order of their names. A trigger that fires after the guard and could change the key causes an
-- error (later_trigger). The guard of a generated number is an AFTER trigger. No statement can supply the value of a
-- generated column, and a BEFORE UPDATE trigger would make the server recompute the column in each update.
BEGIN ATOMIC
    SELECT d.name, format('CREATE TRIGGER %s %s ON %s FOR EACH ROW EXECUTE FUNCTION %s(%L)'::text, d.name, d.events,
                          relation, inorder_internal.guard_function()::regproc, (t).base)
    FROM (VALUES
        ('zz_inorder_guard'::name, format(
            CASE WHEN (t).is_generated THEN 'AFTER DELETE OR UPDATE OF %s'::text
                 ELSE 'BEFORE INSERT OR DELETE OR UPDATE OF %s'::text END,
            (SELECT string_agg(quote_ident(c), ', '::text) FROM unnest(inorder_internal.known_columns(t)) AS c))),
        ('zz_inorder_update'::name, CASE WHEN (t).is_generated THEN 'AFTER UPDATE'::text
                                         ELSE 'BEFORE UPDATE'::text END)) AS d(name, events)
    UNION ALL
    SELECT 'zz_inorder_truncate'::name, inorder_internal.truncate_definition(relation, t)
    WHERE relation::oid = (t).relation::oid;
END;

-- Find a trigger of a table or of a partition that would fire after the guard, and could change a row that the guard
-- has checked; null if there is none.
CREATE FUNCTION inorder_internal.later_trigger(t inorder_internal.feed_table) RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Names are compared by bytes, as refuse_later_trigger() in guard.c does. Bits 1, 2, 4 and 16 of tgtype mean FOR
    -- EACH ROW, BEFORE, INSERT and UPDATE.
    RETURN (SELECT g.oid FROM pg_trigger AS g
            WHERE NOT t.is_generated AND g.tgrelid = ANY (inorder_internal.tree(t.relation)::oid[])
              AND g.tgtype & 3 = 3 AND g.tgenabled <> 'D' AND g.tgfoid <> inorder_internal.guard_function()
              AND (g.tgtype & 4 <> 0 AND g.tgname > 'zz_inorder_guard'::name
                   OR g.tgtype & 16 <> 0 AND g.tgname > 'zz_inorder_update'::name)
            ORDER BY g.tgparentid <> 0, g.tgname LIMIT 1);
END $$;

-- Return true if a table or partition has the guard's triggers as feed_enable() creates them, and the column with the
-- number is unchanged. Writes of a transaction with an older snapshot fire the current triggers. quote_all_identifiers
-- must be off.
CREATE FUNCTION inorder_internal.guard_state(relation regclass, t inorder_internal.feed_table)
RETURNS TABLE (is_valid boolean)
LANGUAGE sql STABLE
-- A function that returns rows is inlined into the statement that calls it.
BEGIN ATOMIC
    SELECT bool_and((SELECT g.tgfoid = inorder_internal.guard_function() AND g.tgenabled = 'A'::"char"
                            AND pg_get_triggerdef(g.oid) = w.definition AND NOT inorder_internal.is_changed(g.xmax)
                     FROM pg_trigger AS g WHERE g.tgrelid = relation::oid AND g.tgname = w.name) IS TRUE)
       AND EXISTS (SELECT FROM pg_attribute AS a
                   WHERE a.attrelid = relation::oid AND a.attname = (inorder_internal.known_columns(t))[1]
                     AND NOT a.attisdropped
                     AND a.atttypid = CASE WHEN (t).is_uuid THEN 'uuid'::regtype::oid ELSE 'bigint'::regtype::oid END
                     AND (a.attgenerated <> ''::"char") = (t).is_generated)
    FROM inorder_internal.guard_definitions(relation, t) AS w;
END;

CREATE FUNCTION inorder_internal.has_guard(t inorder_internal.feed_table) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
BEGIN
    -- In the extension, this call locks the table, and the result remains valid until the transaction ends.
    PERFORM inorder_internal.hides_rows(0::oid, t.relation);
    RETURN (SELECT s.is_valid FROM inorder_internal.guard_state(t.relation, t) AS s);
END $$;

CREATE FUNCTION inorder_internal.hides_rows(caller oid, relation regclass) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT;

-- Return the columns that distinguish rows of one transaction, with every property that determines the order of the
-- rows.
CREATE FUNCTION inorder_internal.order_definition(t inorder_internal.feed_table) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF t.is_uuid THEN
        RETURN ARRAY[format('%I uuid', t.key_column)];
    END IF;
    -- The default collation is written with its locale, because the default locales of databases differ. The locale of
    -- providers other than libc is in daticulocale before PostgreSQL 17, and in datlocale in later versions.
    RETURN (
        SELECT array_agg(format('%I %s%s', a.attname, format_type(a.atttypid, a.atttypmod),
                                CASE WHEN a.attcollation = '"default"'::regcollation::oid
                                     THEN concat(' COLLATE ', (
                                         SELECT format('%I.%s', 'default', quote_ident(concat_ws(
                                                    '/', d.datlocprovider, coalesce(
                                                        to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale',
                                                        d.datcollate))))
                                         FROM pg_database AS d WHERE d.datname = current_database()))
                                     WHEN a.attcollation <> 0::oid
                                     THEN concat(' COLLATE ', a.attcollation::regcollation) END) ORDER BY c.place)
        FROM unnest(t.order_columns) WITH ORDINALITY AS c(name, place)
        JOIN pg_attribute AS a ON a.attrelid = t.relation::oid AND a.attname = c.name AND NOT a.attisdropped);
END $$;

-- Return the version of a catalog row. The lower 32 bits are the id of the transaction that wrote the row. The upper
-- bits are a hash of the place (ctid) of the row if is_placed is true, or if that transaction may still have been in
-- progress when the current transaction began. The result is below 2^53, so that a double represents it exactly.
CREATE FUNCTION inorder_internal.version(writer xid, place tid, catalog regclass, is_placed boolean)
RETURNS bigint
LANGUAGE sql STABLE
-- One transaction may change a row several times, and each version of the row has a different place. VACUUM FULL moves
-- rows, and creates a new file for the catalog. A frozen row keeps its transaction id, which appears to be in the
-- future after two billion transactions; the lower bound of age() excludes such ids.
RETURN CASE WHEN is_placed OR age(writer) BETWEEN -16777216 AND 0
            THEN ((hashtext(concat(place, pg_relation_filenode(catalog))) & 1048575) + 1048576)::bigint << 32
            ELSE 0::bigint END | writer::text::bigint;

-- Return true if stored versions equal the given versions. All given versions include the hash of a place, which stored
-- versions may lack.
CREATE FUNCTION inorder_internal.are_versions(stored text[], placed bigint[]) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF stored IS NOT DISTINCT FROM placed::text[] THEN
        RETURN true;
    END IF;
    -- There are few versions, for which a loop takes less time than a query.
    FOR i IN 1 .. coalesce(cardinality(placed), 0) LOOP
        IF stored[i] NOT IN (placed[i]::text, (placed[i] & 4294967295)::text) THEN
            RETURN false;
        END IF;
    END LOOP;
    RETURN cardinality(stored) = cardinality(placed);
END $$;

-- Return the versions of the guard's triggers. If the number is generated, the version of its expression follows.
-- Return null if there is no guard.
CREATE FUNCTION inorder_internal.guarded(relation regclass, is_placed boolean) RETURNS bigint[]
AS 'MODULE_PATHNAME', 'guard_versions' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;

CREATE FUNCTION inorder_internal.member(
    relation oid, name text, system text, attached bigint[], guarded bigint[], ordered_by text[]
) RETURNS @extschema@.feed_member
LANGUAGE sql IMMUTABLE
RETURN ROW(relation, name, system, attached, guarded, ordered_by)::@extschema@.feed_member;

-- Return true if two lists differ in any byte. An operator of arrays would be slower, because the server would look up
-- in the catalog how to compare each type in the arrays.
CREATE FUNCTION inorder_internal.differ(remembered @extschema@.feed_member[], members @extschema@.feed_member[])
RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN record_image_ne(ROW(remembered), ROW(members));

-- Return a table and its partitions, as a position stores them. If is_placed is true, the versions include the hashes
-- of places, for a comparison with stored members.
CREATE FUNCTION inorder_internal.members(t inorder_internal.feed_table, is_placed boolean DEFAULT false)
RETURNS @extschema@.feed_member[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    system text := inorder_internal.server_system();
BEGIN
    IF inorder_internal.is_plain(t.relation) THEN
        RETURN ARRAY[inorder_internal.member(
            t.relation::oid, t.relation::regclass::text, system, '{}', inorder_internal.guarded(t.relation, is_placed),
            inorder_internal.order_definition(t))];
    END IF;
    -- Renaming a partition keeps its OID; restoring a dump keeps its name. A partition that was detached, filled and
    -- attached again is recognized only by the versions of its attachment and of the attachments of the partitions
    -- above it.
    RETURN (
        WITH RECURSIVE tree AS (
            SELECT t.relation::oid AS relid, '{}'::bigint[] AS attached
            UNION ALL
            SELECT i.inhrelid, p.attached || inorder_internal.version(i.xmin, i.ctid, 'pg_inherits', is_placed)
            FROM tree AS p CROSS JOIN LATERAL (
                SELECT h.inhrelid, h.xmin, h.ctid FROM pg_inherits AS h
                WHERE h.inhparent = p.relid AND NOT h.inhdetachpending OFFSET 0) AS i
        )
        SELECT array_agg(inorder_internal.member(
                   c.oid, format('%I.%I', n.nspname, c.relname), system, tree.attached,
                   inorder_internal.guarded(c.oid, is_placed),
                   CASE WHEN c.oid = t.relation::oid THEN inorder_internal.order_definition(t) END) ORDER BY c.oid)
        FROM tree
        CROSS JOIN LATERAL (SELECT k.oid, k.relname, k.relnamespace FROM pg_class AS k
                            WHERE k.oid = tree.relid OFFSET 0) AS c
        JOIN pg_namespace AS n ON n.oid = c.relnamespace);
END $$;

-- Compare versions (xmin) of catalog rows with the mark that a pg_upgrade left. Return true if pg_upgrade wrote these
-- rows shortly before the mark, and they have not changed since then.
CREATE FUNCTION inorder_internal.are_upgraded(placed bigint[]) RETURNS boolean
LANGUAGE sql STABLE
-- The mark is the foreign key of upgrade_mark. The id of the transaction that wrote the mark minus the id of the
-- transaction that wrote a row, modulo 2^32, is at most 2^24. age() cannot be used, because after two billion
-- transactions new ids would appear to be older than the mark.
RETURN NOT EXISTS (
    SELECT FROM unnest(placed) AS v
    JOIN pg_constraint AS c ON (c.xmin::text::bigint - v & 4294967295::bigint) > 16777216::bigint
    WHERE c.conrelid = 'inorder_internal.upgrade_mark'::regclass AND c.contype = 'f'::"char");

-- Return the tables that were attached, or whose guard was changed, after the position was made. In a restored
-- database, return the tables whose name the position does not contain. The column was_attached is true if only the
-- guard has changed.
CREATE FUNCTION inorder_internal.new_members(
    t inorder_internal.feed_table, remembered @extschema@.feed_member[], origin text
) RETURNS TABLE (member regclass, was_attached boolean)
LANGUAGE sql STABLE
-- Tables are compared by name only in a restored database, where the position does not contain table t as a table of
-- this server. If table t is not new on this server, its partitions are not compared by name. A table with the same
-- name counts as unchanged if pg_upgrade wrote its catalog rows, or if the position has no origin. A reader that
-- removes the origin from its position accepts the table as it is.
BEGIN ATOMIC
    SELECT m.relation::regclass,
           EXISTS (SELECT FROM unnest(remembered) AS k
                   WHERE k.relation = m.relation
                     AND CASE WHEN k.system = m.system
                              THEN inorder_internal.are_versions(k.attached::text[], m.attached)
                              ELSE inorder_internal.are_upgraded(m.attached) END)
    FROM unnest(inorder_internal.members(t, true)) AS m
    WHERE NOT EXISTS (
        SELECT FROM unnest(remembered) AS k
        WHERE k.relation = m.relation AND k.system = m.system
              AND inorder_internal.are_versions(k.attached::text[], m.attached)
              AND inorder_internal.are_versions(k.guarded::text[], m.guarded)
           OR k.name = m.name AND (origin IS NULL OR inorder_internal.are_upgraded(m.attached || m.guarded))
              AND NOT EXISTS (
                  SELECT FROM unnest(remembered) AS r
                  WHERE r.relation = (t).relation::oid AND r.system = inorder_internal.server_system()));
END;

-- Raise an error if a transaction was read in part, and the order of its rows has changed since then.
CREATE FUNCTION inorder_internal.check_order(
    t inorder_internal.feed_table, remembered @extschema@.feed_member[], number bigint
) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    former text[] := (SELECT k.ordered_by FROM unnest(remembered) AS k WHERE k.ordered_by IS NOT NULL LIMIT 1);
    present text[] := inorder_internal.order_definition(t);
BEGIN
    IF remembered IS NOT NULL AND former IS DISTINCT FROM present THEN
        RAISE 'the key of % has changed since transaction % was read in part', t.relation, number
        USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = format('The feed has read up to a key of (%s); rows of one transaction are now ordered by (%s).',
                              array_to_string(former, ', '), array_to_string(present, ', ')),
              HINT = format('Restore that key, call feed_enable(%L), and continue reading until no transaction is read '
                            'in part and no batch is unfinished. Or call %s with the transactions that have been '
                            'read, with or without this transaction.', t.relation,
                            inorder_internal.seek_call(t.relation, 'transactions'));
    END IF;
END $$;

-- Return the name that a column has now. Queries are parsed with this name, even if the snapshot sees an earlier name.
CREATE FUNCTION inorder_internal.present_name(relation regclass, attnum smallint) RETURNS text
LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT i.object_names[3] FROM pg_identify_object_as_address('pg_class'::regclass, relation, attnum) AS i);
END $$;

-- Return a column that readers depend on, but that no longer exists; null if there is none.
CREATE FUNCTION inorder_internal.lacks(t inorder_internal.feed_table) RETURNS name
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT c FROM unnest(inorder_internal.known_columns(t)) AS c
            WHERE NOT EXISTS (SELECT FROM pg_attribute AS a
                              WHERE a.attrelid = t.relation AND a.attname = c AND NOT a.attisdropped) LIMIT 1);
END $$;

-- Raise an error, because this call waited for feed_enable() or feed_rebase(), and has read the previous state.
CREATE FUNCTION inorder_internal.say_outdated(relation regclass) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE 'table % was enabled again, or rebased, since this call began', relation
    USING ERRCODE = 'serialization_failure', HINT = 'Try again in a new transaction.';
END $$;

-- Raise an error if a description is outdated: the newest snapshot sees another description of the table. In REPEATABLE
-- READ and SERIALIZABLE no newer snapshot is available. If a trigger of inorder was changed after the snapshot was
-- taken, the table may have been rebased or enabled again.
CREATE FUNCTION inorder_internal.refuse_outdated(t inorder_internal.feed_table) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (SELECT record_image_ne(ROW(n.key_column, n.is_uuid, n.is_generated, n.order_columns, n.base, n.is_partial),
                               ROW(t.key_column, t.is_uuid, t.is_generated, t.order_columns, t.base, t.is_partial))
        FROM inorder_internal.feed_table AS n WHERE n.relation = t.relation)
       OR EXISTS (SELECT FROM pg_trigger AS g WHERE g.tgrelid = ANY (inorder_internal.tree(t.relation)::oid[])
                  AND starts_with(g.tgname::text, 'zz_inorder_') AND inorder_internal.is_changed(g.xmax)) THEN
        PERFORM inorder_internal.say_outdated(t.relation);
    END IF;
END $$;

-- Raise the error about a table that is not guarded or, if the newest snapshot sees the guard, the error about a table
-- that was enabled again.
CREATE FUNCTION inorder_internal.say_unguarded(t inorder_internal.feed_table) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lacks name := inorder_internal.lacks(t);
BEGIN
    PERFORM inorder_internal.refuse_outdated(t);
    IF inorder_internal.has_guard(t) THEN
        PERFORM inorder_internal.say_outdated(t.relation);
    END IF;
    IF lacks IS NOT NULL THEN
        RAISE 'table % no longer has column %, on which its feed relies', t.relation, quote_ident(lacks)
        USING ERRCODE = 'undefined_column',
              HINT = format('Rename the column back, or let the owner call feed_enable(%L) again.', t.relation);
    END IF;
    -- In the SQL edition the guard of a restored table was created for another OID. The error must then report that
    -- the table was restored, and not that its guard was changed.
    PERFORM inorder_internal.accepted(t);
    RAISE 'table % has lost the guard of column %', t.relation, quote_ident(t.key_column)
    USING ERRCODE = 'object_not_in_prerequisite_state',
          DETAIL = 'Triggers were disabled, dropped or changed, or another column has this name now. Rows that '
                   'were written in the meantime may have numbers of transactions that readers have already read.',
          HINT = format('The owner must call feed_enable(%L).', t.relation);
END $$;

CREATE FUNCTION inorder_internal.say_hidden(relation regclass) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE 'row security hides rows of % from this role', relation
    USING ERRCODE = 'object_not_in_prerequisite_state',
          DETAIL = 'A feed and an exact count cover all rows, including hidden rows.';
END $$;

CREATE FUNCTION inorder_internal.refuse_hidden(caller oid, relation regclass) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF inorder_internal.hides_rows(caller, relation) THEN
        PERFORM inorder_internal.say_hidden(relation);
    END IF;
END $$;

-- Raise an error if a table can no longer be read by transaction number, if it has no guard, or if row security hides
-- rows.
CREATE FUNCTION inorder_internal.check_table(t inorder_internal.feed_table, caller oid) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    guarded boolean := inorder_internal.has_guard(t);
BEGIN
    PERFORM inorder_internal.check_exists(t.relation), inorder_internal.check_kind(t.relation),
            inorder_internal.refuse_hidden(caller, t.relation);
    IF NOT guarded THEN
        PERFORM inorder_internal.say_unguarded(t);
    END IF;
END $$;

CREATE FUNCTION inorder_internal.say_unaccepted(relation regclass) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE 'table % was restored from a dump, and is not readable yet', relation
    USING ERRCODE = 'object_not_in_prerequisite_state',
          DETAIL = 'Rows of the table, and positions of its feeds, have numbers of another server or another time.',
          HINT = format('The owner of the table must call feed_rebase(%L): '
                        'new numbers are then above the present numbers.', relation);
END $$;

-- Return the description of a table. Raise an error if the table was restored, and feed_rebase() has not accepted it.
CREATE FUNCTION inorder_internal.accepted(t inorder_internal.feed_table) RETURNS inorder_internal.feed_table
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- A restore recomputes generated numbers, which are therefore numbers of this server.
    IF t.written_here IS NOT TRUE AND NOT t.is_generated THEN
        PERFORM inorder_internal.say_unaccepted(t.relation);
    END IF;
    RETURN t;
END $$;

-- Raise an error unless the columns that distinguish the rows of one transaction are still the columns of the primary
-- key.
CREATE FUNCTION inorder_internal.prove_order(t inorder_internal.feed_table) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- In the SQL edition, each admitted role can write the rows of the state. If another role owned the type of a
    -- column, a function of that role would compare the values, with the privileges of the reader.
    IF cardinality(t.order_columns) = 0
       OR NOT t.is_uuid AND (
           SELECT array_agg(a.attname ORDER BY k.place) = t.order_columns
                  AND bool_and(a.atttypid = ANY (inorder_internal.order_types()))
           FROM pg_index AS i CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY AS k(attnum, place)
           JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
           WHERE i.indrelid = t.relation AND i.indisprimary AND i.indisvalid
             AND k.place <= i.indnkeyatts AND a.attname <> t.key_column) THEN
        RETURN;
    ELSIF EXISTS (SELECT FROM unnest(t.order_columns) AS c
                  WHERE NOT EXISTS (SELECT FROM pg_attribute AS a
                                    WHERE a.attrelid = t.relation AND a.attname = c AND NOT a.attisdropped
                                      AND a.atttypid = ANY (inorder_internal.order_types()))) THEN
        PERFORM inorder_internal.refuse_outdated(t);
        RAISE 'the types of the key of table % have changed since the table was enabled', t.relation
        USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = 'Such a key cannot mark a position inside a transaction.',
              HINT = format('The owner must call feed_enable(%L).', t.relation);
    ELSIF t.is_uuid THEN
        RETURN;
    END IF;
    PERFORM inorder_internal.refuse_outdated(t);
    RAISE 'the primary key of table % has changed since the table was enabled', t.relation
    USING ERRCODE = 'object_not_in_prerequisite_state',
          DETAIL = 'Feeds of the table read the rows of one transaction in the order of the former key.',
          HINT = format('The owner must call feed_enable(%L).', t.relation);
END $$;

-- Raise an error unless the columns that readers depend on are unchanged. The guard does not check a generated number,
-- because no statement can supply it. The number depends only on the expression in each table that holds rows.
CREATE FUNCTION inorder_internal.prove_columns(t inorder_internal.feed_table) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    leaf regclass;
BEGIN
    PERFORM inorder_internal.prove_order(t);
    IF t.is_generated THEN
        SELECT c.oid INTO leaf
        FROM unnest(inorder_internal.tree(t.relation)) AS m JOIN pg_class AS c ON c.oid = m AND c.relkind = 'r'
        LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = t.key_column AND NOT a.attisdropped
        LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE inorder_internal.key_base(d.adbin, inorder_internal.generator()) IS DISTINCT FROM t.base
        ORDER BY c.oid LIMIT 1;
    END IF;
    IF leaf IS NOT NULL THEN
        PERFORM inorder_internal.refuse_outdated(t);
        RAISE 'column % of table % is not generated by xact_id_generated() with the base of its feed',
              quote_ident(t.key_column), leaf
        USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = 'Rows of the table may have numbers of other transactions.',
              HINT = format('Give the column that expression. The owner must then call feed_enable(%L).', t.relation);
    END IF;
END $$;

-- Return the description of a table that feed_enable() stored. Raise an error if feed_enable() was not called, or if
-- the table was restored and feed_rebase() has not accepted it.
CREATE FUNCTION inorder_internal.table_of(relation regclass) RETURNS inorder_internal.feed_table
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t inorder_internal.feed_table;
BEGIN
    SELECT * INTO t FROM inorder_internal.feed_table AS f WHERE f.relation = table_of.relation;
    IF FOUND THEN
        RETURN inorder_internal.accepted(t);
    END IF;
    PERFORM inorder_internal.check_local(relation), inorder_internal.check_kind(relation);
    RAISE 'table % is not enabled for feeds and exact counts', relation
    USING ERRCODE = 'object_not_in_prerequisite_state',
          DETAIL = 'Without the guard, rows may have numbers of transactions that readers have already read.',
          HINT = inorder_internal.way_to_read(relation, false);
END $$;
