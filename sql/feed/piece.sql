-- Delivery in the order of a column: the next piece of a set. order.sql explains why the order is right.
--
-- A piece is found with one of two methods. The first method walks the index of the column from the first value on, and
-- skips the rows of other transactions. This walk is faster if most rows belong to the set, as in a backlog. The second
-- method fetches the rows of the set by number, and sorts them. This method is faster if the set has few rows. The
-- planner and statistics do not show which method is faster. Both methods are therefore tried in turn with a budget of
-- rows, which grows until one of them succeeds. The search then takes a small multiple of the time that the faster
-- method takes.

-- The result of a search for rows after a position.
--
--  batch      the batch that was found; transactions is null if no transaction has ended since the position was made
--  has_rows   true if the batch has rows
--  is_all     true if the batch has all committed rows that follow the position
--  members    the tables that were checked
--  rest       the unread part of the set before the batch, if this part has no rows
--  is_costly  true if no rows were found, and the search accessed many pages
CREATE TYPE inorder_internal.found_batch AS (
    batch @extschema@.feed_batch, has_rows boolean, is_all boolean, members @extschema@.feed_member[],
    rest @extschema@.feed_batch, is_costly boolean
);

-- A search for a piece.
--
--  walked_from      value where the walk along the index of the column begins; null if rows are found by number
--  up_to            value where the walk ends
--  amount           number of the first rows, at most one more than max_rows
--  lowest, highest  lowest and highest value of these rows
CREATE TYPE inorder_internal.order_search AS (
    walked_from bigint, up_to bigint, amount bigint, lowest bigint, highest bigint
);

-- Find the next rows of a set: their number, at most max_rows + 1, and their lowest and highest values. At most
-- "budget" rows are read; if "budget" is null, there is no such limit.
CREATE FUNCTION inorder_internal.first_rows(
    t inorder_internal.feed_table, b @extschema@.feed_batch, s inorder_internal.order_search, budget bigint,
    max_rows int, caller oid
) RETURNS inorder_internal.order_search
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bounds text[] := inorder_internal.as_caller(t, format(
        'SELECT ARRAY[pg_catalog.concat(pg_catalog.count(*)), pg_catalog.concat(pg_catalog.min(e.value)), '
        'pg_catalog.concat(pg_catalog.max(e.value))] '
        'FROM (SELECT e.%1$I AS value %2$s ORDER BY e.%1$I LIMIT %3$s) AS e',
        (b.ordering).column_name, inorder_internal.piece(t, b, s.walked_from, s.up_to, budget),
        max_rows + 1::bigint), true, caller);
BEGIN
    s.amount := bounds[1]::bigint;
    s.lowest := nullif(bounds[2], '')::bigint;
    s.highest := nullif(bounds[3], '')::bigint;
    RETURN s;
END $$;

-- Count the rows of a set, up to the budget.
CREATE FUNCTION inorder_internal.set_size(
    t inorder_internal.feed_table, b @extschema@.feed_batch, budget bigint, caller oid
) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN coalesce(inorder_internal.count_by_index(t, b.transactions, budget),
                    inorder_internal.find_number(
                        t, format('SELECT pg_catalog.count(*) FROM (SELECT %s LIMIT %s) AS e',
                                  inorder_internal.set_rows(t, b.transactions), budget), true, caller));
END $$;

-- Find the next rows of a set. The walk along the index of the column and the search by number are tried in turn, until
-- one of them succeeds.
CREATE FUNCTION inorder_internal.first_by_either(
    t inorder_internal.feed_table, b @extschema@.feed_batch, s inorder_internal.order_search, max_rows int, caller oid
) RETURNS inorder_internal.order_search
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The first budget is generous, because reading more rows takes less time than starting another walk. If most rows
    -- belong to the set, the walk ends early.
    budget bigint := 100 + 16 * max_rows::bigint;
BEGIN
    LOOP
        s := inorder_internal.first_rows(t, b, s, budget, max_rows, caller);
        -- The second condition is true if the index of the column has fewer rows in the range than the budget.
        IF s.amount > max_rows OR inorder_internal.find_number(t, format(
               'SELECT 1::pg_catalog.int8 FROM %2$se.%1$I OPERATOR(pg_catalog.>=) %3$L::pg_catalog.int8 '
               'AND e.%1$I OPERATOR(pg_catalog.<=) %4$L::pg_catalog.int8 ORDER BY e.%1$I OFFSET %5$s LIMIT 1',
               (b.ordering).column_name, inorder_internal.whole_table(t), s.walked_from, s.up_to, budget - 1),
               true, caller) IS NULL THEN
            RETURN s;
        END IF;
        EXIT WHEN inorder_internal.set_size(t, b, budget, caller) < budget;
        budget := budget * 4;
    END LOOP;
    s.walked_from := NULL;
    RETURN inorder_internal.first_rows(t, b, s, NULL, max_rows, caller);
END $$;

CREATE FUNCTION inorder_internal.first_of_set(
    t inorder_internal.feed_table, b @extschema@.feed_batch, max_rows int, nothing_read boolean,
    caller oid
) RETURNS inorder_internal.order_search
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s inorder_internal.order_search;
    few bigint := 100 + 16 * max_rows::bigint;
BEGIN
    -- If no rows have been read yet, the walk begins below all values. Otherwise the rows of a small set are fetched
    -- by number, and for a large set the walk begins at the lowest value of the set.
    IF nothing_read THEN
        s.walked_from := -9223372036854775808;
    ELSIF inorder_internal.set_size(t, b, few, caller) < few THEN
        RETURN inorder_internal.first_rows(t, b, s, NULL, max_rows, caller);
    ELSE
        s.walked_from := inorder_internal.find_number(t, inorder_internal.lowest_query(
                             t, b, (b.ordering).column_name, -9223372036854775808), true, caller);
    END IF;
    -- This value is an upper bound for all rows of transactions that have ended.
    s.up_to := inorder_internal.find_number(t, inorder_internal.highest_query(t, (b.ordering).column_name), true,
                                            caller);
    IF s.walked_from IS NULL OR s.up_to IS NULL THEN
        s.amount := 0;
        RETURN s;
    END IF;
    RETURN inorder_internal.first_by_either(t, b, s, max_rows, caller);
END $$;

-- Find a batch in the order of a column, limited to max_rows rows unless max_rows is null.
CREATE FUNCTION inorder_internal.find_batch_in_order(
    t inorder_internal.feed_table, b @extschema@.feed_batch, max_rows int, nothing_read boolean,
    caller oid
) RETURNS inorder_internal.found_batch
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    n inorder_internal.found_batch;
    s inorder_internal.order_search;
    is_resumed boolean := (b.ordering).from_value IS NOT NULL;
    next_piece bigint;
BEGIN
    s.walked_from := (b.ordering).from_value;
    s.up_to := (b.ordering).up_to;
    IF max_rows IS NULL THEN
        IF nothing_read AND s.walked_from IS NULL THEN
            s.walked_from := -9223372036854775808;
        END IF;
    ELSE
        s := CASE WHEN s.walked_from IS NULL THEN inorder_internal.first_of_set(t, b, max_rows, nothing_read, caller)
                  ELSE inorder_internal.first_by_either(t, b, s, max_rows, caller) END;
        -- The value at which the next piece begins; null if this piece is the last. Rows with equal values stay
        -- together.
        next_piece := CASE WHEN s.amount <= max_rows THEN NULL WHEN s.highest > s.lowest THEN s.highest
                           WHEN s.highest < 9223372036854775807
                           THEN inorder_internal.find_number(t, inorder_internal.lowest_query(
                               t, b, (b.ordering).column_name, s.highest + 1), true, caller) END;
        IF next_piece IS NOT NULL AND s.up_to IS NULL THEN
            s.up_to := inorder_internal.find_number(
                t, inorder_internal.highest_query(t, (b.ordering).column_name), true, caller);
        END IF;
    END IF;
    n.batch := b;
    n.batch.ordering.walked_from := s.walked_from;
    IF next_piece IS NOT NULL THEN
        n.batch.ordering.up_to := s.up_to;
        n.batch.ordering.next_value := next_piece;
    END IF;
    n.has_rows := CASE WHEN max_rows IS NULL
                       THEN inorder_internal.has_row(
                           t, inorder_internal.found_query(t, n.batch, '1::pg_catalog.int8', false), caller)
                       ELSE s.amount > 0 END;
    n.is_all := max_rows IS NULL AND NOT is_resumed;
    n.rest := CASE WHEN NOT n.has_rows AND is_resumed THEN n.batch END;
    RETURN n;
END $$;
