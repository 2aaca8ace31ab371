-- Tables that can be read by the number of their transactions: how one is
-- found, guarded, prepared, and carried over into another cluster.

CREATE TABLE feed_table (
    relid regclass PRIMARY KEY,
    number_column name NOT NULL,
    is_uuid boolean NOT NULL,
    is_generated boolean NOT NULL,
    order_columns name[] NOT NULL,
    base bigint NOT NULL CHECK (base BETWEEN 0 AND 281474976710655),
    ordered boolean NOT NULL
);
-- Of a table that is gone the dump would have an oid, which is another table's where it is restored.
SELECT pg_extension_config_dump('feed_table', 'WHERE EXISTS (SELECT FROM pg_catalog.pg_class WHERE oid = relid)');

COMMENT ON TABLE feed_table IS 'Tables made readable by feed_enable(), one row each.';
COMMENT ON COLUMN feed_table.number_column IS 'column with the transaction number: a uuid by uuid_xact_nextval(), or a bigint';
COMMENT ON COLUMN feed_table.order_columns IS 'columns that tell rows of one transaction apart, in order; empty if none do, and transactions are then read whole';
COMMENT ON COLUMN feed_table.base IS 'what is added to transaction ids, 0 to 281474976710655';
COMMENT ON COLUMN feed_table.ordered IS 'whether a btree index gives rows by number; otherwise a BRIN index does not';

-- Everybody may see what they may read; only owners change it. The owner of the
-- extension is not the superuser who ran this script, and pg_dump runs as that owner.
ALTER TABLE feed_table OWNER TO @extowner@;
ALTER TABLE feed_table ENABLE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, UPDATE, DELETE ON feed_table TO PUBLIC;

CREATE FUNCTION feed_may_read(relid regclass)
RETURNS boolean LANGUAGE sql STABLE STRICT PARALLEL SAFE
-- A table that is gone has no rights: its leftovers may be seen and dropped by all.
RETURN coalesce(has_table_privilege(relid, 'SELECT'), true);
COMMENT ON FUNCTION feed_may_read(regclass) IS 'Whether the current role may read the table, or it is gone. Not for use by hand: row security of feeds and counts calls it.';

CREATE FUNCTION feed_may_change(relid regclass)
RETURNS boolean LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN coalesce((SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = relid), true);
COMMENT ON FUNCTION feed_may_change(regclass) IS 'Whether the current role owns the table, or it is gone. Not for use by hand: row security of feeds and counts calls it.';

CREATE POLICY see ON feed_table FOR SELECT USING (feed_may_read(relid));
-- But nothing may be left there for a table to come.
CREATE POLICY change ON feed_table USING (feed_may_change(relid))
    WITH CHECK (feed_may_change(relid) AND EXISTS (SELECT FROM pg_class WHERE oid = relid));

CREATE FUNCTION feed_guard()
RETURNS trigger
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION feed_guard() IS 'Trigger on tables with a feed or an exact count: refuses rows that carry the number of another transaction than the one that inserts them (check_violation), and DELETE, TRUNCATE and UPDATE of what readers rely on (restrict_violation). Not for use by hand: feed_enable makes it.';

CREATE FUNCTION feed_check_owner("table" regclass)
RETURNS void
LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT @extschema@.feed_may_change("table") THEN
        RAISE 'must be owner of table %', "table" USING ERRCODE = 'insufficient_privilege';
    END IF;
END $$;
COMMENT ON FUNCTION feed_check_owner(regclass) IS 'Error (insufficient_privilege) unless the current role owns the table. Not for use by hand.';

CREATE FUNCTION feed_tree("table" regclass)
RETURNS regclass[]
LANGUAGE sql STABLE STRICT
BEGIN ATOMIC
    WITH RECURSIVE tree AS (
        SELECT "table"::oid AS relid
        UNION ALL
        -- While DETACH … CONCURRENTLY waits for others, no new query reads the partition.
        SELECT inhrelid FROM tree JOIN pg_inherits ON inhparent = relid AND NOT inhdetachpending
    )
    SELECT array_agg(relid::regclass ORDER BY relid) FROM tree;
END;
COMMENT ON FUNCTION feed_tree(regclass) IS 'The table and all its partitions, by oid. Not for use by hand.';

CREATE FUNCTION feed_members("table" regclass)
RETURNS text[]
LANGUAGE sql STABLE STRICT
-- As regclass[], a position that its reader keeps as text could not be read any more where one of them is gone or
-- not there yet. The oid stays when one is renamed, the name when a dump is restored; detached, filled and attached again
-- it is another, which only the transactions show that attached it and those above it.
BEGIN ATOMIC
    WITH RECURSIVE tree AS (
        SELECT "table"::oid AS relid, split_part(server_origin(), '/', 1) AS attached
        UNION ALL
        SELECT inhrelid, concat(CASE WHEN relid <> "table" THEN attached || '/' END, i.xmin)
        FROM tree JOIN pg_inherits AS i ON inhparent = relid AND NOT inhdetachpending
    )
    SELECT array_agg(format('%s/%s %I.%I', c.oid, attached, nspname, relname) ORDER BY c.oid)
    FROM tree JOIN pg_class AS c ON c.oid = relid JOIN pg_namespace AS n ON n.oid = relnamespace;
END;
COMMENT ON FUNCTION feed_members(regclass) IS 'The table with its system identifier, and its partitions with the transactions that attached them, each as oid/… and name, for a position to remember. Not for use by hand.';

CREATE FUNCTION feed_new_members("table" regclass, known text[])
RETURNS SETOF regclass
LANGUAGE sql STABLE STRICT
BEGIN ATOMIC
    SELECT split_part(member, '/', 1)::oid::regclass FROM unnest(feed_members("table")) AS member
    WHERE NOT EXISTS (SELECT FROM unnest(known) AS k
                      WHERE split_part(k, ' ', 1) = split_part(member, ' ', 1)
                         -- By name only where the table itself is another, too: in a restored database, not one made anew here.
                         OR substr(k, strpos(k, ' ')) = substr(member, strpos(member, ' '))
                            AND NOT EXISTS (SELECT FROM unnest(known) AS r
                                            WHERE split_part(r, ' ', 1) = concat("table"::oid, '/', split_part(server_origin(), '/', 1))));
END;
COMMENT ON FUNCTION feed_new_members(regclass, text[]) IS 'Partitions that a position does not remember as they are attached now or, in a restored database, by name. Not for use by hand.';

CREATE FUNCTION feed_problem("table" regclass)
RETURNS text
LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    relation pg_class;
    kinds text;
BEGIN
    SELECT * INTO relation FROM pg_class WHERE oid = "table";
    IF relation.relkind = 'p' THEN
        SELECT string_agg(concat(relkind, relpersistence), '') INTO kinds FROM pg_class WHERE oid = ANY (@extschema@.feed_tree("table"));
    END IF;
    RETURN CASE WHEN relation.relkind NOT IN ('r', 'p') THEN 'is not a table'
                WHEN relation.relpersistence <> 'p' THEN 'is not permanent: a crash or the end of a session empties it'
                WHEN relation.relkind = 'r' AND relation.relhassubclass AND EXISTS (SELECT FROM pg_inherits WHERE inhparent = "table")
                THEN 'has tables that inherit from it, into which rows come without its guard'
                WHEN kinds ~ 'f' THEN 'has foreign tables among its partitions, whose transactions are another server''s'
                WHEN kinds ~ '[ut]' THEN 'has partitions that are not permanent: a crash or the end of a session empties them' END;
END $$;
COMMENT ON FUNCTION feed_problem(regclass) IS 'Why a table cannot be read by its transactions whatever columns it has, or null. Not for use by hand.';

CREATE FUNCTION feed_number_columns("table" regclass)
RETURNS SETOF smallint
LANGUAGE sql STABLE STRICT
BEGIN ATOMIC
    SELECT attnum FROM pg_attribute JOIN pg_attrdef AS d ON adrelid = attrelid AND adnum = attnum
    WHERE attrelid = "table" AND NOT attisdropped AND atttypid IN ('uuid'::regtype, 'bigint'::regtype)
      AND EXISTS (
          SELECT FROM pg_depend
          WHERE classid = 'pg_attrdef'::regclass AND objid = d.oid AND refclassid = 'pg_proc'::regclass
            AND refobjid IN ('uuid_xact_nextval(bigint)'::regprocedure, 'xact_id(bigint)'::regprocedure, 'xact_id_generated(bigint)'::regprocedure));
END;
COMMENT ON FUNCTION feed_number_columns(regclass) IS 'Columns, by their number, whose default or generation expression makes transaction numbers. Not for use by hand.';

CREATE FUNCTION feed_describe("table" regclass, "column" name DEFAULT NULL)
RETURNS feed_table
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    t @extschema@.feed_table;
    number smallint;
    found int;
    problem text;
BEGIN
    problem := @extschema@.feed_problem("table");
    IF problem IS NOT NULL THEN
        RAISE 'cannot read % by transactions: it %', "table", problem USING ERRCODE = 'wrong_object_type';
    END IF;

    t.relid := "table";
    SELECT count(*) OVER (), a.attnum, a.attname, a.atttypid = 'uuid'::regtype, a.attgenerated = 's',
           coalesce(substring(pg_get_expr(adbin, adrelid) FROM 'xact_(?:nextval|id|id_generated)\(+''?(\d+)')::bigint, 0)
    INTO found, number, t.number_column, t.is_uuid, t.is_generated, t.base
    FROM @extschema@.feed_number_columns("table") AS n
    JOIN pg_attribute a ON a.attrelid = "table" AND a.attnum = n
    JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
    WHERE "column" IS NULL OR attname = "column"
    ORDER BY a.attnum;
    IF coalesce(found, 0) <> 1 THEN
        RAISE 'table % has % with the transaction number', "table",
            CASE WHEN found > 1 THEN 'several columns' WHEN "column" IS NOT NULL THEN format('no column %I', "column") ELSE 'no column' END
        USING ERRCODE = CASE WHEN found > 1 THEN 'ambiguous_column' ELSE 'undefined_column' END,
              DETAIL = 'It is recognised by its default, uuid_xact_nextval() or xact_id(), or as GENERATED ALWAYS AS (xact_id_generated()) STORED.',
              HINT = CASE WHEN found > 1 THEN 'Name the one to use.' ELSE format('SELECT * FROM feed_prepare(%L) shows how to add one.', "table") END;
    END IF;

    SELECT bool_or(amname = 'btree') INTO t.ordered
    FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am ON pg_am.oid = relam
    WHERE indrelid = "table" AND indkey[0] = number AND indisvalid AND indpred IS NULL AND amname IN ('btree', 'brin');
    IF t.ordered IS NULL THEN
        RAISE 'table % has no index that begins with column %', "table", quote_ident(t.number_column)
        USING ERRCODE = 'undefined_object', HINT = 'A btree or a BRIN index on the whole table is needed, a valid one.';
    END IF;

    -- Neither columns that are only included, nor types whose operators (citext's, uuid_v1's) the pinned search_path does not find:
    -- their rows would be cut by another order than they come in. Nor composite types, which take no literal beside their operators.
    SELECT CASE WHEN bool_and(opcnamespace = 'pg_catalog'::regnamespace AND opcintype <> 'record'::regtype) THEN array_agg(attname ORDER BY place) END INTO t.order_columns
    FROM pg_index CROSS JOIN ROWS FROM (unnest(indkey::smallint[]), unnest(indclass::oid[])) WITH ORDINALITY AS k(attnum, class, place)
    JOIN pg_attribute a USING (attnum) JOIN pg_opclass o ON o.oid = class
    WHERE indrelid = "table" AND attrelid = "table" AND indisprimary AND attnum <> number;
    t.order_columns := CASE WHEN t.is_uuid THEN ARRAY[t.number_column] ELSE coalesce(t.order_columns, '{}') END;
    RETURN t;
END $$;
COMMENT ON FUNCTION feed_describe(regclass, name) IS 'How a table is read, from the catalog: its column with the transaction number, the base, the index. Not for use by hand: feed_enable keeps the answer.';

CREATE FUNCTION feed_key(t feed_table)
RETURNS name[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN t.is_uuid THEN t.order_columns ELSE t.number_column || t.order_columns END;
COMMENT ON FUNCTION feed_key(feed_table) IS 'The columns that readers rely on, the one with the number first. Not for use by hand.';

CREATE FUNCTION feed_is_guarded("table" regclass, columns name[], is_generated boolean)
RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT;
COMMENT ON FUNCTION feed_is_guarded(regclass, name[], boolean) IS 'Whether the triggers are on a table, always enabled, and for these columns, the first generated or not. Not for use by hand.';

CREATE FUNCTION feed_guard_statements(t feed_table)
RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    names text;
    guard text;
BEGIN
    SELECT string_agg(quote_ident(c), ', ') INTO names FROM unnest(@extschema@.feed_key(t)) AS c;
    guard := format(' ON %s FOR EACH ROW EXECUTE FUNCTION @extschema@.feed_guard(%s)', t.relid, quote_literal(t.base));
    -- Triggers fire by name: nothing changes the key after these. Nobody gives a generated column a value,
    -- and a BEFORE UPDATE trigger would make the server compute it anew at every update.
    RETURN NEXT concat('CREATE TRIGGER zz_inorder_guard ', CASE WHEN t.is_generated THEN 'AFTER DELETE' ELSE 'BEFORE INSERT OR DELETE' END, ' OR UPDATE OF ', names, guard);
    RETURN NEXT concat('CREATE TRIGGER zz_inorder_update ', CASE WHEN t.is_generated THEN 'AFTER' ELSE 'BEFORE' END, ' UPDATE', guard);
    RETURN NEXT format('ALTER TABLE %s ENABLE ALWAYS TRIGGER zz_inorder_guard, ENABLE ALWAYS TRIGGER zz_inorder_update', t.relid);
    -- Those of rows come to partitions by themselves, those of statements do not.
    RETURN QUERY SELECT statement FROM unnest(@extschema@.feed_tree(t.relid)) AS member,
        LATERAL (VALUES (format('CREATE TRIGGER zz_inorder_truncate BEFORE TRUNCATE ON %s EXECUTE FUNCTION @extschema@.feed_guard(%s)', member, quote_literal(t.base))),
                        (format('ALTER TABLE %s ENABLE ALWAYS TRIGGER zz_inorder_truncate', member))) AS s(statement);
END $$;
COMMENT ON FUNCTION feed_guard_statements(feed_table) IS 'The statements that guard a table. Not for use by hand.';

CREATE FUNCTION feed_unguard("table" regclass)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    member regclass;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class WHERE oid = "table") THEN
        RETURN;
    END IF;
    FOREACH member IN ARRAY @extschema@.feed_tree("table") LOOP
        EXECUTE format('DROP TRIGGER IF EXISTS zz_inorder_truncate ON %s', member);
    END LOOP;
    EXECUTE format('DROP TRIGGER IF EXISTS zz_inorder_guard ON %s', "table");
    EXECUTE format('DROP TRIGGER IF EXISTS zz_inorder_update ON %s', "table");
END $$;
COMMENT ON FUNCTION feed_unguard(regclass) IS 'Drop the triggers of the guard. Not for use by hand: feed_disable calls it.';

CREATE FUNCTION feed_enable("table" regclass, "column" name DEFAULT NULL)
RETURNS feed_table
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET client_min_messages = warning SET enable_seqscan = off
AS $$
DECLARE
    t @extschema@.feed_table;
    statement text;
    beyond boolean;
BEGIN
    IF "table" IS NULL THEN
        RAISE 'table must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    PERFORM @extschema@.feed_check_owner("table");
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RAISE 'feed_enable needs READ COMMITTED, not %', upper(current_setting('transaction_isolation')) USING ERRCODE = 'active_sql_transaction',
              DETAIL = 'Rows that came without the guard since this transaction began would not be looked at.';
    END IF;
    -- Waits for writers, so that all rows that came without the guard are there to be looked at.
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', "table");
    t := @extschema@.feed_describe("table", "column");
    EXECUTE @extschema@.feed_beyond(t) INTO beyond;
    IF beyond THEN
        PERFORM @extschema@.feed_say_beyond(t.relid);
    END IF;
    PERFORM @extschema@.feed_check_numbers(t);
    PERFORM @extschema@.feed_check_alone(t.relid);
    PERFORM @extschema@.feed_unguard("table");
    FOR statement IN SELECT * FROM @extschema@.feed_guard_statements(t) LOOP
        EXECUTE statement;
    END LOOP;
    INSERT INTO @extschema@.feed_table SELECT t.*
    ON CONFLICT (relid) DO UPDATE SET (number_column, is_uuid, is_generated, order_columns, base, ordered)
        = ROW(excluded.number_column, excluded.is_uuid, excluded.is_generated, excluded.order_columns, excluded.base, excluded.ordered);
    RETURN t;
END $$;
COMMENT ON FUNCTION feed_enable(regclass, name) IS
'Make a table readable by feeds and exact counts: find its column with the transaction number (by name where there are several) and its index, and guard both. feed_create and exact_count_start call it if nobody did. Call it again after renaming a column or changing the index.
Owner only. Takes SHARE ROW EXCLUSIVE for a moment, waiting for writers. Errors: undefined_column, ambiguous_column, undefined_object (no index), wrong_object_type, insufficient_privilege, active_sql_transaction in REPEATABLE READ and SERIALIZABLE.';

CREATE FUNCTION feed_ensure("table" regclass, "column" name)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM @extschema@.feed_check_owner("table");
    IF NOT EXISTS (SELECT FROM @extschema@.feed_table AS t
                   WHERE t.relid = "table" AND t.number_column = coalesce("column", t.number_column) 
                     AND @extschema@.feed_is_guarded(t.relid, @extschema@.feed_key(t), t.is_generated)) THEN
        PERFORM @extschema@.feed_enable("table", "column");
    END IF;
END $$;
COMMENT ON FUNCTION feed_ensure(regclass, name) IS 'feed_enable, unless that was done: then no writer need wait. Not for use by hand.';

CREATE FUNCTION feed_beyond(t feed_table)
RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN format(CASE WHEN t.is_uuid THEN 'SELECT EXISTS (SELECT FROM %s AS e WHERE e.%I >= @extschema@.uuid_xact_floor(@extschema@.next_transaction(%s)))'
                       ELSE 'SELECT EXISTS (SELECT FROM %s AS e WHERE e.%I >= @extschema@.next_transaction(%s))' END, t.relid, t.number_column, t.base);
END $$;
COMMENT ON FUNCTION feed_beyond(feed_table) IS 'The query whether a table has numbers that no transaction of this server has had yet. Not for use by hand.';

CREATE FUNCTION feed_check_numbers(t feed_table)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
DECLARE
    outside boolean;
BEGIN
    EXECUTE format('SELECT EXISTS (SELECT FROM %1$s AS e WHERE e.%2$I IS NULL) OR EXISTS (SELECT FROM %1$s AS e WHERE e.%2$I < %3$s)',
                   t.relid, t.number_column, CASE WHEN t.is_uuid THEN '@extschema@.uuid_xact_floor(0)' ELSE '0' END) INTO outside;
    IF outside THEN
        RAISE 'table % has rows without a transaction number in column %', t.relid, quote_ident(t.number_column)
        USING ERRCODE = 'check_violation', DETAIL = 'They are in no batch: no feed would ever deliver them.',
              HINT = format('While the guard is not on them (before feed_enable, in a partition before it is attached) give them one: UPDATE %s SET %I = %s.',
                            t.relid, t.number_column, CASE WHEN t.is_uuid THEN 'DEFAULT' ELSE '0' END);
    END IF;
END $$;
COMMENT ON FUNCTION feed_check_numbers(feed_table) IS 'Error (check_violation) if rows have no number, or a negative one. Not for use by hand.';

CREATE FUNCTION feed_check_alone("table" regclass)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    other regclass;
BEGIN
    SELECT f.relid INTO other FROM @extschema@.feed_table AS f
    WHERE f.relid <> "table" AND EXISTS (SELECT FROM pg_class WHERE oid = f.relid)
      AND ("table" = ANY (@extschema@.feed_tree(f.relid)) OR f.relid = ANY (@extschema@.feed_tree("table")))
    ORDER BY 1 LIMIT 1;
    IF FOUND THEN
        RAISE 'table % is in one tree of partitions with %, which is readable already', "table", other
        USING ERRCODE = 'object_not_in_prerequisite_state', HINT = format('Use that one, or call feed_disable(%L) first.', other);
    END IF;
END $$;
COMMENT ON FUNCTION feed_check_alone(regclass) IS 'Error if a partition or a parent of the table has a guard of its own. Not for use by hand.';

CREATE FUNCTION feed_say_beyond("table" regclass)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE 'table % has transaction numbers that this server has not reached', "table"
    USING ERRCODE = 'object_not_in_prerequisite_state',
          DETAIL = format('The next one is %s. Rows restored from another server look newer than anything to come.', @extschema@.next_transaction()),
          HINT = format('If they are such rows, call feed_rebase(%1$L): it lets numbers go on above those in the table. Keys of another kind say no transaction: feed_prepare(%1$L, ''xact'') shows how to add a column that does.', "table");
END $$;
COMMENT ON FUNCTION feed_say_beyond(regclass) IS 'The error about a restored table. Not for use by hand.';

CREATE FUNCTION feed_disable("table" regclass)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT SET search_path = pg_catalog, pg_temp SET client_min_messages = warning
AS $$
DECLARE
    users text;
BEGIN
    PERFORM @extschema@.feed_check_owner("table");
    SELECT string_agg(u.what, ', ' ORDER BY u.what) INTO users
    FROM (SELECT format('feed %L', name) FROM @extschema@.feed WHERE relid = "table"
          UNION SELECT 'its exact count' FROM @extschema@.exact_count_part WHERE relid = "table") AS u(what);
    IF users IS NOT NULL THEN
        RAISE 'table % is still in use by %', "table", users
        USING ERRCODE = 'dependent_objects_still_exist', HINT = 'Call feed_drop() and exact_count_stop() first.';
    END IF;
    PERFORM @extschema@.feed_unguard("table");
    DELETE FROM @extschema@.feed_table WHERE relid = "table";
END $$;
COMMENT ON FUNCTION feed_disable(regclass) IS
'Undo feed_enable: drop the guard, so that rows may be updated and deleted again. Owner only. Errors: dependent_objects_still_exist while the table has a feed or an exact count.';

CREATE FUNCTION feed_rebase("table" regclass, beyond bigint DEFAULT 0)
RETURNS bigint
LANGUAGE plpgsql VOLATILE STRICT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    t @extschema@.feed_table;
    highest bigint;
    raised bigint;
BEGIN
    PERFORM @extschema@.feed_check_owner("table");
    IF beyond NOT BETWEEN 0 AND 281474976710655 THEN
        RAISE 'beyond must be between 0 and 281474976710655, not %', beyond USING ERRCODE = 'numeric_value_out_of_range';
    END IF;
    -- No row of an unfinished transaction may carry the old base: this waits for all of them.
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', "table");
    t := @extschema@.feed_describe("table", (SELECT number_column FROM @extschema@.feed_table WHERE relid = "table"));
    IF t.is_generated THEN
        RAISE 'column % of % is generated: a restore computes it anew', quote_ident(t.number_column), "table"
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = 'Its rows are one new batch: start feeds again by feed_seek(name, ''beginning'') or feed_seek(name, ''now'').';
    END IF;
    -- Not max(uuid), which most servers lack.
    EXECUTE format(CASE WHEN t.is_uuid THEN 'SELECT @extschema@.uuid_xact_id(%1$I)' ELSE 'SELECT %1$I' END
                   || ' FROM %2$s WHERE %1$I IS NOT NULL ORDER BY %1$I DESC LIMIT 1', t.number_column, "table") INTO highest;
    SELECT max(number) INTO highest
    FROM (SELECT highest UNION ALL SELECT beyond
          UNION ALL SELECT (position).partial FROM @extschema@.feed WHERE relid = "table"
          UNION ALL SELECT upper((position).transactions) - 1 FROM @extschema@.feed WHERE relid = "table"
          UNION ALL SELECT upper((pending).transactions) - 1 FROM @extschema@.feed WHERE relid = "table"
          UNION ALL SELECT upper(counted) - 1 FROM @extschema@.exact_count_part WHERE relid = "table") AS n(number);
    raised := greatest(t.base, coalesce(highest, 0) + 1 - @extschema@.next_transaction());
    IF raised > t.base THEN
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT @extschema@.%s(%s)', "table", t.number_column,
                       CASE WHEN t.is_uuid THEN 'uuid_xact_nextval' ELSE 'xact_id' END, raised);
    END IF;
    PERFORM @extschema@.feed_enable("table", t.number_column);
    RETURN raised;
END $$;
COMMENT ON FUNCTION feed_rebase(regclass, bigint) IS
'After a restore into a server with lower transaction ids: raise the base in the column default and the guard, so that new numbers go on above those in the table, in the positions of its feeds, which stay as they are, and above beyond, for positions that readers keep themselves. Returns the base; one that is high enough is kept.
Range: beyond 0 to 281474976710655. Owner only. Takes ACCESS EXCLUSIVE, waiting for everyone; reads the highest number by the index if it is a btree, otherwise the whole table. Errors: object_not_in_prerequisite_state for a generated column, which a restore computes anew; numeric_value_out_of_range; those of feed_enable.';

CREATE FUNCTION feed_prepare("table" regclass, "column" name DEFAULT 'xact', method name DEFAULT 'brin')
RETURNS SETOF text
LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    relation pg_class;
    number smallint;
BEGIN
    IF method NOT IN ('brin', 'btree') THEN
        RAISE 'method must be brin or btree, not %', method USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT * INTO relation FROM pg_class WHERE oid = "table";
    IF relation.relkind NOT IN ('r', 'p') THEN
        RAISE '% is not a table', "table" USING ERRCODE = 'wrong_object_type';
    END IF;
    SELECT attnum INTO number FROM pg_attribute WHERE attrelid = "table" AND attname = "column" AND NOT attisdropped;
    IF number IS NOT NULL AND number NOT IN (SELECT @extschema@.feed_number_columns("table")) THEN
        RAISE 'column % of % is there already and has no default that gives transaction numbers', quote_ident("column"), "table" USING ERRCODE = 'duplicate_column',
              HINT = 'Name another column to be added; or, if this one holds such numbers, give it its default, xact_id() or uuid_xact_nextval().';
    ELSIF number IS NULL THEN
        -- Constant at first, which takes no rewrite: what is there counts as transaction 0.
        RETURN NEXT format('ALTER TABLE %s ADD COLUMN %I bigint NOT NULL DEFAULT 0, ALTER COLUMN %2$I SET DEFAULT @extschema@.xact_id()', "table", "column");
    END IF;
    IF NOT EXISTS (SELECT FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = c.relam
                   WHERE indrelid = "table" AND indkey[0] = number AND indisvalid AND indpred IS NULL AND amname IN ('brin', 'btree')) THEN
        RETURN QUERY SELECT * FROM @extschema@.feed_prepare_index("table", "column", method);
    END IF;
    RETURN NEXT format('ANALYZE %s', "table");
    RETURN NEXT format('SELECT @extschema@.feed_enable(%L, %L)', "table", "column");
END $$;
COMMENT ON FUNCTION feed_prepare(regclass, name, name) IS
'The statements that make an existing table of any key readable, one a row, each online: a bigint column with xact_id() as default (no rewrite; rows that are there count as transaction 0), its index (brin or btree) concurrently, ANALYZE, and feed_enable. In psql, \gexec instead of the semicolon performs them. What is there already is left out.
The first takes ACCESS EXCLUSIVE for a moment; set lock_timeout. Errors: invalid_parameter_value (method), wrong_object_type, duplicate_column (a column of this name without such a default).';

CREATE FUNCTION feed_prepare_index("table" regclass, "column" name, method name)
RETURNS SETOF text
LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    member record;
    options text := CASE method WHEN 'brin' THEN ' WITH (autosummarize = on)' ELSE '' END;
BEGIN
    -- There is no CONCURRENTLY on a partitioned table: an empty index first, then one on each leaf, attached.
    FOR member IN
        WITH RECURSIVE tree AS (
            SELECT oid, relkind, relname, relnamespace, NULL::oid AS parent, 1 AS depth FROM pg_class WHERE oid = "table"
            UNION ALL
            SELECT c.oid, c.relkind, c.relname, c.relnamespace, inhparent, depth + 1
            FROM tree JOIN pg_inherits ON inhparent = tree.oid JOIN pg_class c ON c.oid = inhrelid
        )
        SELECT oid::regclass AS relid, relkind, parent,
               -- Ten characters are at most 40 of the 63 bytes.
               left(relname, 10) || '_' || oid || '_number' AS index,
               (SELECT nspname FROM pg_namespace n WHERE n.oid = relnamespace) AS schema,
               (SELECT format('%I.%I', nspname, left(p.relname, 10) || '_' || p.oid || '_number')
                FROM pg_class p JOIN pg_namespace n ON n.oid = p.relnamespace WHERE p.oid = parent) AS above
        FROM tree ORDER BY depth, oid
    LOOP
        IF member.relkind = 'p' THEN
            RETURN NEXT format('CREATE INDEX %I ON ONLY %s USING %s (%I)%s', member.index, member.relid, method, "column", options);
        ELSE
            RETURN NEXT format('CREATE INDEX CONCURRENTLY %I ON %s USING %s (%I)%s', member.index, member.relid, method, "column", options);
        END IF;
        IF member.parent IS NOT NULL THEN
            RETURN NEXT format('ALTER INDEX %s ATTACH PARTITION %I.%I', member.above, member.schema, member.index);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION feed_prepare_index(regclass, name, name) IS 'The statements that index a column of a table or of a tree of partitions without blocking writers. Not for use by hand: feed_prepare calls it.';
