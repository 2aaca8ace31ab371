-- Delivery in the order of a column.
--
-- Transactions are numbered at their first write. If A is numbered, then B writes version 1 of a stream and commits,
-- then A locks the stream and writes version 2, the numbers are in the wrong order. A column that is drawn after the
-- lock has the right one. Such a feed freezes the batch B = ended(S) - P and delivers all of it by that column, in
-- pieces; the next set is frozen when this one is done:
--
--  1. If row 2 was written after the commit of row 1, then in each snapshot in which the transaction of row 2 has
--     ended, that of row 1 has ended, too. So row 1 is in the same set, or in an earlier one.
--  2. In the same set it comes first, since its value was drawn first.
--  3. The set is fixed, its transactions have ended, and rows do not change: each is in exactly one piece, whatever the
--     values are. Rows of equal value are in the same piece.
--
-- Positions and batches of such a feed have no partial transaction (partial, resumed and cut are null), and keep its
-- order in the keys beside these, decoded by order_of(): the column, and the set that is read in part.

CREATE TYPE inorder_internal.feed_order AS (
    column_name text, attnum smallint, walked_from bigint, frozen int8multirange, up_to bigint, next_value bigint
);
COMMENT ON TYPE inorder_internal.feed_order IS
'Internal type. The order of a position: the column by name and number; the value from which the index of the column '
'was read to find the piece that ended here, null if it was found by number; and, in the middle of a set, the set, the '
'highest value in it or above, and its lowest value that was not read.';

-- The order of a position or batch: (partial, last_key), (resumed, resumed_after) or (cut, cut_after); null if it has
-- none, and is read by number.
CREATE FUNCTION inorder_internal.order_of(number bigint, key text[])
RETURNS inorder_internal.feed_order
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN number IS NULL AND key IS NOT NULL THEN
    ROW(key[1], key[2]::smallint, nullif(key[3], ''::text)::bigint, inorder_internal.text_numbers(key[4]),
        key[5]::bigint, key[6]::bigint)::inorder_internal.feed_order END;

CREATE FUNCTION inorder_internal.order_key(o inorder_internal.feed_order)
RETURNS text[]
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN (o).column_name IS NOT NULL THEN
    ARRAY[(o).column_name, (o).attnum::text, coalesce((o).walked_from::text, ''::text)]
    || CASE WHEN (o).frozen IS NOT NULL
            THEN ARRAY[inorder_internal.numbers_text((o).frozen), (o).up_to::text, (o).next_value::text]
            ELSE '{}'::text[] END END;

-- The order by a column of a position between two sets; null without a column.
CREATE FUNCTION inorder_internal.new_order(relation regclass, order_column text)
RETURNS text[]
LANGUAGE sql STABLE
-- With an impossible number if there is no such column: then each read says so.
RETURN CASE WHEN order_column IS NOT NULL THEN ARRAY[order_column, coalesce((
    SELECT a.attnum FROM pg_attribute AS a
    WHERE a.attrelid = relation AND a.attname = order_column::name AND a.attnum > 0::smallint AND NOT a.attisdropped),
    0::smallint)::text, ''::text] END;

-- The order of a restored position or batch, with the column of that name in this database.
CREATE FUNCTION inorder_internal.renumbered(relation regclass, number bigint, key text[])
RETURNS text[]
LANGUAGE sql STABLE
RETURN CASE WHEN number IS NULL AND key IS NOT NULL
            THEN key[1:1] || (inorder_internal.new_order(relation, key[1]))[2:2] || key[3:] ELSE key END;

-- The order of a position, with the column that has its name now, between two sets.
CREATE FUNCTION inorder_internal.renewed_order(relation regclass, number bigint, key text[])
RETURNS text[]
LANGUAGE sql STABLE
RETURN CASE WHEN number IS NULL THEN inorder_internal.new_order(relation, key[1]) END;

CREATE FUNCTION inorder_internal.in_set(o inorder_internal.feed_order)
RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN coalesce((o).frozen IS NOT NULL, false);

-- The transactions that a position has read, all rows of them or, of an ordered set, some.
CREATE FUNCTION inorder_internal.passed_by(p @extschema@.feed_position)
RETURNS int8multirange
LANGUAGE sql IMMUTABLE
RETURN inorder_internal.plus((p).transactions, coalesce((inorder_internal.order_of((p).partial, (p).last_key)).frozen,
                                                       '{}'::int8multirange));

CREATE FUNCTION inorder_internal.say_forged(key text[], reason text)
RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE 'a position has the order %, which no server writes', key
    USING ERRCODE = 'object_not_in_prerequisite_state', DETAIL = reason,
          HINT = 'Go on by feed_seek(), or begin with a new position, by reader_start().';
END $$;

-- Error unless the order of a position or batch can be decoded, and its set is disjoint from what was read.
CREATE FUNCTION inorder_internal.check_ordered(number bigint, key text[], passed int8multirange)
RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    o inorder_internal.feed_order;
BEGIN
    IF number IS NOT NULL OR key IS NULL THEN
        RETURN;
    ELSIF array_ndims(key) = 1 AND array_lower(key, 1) = 1 AND array_position(key, NULL) IS NULL
          AND cardinality(key) IN (3, 6) THEN
        o := inorder_internal.order_of(number, key);
        IF o.attnum >= 0 AND (o.frozen IS NULL OR o.frozen <@ '{[0,281474976710656)}' AND o.frozen <> '{}'
                              AND NOT o.frozen && passed) THEN
            RETURN;
        END IF;
    END IF;
    PERFORM inorder_internal.say_forged(key, 'Members are missing, or its column or its set cannot be right.');
EXCEPTION WHEN data_exception THEN
    PERFORM inorder_internal.say_forged(key, SQLERRM);
END $$;

-- The sequence from which the values of a column are drawn, or null. Error if it caches, descends or cycles, or if
-- there are several.
CREATE FUNCTION inorder_internal.order_sequence(t inorder_internal.feed_table, order_column text)
RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    s record;
BEGIN
    SELECT count(DISTINCT q.seqrelid) AS amount, min(q.seqrelid) AS id, min(q.seqrelid::regclass::text) AS name,
           bool_and(q.seqcache = 1 AND q.seqincrement > 0 AND NOT q.seqcycle) AS is_right
    INTO s
    FROM unnest(inorder_internal.tree(t.relation)) AS m(relid)
    JOIN pg_attribute AS a ON a.attrelid = m.relid AND a.attname = order_column AND NOT a.attisdropped
    CROSS JOIN LATERAL (
        SELECT d.objid AS id FROM pg_depend AS d
        WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum
          AND d.classid = 'pg_class'::regclass AND d.deptype = 'i'
        UNION ALL
        SELECT d.refobjid FROM pg_attrdef AS f JOIN pg_depend AS d
            ON d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid AND d.refclassid = 'pg_class'::regclass
        WHERE f.adrelid = a.attrelid AND f.adnum = a.attnum) AS u
    JOIN pg_sequence AS q ON q.seqrelid = u.id;
    IF s.amount > 1 THEN
        RAISE 'column % of % is drawn from several sequences', quote_ident(order_column), t.relation
        USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = 'Their values are in no common order.',
              HINT = 'Give the column of each partition the default of the table.';
    ELSIF s.amount = 1 AND NOT s.is_right THEN
        RAISE 'sequence % does not give values in the order in which they are drawn', s.name
        USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = format('The feed delivers rows in the order of column %I of %s.', order_column, t.relation),
              HINT = format('ALTER SEQUENCE %s INCREMENT BY 1 CACHE 1 NO CYCLE. Sessions that used it before may still '
                            'have cached values: let them reconnect.', s.name);
    END IF;
    RETURN s.id;
END $$;

-- Error if rows cannot be delivered in the order of a column, for a reason that is not in the column itself (that is
-- checked in order.c). Returns the sequence from which it is drawn, or null.
CREATE FUNCTION inorder_internal.check_order_column(t inorder_internal.feed_table, order_column text)
RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF order_column = t.key_column THEN
        RAISE 'column % of % has the transaction number, which is not the order of writing', quote_ident(order_column),
              t.relation USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN inorder_internal.order_sequence(t, order_column);
END $$;

-- The column by which a batch is ordered. Error if it is not one that a server writes.
CREATE FUNCTION inorder_internal.order_state(
    b @extschema@.feed_batch, OUT column_name text, OUT attnum smallint
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    r inorder_internal.feed_order;
    c inorder_internal.feed_order;
BEGIN
    PERFORM inorder_internal.check_ordered(b.cut, b.cut_after, '{}'),
            inorder_internal.check_ordered(b.resumed, b.resumed_after, '{}');
    r := inorder_internal.order_of(b.resumed, b.resumed_after);
    c := inorder_internal.order_of(b.cut, b.cut_after);
    IF (r.column_name, r.attnum) IS DISTINCT FROM (c.column_name, c.attnum)
       -- Of none on a standby that is behind.
       OR inorder_internal.in_set(r) AND b.transactions NOT IN (r.frozen, '{}')
       OR inorder_internal.in_set(c) AND b.transactions NOT IN (c.frozen, '{}') THEN
        RAISE 'this batch has no order that a server writes' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    column_name := c.column_name;
    attnum := c.attnum;
END $$;

CREATE FUNCTION inorder_internal.number_in(t inorder_internal.feed_table, numbers int8multirange)
RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    ranges text;
    bounds text[];
BEGIN
    -- No index serves these conditions, so the planner keeps to that of the order column.
    IF (SELECT count(*) FROM unnest(numbers)) <= 4 THEN
        SELECT string_agg(inorder_internal.between_bounds(t, inorder_internal.bound(t, lower(r)),
                                                          inorder_internal.bound(t, upper(r))), ' OR ')
        INTO ranges FROM unnest(numbers) AS r;
        RETURN format('(%s) IS TRUE', ranges);
    END IF;
    -- A number is in a range if an odd number of bounds is at or below it.
    SELECT CASE WHEN t.is_uuid THEN array_agg(inorder_internal.uuid_xact_floor(n.number)::text ORDER BY n.number)
                ELSE array_agg(n.number::text ORDER BY n.number) END
    INTO bounds FROM unnest(numbers) AS r CROSS JOIN LATERAL (VALUES (lower(r)), (upper(r))) AS n(number);
    RETURN format('pg_catalog.width_bucket(e.%I, %L::pg_catalog.%I[]) '
                  'OPERATOR(pg_catalog.%%) 2 OPERATOR(pg_catalog.=) 1',
                  t.key_column, bounds, CASE WHEN t.is_uuid THEN 'uuid' ELSE 'int8' END);
END $$;

-- The end of a query for the rows of a set of transactions, found by number.
CREATE FUNCTION inorder_internal.set_rows(t inorder_internal.feed_table, numbers int8multirange)
RETURNS text
LANGUAGE sql STABLE
-- OFFSET 0 keeps the planner from the index of the order column.
RETURN CASE WHEN (t).ordered AND numbers = int8multirange(range_merge(numbers))
            THEN format('FROM (SELECT e.* FROM %s%s OFFSET 0) AS e', inorder_internal.whole_table(t),
                        inorder_internal.in_range(t, numbers))
            ELSE inorder_internal.from_ranges(t, inorder_internal.whole_table(t), numbers, ''::text) END;

-- The end of a query for the rows of an ordered batch: by number, or by the index of the column from one value up to
-- another, and no more than a budget of rows.
CREATE FUNCTION inorder_internal.piece(
    t inorder_internal.feed_table, b @extschema@.feed_batch, walked_from bigint, up_to bigint, budget bigint
)
RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    r inorder_internal.feed_order := inorder_internal.order_of(b.resumed, b.resumed_after);
    c inorder_internal.feed_order := inorder_internal.order_of(b.cut, b.cut_after);
    -- No value is below the first of these, nor above the last.
    wanted text := format('%4$se.%1$I OPERATOR(pg_catalog.>=) %2$L::pg_catalog.int8 AND e.%1$I OPERATOR(pg_catalog.<=) '
                          '%3$L::pg_catalog.int8', c.column_name,
                          greatest(r.next_value, walked_from, -9223372036854775808),
                          least(c.next_value - 1, up_to, 9223372036854775807),
                          inorder_internal.typed(t.relation, ARRAY[c.column_name::name]));
    walked text := inorder_internal.whole_table(t) || wanted;
BEGIN
    IF walked_from IS NULL THEN
        RETURN concat(inorder_internal.set_rows(t, b.transactions), ' WHERE ', wanted);
    ELSIF budget IS NULL THEN
        RETURN format('FROM %s AND %s', walked, inorder_internal.number_in(t, b.transactions));
    END IF;
    RETURN format('FROM (SELECT e.* FROM %s ORDER BY e.%I LIMIT %s) AS e WHERE %s', walked, c.column_name, budget,
                  inorder_internal.number_in(t, b.transactions));
END $$;

-- The query for the rows of an ordered batch, in its order or not.
CREATE FUNCTION inorder_internal.ordered_query(
    t inorder_internal.feed_table, b @extschema@.feed_batch, columns text, in_order boolean
)
RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    r inorder_internal.feed_order := inorder_internal.order_of(b.resumed, b.resumed_after);
    c inorder_internal.feed_order := inorder_internal.order_of(b.cut, b.cut_after);
BEGIN
    RETURN format('(SELECT %s %s%s)', columns,
                  inorder_internal.piece(t, b, c.walked_from, coalesce(r.up_to, c.up_to, 9223372036854775807), NULL),
                  CASE WHEN in_order THEN format(' ORDER BY e.%I', c.column_name) ELSE '' END);
END $$;

-- The query for the number, the lowest and the highest value of the first so many rows of an ordered batch.
CREATE FUNCTION inorder_internal.first_rows_query(
    t inorder_internal.feed_table, b @extschema@.feed_batch, walked_from bigint, up_to bigint, budget bigint,
    amount bigint
)
RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    order_column text := (inorder_internal.order_of(b.cut, b.cut_after)).column_name;
BEGIN
    RETURN format('SELECT pg_catalog.count(*), pg_catalog.min(e.value)::pg_catalog.int8, '
                  'pg_catalog.max(e.value)::pg_catalog.int8 '
                  'FROM (SELECT e.%1$I AS value %2$s ORDER BY e.%1$I LIMIT %3$s) AS e',
                  order_column, inorder_internal.piece(t, b, walked_from, up_to, budget), amount);
END $$;

-- The query that has a row if the index of the column has as many rows in a range as the budget is.
CREATE FUNCTION inorder_internal.exhausted_query(
    t inorder_internal.feed_table, order_column text, walked_from bigint, up_to bigint, budget bigint
)
RETURNS text
LANGUAGE sql STABLE
RETURN format('SELECT 1::pg_catalog.int8 FROM %2$se.%1$I OPERATOR(pg_catalog.>=) %3$L::pg_catalog.int8 '
              'AND e.%1$I OPERATOR(pg_catalog.<=) %4$L::pg_catalog.int8 ORDER BY e.%1$I OFFSET %5$s LIMIT 1',
              order_column, inorder_internal.whole_table(t), walked_from, up_to, budget - 1);

CREATE FUNCTION inorder_internal.set_size_query(
    t inorder_internal.feed_table, b @extschema@.feed_batch, budget bigint
)
RETURNS text
LANGUAGE sql STABLE
RETURN format('SELECT pg_catalog.count(*) FROM (SELECT %s LIMIT %s) AS e',
              inorder_internal.set_rows(t, (b).transactions), budget);

-- The query for the lowest value in a set that is not below another.
CREATE FUNCTION inorder_internal.lowest_query(
    t inorder_internal.feed_table, b @extschema@.feed_batch, order_column text, lowest bigint
)
RETURNS text
LANGUAGE sql STABLE
RETURN format('SELECT pg_catalog.min(e.%1$I)::pg_catalog.int8 %2$s '
              'WHERE %4$se.%1$I OPERATOR(pg_catalog.>=) %3$L::pg_catalog.int8',
              order_column, inorder_internal.set_rows(t, (b).transactions), lowest,
              inorder_internal.typed((t).relation, ARRAY[order_column::name]));

-- The query for the highest value in a table, which no row of a set that has ended is above.
CREATE FUNCTION inorder_internal.highest_query(t inorder_internal.feed_table, order_column text)
RETURNS text
LANGUAGE sql STABLE
-- Not of a share, which may have its last row anywhere.
RETURN format('SELECT e.%1$I::pg_catalog.int8 FROM %2$s ORDER BY e.%1$I DESC LIMIT 1', order_column,
              inorder_internal.named((t).relation));

-- An ordered batch that ends before a value, or with its set, and how its rows are found.
CREATE FUNCTION inorder_internal.cut_ordered(
    b @extschema@.feed_batch, walked_from bigint, up_to bigint, next_value bigint
)
RETURNS @extschema@.feed_batch
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    c inorder_internal.feed_order := inorder_internal.order_of(b.cut, b.cut_after);
BEGIN
    c.walked_from := walked_from;
    IF next_value IS NOT NULL THEN
        c.frozen := b.transactions;
        c.up_to := up_to;
        c.next_value := next_value;
    END IF;
    b.cut_after := inorder_internal.order_key(c);
    RETURN b;
END $$;
