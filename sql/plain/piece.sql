-- Delivery in the order of a column, in the SQL edition: src/order.c.
--
-- The next piece of a set is found in two ways, each in turn with a budget of rows: src/order.c says why.

CREATE FUNCTION inorder_internal.refuse_order_column(relation regclass, column_name name, fault text, hint text)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM inorder_internal.refuse_column(relation, column_name, fault,
                                           'Its feed delivers rows in the order of that column.', hint);
END $$;

-- Error unless rows of a table that is locked have an order by a column.
CREATE FUNCTION inorder_internal.prove_order_column(t inorder_internal.feed_table, column_name name)
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

-- Error if the column of a position or batch is not what it was, or can no longer give an order.
CREATE FUNCTION inorder_internal.prove_order_of(t inorder_internal.feed_table, column_name text, number smallint)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute AS a
                   WHERE a.attrelid = t.relation AND a.attname = column_name AND a.attnum = number AND a.attnum > 0
                     AND NOT a.attisdropped) THEN
        PERFORM inorder_internal.refuse_order_column(t.relation, column_name, 'is not the one by which its feed is ordered',
            'It was renamed, dropped or made anew: give the table that column back. Or go on by feed_seek(), which takes '
            'the column that has the name now.');
    END IF;
    PERFORM inorder_internal.prove_order_column(t, column_name);
END $$;

CREATE TYPE inorder_internal.order_search AS (
    walked_from bigint, up_to bigint, amount bigint, lowest bigint, highest bigint
);
COMMENT ON TYPE inorder_internal.order_search IS
'Internal type. A search for a piece: where the index of the column is walked from, null if rows are found by number; '
'where it ends; and of the first rows, at most one more than are wanted, the number, the lowest and the highest value.';

-- The planner might sort all that the index has, where it takes that for little.
-- The number that a query finds along an index; null if it has no row.
CREATE FUNCTION inorder_internal.find_number(query text)
RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET constraint_exclusion = off SET enable_sort = off SET enable_incremental_sort = on
AS $$
DECLARE
    number bigint;
BEGIN
    EXECUTE query INTO number;
    RETURN number;
END $$;

-- The first rows of what is left of a set, within a budget of rows that are looked at.
CREATE FUNCTION inorder_internal.first_rows(
    t inorder_internal.feed_table, b @extschema@.feed_batch, s inorder_internal.order_search, budget bigint, max_rows int
)
RETURNS inorder_internal.order_search
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET constraint_exclusion = off SET enable_sort = off SET enable_incremental_sort = on
AS $$
BEGIN
    EXECUTE inorder_internal.first_rows_query(t, b, s.walked_from, s.up_to, budget, max_rows + 1::bigint)
    INTO s.amount, s.lowest, s.highest;
    RETURN s;
END $$;

-- The first rows, by a walk along the index of the column or by number, whichever ends first.
CREATE FUNCTION inorder_internal.first_by_either(
    t inorder_internal.feed_table, b @extschema@.feed_batch, s inorder_internal.order_search, max_rows int
)
RETURNS inorder_internal.order_search
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- To walk too far costs less than to begin anew: where the set is most of what is there, a walk ends before.
    budget bigint := 100 + 16 * max_rows::bigint;
BEGIN
    LOOP
        s := inorder_internal.first_rows(t, b, s, budget, max_rows);
        IF s.amount > max_rows OR inorder_internal.find_number(inorder_internal.exhausted_query(
               t, b.cut_after[1], s.walked_from, s.up_to, budget)) IS NULL THEN
            RETURN s;
        END IF;
        EXIT WHEN inorder_internal.find_number(inorder_internal.set_size_query(t, b, budget)) < budget;
        budget := budget * 4;
    END LOOP;
    s.walked_from := NULL;
    RETURN inorder_internal.first_rows(t, b, s, NULL, max_rows);
END $$;

CREATE FUNCTION inorder_internal.first_of_set(
    t inorder_internal.feed_table, b @extschema@.feed_batch, max_rows int, nothing_read boolean
)
RETURNS inorder_internal.order_search
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    s inorder_internal.order_search;
    few bigint := 100 + 16 * max_rows::bigint;
BEGIN
    -- Where a set begins is known if there is nothing else. Otherwise few rows are fetched by number, and for many it is
    -- found out.
    IF nothing_read THEN
        s.walked_from := -9223372036854775808;
    ELSIF inorder_internal.find_number(inorder_internal.set_size_query(t, b, few)) < few THEN
        RETURN inorder_internal.first_rows(t, b, s, NULL, max_rows);
    ELSE
        s.walked_from := inorder_internal.find_number(inorder_internal.lowest_query(
                             t, b, b.cut_after[1], -9223372036854775808));
    END IF;
    -- No row of transactions that have ended is above this value, now and later.
    s.up_to := inorder_internal.find_number(inorder_internal.highest_query(t, b.cut_after[1]));
    IF s.walked_from IS NULL OR s.up_to IS NULL THEN
        s.amount := 0;
        RETURN s;
    END IF;
    RETURN inorder_internal.first_by_either(t, b, s, max_rows);
END $$;

-- The value at which the piece after the next one begins; null if the next one has all that is left.
CREATE FUNCTION inorder_internal.next_value(
    t inorder_internal.feed_table, b @extschema@.feed_batch, s inorder_internal.order_search, max_rows int
)
RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF s.amount <= max_rows THEN
        RETURN NULL;
    -- Rows of one value are not divided.
    ELSIF s.highest > s.lowest THEN
        RETURN s.highest;
    ELSIF s.highest = 9223372036854775807 THEN
        RETURN NULL;
    END IF;
    RETURN inorder_internal.find_number(inorder_internal.lowest_query(t, b, b.cut_after[1], s.highest + 1));
END $$;

-- A batch in the order of a column, limited to so many rows, if any.
CREATE FUNCTION inorder_internal.look_in_order(
    t inorder_internal.feed_table, b @extschema@.feed_batch, max_rows int, nothing_read boolean
)
RETURNS inorder_internal.next_found
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    n inorder_internal.next_found;
    s inorder_internal.order_search;
    r inorder_internal.feed_order := inorder_internal.order_of(b.resumed, b.resumed_after);
    next bigint;
BEGIN
    s.walked_from := r.next_value;
    s.up_to := r.up_to;
    IF max_rows IS NULL THEN
        IF nothing_read AND s.walked_from IS NULL THEN
            s.walked_from := -9223372036854775808;
        END IF;
    ELSE
        s := CASE WHEN s.walked_from IS NULL THEN inorder_internal.first_of_set(t, b, max_rows, nothing_read)
                  ELSE inorder_internal.first_by_either(t, b, s, max_rows) END;
        next := inorder_internal.next_value(t, b, s, max_rows);
        IF next IS NOT NULL AND s.up_to IS NULL THEN
            s.up_to := inorder_internal.find_number(inorder_internal.highest_query(t, b.cut_after[1]));
        END IF;
    END IF;
    n.batch := inorder_internal.cut_ordered(b, s.walked_from, s.up_to, next);
    n.has_rows := CASE WHEN max_rows IS NULL
                       THEN inorder_internal.has_row(inorder_internal.batch_query(t, NULL, n.batch, '1', false))
                       ELSE s.amount > 0 END;
    n.is_all := max_rows IS NULL AND NOT inorder_internal.in_set(r);
    n.rest := CASE WHEN NOT n.has_rows AND inorder_internal.in_set(r) THEN n.batch END;
    RETURN n;
END $$;
