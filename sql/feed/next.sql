-- The batch after a position: find_next_batch() decides which transactions the batch has, where it ends, whether it has
-- rows, and whether it has all rows. Readers (open_next_batch in take.sql, reader_next_batch in reader.sql), workers
-- (take_any_batch in workers.sql) and shares (distribute_piece in shares.sql) call find_next_batch() before they read
-- any row. The following functions answer these questions:
--
--  which transactions?  find_batch > batch_since: transactions that have ended, minus transactions of the position
--  is there a row?      find_batch > probe_rows
--  where does it end?   find_batch > find_end > end_by_index (end.c), otherwise end_by_query
--  in column order?     find_batch > find_batch_in_order (piece.sql) > first_by_either > first_rows
--
-- find_next_batch() first tries the indexes (next.c), then calls find_batch(). find_batch() is STABLE, and the
-- functions that it calls see the snapshot of the statement that calls find_batch(). The set of transactions that have
-- ended, the checks of the table, and the rows that limit a batch therefore belong to one snapshot.

-- Raise an error if whole transactions are requested together with the order of a column.
CREATE FUNCTION inorder_internal.refuse_whole(whole boolean, order_column text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF whole AND order_column IS NOT NULL THEN
        RAISE 'whole_transactions and an order column are mutually exclusive' USING ERRCODE = 'feature_not_supported',
              DETAIL = 'In the order of a column, the rows of a transaction need not follow each other.';
    END IF;
END $$;

-- Return a batch without transactions, which does not change a position.
CREATE FUNCTION inorder_internal.no_batch(p @extschema@.feed_position, OUT batch @extschema@.feed_batch)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    batch.format := inorder_internal.position_format();
    batch.transactions := '{}';
    batch.resumed := p.partial;
    batch.resumed_after := p.last_key;
    batch.cut := p.partial;
    batch.cut_after := p.last_key;
    batch.ordering := CASE WHEN (p.ordering).column_name IS NOT NULL THEN p.ordering END;
    IF (p.ordering).frozen IS NOT NULL THEN
        batch.ordering.frozen := NULL;
        batch.ordering.from_value := (p.ordering).next_value;
    END IF;
    batch.members := p.members;
    batch.origin := inorder_internal.server_origin();
END $$;

-- Return the batch of all transactions that have ended since a position; null if there are no such transactions. The
-- attributes of the ordering are set by name, because an update of the extension may add attributes.
CREATE FUNCTION inorder_internal.batch_since(
    t inorder_internal.feed_table, p @extschema@.feed_position, members @extschema@.feed_member[],
    OUT batch @extschema@.feed_batch
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    next bigint := inorder_internal.next_transaction(t.base);
    highest bigint := greatest(upper(p.transactions) - 1, upper((p.ordering).frozen) - 1, p.partial);
    are_others boolean := inorder_internal.differ(p.members, members);
    numbers int8multirange := coalesce(
        (p.ordering).frozen, inorder_internal.minus(inorder_internal.ended_everywhere(t.base), p.transactions));
BEGIN
    IF (highest >= next) IS TRUE AND NOT pg_is_in_recovery()
       AND NOT inorder_internal.has_begun(highest - t.base) THEN
        PERFORM inorder_internal.say_ahead(t.relation, highest, next);
    END IF;
    -- If the members of the position are those of this table, the position belongs to this table.
    IF are_others THEN
        PERFORM inorder_internal.check_remembers(t, p);
    END IF;
    -- If a standby is behind the server on which the position was made, there is no batch yet.
    IF isempty(numbers) OR NOT numbers @> p.partial
       OR (p.ordering).frozen IS NOT NULL AND NOT isempty(inorder_internal.minus(
           numbers, inorder_internal.ended_transactions(t.base))) THEN
        RETURN;
    END IF;
    batch := ROW(inorder_internal.position_format(), numbers, p.partial, p.last_key, NULL, NULL, NULL, members,
                 inorder_internal.server_origin());
    IF (p.ordering).column_name IS NOT NULL THEN
        batch.ordering.column_name := (p.ordering).column_name;
        batch.ordering.attnum := (p.ordering).attnum;
        batch.ordering.from_value := CASE WHEN (p.ordering).frozen IS NOT NULL THEN (p.ordering).next_value END;
        batch.ordering.up_to := (p.ordering).up_to;
    END IF;
    IF NOT are_others THEN
        RETURN;
    ELSIF p.partial IS NOT NULL THEN
        PERFORM inorder_internal.check_order(t, p.members, p.partial);
    END IF;
    -- Keep the partitions of the position, because this standby may not have all of them yet.
    IF NOT isempty(inorder_internal.minus(p.transactions, inorder_internal.ended_transactions(t.base))) THEN
        batch.members := ARRAY(SELECT m FROM unnest(members) AS m UNION SELECT m FROM unnest(p.members) AS m
                               ORDER BY 1);
    END IF;
END $$;

-- Return the query that finds out whether a batch has rows, in the form of a probe query: see find_fault().
CREATE FUNCTION inorder_internal.rows_query(t inorder_internal.feed_table, b @extschema@.feed_batch)
RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN format('SELECT ''rows''::pg_catalog.text AS fault, NULL::pg_catalog.oid AS member WHERE EXISTS (%s)',
                  inorder_internal.found_query(t, b, '1', false));
END $$;

-- Run a probe query. Raise an error if the query finds that the table cannot be read. Return true if the query
-- finds rows; only some probe queries look for rows.
CREATE FUNCTION inorder_internal.find_fault(t inorder_internal.feed_table, query text, caller oid)
RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    finding text[] := inorder_internal.as_caller(
        t, format('SELECT ARRAY[e.fault, pg_catalog.concat(e.member)] FROM (%s) AS e', query), false, caller);
BEGIN
    IF finding[1] <> 'rows' THEN
        PERFORM inorder_internal.complain(t, finding[1], nullif(finding[2], '')::oid);
    END IF;
    RETURN finding IS NOT NULL;
END $$;

-- Return true if the transactions of a batch have rows, even if these rows were read before. Raise an error if a probe
-- finds a fault of the table.
CREATE FUNCTION inorder_internal.probe_rows(
    t inorder_internal.feed_table, p @extschema@.feed_position, b @extschema@.feed_batch, caller oid
) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    findings boolean[] := inorder_internal.probe(t, b.transactions);
BEGIN
    IF findings[2] OR inorder_internal.differ(p.members, b.members) THEN
        PERFORM inorder_internal.find_fault(t, inorder_internal.probe_query(t, p, b, caller), caller);
    END IF;
    RETURN findings[1];
END $$;

-- Return the result of place_query() for the n-th row of a batch; null if the batch has fewer rows.
CREATE FUNCTION inorder_internal.find_place(
    t inorder_internal.feed_table, b @extschema@.feed_batch, place int, caller oid
) RETURNS text[]
LANGUAGE sql STABLE
RETURN inorder_internal.as_caller(t, inorder_internal.place_query(
    t, inorder_internal.parts_with_rows(t, (b).transactions), b, place), false, caller);

-- Return the key of the n-th row of one transaction of a batch, counted from 1. Return null if there is no such row, or
-- if no key distinguishes the rows of a transaction.
CREATE FUNCTION inorder_internal.key_at(
    t inorder_internal.feed_table, b @extschema@.feed_batch, number bigint, place bigint, caller oid
) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE WHEN cardinality(t.order_columns) > 0 THEN (inorder_internal.find_place(
        t, inorder_internal.rest_of_one(b, number), least(place, 2147483647)::int, caller))[3:] END;
END $$;

-- Find the end of a batch with queries. Rows that existed before feed_prepare() come first. These rows are read in the
-- order of their key. Reading them in the order of the number would make the planner sort all of them.
CREATE FUNCTION inorder_internal.end_by_query(
    t inorder_internal.feed_table, b @extschema@.feed_batch, max_rows int, caller oid
) RETURNS inorder_internal.batch_end
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    e inorder_internal.batch_end;
    place text[];
BEGIN
    IF b.resumed IS NULL AND inorder_internal.has_old(t, b.transactions) AND coalesce(
           inorder_internal.count_by_index(t, inorder_internal.one_number(0), 1) > 0,
           inorder_internal.has_row(t, inorder_internal.slice(t, inorder_internal.whole_table(t), 0, NULL, NULL,
                                                              '1::pg_catalog.int8', true), caller)) THEN
        place := inorder_internal.find_place(t, inorder_internal.rest_of_one(b, 0), max_rows, caller);
        IF place[2] = '' THEN
            place[2] := '-1';  -- rows of other transactions may follow
        END IF;
    END IF;
    place := coalesce(place, inorder_internal.find_place(t, b, max_rows, caller));
    IF place[2] <> '' THEN
        e.number := inorder_internal.number_of(t, place[1]);
        e.last_key := CASE WHEN inorder_internal.number_of(t, place[2]) = e.number THEN place[3:] END;
    END IF;
    RETURN e;
END $$;

-- Return the batch, limited to max_rows rows unless max_rows is null. All limits of a batch are applied here or, for a
-- batch in the order of a column, by find_batch_in_order().
CREATE FUNCTION inorder_internal.find_end(
    t inorder_internal.feed_table, b @extschema@.feed_batch, max_rows int, whole boolean, caller oid
) RETURNS inorder_internal.found_batch
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    n inorder_internal.found_batch;
    -- Without a limit, the result only shows whether there is a row.
    e inorder_internal.batch_end := inorder_internal.end_by_index(t, b, coalesce(max_rows, 0));
BEGIN
    IF e.has_rows IS NULL AND max_rows IS NOT NULL THEN
        e := inorder_internal.end_by_query(t, b, max_rows, caller);
    ELSIF e.place IS NOT NULL AND e.last_key IS NULL AND NOT whole THEN
        e.last_key := inorder_internal.key_at(t, b, e.number, e.place, caller);
    END IF;
    n.is_all := max_rows IS NULL OR e.number IS NULL;
    n.batch := b;
    IF NOT n.is_all THEN
        n.batch.transactions := CASE
            WHEN e.number = b.resumed THEN inorder_internal.one_number(e.number)
            ELSE b.transactions
                * (int8multirange(int8range(0, e.number, '[]')) + inorder_internal.one_number(b.resumed)) END;
        -- The batch ends after the transaction of its last row if no key distinguishes the rows of a transaction.
        IF NOT whole AND cardinality(e.last_key) > 0 THEN
            n.batch.cut := e.number;
            n.batch.cut_after := e.last_key;
        END IF;
    END IF;
    -- A query shows whether a transaction that was read in part has more rows.
    n.has_rows := coalesce(e.has_rows, NOT n.is_all OR b.resumed IS NULL
                                       OR inorder_internal.find_fault(t, inorder_internal.rows_query(t, b), caller));
    RETURN n;
END $$;

-- Find the batch that follows a position, in the snapshot of the calling statement; the table is locked. The argument
-- has_rows is true if rows that follow the position were found before the table was checked.
CREATE FUNCTION inorder_internal.find_batch(
    t inorder_internal.feed_table, p @extschema@.feed_position, max_rows int, whole boolean, has_rows boolean,
    caller oid
) RETURNS inorder_internal.found_batch
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    n inorder_internal.found_batch;
    members inorder_internal.found_batch.members%TYPE := inorder_internal.proved_members(t, caller);
    b inorder_internal.found_batch.batch%TYPE := inorder_internal.batch_since(t, p, members);
BEGIN
    IF (b.ordering).column_name IS NOT NULL THEN
        IF whole THEN
            PERFORM inorder_internal.refuse_whole(whole, (b.ordering).column_name);
        END IF;
        t := inorder_internal.prove_known_column(t, (b.ordering).column_name, (b.ordering).attnum, false, NULL);
        -- If the set was read in part, its other rows are looked up by value.
        IF inorder_internal.probe_rows(t, p, b, caller) OR (b.ordering).from_value IS NOT NULL THEN
            n := inorder_internal.find_batch_in_order(t, b, max_rows, isempty(p.transactions), caller);
        END IF;
    ELSIF b.transactions IS NOT NULL
          AND (has_rows AND NOT inorder_internal.differ(p.members, members)
               OR inorder_internal.probe_rows(t, p, b, caller)) THEN
        n := inorder_internal.find_end(t, b, max_rows, whole, caller);
    END IF;
    IF n.has_rows IS NULL THEN
        n.batch := b;
        n.has_rows := false;
        n.is_all := true;
    END IF;
    n.members := inorder_internal.seen_members(t.relation, members);
    RETURN n;
END $$;

-- Use the indexes to find the batch that follows a position (next.c). The attribute "batch" is null if no batch
-- follows. If the indexes are not sufficient, or if the table has changed since the position was made, is_all is null.
-- In that case has_rows is true if rows were found, and the table is then locked. The attribute is_costly is true if
-- the search for rows was costly.
CREATE FUNCTION inorder_internal.next_by_index(
    t inorder_internal.feed_table, p @extschema@.feed_position, max_rows int, whole boolean, passes boolean, caller oid
) RETURNS inorder_internal.found_batch
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- Find the batch after a position. If "passes" is true, a batch without rows is accepted, and the caller moves the
-- position past its transactions.
CREATE FUNCTION inorder_internal.find_next_batch(
    t inorder_internal.feed_table, p @extschema@.feed_position, max_rows int, whole boolean, passes boolean, caller oid
) RETURNS inorder_internal.found_batch
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    n inorder_internal.found_batch;
    passed inorder_internal.found_batch.rest%TYPE;
    is_costly boolean;
    pages bigint;
BEGIN
    IF max_rows < 1 THEN
        RAISE 'max_rows must be 1 or more, not %', max_rows USING ERRCODE = 'invalid_parameter_value';
    END IF;
    n := inorder_internal.next_by_index(t, p, max_rows, whole, passes, caller);
    IF n.is_all IS NOT NULL THEN
        RETURN n;
    ELSIF n.has_rows IS NULL THEN
        pages := inorder_internal.pages_read(t, true);
        t := inorder_internal.lock_table(t, caller);
    END IF;
    is_costly := n.is_costly IS TRUE;
    n := inorder_internal.find_batch(t, p, max_rows, whole, n.has_rows, caller);
    -- A search that finds nothing is costly after a load that was rolled back, until VACUUM removes the rows of the
    -- load. The first search of a session also reads pages of the catalog. About half of the limit, which increases
    -- with each partition, is for these pages.
    n.is_costly := NOT n.has_rows
        AND (is_costly OR inorder_internal.pages_read(t, false) - pages > 2000 + 100 * cardinality(n.members)::bigint);
    IF (n.rest).transactions IS NOT NULL THEN
        passed := n.rest;
        n := inorder_internal.find_batch(t, inorder_internal.advance(p, passed), max_rows, whole, NULL, caller);
        n.rest := passed;
    END IF;
    RETURN n;
END $$;

-- Existing batches

-- Raise an error if the snapshot of a call does not see all transactions that the call needs. The error code is
-- serialization_failure if the call can succeed later or in a new transaction. If the transactions have not yet begun
-- on this primary, the error code is object_not_in_prerequisite_state.
CREATE FUNCTION inorder_internal.say_newer(what text, missing int8multirange, base bigint) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE 'this % is newer than the snapshot of this transaction', what
    USING ERRCODE = CASE WHEN pg_is_in_recovery() OR upper(missing) <= inorder_internal.next_transaction(base)
                         THEN 'serialization_failure' ELSE 'object_not_in_prerequisite_state' END,
          DETAIL = format('Transactions %s have not ended in that snapshot.', inorder_internal.few_of(missing)),
          HINT = 'In REPEATABLE READ and SERIALIZABLE, begin a new transaction. On a standby, wait until the standby '
                 'has caught up.';
END $$;

-- Return a batch that can be read. Raise an error unless the batch belongs to this table, and all of its transactions
-- have ended in the current snapshot. The table is locked and checked.
CREATE FUNCTION inorder_internal.readable_batch(
    t inorder_internal.feed_table, b @extschema@.feed_batch, members @extschema@.feed_member[]
) RETURNS @extschema@.feed_batch
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    missing int8multirange := inorder_internal.minus(b.transactions, inorder_internal.ended_transactions(t.base));
BEGIN
    -- If the members of the batch are those of this table, the batch belongs to this table, and was made with the same
    -- key.
    IF inorder_internal.differ(b.members, members) THEN
        PERFORM inorder_internal.check_same(t, b.members, 'batch');
        IF coalesce(b.resumed, b.cut) IS NOT NULL THEN
            PERFORM inorder_internal.check_order(t, b.members, coalesce(b.resumed, b.cut));
        END IF;
    END IF;
    IF NOT isempty(missing) THEN
        PERFORM inorder_internal.say_newer('batch', missing, t.base);
    ELSIF (b.ordering).column_name IS NOT NULL THEN
        t := inorder_internal.prove_known_column(t, (b.ordering).column_name, (b.ordering).attnum, false, NULL);
    END IF;
    RETURN b;
END $$;

-- The rows to be read: the table, which is locked and checked; its members at the time of the check; and the batch,
-- which is null if there are no rows.
CREATE TYPE inorder_internal.found_rows AS (
    t inorder_internal.feed_table, members @extschema@.feed_member[], batch @extschema@.feed_batch
);

-- Return the query for the rows of a batch, with the current names of table and columns. The caller executes the query
-- immediately.
CREATE FUNCTION inorder_internal.text_for_rows(
    t inorder_internal.feed_table, b @extschema@.feed_batch, in_order boolean
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN inorder_internal.found_query(t, b, 'e.*', in_order);
END $$;

-- Find what is needed to read the rows of a batch of a locked table. Raise an error unless the batch can be read, and
-- has the same rows as before.
CREATE FUNCTION inorder_internal.rows_of(t inorder_internal.feed_table, b @extschema@.feed_batch, caller oid)
RETURNS inorder_internal.found_rows
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r inorder_internal.found_rows;
    members inorder_internal.found_rows.members%TYPE := inorder_internal.proved_members(t, caller);
    joined text;
BEGIN
    b := inorder_internal.readable_batch(t, b, members);
    joined := inorder_internal.joined_query(t, b, members, caller);
    IF joined IS NOT NULL THEN
        PERFORM inorder_internal.find_fault(t, joined, caller);
    END IF;
    r.t := t;
    r.members := inorder_internal.seen_members(t.relation, members);
    r.batch := b;
    RETURN r;
END $$;
