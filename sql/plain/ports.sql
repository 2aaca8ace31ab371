-- What sql/ports/ports.sql looks up in C. No index shows anything here but to a query.

CREATE FUNCTION inorder_internal.allow_bitmaps(t inorder_internal.feed_table)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- A BRIN index is read in no other way. The functions that read restore the setting when they end.
    IF NOT t.ordered THEN
        PERFORM set_config('enable_bitmapscan', 'on', true);
    END IF;
END $$;

CREATE FUNCTION inorder_internal.lock_ground(t inorder_internal.feed_table, caller oid)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM inorder_internal.lock_tree(t.relation, 'ACCESS SHARE');
END $$;

CREATE FUNCTION inorder_internal.proved_members(t inorder_internal.feed_table, caller oid)
RETURNS @extschema@.feed_member[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM inorder_internal.prove_ground(t, caller);
    RETURN inorder_internal.members(t);
END $$;

CREATE FUNCTION inorder_internal.refuse_order_column(relation regclass, column_name name, fault text, hint text)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM inorder_internal.refuse_column(relation, column_name, fault,
                                           'Its feed delivers rows in the order of that column.', hint);
END $$;

-- Error unless rows of a table that is locked have an order by a column.
CREATE FUNCTION inorder_internal.prove_order_column(t inorder_internal.feed_table, column_name name, caller oid)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    c record;
BEGIN
    -- What must hold for the column of the table and of each partition: then all rows have a place in its order.
    FOR c IN SELECT a.attrelid::regclass AS relation, a.attnum, a.attgenerated, inorder_internal.may_be_null(a), r.relkind,
                    a.atttypid IN ('bigint'::regtype, 'integer'::regtype, 'smallint'::regtype) AS is_number
             FROM unnest(inorder_internal.tree(t.relation)) AS m(relation) JOIN pg_class AS r ON r.oid = m.relation
             JOIN pg_attribute AS a ON a.attrelid = r.oid AND a.attname = prove_order_column.column_name
                  AND NOT a.attisdropped LOOP
        IF NOT c.is_number THEN
            PERFORM inorder_internal.refuse_order_column(c.relation, column_name, 'is not a smallint, integer or bigint',
                'Choose another column, or give it such a type.');
        ELSIF c.attgenerated <> '' THEN
            PERFORM inorder_internal.refuse_order_column(c.relation, column_name, 'is generated',
                'Choose a column whose values are drawn from a sequence.');
        ELSIF c.may_be_null THEN
            PERFORM inorder_internal.refuse_order_column(c.relation, column_name, 'may be null',
                format('ALTER TABLE %s ALTER COLUMN %I SET NOT NULL', t.relation, column_name));
        ELSIF c.relkind = 'r' AND NOT (SELECT i.found FROM inorder_internal.has_index(c.relation, c.attnum, true) AS i) THEN
            PERFORM inorder_internal.refuse_order_column(c.relation, column_name,
                'is not the first one of a valid btree index', format('CREATE INDEX ON %s (%I)', t.relation, column_name));
        END IF;
    END LOOP;
    PERFORM inorder_internal.check_order_column(t, column_name);
END $$;

-- Error unless each row of a table is in one share, by a column.
CREATE FUNCTION inorder_internal.prove_share_column(t inorder_internal.feed_table, column_name name)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    c record;
BEGIN
    -- What must hold for the column of the table and of each partition: then a row is in one share, always the same.
    FOR c IN SELECT a.attrelid::regclass AS relation, a.attgenerated <> '' AS is_generated,
                    inorder_internal.may_be_null(a) AS may_be_null
             FROM unnest(inorder_internal.tree(t.relation)) AS m(relation)
             JOIN pg_attribute AS a ON a.attrelid = m.relation AND a.attname = prove_share_column.column_name
             LEFT JOIN pg_collation AS l ON l.oid = a.attcollation
             WHERE a.attgenerated <> '' OR inorder_internal.may_be_null(a) OR NOT l.collisdeterministic
             ORDER BY a.attrelid LIMIT 1 LOOP
        IF c.is_generated THEN
            PERFORM inorder_internal.refuse_share_column(c.relation, column_name, 'is generated',
                'Choose a column whose values are stored as they are inserted.');
        ELSIF c.may_be_null THEN
            PERFORM inorder_internal.refuse_share_column(c.relation, column_name, 'may be null',
                format('ALTER TABLE %s ALTER COLUMN %I SET NOT NULL', t.relation, column_name));
        END IF;
        PERFORM inorder_internal.refuse_share_column(c.relation, column_name, 'has a nondeterministic collation',
            'Keys that are equal by it may be in different shares. Choose a column whose equal values have equal bytes.');
    END LOOP;
END $$;

CREATE FUNCTION inorder_internal.as_caller(t inorder_internal.feed_table, query text, walks boolean, caller oid)
RETURNS SETOF record
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_memoize = off
    SET constraint_exclusion = off SET max_parallel_workers_per_gather = 0 SET enable_seqscan = off
    SET enable_bitmapscan = off SET enable_sort = on SET enable_incremental_sort = on
    SET datestyle = 'ISO' SET timezone = 'UTC' SET intervalstyle = 'iso_8601'
    SET extra_float_digits = 1 SET bytea_output = 'hex'
AS $$
BEGIN
    PERFORM inorder_internal.allow_bitmaps(t);
    IF walks THEN
        PERFORM set_config('enable_sort', 'off', true);
    END IF;
    RETURN QUERY EXECUTE query;
END $$;

CREATE FUNCTION inorder_internal.probe(t inorder_internal.feed_table, numbers int8multirange)
RETURNS boolean[]
LANGUAGE sql IMMUTABLE
RETURN NULL::boolean[];

CREATE FUNCTION inorder_internal.ranges_with_rows(t inorder_internal.feed_table, numbers int8multirange, most bigint)
RETURNS int8multirange
LANGUAGE sql IMMUTABLE
RETURN NULL::int8multirange;

CREATE FUNCTION inorder_internal.parts_with_rows(t inorder_internal.feed_table, numbers int8multirange)
RETURNS text
LANGUAGE sql IMMUTABLE
RETURN NULL::text;

CREATE FUNCTION inorder_internal.large_first(t inorder_internal.feed_table, numbers int8multirange, amount bigint)
RETURNS bigint
LANGUAGE sql IMMUTABLE
RETURN NULL::bigint;

CREATE FUNCTION inorder_internal.count_by_index(t inorder_internal.feed_table, numbers int8multirange, most bigint)
RETURNS bigint
LANGUAGE sql IMMUTABLE
RETURN NULL::bigint;

CREATE FUNCTION inorder_internal.lock_readable(relation oid, caller oid)
RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN inorder_internal.may_read(caller, relation);
END $$;

CREATE FUNCTION inorder_internal.run_statements(statements text[], caller oid)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET client_min_messages = warning
AS $$
DECLARE
    statement text;
BEGIN
    FOREACH statement IN ARRAY statements LOOP
        EXECUTE statement;
    END LOOP;
END $$;

CREATE FUNCTION inorder_internal.has_all_guards(t inorder_internal.feed_table)
RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN inorder_internal.unguarded_member(t) IS NULL;
END $$;

-- Nobody reads by this edition on a standby, which may be promoted meanwhile.
CREATE FUNCTION inorder_internal.expect_origin(origin text)
RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
END $$;

CREATE FUNCTION inorder_internal.passes_empty_batches()
RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN false;
