-- Delivery in the order of a column.
--
-- A transaction gets its number at its first write. Suppose that transaction A gets its number; then transaction B
-- writes version 1 of a stream and commits; then A locks the stream and writes version 2. A has the lower number, but
-- wrote later. If the values of a column are drawn from a sequence after the lock is taken, these values are in the
-- right order. A feed with such a column freezes the set ended(S) - P, and delivers the rows of this set in pieces, in
-- the order of the column. The next set is frozen when all pieces of this set are delivered:
--
--  1. If row 2 was written after the transaction of row 1 had committed, each snapshot that sees the transaction of
--     row 2 as ended also sees the transaction of row 1 as ended. Row 1 is therefore in the same set, or in an earlier
--     set.
--  2. In the same set row 1 comes first, since its value was drawn first.
--  3. The set is fixed, its transactions have ended, and rows do not change. Each row is therefore in exactly one
--     piece. Rows with equal values are in the same piece.
--
-- Positions and batches of such a feed have an ordering, and no partial transaction: partial, resumed and cut are
-- null.

-- Return the ordering of a position between two sets; null if no column is given.
CREATE FUNCTION inorder_internal.new_order(relation regclass, order_column text)
RETURNS @extschema@.feed_order
LANGUAGE sql STABLE
-- If there is no such column, the attribute number is set to 0, which no column has. Each read then raises an error.
RETURN CASE WHEN order_column IS NOT NULL THEN ROW(order_column, coalesce((
    SELECT a.attnum FROM pg_attribute AS a
    WHERE a.attrelid = relation AND a.attname = order_column::name AND a.attnum > 0::smallint AND NOT a.attisdropped),
    0::smallint), NULL, NULL, NULL, NULL, NULL)::@extschema@.feed_order END;

-- Return the ordering of a restored position or batch, with the column of the same name in this database.
CREATE FUNCTION inorder_internal.renumbered(relation regclass, o @extschema@.feed_order)
RETURNS @extschema@.feed_order
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF o.column_name IS NOT NULL THEN
        o.attnum := (inorder_internal.new_order(relation, o.column_name)).attnum;
    END IF;
    RETURN o;
END $$;

-- Return the transactions that a position has read. If the position is inside a set that is read in the order of a
-- column, the transactions of this set are included.
CREATE FUNCTION inorder_internal.passed_by(p @extschema@.feed_position) RETURNS int8multirange
LANGUAGE sql IMMUTABLE
RETURN inorder_internal.plus((p).transactions, coalesce((p).ordering.frozen, '{}'::int8multirange));

-- Raise an error if rows cannot be delivered in the order of a column. The column must not contain the transaction
-- number, its values must be drawn from a single sequence, and this sequence must not cache values, descend or cycle.
-- The function is VOLATILE so that it sees the current state of the sequence, which is not locked. The result is cached
-- until the sequence changes.
CREATE FUNCTION inorder_internal.check_order_column(t inorder_internal.feed_table, order_column text)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s record;
BEGIN
    IF order_column = t.key_column THEN
        RAISE 'column % of % contains transaction numbers, which do not show the order in which rows were written',
              quote_ident(order_column), t.relation USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT count(DISTINCT q.seqrelid) AS amount, min(q.seqrelid::regclass::text) AS name,
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
        RAISE 'column % of % has values from several sequences', quote_ident(order_column), t.relation
        USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = 'Values of different sequences have no common order.',
              HINT = 'Give the column of each partition the default of the table.';
    ELSIF s.amount = 1 AND NOT s.is_right THEN
        RAISE 'sequence % may return values out of order', s.name
        USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = format('The feed delivers rows in the order of column %I of %s.', order_column, t.relation),
              HINT = format('ALTER SEQUENCE %s INCREMENT BY 1 CACHE 1 NO CYCLE. Sessions that used the sequence before '
                            'may still have cached values: let them reconnect.', s.name);
    END IF;
END $$;

-- Return a condition for the order column that always holds: see typed().
CREATE FUNCTION inorder_internal.typed_order(t inorder_internal.feed_table, order_column text) RETURNS text
LANGUAGE sql STABLE
RETURN inorder_internal.typed(order_column::name, CASE inorder_internal.type_of_column((t).relation, order_column::name)
    WHEN 'bigint'::regtype::oid THEN 'int8'::name WHEN 'integer'::regtype::oid THEN 'int4'::name
    ELSE 'int2'::name END);

-- Return the part of a query after the select list, for the rows of a set of transactions. The rows are found by
-- number.
CREATE FUNCTION inorder_internal.set_rows(t inorder_internal.feed_table, numbers int8multirange) RETURNS text
LANGUAGE sql STABLE
-- OFFSET 0 prevents the planner from using the index of the order column.
RETURN CASE WHEN inorder_internal.is_range(numbers) AND NOT inorder_internal.has_old(t, numbers)
            THEN format('FROM (SELECT e.* FROM %s%s OFFSET 0) AS e', inorder_internal.whole_table(t),
                        inorder_internal.in_range(t, numbers))
            ELSE inorder_internal.from_ranges(t, inorder_internal.whole_table(t), numbers, ''::text) END;

-- Return the part of a query after the select list, for the rows of an ordered batch. If "walked_from" is null, the
-- rows are found by number. Otherwise the rows are found using the index of the column, from the value "walked_from" to
-- the value "up_to". At most "budget" rows are read, or all rows if "budget" is null.
CREATE FUNCTION inorder_internal.piece(
    t inorder_internal.feed_table, b @extschema@.feed_batch, walked_from bigint, up_to bigint, budget bigint
) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The lowest and the highest bigint mean that there is no bound.
    wanted text := format('%4$se.%1$I OPERATOR(pg_catalog.>=) %2$L::pg_catalog.int8 AND e.%1$I OPERATOR(pg_catalog.<=) '
                          '%3$L::pg_catalog.int8', (b.ordering).column_name,
                          greatest((b.ordering).from_value, walked_from, -9223372036854775808),
                          least((b.ordering).next_value - 1, up_to, 9223372036854775807),
                          inorder_internal.typed_order(t, (b.ordering).column_name));
    walked text := inorder_internal.whole_table(t) || wanted;
BEGIN
    IF walked_from IS NULL THEN
        RETURN concat(inorder_internal.set_rows(t, b.transactions), ' WHERE ', wanted);
    ELSIF budget IS NULL THEN
        RETURN format('FROM %s AND %s', walked, inorder_internal.number_in(t, b.transactions));
    END IF;
    RETURN format('FROM (SELECT e.* FROM %s ORDER BY e.%I LIMIT %s) AS e WHERE %s', walked, (b.ordering).column_name,
                  budget, inorder_internal.number_in(t, b.transactions));
END $$;

-- Return a query for the lowest value in a set that is not below a given value.
CREATE FUNCTION inorder_internal.lowest_query(
    t inorder_internal.feed_table, b @extschema@.feed_batch, order_column text, lowest bigint
) RETURNS text
LANGUAGE sql STABLE
RETURN format('SELECT pg_catalog.min(e.%1$I)::pg_catalog.int8 %2$s '
              'WHERE %4$se.%1$I OPERATOR(pg_catalog.>=) %3$L::pg_catalog.int8',
              order_column, inorder_internal.set_rows(t, (b).transactions), lowest,
              inorder_internal.typed_order(t, order_column));

-- Return the query for the highest value in a table. This value is an upper bound for the rows of a set that has ended.
CREATE FUNCTION inorder_internal.highest_query(t inorder_internal.feed_table, order_column text) RETURNS text
LANGUAGE sql STABLE
-- The query has no condition for a share, because a search for the last row of one share could read the whole index.
RETURN format('SELECT e.%1$I::pg_catalog.int8 FROM %2$s ORDER BY e.%1$I DESC LIMIT 1', order_column,
              inorder_internal.named((t).relation));
