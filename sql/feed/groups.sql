-- Exact counts by group, for tables whose rows may change. The counts are a view that always returns the same rows as a
-- query with GROUP BY, but seldom reads the table.
--
-- Triggers write into a table of deltas how many rows each statement adds to each group: (group, number of rows,
-- transaction). A fold replaces the visible deltas with their sums. A fold records which transactions have ended: all
-- below "bound" except those in "open". A snapshot that sees the fold also sees all rows that the fold has counted. The
-- groups are therefore
--
--     rows of the newest fold  +  deltas of transactions from "bound" on  +  deltas of transactions in "open"
--
-- in any snapshot, including snapshots on standbys. No row is updated, and no row that a fold has counted is read
-- again. The fold also keeps a proof: files, triggers and columns of the table. The view compares the proof with the
-- current state of the table; if these differ, the view counts the rows of the table. Each delta of a partitioned table
-- records the partitions at the time of the statement that wrote the delta. If a delta and the newest fold record
-- different partitions, the view counts the rows of the table. The view, the table of deltas and the functions belong
-- to the owner of the table. A set of groups is identified by the function of its row trigger.

-- A set of groups. The set consists of the table, its group columns, the qualified names of three objects (the view,
-- the table of deltas, and the function that folds), and the part of trigger names that distinguishes the set. The
-- function of the row trigger and the table of deltas have the same name.
CREATE TYPE inorder_internal.group_set AS (
    relation regclass, view text, deltas text, folding text, columns name[], id text
);

-- Return the part of trigger names that distinguishes the sets of a table.
CREATE FUNCTION inorder_internal.group_id(view text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN to_hex(hashtext(view));

-- Return the set of a view. The name of the view is shortened so that the longest suffix fits into the 63 bytes of a
-- name.
CREATE FUNCTION inorder_internal.group_set(relation regclass, schema name, view text, columns name[])
RETURNS inorder_internal.group_set
LANGUAGE sql IMMUTABLE
RETURN (SELECT ROW(relation, format('%I.%I', schema, v.name), format('%I.%I', schema, concat(v.name, '_deltas')),
                   format('%I.%I', schema, concat(v.name, '_fold')), columns,
                   inorder_internal.group_id(v.name))::inorder_internal.group_set
        FROM substr(concat('_deltas', view)::name::text, 8) AS v(name));

CREATE FUNCTION inorder_internal.new_group_set(relation regclass, columns name[]) RETURNS inorder_internal.group_set
LANGUAGE sql STABLE
RETURN (SELECT inorder_internal.group_set(
            relation, n.nspname, concat(c.relname, CASE WHEN columns = '{}'::name[] THEN '_count' ELSE
                concat('_by_', array_to_string(columns, '_'::text)) END), columns)
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = relation);

-- Return the sets of groups of a table. A set has the columns of its view, which keep their names if columns of the
-- table are renamed. Any role with the TRIGGER privilege on the table may create a trigger with the name of a trigger
-- of a set. The function of the trigger must therefore belong to the owner of the table.
CREATE FUNCTION inorder_internal.group_sets(relation regclass) RETURNS SETOF inorder_internal.group_set
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY
    SELECT (inorder_internal.group_set(relation, n.nspname, left(f.proname, -7), ARRAY(
        SELECT a.attname FROM pg_class AS v JOIN pg_attribute AS a ON a.attrelid = v.oid AND a.attnum > 0
        WHERE v.relname = left(f.proname, -7) AND v.relnamespace = f.pronamespace AND a.attnum < v.relnatts
        ORDER BY a.attnum))).*
    FROM pg_class AS c JOIN pg_trigger AS g ON g.tgrelid = c.oid
    JOIN pg_proc AS f ON f.oid = g.tgfoid AND f.proowner = c.relowner JOIN pg_namespace AS n ON n.oid = f.pronamespace
    WHERE c.oid = relation AND g.tgname ~ '^zz_inorder_count_[0-9a-f]+_row$' AND f.proname ~ '_deltas$'
    ORDER BY f.proname;
END $$;

-- Return a list of columns. A pattern formats the position and the name of each column.
CREATE FUNCTION inorder_internal.group_list(columns name[], pattern text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN (SELECT coalesce(string_agg(format(pattern, c.place, c.name), ''::text ORDER BY c.place), ''::text)
        FROM unnest(columns) WITH ORDINALITY AS c(name, place));

-- Return the GROUP BY clause of a query whose first columns are the groups. The clause refers to columns by position,
-- because their names may be ambiguous in the result. If there are no columns, there is exactly one group.
CREATE FUNCTION inorder_internal.grouping(columns name[]) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN columns <> '{}'::name[]
            THEN concat(' GROUP BY ', substr(inorder_internal.group_list(columns, ', %s'), 3)) END;

-- Return the columns by which a table and its partitions are partitioned; all columns if a partition key has an
-- expression.
CREATE FUNCTION inorder_internal.partition_columns(relation regclass) RETURNS SETOF name
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY SELECT DISTINCT a.attname
    FROM unnest(inorder_internal.tree(relation)::oid[]) AS m(oid) JOIN pg_partitioned_table AS p ON p.partrelid = m.oid
    JOIN pg_attribute AS a ON a.attrelid = m.oid AND a.attnum > 0 AND NOT a.attisdropped
                          AND ARRAY[a.attnum, 0::int2] && p.partattrs::int2[]
    ORDER BY a.attname;
END $$;

-- Return a BEFORE UPDATE trigger FOR EACH ROW whose name sorts after the names of the triggers of all sets; null if
-- there is none. On a partitioned table or a partition, such a trigger may move a row to another partition after the
-- trigger "move" has fired.
CREATE FUNCTION inorder_internal.late_trigger(partitions oid[]) RETURNS name
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN (SELECT min(g.tgname::text) FROM unnest(partitions) AS m(oid) JOIN pg_trigger AS g ON g.tgrelid = m.oid
            WHERE g.tgname > 'zz_inorder_count_~'::name AND g.tgtype & 19 = 19);
END $$;

-- Return a string that describes the state of a table. A fold is valid as long as this string is unchanged. Return null
-- if the table has or had inheritance children, or has a trigger that may move rows unnoticed (late_trigger). Also
-- return null if a catalog row of the table, the deltas or the function was changed after the snapshot was taken. The
-- files and partitions are those that the planner sees now; everything else is as the snapshot sees it. The last word,
-- if any, is the string that identifies the partitions in deltas (delta_tree). The pg_class row of a table is updated
-- when the owner, name, schema or row security of the table changes, or when the first rule or the first child is
-- added. If a rule or a child is added and removed, the new version of the row still shows this, although ANALYZE or
-- VACUUM resets relhassubclass and relhasrules.
CREATE FUNCTION inorder_internal.exact_count_proof(caller oid, relation regclass, deltas regclass, columns name[])
RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN (SELECT concat_ws(' ', inorder_internal.server_system(), hashtextextended(concat_ws(
                ',', f.oid, f.xmin, d.oid, d.xmin, pg_relation_filenode(d.oid), (
                    SELECT sum(hash_record_extended(ROW(p.name, p.xmin), 0))
                    FROM (SELECT a.attname, a.xmin FROM pg_attribute AS a WHERE a.attrelid = d.oid AND a.attnum > 0
                          UNION ALL SELECT g.tgname, g.xmin FROM pg_trigger AS g WHERE g.tgrelid = d.oid)
                        AS p(name, xmin)), v.oid, v.relowner, c.xmin,
                inorder_internal.versions(m.members, columns, concat(
                    'zz_inorder_count_', inorder_internal.group_id(left(f.proname, -7)), '_')::name),
                ARRAY(SELECT pg_relation_filenode(u.oid) FROM unnest(m.members) AS u(oid))), 0),
                CASE c.relkind WHEN 'p' THEN hashtextextended(array_to_string(m.members, ','), 0) END)
            FROM pg_class AS c JOIN pg_class AS d ON d.oid = deltas
            JOIN pg_proc AS f ON f.proname = d.relname AND f.pronamespace = d.relnamespace AND f.pronargs = 0
            LEFT JOIN pg_class AS v ON v.relname = left(d.relname, -7)::name AND v.relnamespace = d.relnamespace
            -- OFFSET 0 makes the server look up the partitions once.
            CROSS JOIN LATERAL (SELECT CASE c.relkind WHEN 'r' THEN ARRAY[c.oid] ELSE ARRAY(
                                    SELECT p.relid FROM pg_partition_tree(c.oid) AS p ORDER BY p.relid)::oid[]
                                END AS members OFFSET 0) AS m
            WHERE c.oid = relation AND NOT (c.relkind = 'r' AND c.relhassubclass)
              AND (c.relkind = 'r' OR inorder_internal.late_trigger(m.members) IS NULL)
              -- Statements of a transaction with an older snapshot fire the current triggers.
              AND NOT EXISTS (
                  SELECT FROM (SELECT c.xmax UNION ALL SELECT d.xmax UNION ALL SELECT f.xmax
                               UNION ALL SELECT a.xmax FROM pg_attribute AS a
                               WHERE a.attrelid = d.oid OR a.attrelid = ANY (m.members) AND a.attname = ANY (columns)
                               UNION ALL SELECT g.xmax FROM pg_trigger AS g WHERE g.tgrelid = ANY (m.members || d.oid))
                      AS k(changed_by)
                  WHERE inorder_internal.is_changed(k.changed_by)));
END $$;

-- Return true if a role may write into a table or some of its columns, directly or through a view. Otherwise raise an
-- error.
CREATE FUNCTION inorder_internal.exact_count_writes(caller oid, relation regclass) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF inorder_internal.may_write(caller, relation, 'INSERT, UPDATE, DELETE') THEN
        RETURN true;
    END IF;
    RAISE 'permission denied for the counts of table %', relation USING ERRCODE = 'insufficient_privilege',
          DETAIL = 'A role may write the counts of a table only if it may write into the table.';
END $$;

-- Return the first part of the function that writes deltas. This part checks the table of deltas. After tables were
-- swapped by renaming, the name of this table may refer to the deltas of another function, or to a table of another
-- owner. A writer must not run the triggers of such a table. After a restore the name refers to a table with another
-- OID.
CREATE FUNCTION inorder_internal.known_deltas(s inorder_internal.group_set) RETURNS text
LANGUAGE sql STABLE
RETURN format('
        IF pg_catalog.to_regclass(%1$L)::pg_catalog.oid OPERATOR(pg_catalog.<>) TG_ARGV[0]::pg_catalog.oid THEN
            PERFORM FROM pg_catalog.pg_trigger AS g
            JOIN pg_catalog.pg_proc AS f ON f.oid OPERATOR(pg_catalog.=) g.tgfoid
            JOIN pg_catalog.pg_class AS c ON c.relname OPERATOR(pg_catalog.=) f.proname
                                         AND c.relnamespace OPERATOR(pg_catalog.=) f.pronamespace
                                         AND c.relowner OPERATOR(pg_catalog.=) f.proowner
            WHERE c.oid OPERATOR(pg_catalog.=) %1$L::pg_catalog.regclass
              AND g.tgrelid OPERATOR(pg_catalog.=) TG_RELID;
            IF NOT FOUND THEN
                RAISE %2$L, %1$L, TG_RELID::pg_catalog.regclass USING ERRCODE = ''object_not_in_prerequisite_state'',
                    HINT = ''Its owner must call exact_count_start() again.'';
            END IF;
        END IF;'::text, (s).deltas, 'table % does not belong to the counts of %'::text);

-- Return the last part of the function that writes deltas. The owner of the schema could replace the function that
-- folds. This function is therefore called only if it belongs to the owner of the deltas.
CREATE FUNCTION inorder_internal.after_deltas(s inorder_internal.group_set) RETURNS text
LANGUAGE sql STABLE
RETURN format('
        -- One out of 2,000 transactions folds, if the role has the privilege.
        IF TG_LEVEL OPERATOR(pg_catalog.=) ''STATEMENT''::pg_catalog.text
           AND pg_catalog.pg_current_xact_id()::pg_catalog.text OPERATOR(pg_catalog.~) ''[02468]000$''::pg_catalog.text
           AND pg_catalog.has_table_privilege(%1$L::pg_catalog.regclass, ''DELETE''::pg_catalog.text) THEN
            PERFORM FROM pg_catalog.pg_proc AS f
            JOIN pg_catalog.pg_class AS c ON c.relowner OPERATOR(pg_catalog.=) f.proowner
            WHERE f.oid OPERATOR(pg_catalog.=) pg_catalog.to_regprocedure(%2$L)::pg_catalog.oid
              AND c.oid OPERATOR(pg_catalog.=) %1$L::pg_catalog.regclass::pg_catalog.oid;
            IF FOUND THEN
                PERFORM %2$s;
            END IF;
        END IF;'::text, (s).deltas, concat((s).folding, '()'));

-- Return the name of the setting in which a transaction records that an UPDATE may move rows to another partition.
-- Tables of the same name in two schemas have different settings.
CREATE FUNCTION inorder_internal.moving_setting() RETURNS text
LANGUAGE sql IMMUTABLE
RETURN 'pg_catalog.concat(''inorder.moving_'', TG_ARGV[0])'::text;

-- This part of the function that writes deltas handles an UPDATE of a partitioned table. Rows that MERGE moves to
-- another partition are missing from the transition tables of MERGE. The rows of both transition tables are in the
-- same order.
CREATE FUNCTION inorder_internal.before_deltas(s inorder_internal.group_set) RETURNS text
LANGUAGE sql STABLE
RETURN (SELECT format('
            IF pg_catalog.current_setting(%1$s, true) OPERATOR(pg_catalog.<>) '''' THEN
                PERFORM FROM (SELECT %2$spg_catalog.row_number() OVER () AS place FROM old_rows) AS o
                JOIN (SELECT %2$spg_catalog.row_number() OVER () AS place FROM new_rows) AS k
                  ON o.place OPERATOR(pg_catalog.=) k.place
                WHERE pg_catalog.record_image_ne(ROW(%3$s), ROW(%4$s))
                HAVING pg_catalog.count(*) OPERATOR(pg_catalog.<)
                       pg_catalog.length(pg_catalog.current_setting(%1$s, true));
                IF FOUND THEN
                    RAISE %5$L, TG_RELID::pg_catalog.regclass USING ERRCODE = ''feature_not_supported'',
                        HINT = ''Use UPDATE for these rows.'';
                END IF;
                PERFORM pg_catalog.set_config(%1$s, '''', true);
            END IF;'::text, inorder_internal.moving_setting(), inorder_internal.group_list(k.names, '%2$I AS p%1$s, '),
                substr(inorder_internal.group_list(k.names, ', o.p%s'), 3),
                substr(inorder_internal.group_list(k.names, ', k.p%s'), 3),
                'MERGE moved rows of % to another partition, which cannot be counted'::text)
        FROM (SELECT array_agg(p) AS names FROM inorder_internal.partition_columns((s).relation) AS p) AS k
        WHERE k.names IS DISTINCT FROM NULL);

-- This part of the function that writes deltas skips a detached partition, which has lost the row trigger.
CREATE FUNCTION inorder_internal.unless_detached(s inorder_internal.group_set) RETURNS text
LANGUAGE sql STABLE
RETURN (SELECT format('
        ELSIF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger AS g WHERE g.tgrelid OPERATOR(pg_catalog.=) TG_RELID
                          AND g.tgname OPERATOR(pg_catalog.=) %L) THEN
            RETURN NULL;'::text, concat('zz_inorder_count_', (s).id, '_row'))
        FROM pg_class AS c WHERE c.oid = (s).relation AND c.relkind = 'p');

-- This part of the function that writes deltas finds the partitions of the table; null for a table without partitions.
-- If a partition is created and dropped between two folds, only its deltas remain. A function that locks all partitions
-- finds a partition that already has rows, but that the snapshot does not see. The trigger in C writes the same string
-- (tree_of).
CREATE FUNCTION inorder_internal.delta_tree(s inorder_internal.group_set) RETURNS text
LANGUAGE sql STABLE
RETURN (SELECT '
                WITH RECURSIVE below(relid) AS (
                    SELECT pg_catalog.pg_partition_root(TG_RELID::pg_catalog.regclass)::pg_catalog.oid
                    UNION ALL SELECT i.inhrelid FROM below AS b CROSS JOIN LATERAL (
                        SELECT p.inhrelid FROM pg_catalog.pg_inherits AS p
                        WHERE p.inhparent OPERATOR(pg_catalog.=) b.relid OFFSET 0) AS i
                ), tree(hash) AS (
                    SELECT pg_catalog.hashtextextended(pg_catalog.string_agg(
                               m.relid::pg_catalog.text, '',''::pg_catalog.text ORDER BY m.relid), 0)::pg_catalog.text
                    FROM (SELECT b.relid FROM below AS b
                          UNION SELECT p.relid::pg_catalog.oid FROM pg_catalog.pg_partition_tree(CASE
                              WHEN pg_catalog.current_setting(''transaction_isolation''::pg_catalog.text)
                                   OPERATOR(pg_catalog.<>) ''read committed''::pg_catalog.text
                              THEN pg_catalog.pg_partition_root(TG_RELID::pg_catalog.regclass) END) AS p) AS m)'::text
        FROM pg_class AS c WHERE c.oid = (s).relation AND c.relkind = 'p');

-- Return the number that is added to the "bound" of a fold to get "xact" in the rows of the fold. One index then finds
-- deltas and folds. With two partial indexes, a statement that inserts one row took 10 % longer. The index does not
-- contain the group. Reading one of 5,000 groups therefore takes 2.6 ms instead of 1.6 ms; with 100 groups there is no
-- difference.
CREATE FUNCTION inorder_internal.fold_base() RETURNS text
LANGUAGE sql IMMUTABLE
RETURN '9223372036854775808'::text;

-- Return the queries for the rows that are added up: deltas of later transactions, deltas of transactions that were in
-- progress at the time of the fold, and the rows of the fold. "fold" is a pattern for an expression that returns a
-- column of the fold. After VACUUM during a long transaction the table of deltas has few rows in many pages, and the
-- planner would read this whole table. ORDER BY and LIMIT make the planner use the index. The value of LIMIT is unknown
-- to the planner, which then expects a tenth of the rows. With one value the planner ignores ORDER BY; with "= ANY" it
-- does not.
CREATE FUNCTION inorder_internal.added_rows(s inorder_internal.group_set, list text, fold text) RETURNS SETOF text
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT format('(SELECT %s FROM %s AS d WHERE d.xact %s ORDER BY d.xact LIMIT (SELECT NULL::int8))'::text,
                  list, (s).deltas, format(k.added, format(fold, k.name), inorder_internal.fold_base()))
    FROM (VALUES ('bound'::text, '>= %s AND d.xact <= ''%s''::xid8'::text), ('open', '= ANY ((%s)::xid8[])'),
                 ('xact', '= ANY (ARRAY[%s])')) AS k(name, added);
END;

-- Return the condition that a fold "f" and all deltas that are added to it record the same partitions; null for a table
-- without partitions. With one condition for the deltas of later transactions and the deltas of open transactions, the
-- server would read all deltas, including folded deltas.
CREATE FUNCTION inorder_internal.same_tree(s inorder_internal.group_set) RETURNS text
LANGUAGE sql STABLE
RETURN (SELECT string_agg(format(' AND NOT EXISTS (SELECT FROM %s AS d WHERE d.proof IS DISTINCT FROM f.tree)'::text,
                                 k.query), ''::text)
        FROM pg_class AS c
        CROSS JOIN inorder_internal.added_rows(s, 'd.proof'::text, 'f.%s'::text) WITH ORDINALITY AS k(query, place)
        WHERE c.oid = (s).relation AND c.relkind = 'p' AND k.place < 3);

-- Return the columns of deltas that the triggers write, with the privileges of any role that writes into the table.
CREATE FUNCTION inorder_internal.delta_columns(s inorder_internal.group_set) RETURNS text
LANGUAGE sql STABLE
RETURN concat(inorder_internal.group_list((s).columns, 'g%s, '), 'n'::text,
              CASE WHEN inorder_internal.delta_tree(s) <> ''::text THEN ', proof'::text END);

-- Return the body of the function that writes deltas. The function runs with the search_path of the caller, and must
-- not depend on this search_path. Columns of the rows are not qualified with a table name, because a qualified name may
-- also refer to a function.
CREATE FUNCTION inorder_internal.group_body(s inorder_internal.group_set) RETURNS text
LANGUAGE sql STABLE
RETURN format('
#variable_conflict use_column
BEGIN
    IF TG_WHEN OPERATOR(pg_catalog.=) ''AFTER''::pg_catalog.text THEN%14$s
        IF TG_LEVEL OPERATOR(pg_catalog.=) ''ROW''::pg_catalog.text THEN
            IF TG_OP OPERATOR(pg_catalog.<>) ''INSERT''::pg_catalog.text THEN
                %1$s VALUES (%8$s-1%13$s);
            END IF;
            IF TG_OP OPERATOR(pg_catalog.<>) ''DELETE''::pg_catalog.text THEN
                %1$s VALUES (%9$s1%13$s);
            END IF;%12$s
        ELSIF TG_OP OPERATOR(pg_catalog.=) ''INSERT''::pg_catalog.text THEN
            %1$s SELECT %2$spg_catalog.count(*)%13$s FROM new_rows%4$s;
        ELSIF TG_OP OPERATOR(pg_catalog.=) ''DELETE''::pg_catalog.text THEN
            %1$s SELECT %2$sOPERATOR(pg_catalog.-) pg_catalog.count(*)%13$s FROM old_rows%4$s;
        ELSE%6$s
            %1$s SELECT %3$spg_catalog.sum(n)%13$s FROM (
                SELECT %2$s1 AS n FROM new_rows UNION ALL SELECT %2$s-1 FROM old_rows) AS k%5$s
            HAVING pg_catalog.sum(n) OPERATOR(pg_catalog.<>) 0;
        END IF;%7$s
    ELSIF TG_RELID OPERATOR(pg_catalog.<>) %10$L::pg_catalog.regclass THEN
        IF TG_OP OPERATOR(pg_catalog.=) ''UPDATE''::pg_catalog.text THEN
            PERFORM pg_catalog.set_config(
                %11$s, pg_catalog.concat(pg_catalog.current_setting(%11$s, true), ''x''), true);
        END IF;
        RETURN NEW;
    ELSIF pg_catalog.pg_trigger_depth() OPERATOR(pg_catalog.>) 1 AND TG_OP OPERATOR(pg_catalog.=) ''INSERT''
          OR pg_catalog.current_setting(''inorder.folding'', true) OPERATOR(pg_catalog.=) TG_RELID::pg_catalog.text THEN
        RETURN CASE WHEN TG_OP OPERATOR(pg_catalog.=) ''DELETE''::pg_catalog.text THEN OLD ELSE NEW END;
    END IF;
    RETURN NULL;
END
'::text, format('INSERT INTO %s (%s)%s', (s).deltas, inorder_internal.delta_columns(s), inorder_internal.delta_tree(s)),
    inorder_internal.group_list((s).columns, '%2$I AS g%1$s, '), inorder_internal.group_list((s).columns, 'g%s, '),
    coalesce(inorder_internal.grouping((s).columns), ' HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 0'::text),
    inorder_internal.grouping((s).columns), inorder_internal.before_deltas(s), inorder_internal.after_deltas(s),
    inorder_internal.group_list((s).columns, 'OLD.%2$I, '), inorder_internal.group_list((s).columns, 'NEW.%2$I, '),
    (s).deltas, inorder_internal.moving_setting(), inorder_internal.unless_detached(s),
    CASE WHEN inorder_internal.delta_tree(s) <> ''::text THEN ', (SELECT t.hash FROM tree AS t)'::text END,
    inorder_internal.known_deltas(s));

-- Return the name of the function that the statement triggers call.
CREATE FUNCTION inorder_internal.counting_function(s inorder_internal.group_set) RETURNS text
LANGUAGE sql STABLE
RETURN concat(inorder_internal.public_schema(), '.exact_count_trigger');

-- Return the triggers of a set. On the table and its partitions, statement triggers write deltas. If
-- session_replication_role is replica, as in a subscription, rows are written without a statement, and row triggers
-- write the deltas. Triggers on the deltas skip deltas that come from a publisher or a dump, because the rows that such
-- deltas describe are counted when the rows are inserted here. Triggers without a definition are clones: the server
-- creates them with the trigger of the table, and drops them when a partition is detached.
--
-- The trigger "routed" does nothing. If a partition has a BEFORE INSERT trigger, even one that does not fire,
-- transition tables contain each row as the partition stores it. Without such a trigger, transition tables contain the
-- row before generated columns were computed. After MERGE has inserted a row, PostgreSQL 18.6 also puts that row in the
-- place of each row that MERGE updates (tcs_original_insert_tuple in src/backend/executor/nodeModifyTable.c).
--
-- The trigger "alone" never fires, and is a row trigger with a transition table. The server does not let a table with
-- such a trigger become a child or a partition of another table. Otherwise statements on that other table would change
-- rows of this table without firing the statement triggers of this table.
CREATE FUNCTION inorder_internal.group_triggers(s inorder_internal.group_set)
RETURNS TABLE (relation oid, name name, enabled "char", definition text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY
    SELECT d.relation, concat('zz_inorder_count_', s.id, '_', d.suffix)::name, d.enabled,
           format('TRIGGER %s ', concat('zz_inorder_count_', s.id, '_', d.suffix)) || d.definition
           || format(' EXECUTE FUNCTION %s(%s)', d.function, (
                  SELECT string_agg(concat('''', replace(a, '''', ''''''), ''''), ', ' ORDER BY place)
                  FROM unnest(d.arguments) WITH ORDINALITY AS u(a, place)))
    FROM (
        SELECT m.oid AS relation, lower(v.event) AS suffix, 'O'::"char" AS enabled,
               format('AFTER %s ON %s %s FOR EACH STATEMENT', v.event, m.oid::regclass, v.referencing) AS definition,
               inorder_internal.counting_function(s) AS function,
               ARRAY[to_regclass(s.deltas)::oid::text] || s.columns::text[] AS arguments
        FROM unnest(inorder_internal.tree(s.relation)::oid[]) AS m(oid)
        CROSS JOIN (VALUES ('INSERT', 'REFERENCING NEW TABLE AS new_rows'),
                           ('UPDATE', 'REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows'),
                           ('DELETE', 'REFERENCING OLD TABLE AS old_rows')) AS v(event, referencing)
        UNION ALL
        SELECT m.oid, v.suffix, v.enabled, CASE WHEN m.oid = s.relation THEN v.definition END, s.deltas,
               ARRAY[to_regclass(s.deltas)::oid::text]
        FROM unnest(inorder_internal.tree(s.relation)::oid[]) AS m(oid)
        CROSS JOIN (
            SELECT 'row', 'R'::"char", format('AFTER INSERT OR DELETE OR UPDATE ON %s FOR EACH ROW', s.relation)
            UNION ALL SELECT 'routed', 'R', format('BEFORE INSERT ON %s FOR EACH ROW', s.relation)
            FROM pg_class AS c WHERE c.oid = s.relation AND c.relkind = 'p'
            UNION ALL SELECT 'alone', 'R', format(
                       'AFTER DELETE ON %s REFERENCING OLD TABLE AS old_rows FOR EACH ROW WHEN (false)', s.relation)
            FROM pg_class AS c WHERE c.oid = s.relation AND c.relkind = 'r'
            UNION ALL
            SELECT 'move', 'O', format(
                       'BEFORE UPDATE ON %s FOR EACH ROW WHEN (pg_catalog.record_image_ne(ROW(%s), ROW(%s)))',
                       s.relation, string_agg(format('OLD.%I', p.name), ', '),
                       string_agg(format('NEW.%I', p.name), ', '))
            FROM inorder_internal.partition_columns(s.relation) AS p(name) HAVING count(*) > 0
        ) AS v(suffix, enabled, definition)
        UNION ALL
        SELECT to_regclass(s.deltas), v.suffix, v.enabled, format('BEFORE %s ON %s FOR EACH ROW', v.event, s.deltas),
               s.deltas, NULL
        FROM (VALUES ('copy', 'A'::"char", 'INSERT'), ('replica', 'R', 'DELETE OR UPDATE')) AS v(suffix, enabled, event)
    ) AS d;
END $$;

-- Return the columns of the table of deltas.
CREATE FUNCTION inorder_internal.delta_definitions(s inorder_internal.group_set) RETURNS text[]
LANGUAGE sql STABLE
RETURN (SELECT coalesce(array_agg(format('g%s %s'::text, k.place, inorder_internal.column_definition(a, a.atttypid))
                                  ORDER BY k.place), '{}'::text[])
        FROM unnest((s).columns) WITH ORDINALITY AS k(name, place)
        JOIN pg_attribute AS a ON a.attrelid = (s).relation AND a.attname = k.name)
       || ARRAY['n bigint'::text, 'xact xid8', 'open xid8[]', 'proof text COLLATE "default"'];

-- Return the default of the column "xact", in the form in which the server returns it. The default checks the
-- privileges of the writer. A trigger with a condition that checks these privileges would take half of the time of
-- writing a delta, because the server parses the condition for each statement.
CREATE FUNCTION inorder_internal.delta_default(s inorder_internal.group_set) RETURNS text
LANGUAGE sql STABLE
RETURN format('CASE WHEN (has_table_privilege((%1$s::regclass)::oid, ''INSERT, UPDATE, DELETE''::text) '
              'OR %2$s.exact_count_writes(%1$s::regclass)) THEN pg_current_xact_id() ELSE NULL::xid8 END'::text,
              concat('''', replace((s).relation::text, ''''::text, ''''''::text), ''''),
              inorder_internal.public_schema());

-- Return the statements that create the table of deltas.
CREATE FUNCTION inorder_internal.deltas_statements(s inorder_internal.group_set) RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN NEXT format('CREATE TABLE %s (%s)', s.deltas,
                       array_to_string(inorder_internal.delta_definitions(s), ', '));
    RETURN NEXT format('CREATE INDEX ON %s (xact)', s.deltas);
    -- Publications of all tables require a replica identity. With statistics, the planner would read the whole table,
    -- which has few rows in many pages if a snapshot was held for a long time.
    RETURN NEXT format('ALTER TABLE %s REPLICA IDENTITY FULL, ALTER n SET NOT NULL, ALTER xact SET DEFAULT %s, '
                       'ALTER xact SET STATISTICS 0, ALTER proof SET STATISTICS 0',
                       s.deltas, inorder_internal.delta_default(s));
END $$;

CREATE FUNCTION inorder_internal.newest_fold(s inorder_internal.group_set, more text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN format('SELECT f.*%s FROM (SELECT f.xact, (f.xact::text::numeric - %s)::text::xid8 AS bound, f.open, f.proof, '
              'split_part(f.proof, '' ''::text, -1) AS tree FROM %s AS f WHERE f.xact >= ''%2$s''::xid8 '
              'AND f.proof IS NOT NULL ORDER BY f.xact DESC LIMIT 1) AS f'::text,
              more, inorder_internal.fold_base(), (s).deltas);

-- Return the call of exact_count_proof() for a set.
CREATE FUNCTION inorder_internal.proof_call(s inorder_internal.group_set) RETURNS text
LANGUAGE sql STABLE
RETURN format('%s.exact_count_proof(%L::regclass, %L::regclass, %L::name[])'::text, inorder_internal.public_schema(),
              (s).relation, (s).deltas, (s).columns);

-- Return the statement that creates the view, or creates it again if columns were renamed. The planner estimates that
-- an unknown LIMIT returns a tenth of the rows. Three nested LIMITs therefore prevent the planner from using parallel
-- workers and JIT compilation for a part of the query that is seldom executed.
CREATE FUNCTION inorder_internal.view_statement(s inorder_internal.group_set) RETURNS text
LANGUAGE sql STABLE
RETURN format(
    'VIEW %1$s (%2$s) AS WITH fold AS MATERIALIZED (%3$s) '
    'SELECT %4$scoalesce(sum(k.n), 0)::int8 FROM (%5$s '
    'UNION ALL SELECT %6$scount(*) FROM (SELECT * FROM (SELECT * FROM (SELECT %7$s FROM %8$s AS t '
    'LIMIT %9$s) AS t LIMIT %9$s) AS t LIMIT %9$s) AS t%10$s) AS k%10$s%11$s'::text,
    (s).view, concat(inorder_internal.group_list((s).columns, '%2$I, '),
                     quote_ident(inorder_internal.name_beside('count', (s).columns))),
    inorder_internal.newest_fold(s, format(
        ', f.proof = %s%s AS stands'::text, inorder_internal.proof_call(s), inorder_internal.same_tree(s))),
    inorder_internal.group_list((s).columns, 'k.g%s, '), (
        SELECT string_agg(r, ' UNION ALL '::text) FROM inorder_internal.added_rows(
            s, concat(inorder_internal.group_list((s).columns, 'd.g%s, '), 'd.n'::text),
            '(SELECT f.%s FROM fold AS f WHERE f.stands)'::text) AS r
    ), inorder_internal.group_list((s).columns, 't.g%s, '),
    coalesce(substr(nullif(inorder_internal.group_list((s).columns, ', t.%2$I AS g%1$s'), ''::text), 3),
             '1 AS one'::text),
    (s).relation, 'CASE WHEN (SELECT f.stands FROM fold AS f) THEN 0 END'::text,
    inorder_internal.grouping((s).columns),
    CASE WHEN (s).columns <> '{}'::name[] THEN ' HAVING sum(k.n) <> 0'::text END);

-- Return true if columns in the view of a set have been renamed.
CREATE FUNCTION inorder_internal.has_renamed(s inorder_internal.group_set) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
BEGIN
    RETURN EXISTS (SELECT FROM unnest(s.columns) WITH ORDINALITY AS k(name, place)
                   WHERE k.name <> concat('g', k.place)
                     AND strpos(pg_get_viewdef(to_regclass(s.view)), format('.%I AS g%s', k.name, k.place)) = 0);
END $$;

-- Return the statements that create or repair a set whose table of deltas exists.
CREATE FUNCTION inorder_internal.group_statements(s inorder_internal.group_set) RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Default privileges may have granted privileges on the deltas. Only INSERT is needed, by every role that writes
    -- into the table.
    RETURN QUERY SELECT format('REVOKE ALL ON %s FROM %s CASCADE', s.deltas, CASE
                            WHEN a.grantee = 0 THEN 'PUBLIC'
                            ELSE quote_ident(inorder_internal.role_name(a.grantee)) END)
    FROM pg_class AS c CROSS JOIN LATERAL aclexplode(c.relacl) AS a
    WHERE c.oid = to_regclass(s.deltas) AND a.grantee <> c.relowner AND to_regclass(s.view) IS NULL GROUP BY a.grantee;
    RETURN NEXT format('GRANT INSERT (%s) ON TABLE %s TO PUBLIC', inorder_internal.delta_columns(s), s.deltas);
    RETURN NEXT format('CREATE %s FUNCTION %s() RETURNS void LANGUAGE sql BEGIN ATOMIC SELECT '
                       '%s.exact_count_fold_soon(%L::regclass, %L::regclass); END', 'OR REPLACE', s.folding,
                       inorder_internal.public_schema(), s.relation, s.deltas);
    RETURN NEXT format('GRANT ALL ON FUNCTION %s() TO PUBLIC', s.folding);
    RETURN NEXT inorder_internal.function_statement(s.deltas, inorder_internal.group_body(s));
    RETURN NEXT format('REVOKE ALL ON FUNCTION %s() FROM PUBLIC', s.deltas);
    RETURN QUERY SELECT u.statement FROM inorder_internal.group_triggers(s) AS t CROSS JOIN LATERAL (VALUES
        (CASE WHEN t.definition IS NOT NULL THEN format('CREATE %s %s', 'OR REPLACE', t.definition) END),
        (format('ALTER TABLE %s ENABLE %s TRIGGER %I', t.relation::regclass,
                CASE t.enabled WHEN 'R' THEN 'REPLICA' WHEN 'A' THEN 'ALWAYS' END, t.name))) AS u(statement)
    WHERE u.statement IS NOT NULL;
    IF to_regclass(s.view) IS NULL OR inorder_internal.has_renamed(s) THEN
        RETURN NEXT format('CREATE %s %s', 'OR REPLACE', inorder_internal.view_statement(s));
    END IF;
END $$;

-- Return the reason why rows cannot be counted by a column, or null.
CREATE FUNCTION inorder_internal.group_problem(relation regclass, column_name name) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT CASE
                WHEN a.attnum IS NULL THEN 'does not exist'
                WHEN a.atttypid = ANY ('{float4, float8}'::regtype[]::oid[])
                THEN 'has a floating-point type, whose values are not exact'
                WHEN a.atttypid <> ALL (inorder_internal.order_types()) AND y.typtype <> 'e'
                THEN format('is of type %s, which is not supported', a.atttypid::regtype)
                WHEN NOT l.collisdeterministic THEN 'has a nondeterministic collation: equal values may differ as text'
                WHEN a.attgenerated = 'v' THEN 'is a virtual generated column' END
            FROM pg_class AS c
            LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = column_name AND a.attnum > 0
                                       AND NOT a.attisdropped
            LEFT JOIN pg_type AS y ON y.oid = a.atttypid LEFT JOIN pg_collation AS l ON l.oid = a.attcollation
            WHERE c.oid = relation);
END $$;

-- Return a list of the first 20 columns of a table, for a hint.
CREATE FUNCTION inorder_internal.first_columns(relation regclass) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT concat(string_agg(quote_ident(a.attname), ', ' ORDER BY a.place) FILTER (WHERE a.place <= 20),
                          CASE WHEN count(*) > 20 THEN ' and others' END)
            FROM (SELECT c.attname, row_number() OVER (ORDER BY c.attnum) AS place FROM pg_attribute AS c
                  WHERE c.attrelid = relation AND c.attnum > 0 AND NOT c.attisdropped) AS a);
END $$;

-- Raise an error unless the caller is the owner of a table whose rows can be counted by some columns.
CREATE FUNCTION inorder_internal.check_groups(caller oid, relation regclass, columns name[]) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner oid := (SELECT c.relowner FROM pg_class AS c WHERE c.oid = relation);
    problem text := coalesce(inorder_internal.statement_problem(relation),
        'has a trigger that fires after the triggers that count: ' || inorder_internal.late_trigger(ARRAY(
            SELECT p.relid FROM pg_partition_tree(relation) AS p)::oid[]), (
        SELECT 'had child tables, and has not been analyzed since' FROM pg_class AS c
        WHERE c.oid = relation AND c.relkind = 'r' AND c.relhassubclass));
BEGIN
    PERFORM inorder_internal.check_local(relation);
    IF owner <> caller THEN
        RAISE 'must be owner of table % to count its rows by group', relation USING ERRCODE = 'insufficient_privilege',
              HINT = format('SET ROLE %s', quote_ident(inorder_internal.role_name(owner)));
    ELSIF problem IS NOT NULL THEN
        RAISE 'cannot count % by group: it %', relation, problem USING ERRCODE = 'wrong_object_type',
              HINT = 'A table must be permanent, and have no children except partitions. Instead of a partition, count '
                     'its parent table.';
    END IF;
    SELECT format('column %I %s', c.name, g.problem) INTO problem
    FROM unnest(columns) WITH ORDINALITY AS c(name, place)
    CROSS JOIN LATERAL inorder_internal.group_problem(relation, c.name) AS g(problem)
    WHERE g.problem IS NOT NULL ORDER BY c.place LIMIT 1;
    IF FOUND THEN
        RAISE 'cannot count % by group: %', relation, problem
        USING ERRCODE = CASE WHEN problem LIKE '% does not exist' THEN 'undefined_column'
                             ELSE 'feature_not_supported' END,
              HINT = CASE WHEN problem LIKE '% does not exist'
                          THEN format('The columns of the table are %s.', inorder_internal.first_columns(relation))
                          ELSE 'Supported types are exact numbers, texts, times, uuid, bool, bytea, bit strings, '
                               'addresses and enumerations.' END;
    END IF;
    PERFORM inorder_internal.refuse_hidden(caller, relation);
END $$;

-- Return the definition of a trigger, without its condition, and without its first argument, because a restore changes
-- this argument.
CREATE FUNCTION inorder_internal.trigger_kind(definition text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN split_part(regexp_replace(definition, '[(]''[0-9]+'''::text, '('::text), ' WHEN '::text, 1);

-- Return true if a table of deltas differs from the table that exact_count_start() creates. Its columns or its default
-- may differ, or it has row security, or rules or child tables, even if they were dropped since.
CREATE FUNCTION inorder_internal.deltas_differ(s inorder_internal.group_set) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
BEGIN
    RETURN (SELECT d.relhasrules OR d.relhassubclass OR d.relrowsecurity
                   OR inorder_internal.delta_definitions(s) IS DISTINCT FROM ARRAY(
                       SELECT format('%s %s', a.attname, inorder_internal.column_definition(a, a.atttypid))
                       FROM pg_attribute AS a
                       WHERE a.attrelid = d.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum)
                   OR NOT EXISTS (
                       SELECT FROM pg_attrdef AS k
                       JOIN pg_attribute AS a ON a.attrelid = k.adrelid AND a.attnum = k.adnum
                       WHERE k.adrelid = d.oid AND a.attname = 'xact'
                         AND ltrim(regexp_replace(pg_get_expr(k.adbin, k.adrelid), '[[:space:]]+', ' ', 'g'))
                             = regexp_replace(inorder_internal.delta_default(s), '[[:space:]]+', ' ', 'g'))
            FROM pg_class AS d WHERE d.oid = to_regclass(s.deltas));
END $$;

-- Return the part of a set that differs from what exact_count_start() creates, or null. A BEFORE trigger FOR EACH ROW
-- on the deltas could change a fold.
CREATE FUNCTION inorder_internal.group_fault(s inorder_internal.group_set) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
BEGIN
    RETURN coalesce((
        SELECT CASE WHEN k.owned < 2
                    THEN format('table %s or view %s is missing, or has another owner', s.deltas, s.view)
                    WHEN f.prosrc IS DISTINCT FROM inorder_internal.group_body(s) OR f.proowner <> c.relowner
                         OR f.prosecdef OR f.proconfig IS NOT NULL
                    THEN format('function %s was changed', s.deltas)
                    WHEN inorder_internal.has_renamed(s)
                    THEN format('columns that view %s counts were renamed', s.view)
                    WHEN inorder_internal.deltas_differ(s)
                    THEN format('table %s has other columns or row security, or has or had rules or child tables',
                                s.deltas) END
        FROM pg_class AS c LEFT JOIN pg_proc AS f ON f.oid = to_regprocedure(concat(s.deltas, '()'))
        CROSS JOIN LATERAL (SELECT count(*) AS owned FROM pg_class AS k WHERE k.relowner = c.relowner
                            AND k.oid IN (to_regclass(s.deltas), to_regclass(s.view))) AS k
        WHERE c.oid = s.relation
    ), (
        SELECT format('trigger %I of table %s is missing or was changed', t.name, t.relation::regclass)
        FROM inorder_internal.group_triggers(s) AS t
        LEFT JOIN pg_trigger AS g ON g.tgrelid = t.relation AND g.tgname = t.name
        WHERE g.tgenabled IS DISTINCT FROM t.enabled
           OR inorder_internal.trigger_kind(pg_get_triggerdef(g.oid))
              <> inorder_internal.trigger_kind('CREATE ' || t.definition)
        ORDER BY t.relation, t.name LIMIT 1
    ), (
        SELECT format('trigger %I of table %s may change deltas', min(g.tgname::text), s.deltas) FROM pg_trigger AS g
        WHERE g.tgrelid = to_regclass(s.deltas) AND g.tgtype & 3 = 3
          AND g.tgfoid <> to_regprocedure(concat(s.deltas, '()')) HAVING count(*) > 0));
END $$;

CREATE FUNCTION inorder_internal.say_fault(s inorder_internal.group_set, fault text, remedy text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE '% differs from what exact_count_start() creates', s.view
    USING ERRCODE = 'object_not_in_prerequisite_state', DETAIL = fault, HINT = remedy;
END $$;

-- Return the statement that adds up the fold and the deltas that a snapshot sees, and stores the sums in place of the
-- fold and the deltas. If "recounts" is true, the proof is not valid, and the view counts the rows of the table. All
-- folds and deltas are then deleted, because deltas of another server may have numbers that this server has not
-- reached.
CREATE FUNCTION inorder_internal.adding_statement(s inorder_internal.group_set, recounts boolean) RETURNS text
LANGUAGE sql STABLE
RETURN format('
        WITH ended AS MATERIALIZED (SELECT %1$s.ended_transactions(0) AS set), s AS MATERIALIZED (
            SELECT (upper(e.set) + %7$s)::text::xid8 AS xact, ARRAY(
                SELECT generate_series(lower(r), upper(r) - 1)::text::xid8
                FROM unnest(int8multirange(int8range(0, upper(e.set))) - e.set) AS r) AS open
            FROM ended AS e
        ), %2$s
        INSERT INTO %3$s (%4$sn, xact, open, proof)
        SELECT k.*, s.xact, NULL, NULL FROM %5$s AS k CROSS JOIN s
        UNION ALL SELECT %6$s0, s.xact, s.open, proved FROM s'::text, inorder_internal.public_schema(),
    CASE WHEN recounts THEN format('gone AS (DELETE FROM %s)'::text, (s).deltas) ELSE (
        SELECT format('
        f AS MATERIALIZED (%2$s), gone AS (DELETE FROM %1$s AS d WHERE d.ctid = ANY (ARRAY(%3$s)))'::text,
                      (s).deltas, inorder_internal.newest_fold(s, NULL), string_agg(r, ' UNION ALL '::text))
        FROM inorder_internal.added_rows(s, 'd.ctid'::text, '(SELECT f.%s FROM f)'::text) AS r) END,
    (s).deltas, inorder_internal.group_list((s).columns, 'g%s, '), (s).view,
    inorder_internal.group_list((s).columns, 'NULL, '), inorder_internal.fold_base());

-- Return the statement that folds a set. Folds take turns. If the proof is not valid, a fold that may wait counts the
-- rows of the table. If the transaction has written into the table, that fold raises an error instead, because deltas
-- of a statement that has not ended may be missing. The proof is computed before the table is checked for faults, and
-- again at the end. The sums are valid only if both proofs are equal. If the proofs differ, a trigger may have been
-- disabled in the meantime, or a partition added and removed. A partition cannot be removed once its rows have been
-- counted, because counting locks the partition. A fold writes all groups. A fold that does not wait therefore runs
-- only if the number of transactions since the newest fold exceeds the number of groups of that fold.
CREATE FUNCTION inorder_internal.fold_statement(
    s inorder_internal.group_set, proof text, waits boolean, refusal text
) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN format('DO %L', format('
DECLARE
    proved text := %L;
BEGIN
    LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE%s;
    PERFORM set_config(''inorder.folding'', %2$L::regclass::oid::text, true);
    IF (SELECT f.stands FROM (%4$s) AS f) THEN%s;
    ELSIF %L IS NOT NULL THEN
        RAISE USING MESSAGE = %6$L, ERRCODE = ''active_sql_transaction'', HINT = ''Commit first.'';
    ELSIF %L THEN%s;
    END IF;
    PERFORM set_config(''inorder.folding'', '''', true);
    IF (%s = proved) IS NOT TRUE THEN
        RAISE %L, %L USING ERRCODE = ''serialization_failure'', HINT = ''Call exact_count_fold() again.'';
    END IF;
END', proof, s.deltas, CASE WHEN NOT waits THEN ' NOWAIT' END,
        inorder_internal.newest_fold(s, concat(
            ', f.proof = proved', inorder_internal.same_tree(s), CASE WHEN NOT waits THEN format(
                ' AND (SELECT count(*) FROM %s AS d WHERE d.xact = f.xact)'
                ' < pg_snapshot_xmax(pg_current_snapshot())::text::int8 - f.bound::text::int8', s.deltas) END,
            ' AS stands')),
        inorder_internal.adding_statement(s, false), refusal, waits, inorder_internal.adding_statement(s, true),
        inorder_internal.proof_call(s), 'table % was changed while its rows were counted', s.relation));
END $$;

-- Fold a set. The caller is the owner of the table if "waits" is true, otherwise a writer. Raise an error if the
-- transaction holds a lock that DDL statements take on the table, or has changed the pg_class row of the table, as
-- GRANT does. Such a transaction could change the table again, and the proof would not show the change. For a writer
-- the set is not searched for faults, because this would take longer than the fold. As long as the proof of the newest
-- fold is valid, the set has no fault. A writer does not wait for a locked partition. (LOCK TABLE on the view locks the
-- table and all partitions, with the privileges of the owner of the view.) A writer does not fold if a partition
-- belongs to another role. Otherwise the fold might evaluate functions of that role, for example in an index predicate,
-- with the privileges of the table's owner, who has not requested the fold.
CREATE FUNCTION inorder_internal.fold_set(caller oid, s inorder_internal.group_set, waits boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    deltas oid := to_regclass(s.deltas);
    members oid[] := inorder_internal.tree(s.relation)::oid[];
    proof text;
    fault text;
    modes text[];
BEGIN
    IF NOT waits THEN
        PERFORM inorder_internal.run_statements(
            ARRAY[format('LOCK TABLE %s IN ACCESS SHARE MODE NOWAIT', s.view)], caller);
        IF EXISTS (SELECT FROM pg_class AS m JOIN pg_class AS c ON c.oid = s.relation
                   WHERE m.oid = ANY (members) AND m.relowner <> c.relowner) THEN
            RETURN;
        END IF;
    END IF;
    proof := inorder_internal.exact_count_proof(caller, s.relation, deltas, s.columns);
    fault := CASE WHEN waits THEN inorder_internal.group_fault(s) END;
    modes := ARRAY(SELECT l.mode FROM pg_locks AS l
                   WHERE l.relation = ANY (members || deltas) AND l.pid = pg_backend_pid()
                     AND l.database = (SELECT b.oid FROM pg_database AS b WHERE b.datname = current_database()));
    PERFORM inorder_internal.require_read_committed(
        'exact_count_fold', 'Changes since this transaction began would not be counted.');
    IF fault IS NOT NULL THEN
        PERFORM inorder_internal.say_fault(s, fault, format(
            'Call exact_count_start(%L, by => %L), then exact_count_fold(%1$L).', s.relation, s.columns));
    ELSIF modes && '{ShareRowExclusiveLock,ExclusiveLock,AccessExclusiveLock}'
          OR EXISTS (SELECT FROM pg_class AS c WHERE c.oid IN (s.relation, deltas) AND age(c.xmin) <= 0) THEN
        RAISE 'cannot fold the counts of % in a transaction that has locked the table', s.relation
        USING ERRCODE = 'active_sql_transaction',
              DETAIL = 'The transaction may have changed the table, and could change it again unnoticed.',
              HINT = format('Commit first, then call exact_count_fold(%L).', s.relation);
    END IF;
    PERFORM inorder_internal.run_statements(ARRAY[inorder_internal.fold_statement(
        s, proof, waits, CASE WHEN 'RowExclusiveLock' = ANY (modes) THEN format(
            'cannot fold the counts of %s in a transaction that has locked the table', s.relation) END)], caller);
END $$;

-- Fold the sets of groups of a table. Returns the number of sets.
CREATE FUNCTION inorder_internal.fold_groups(caller oid, relation regclass) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s inorder_internal.group_set;
    folded bigint := 0;
BEGIN
    FOR s IN SELECT * FROM inorder_internal.group_sets(relation) LOOP
        PERFORM inorder_internal.check_groups(caller, relation, s.columns), inorder_internal.fold_set(caller, s, true);
        folded := folded + 1;
    END LOOP;
    RETURN folded;
END $$;

-- Fold a set for a writer, if the writer has the privileges and need not wait.
CREATE FUNCTION inorder_internal.exact_count_fold_soon(caller oid, relation regclass, deltas regclass) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM inorder_internal.fold_set(caller, g, false)
    FROM inorder_internal.group_sets(relation) AS g
    WHERE to_regclass(g.deltas) = exact_count_fold_soon.deltas;
EXCEPTION WHEN OTHERS THEN
    NULL;  -- exact_count_fold() reports the error to the owner
END $$;

-- Return the set of groups of a table by these columns. A set exists until exact_count_stop(), even without its view.
-- If the set does not exist, return the set that would be created. Raise an error if one of its names is in use, for
-- example by a set with other columns. The sets for the columns {a,b} and for the column {a_b} have the same names. All
-- sets of a table with a long name also have the same names.
CREATE FUNCTION inorder_internal.set_to_make(relation regclass, columns name[]) RETURNS inorder_internal.group_set
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s inorder_internal.group_set := inorder_internal.new_group_set(relation, columns);
    existing_set inorder_internal.group_set;
    existing_object text;
BEGIN
    SELECT * INTO existing_set FROM inorder_internal.group_sets(set_to_make.relation) AS g
    WHERE g.columns = set_to_make.columns OR g.deltas = s.deltas AND to_regclass(g.view) IS NULL LIMIT 1;
    IF FOUND THEN
        existing_set.columns := columns;
        RETURN existing_set;
    END IF;
    SELECT t INTO existing_object FROM unnest(ARRAY[
        to_regclass(s.view)::text, to_regclass(s.deltas)::text, to_regprocedure(concat(s.deltas, '()'))::text,
        to_regprocedure(concat(s.folding, '()'))::text]) AS t
    WHERE t IS NOT NULL LIMIT 1;
    IF FOUND THEN
        RAISE '% already exists, and does not belong to the counts of % by these columns', existing_object, relation
        USING ERRCODE = 'duplicate_table',
              HINT = 'Rename that object, or drop it if it belonged to a table that was dropped.';
    END IF;
    RETURN s;
END $$;

CREATE FUNCTION inorder_internal.exact_count_start(caller oid, relation regclass, by name[]) RETURNS regclass
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s inorder_internal.group_set;
    fault text;
BEGIN
    PERFORM inorder_internal.check_owner(caller, relation);
    IF by IS NULL OR cardinality(by) > 4 OR array_position(by, NULL) > 0
       OR cardinality(by) <> (SELECT count(DISTINCT c) FROM unnest(by) AS c) THEN
        RAISE 'by must be at most four different columns, not %', coalesce(quote_literal(by), 'NULL')
        USING ERRCODE = 'invalid_parameter_value', HINT = 'Pass ''{}'' to count all rows as one group.';
    END IF;
    PERFORM inorder_internal.require_read_committed(
                'exact_count_start', 'Changes since this transaction began would not be seen.'),
            inorder_internal.lock_owned(caller, relation, 'SHARE ROW EXCLUSIVE'),
            inorder_internal.check_groups(caller, relation, by);
    s := inorder_internal.set_to_make(relation, by);
    IF inorder_internal.group_fault(s) IS NOT NULL THEN
        IF to_regclass(s.deltas) IS NULL THEN
            PERFORM inorder_internal.run_statements(ARRAY(SELECT inorder_internal.deltas_statements(s)), caller);
        END IF;
        PERFORM inorder_internal.run_statements(ARRAY(SELECT inorder_internal.group_statements(s)), caller),
                inorder_internal.check_owner(caller, relation);
        fault := inorder_internal.group_fault(s);
        IF fault IS NOT NULL THEN
            PERFORM inorder_internal.say_fault(
                s, fault, 'Undo the change, which an event trigger may have made, or call exact_count_stop() first.');
        END IF;
    END IF;
    RETURN s.view::regclass;
END $$;

CREATE FUNCTION inorder_internal.exact_count_stop(caller oid, relation regclass, by name[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s inorder_internal.group_set;
BEGIN
    PERFORM inorder_internal.lock_owned(caller, relation, 'ACCESS EXCLUSIVE');
    SELECT * INTO s FROM inorder_internal.group_sets(relation) AS g
    WHERE g.columns = by
       OR g.deltas = (inorder_internal.new_group_set(exact_count_stop.relation, by)).deltas
          AND to_regclass(g.view) IS NULL LIMIT 1;
    IF NOT FOUND THEN
        RAISE 'table % has no count by %', relation, coalesce(quote_literal(by), 'NULL')
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = coalesce((SELECT format('The counts by group are %s.', string_agg(
                                   format('%s (by => %L)', g.view, g.columns), ', ' ORDER BY g.view))
                               FROM inorder_internal.group_sets(exact_count_stop.relation) AS g HAVING count(*) > 0),
                              'The table has no count by group.');
    END IF;
    PERFORM inorder_internal.run_statements(ARRAY[concat('DROP VIEW IF EXISTS ', s.view)] || ARRAY(
        SELECT format('DROP TRIGGER %I ON %s', g.tgname, g.tgrelid::regclass) FROM pg_trigger AS g
        WHERE g.tgparentid = 0
          AND (g.tgfoid = to_regprocedure(concat(s.deltas, '()'))
               OR g.tgfoid = to_regprocedure(concat(inorder_internal.counting_function(s), '()'))
                  AND g.tgrelid = ANY ((SELECT inorder_internal.tree(exact_count_stop.relation))::oid[])
                  AND starts_with(g.tgname, concat('zz_inorder_count_', s.id)))) || ARRAY[
        format('DROP FUNCTION IF EXISTS %s()', s.folding), concat('DROP TABLE IF EXISTS ', s.deltas),
        format('DROP FUNCTION %s()', s.deltas)], caller);
END $$;

CREATE FUNCTION @extschema@.exact_count_start(relation regclass, by name[]) RETURNS regclass
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.exact_count_start(regclass, name[]) IS
'Create and return a view with the number of rows per group, like GROUP BY with up to four columns (one group if by '
'is {}).';

CREATE FUNCTION @extschema@.exact_count_stop(relation regclass, by name[]) RETURNS void
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.exact_count_stop(regclass, name[]) IS
'Revert exact_count_start with the same columns: drop the view, the deltas, the functions and the triggers.';

CREATE FUNCTION @extschema@.exact_count_proof(relation regclass, deltas regclass, columns name[]) RETURNS text
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C STABLE PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.exact_count_proof(regclass, regclass, name[]) IS
'Internal function: return the state of a table for which a fold is valid; called by views of exact_count_start.';

CREATE FUNCTION @extschema@.exact_count_writes(relation regclass) RETURNS boolean
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.exact_count_writes(regclass) IS
'Internal function: return true if the caller may write into the table, otherwise raise an error; called by default '
'expressions of exact_count_start.';

CREATE FUNCTION @extschema@.exact_count_fold_soon(relation regclass, deltas regclass) RETURNS void
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.exact_count_fold_soon(regclass, regclass) IS
'Internal function: fold, if the caller has the privileges and need not wait; called by functions of '
'exact_count_start.';
