-- What follows a position, in the SQL edition: src/next_batch.c.
--
-- look() is STABLE: what it calls sees the snapshot of the statement that called it. So the set of transactions that have
-- ended, the proofs of the table, and the rows by which a batch is limited are of one snapshot.

-- Error unless a limit of rows is one.
CREATE FUNCTION inorder_internal.check_max_rows(max_rows int)
RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF max_rows < 1 THEN
        RAISE 'max_rows must be 1 or more, not %', max_rows USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

-- Error unless rows are of the type of the table.
CREATE FUNCTION inorder_internal.check_row_type(relation regclass, row_type regtype)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class AS c WHERE c.oid = relation AND c.reltype = row_type) THEN
        RAISE 'row_type must be null::%, not of type %', relation, row_type USING ERRCODE = 'datatype_mismatch';
    END IF;
END $$;

-- Error if whole transactions are wanted in the order of a column.
CREATE FUNCTION inorder_internal.refuse_whole(whole boolean, order_column text)
RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF whole AND order_column IS NOT NULL THEN
        RAISE 'whole_transactions and an order column exclude each other' USING ERRCODE = 'feature_not_supported',
              DETAIL = 'In the order of a column the rows of a transaction need not follow each other.';
    END IF;
END $$;

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

-- Whether a query has a row, whose first column is not null.
CREATE FUNCTION inorder_internal.has_row(query text)
RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET constraint_exclusion = off
AS $$
DECLARE
    found int;
BEGIN
    EXECUTE query || ' LIMIT 1' INTO found;
    RETURN found IS NOT NULL;
END $$;

-- A batch reduced to little more than the transactions that have so many rows.
CREATE FUNCTION inorder_internal.narrowed(t inorder_internal.feed_table, b @extschema@.feed_batch, max_rows int)
RETURNS @extschema@.feed_batch
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET constraint_exclusion = off
AS $$
DECLARE
    window_numbers int8multirange := inorder_internal.window_numbers(b);
    total bigint := inorder_internal.total(window_numbers);
    amount bigint := least(32, total);
    found bigint;
    highest bigint;
BEGIN
    -- What an index without an order gives has to be sorted, so few rows are looked at: the first ones where they are
    -- stored, which is nearly their order. Up to the highest number among these there are enough.
    LOOP
        found := 0;
        IF amount > 0 THEN
            EXECUTE format('SELECT pg_catalog.count(*), pg_catalog.max(w.number) FROM (SELECT %s AS number %s LIMIT %s) AS w',
                           inorder_internal.number_text(t),
                           inorder_internal.from_ranges(t, inorder_internal.whole_table(t),
                               inorder_internal.smallest(window_numbers, amount), ''), max_rows) INTO found, highest;
        END IF;
        IF found >= max_rows THEN
            RETURN inorder_internal.in_window(b, inorder_internal.total(inorder_internal.common(
                window_numbers, int8multirange(int8range(0, highest, '[]')))));
        ELSIF amount >= total THEN
            RETURN b;
        END IF;
        amount := least(greatest(CASE found WHEN 0 THEN amount * 32.0 ELSE 1 + amount * 1.25 * max_rows / found END,
                                 amount + 1), total);
    END LOOP;
END $$;

-- The last row within the limit; null if the batch has fewer rows.
CREATE FUNCTION inorder_internal.last_within(
    t inorder_internal.feed_table, b @extschema@.feed_batch, max_rows int, OUT number bigint, OUT last_key text[]
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET constraint_exclusion = off
AS $$
BEGIN
    IF NOT t.ordered THEN
        -- A large transaction is read piece by piece, whatever comes after it.
        IF b.resumed IS NOT NULL THEN
            EXECUTE inorder_internal.cut_query(t, NULL, inorder_internal.in_window(b, 0), max_rows) INTO number, last_key;
            IF number IS NOT NULL THEN
                RETURN;
            END IF;
        END IF;
        b := inorder_internal.narrowed(t, b, max_rows);
    END IF;
    EXECUTE inorder_internal.cut_query(t, NULL, b, max_rows) INTO number, last_key;
END $$;

CREATE TYPE inorder_internal.next_found AS (
    batch @extschema@.feed_batch, has_rows boolean, is_all boolean, members @extschema@.feed_member[],
    rest @extschema@.feed_batch
);
COMMENT ON TYPE inorder_internal.next_found IS
'Internal type. What follows a position: the batch, null if no transaction has ended; whether it has rows, and all that '
'were committed; the tables that were proved; and the rest of a set that has no rows any more, which comes first.';

-- The query that finds whether a batch has rows, in the form of a probe.
CREATE FUNCTION inorder_internal.rows_query(t inorder_internal.feed_table, b @extschema@.feed_batch)
RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN format('SELECT ''rows''::pg_catalog.text AS fault, NULL::pg_catalog.oid AS member WHERE EXISTS (%s)',
                  inorder_internal.batch_query(t, NULL, b, '1', false));
END $$;

-- Whether a table has rows from the first transaction of a batch on. If not, the batch has none, nor are there numbers
-- that this server has not reached.
CREATE FUNCTION inorder_internal.has_above(t inorder_internal.feed_table, b @extschema@.feed_batch)
RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN inorder_internal.has_row(format('SELECT 1 FROM %s WHERE e.%I OPERATOR(pg_catalog.>=) %s',
                                           inorder_internal.named(t.relation), t.key_column, inorder_internal.bound(t, lower(b.transactions))));
END $$;

-- Whether a batch has rows; error if a condition of the table is violated.
CREATE FUNCTION inorder_internal.probe_rows(
    t inorder_internal.feed_table, p @extschema@.feed_position, b @extschema@.feed_batch, caller oid
)
RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- Of a BRIN index the bitmap has all pages that may have rows, also those of a whole backlog: so the first
    -- transactions are looked at before.
    has_rows boolean := NOT t.ordered AND inorder_internal.has_row(inorder_internal.batch_query(
                            t, NULL, inorder_internal.in_window(b, 100), '1', false));
    probe text;
BEGIN
    -- Most looks find nothing.
    IF NOT has_rows AND p.members = b.members AND NOT inorder_internal.has_above(t, b) THEN
        RETURN false;
    END IF;
    probe := inorder_internal.probe_query(t, p, b, caller);
    IF NOT has_rows THEN
        probe := format('(%s) UNION ALL (%s) LIMIT 1', probe, inorder_internal.rows_query(t, b));
    END IF;
    RETURN inorder_internal.probe_table(t, probe) OR has_rows;
END $$;

-- A batch by transaction numbers, which has rows, limited to so many of them, if any.
CREATE FUNCTION inorder_internal.look_by_number(
    t inorder_internal.feed_table, b @extschema@.feed_batch, max_rows int, whole boolean
)
RETURNS inorder_internal.next_found
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    n inorder_internal.next_found;
    number bigint;
    last_key text[];
BEGIN
    IF max_rows IS NOT NULL THEN
        SELECT l.number, l.last_key INTO number, last_key FROM inorder_internal.last_within(t, b, max_rows) AS l;
    END IF;
    n.is_all := number IS NULL;
    n.batch := CASE WHEN n.is_all THEN b
                    ELSE inorder_internal.cut_batch(t, b, number, CASE WHEN NOT whole THEN last_key END) END;
    n.has_rows := true;
    RETURN n;
END $$;

-- What follows a position, in the snapshot of the calling statement, of a table that is locked.
CREATE FUNCTION inorder_internal.look(
    t inorder_internal.feed_table, p @extschema@.feed_position, max_rows int, whole boolean, caller oid
)
RETURNS inorder_internal.next_found
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_memoize = off
    SET constraint_exclusion = off SET max_parallel_workers_per_gather = 0 SET enable_seqscan = off
    SET enable_bitmapscan = off SET datestyle = 'ISO' SET timezone = 'UTC' SET intervalstyle = 'iso_8601'
    SET extra_float_digits = 1 SET bytea_output = 'hex'
AS $$
DECLARE
    n inorder_internal.next_found;
    members @extschema@.feed_member[];
    b @extschema@.feed_batch;
BEGIN
    PERFORM inorder_internal.check_max_rows(max_rows), inorder_internal.prove_ground(t, caller),
            inorder_internal.allow_bitmaps(t);
    members := inorder_internal.members(t);
    b := inorder_internal.next_batch(t, p, members);
    IF b.transactions IS NULL THEN
        n.has_rows := false;
        n.is_all := true;
        n.members := members;
        RETURN n;
    END IF;
    IF b.cut_after IS NOT NULL THEN
        PERFORM inorder_internal.probe_table(t, inorder_internal.probe_query(t, p, b, caller));
        PERFORM inorder_internal.refuse_whole(whole, b.cut_after[1]),
                inorder_internal.prove_order_of(t, b.cut_after[1], b.cut_after[2]::smallint);
        n := inorder_internal.look_in_order(t, b, max_rows, isempty(p.transactions));
    ELSIF inorder_internal.probe_rows(t, p, b, caller) THEN
        n := inorder_internal.look_by_number(t, b, max_rows, whole);
    ELSE
        n.batch := b;
        n.has_rows := false;
        n.is_all := true;
    END IF;
    PERFORM inorder_internal.check_files(t.relation);
    n.members := members;
    RETURN n;
END $$;

CREATE FUNCTION inorder_internal.find_next(
    t inorder_internal.feed_table, p @extschema@.feed_position, max_rows int, whole boolean, caller oid
)
RETURNS inorder_internal.next_found
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    n inorder_internal.next_found;
    passed @extschema@.feed_batch;
BEGIN
    PERFORM inorder_internal.check_max_rows(max_rows);
    -- Most looks find nothing: without a transaction that has ended there is no row to prove anything for.
    IF inorder_internal.is_idle(t, p) THEN
        n.has_rows := false;
        n.is_all := true;
        RETURN n;
    END IF;
    PERFORM inorder_internal.lock_tree(t.relation, 'ACCESS SHARE');
    n := inorder_internal.look(t, p, max_rows, whole, caller);
    IF (n.rest).transactions IS NOT NULL THEN
        passed := n.rest;
        n := inorder_internal.look(t, inorder_internal.advance(p, passed), max_rows, whole, caller);
        n.rest := passed;
    END IF;
    RETURN n;
END $$;

-- Error unless a batch that was made before can be read, of a table that is locked.
CREATE FUNCTION inorder_internal.check_readable(
    t inorder_internal.feed_table, b @extschema@.feed_batch, caller oid
)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM inorder_internal.prove_ground(t, caller), inorder_internal.check_batch(t, b);
    IF b.cut IS NULL AND b.cut_after IS NOT NULL THEN
        PERFORM inorder_internal.prove_order_of(t, o.column_name, o.attnum) FROM inorder_internal.order_state(b) AS o;
    END IF;
END $$;

-- The query for the rows of a batch that was made before, of a table that is locked.
CREATE FUNCTION inorder_internal.batch_text(
    t inorder_internal.feed_table, b @extschema@.feed_batch, members @extschema@.feed_member[], caller oid
)
RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off
    SET enable_bitmapscan = off SET max_parallel_workers_per_gather = 0 SET constraint_exclusion = off
AS $$
DECLARE
    joined text;
BEGIN
    PERFORM inorder_internal.check_readable(t, b, caller);
    joined := inorder_internal.joined_query(t, b, members, caller);
    IF joined IS NOT NULL THEN
        PERFORM inorder_internal.allow_bitmaps(t), inorder_internal.probe_table(t, joined);
    END IF;
    PERFORM inorder_internal.check_files(t.relation);
    RETURN inorder_internal.batch_query(t, NULL, b, 'e.*', true);
END $$;
