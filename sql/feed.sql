-- Feeds: every committed row of an insert-only table, exactly once.
--
--  1. A row carries the number of the transaction that inserted it (the guard sees to that)
--     and is never changed in it nor deleted.
--  2. ended(S) is the set of transactions that are over in snapshot S; those in it have
--     committed or not, for good. What they committed is visible in S.
--  3. A position P is the set of transactions read so far; a batch is B = ended(S) - P.
--  4. B holds no transaction of P: no row is delivered twice.
--  5. Rows are read under a snapshot S' not older than S. All of B is over in it, so each row
--     that B will ever have is visible: none is missed.
--  6. The next position is P + B. A transaction in progress is in neither, and so is in a later B.
--  7. Each transaction ends, and is then in ended(S) for every later S: each row comes.
--  8. Position and rows move in one transaction, or the batch is kept until it is finished.
--  9. Two readers of one feed take turns: the second sees the position of the first.
-- 10. A batch may stop inside a transaction, after its row K: then P has that transaction
--     not, but K, and the next batch goes on with its rows above K.

CREATE TYPE feed_position AS (
    transactions int8multirange,
    partial bigint,
    last_key text[],
    tables text[],
    origin text
);
COMMENT ON TYPE feed_position IS 'What a reader has read: whole transactions by number, rows of one more (partial) up to a key, the partitions there were, and on which server (see server_origin; null inside the database).';

CREATE TYPE feed_batch AS (
    transactions int8multirange,
    resumed bigint,
    resumed_after text[],
    cut bigint,
    cut_after text[],
    tables text[],
    origin text
);
COMMENT ON TYPE feed_batch IS 'What is read next: transactions by number; of one (resumed) only rows above a key, of one (cut) only rows up to a key. Any later reading gives the same rows.';

CREATE TABLE feed (
    name text PRIMARY KEY CHECK (name <> ''),
    relid regclass NOT NULL,
    position feed_position NOT NULL,
    batch bigint NOT NULL DEFAULT 0,
    pending feed_batch,
    created timestamptz NOT NULL DEFAULT now(),
    moved timestamptz
);
CREATE INDEX ON feed (relid);
SELECT pg_extension_config_dump('feed', 'WHERE EXISTS (SELECT FROM pg_catalog.pg_class WHERE oid = relid)');

COMMENT ON TABLE feed IS 'Feeds made by feed_create(); the view feeds shows them.';
COMMENT ON COLUMN feed.batch IS 'number of the last batch handed out by feed_next_batch(), from 1 on; without gaps';
COMMENT ON COLUMN feed.pending IS 'that batch as long as it is not finished';
COMMENT ON COLUMN feed.moved IS 'when the position moved last';

ALTER TABLE feed OWNER TO @extowner@;
ALTER TABLE feed ENABLE ROW LEVEL SECURITY;
-- Who may read a table may read its feeds, and so move them; who owns it may make and drop them.
GRANT SELECT, INSERT, DELETE, UPDATE (position, batch, pending, moved) ON feed TO PUBLIC;
CREATE POLICY read ON feed FOR SELECT USING (feed_may_read(relid));
CREATE POLICY move ON feed FOR UPDATE USING (feed_may_read(relid) AND (SELECT has_schema_privilege(relnamespace, 'USAGE') FROM pg_class WHERE oid = relid));
CREATE POLICY make ON feed FOR INSERT WITH CHECK (feed_may_change(relid) AND EXISTS (SELECT FROM pg_class WHERE oid = relid));
CREATE POLICY remove ON feed FOR DELETE USING (feed_may_change(relid));

---------------------------------------------------------------------------
-- The text of queries: slices of a table by number
--
-- feed_apply() runs them under the search_path of its caller, in which anyone may have put operators
-- and functions: so all that is not quoted as data or found in the table names its schema.
---------------------------------------------------------------------------

CREATE FUNCTION feed_between(t feed_table, from_number text, below text)
RETURNS text
LANGUAGE sql STABLE
RETURN format(CASE WHEN t.is_uuid
              THEN 'e.%1$I OPERATOR(pg_catalog.>=) @extschema@.uuid_xact_floor(%2$s) AND e.%1$I OPERATOR(pg_catalog.<) @extschema@.uuid_xact_floor(%3$s)'
              ELSE 'e.%1$I OPERATOR(pg_catalog.>=) %2$s AND e.%1$I OPERATOR(pg_catalog.<) %3$s' END, t.number_column, from_number, below);
COMMENT ON FUNCTION feed_between(feed_table, text, text) IS 'The condition that rows e have a number in a range: one range of one index. Not for use by hand.';

CREATE FUNCTION feed_columns(columns name[])
RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    names text;
    "column" name;
BEGIN
    FOREACH "column" IN ARRAY columns LOOP
        names := concat_ws(', ', names, format('e.%I', "column"));
    END LOOP;
    RETURN names;
END $$;
COMMENT ON FUNCTION feed_columns(name[]) IS 'The given columns of rows e, as text of a query; null for none. Not for use by hand.';

CREATE FUNCTION feed_order(t feed_table)
RETURNS text
LANGUAGE sql STABLE
RETURN feed_columns(feed_key(t));
COMMENT ON FUNCTION feed_order(feed_table) IS 'The columns by which rows e are delivered. Not for use by hand.';

CREATE FUNCTION feed_order_by(t feed_table, in_order boolean)
RETURNS text
LANGUAGE sql STABLE
RETURN CASE WHEN in_order THEN ' ORDER BY ' || feed_order(t) ELSE '' END;
COMMENT ON FUNCTION feed_order_by(feed_table, boolean) IS 'The end of a query for rows e, in their order or as they come. Not for use by hand.';

CREATE FUNCTION feed_literals("values" text[])
RETURNS text
LANGUAGE sql STABLE
RETURN (SELECT string_agg(quote_literal(v), ', ' ORDER BY place) FROM unnest("values") WITH ORDINALITY AS k(v, place));
COMMENT ON FUNCTION feed_literals(text[]) IS 'Values as text of a query. Not for use by hand.';

CREATE FUNCTION feed_slice(t feed_table, number bigint, above text[], up_to text[], columns text, in_order boolean)
RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    key text := @extschema@.feed_columns(t.order_columns);
BEGIN
    RETURN format('(SELECT %s FROM %s AS e WHERE %s', columns, t.relid, @extschema@.feed_between(t, number::text, (number + 1)::text))
        || coalesce(format(' AND (%s) OPERATOR(pg_catalog.>) (', key) || @extschema@.feed_literals(above) || ')', '')
        || coalesce(format(' AND (%s) OPERATOR(pg_catalog.<=) (', key) || @extschema@.feed_literals(up_to) || ')', '')
        || @extschema@.feed_order_by(t, in_order) || ')';
END $$;
COMMENT ON FUNCTION feed_slice(feed_table, bigint, text[], text[], text, boolean) IS 'The query for rows of one transaction above and up to a key; null leaves a side open. Not for use by hand.';

CREATE FUNCTION feed_number(t feed_table)
RETURNS text
LANGUAGE sql STABLE
RETURN format(CASE WHEN t.is_uuid THEN '@extschema@.uuid_xact_id(e.%I)' ELSE 'e.%I' END, t.number_column);
COMMENT ON FUNCTION feed_number(feed_table) IS 'The transaction number of rows e. Not for use by hand.';

CREATE FUNCTION feed_near(numbers int8multirange)
RETURNS int8multirange
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (SELECT range_agg(int8range(lower(r), upper(r) + 100)) FROM unnest(numbers) AS r) * int8multirange(range_merge(numbers));
COMMENT ON FUNCTION feed_near(int8multirange) IS 'A set of numbers with gaps of up to 100 closed. Not for use by hand.';

CREATE FUNCTION feed_from(t feed_table, source text, numbers int8multirange, ending text)
RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    looks int8multirange := numbers;
    and_in text := '';
BEGIN
    -- A look into a BRIN index reads all of it, and all pages that it has not summarised: so near ranges have one together.
    IF NOT t.ordered THEN
        looks := @extschema@.feed_near(numbers);
        and_in := format(' AND %L::pg_catalog.int8multirange OPERATOR(pg_catalog.@>) ', numbers) || @extschema@.feed_number(t);
    END IF;
    -- One range at a time, in order, each by one scan of the index: OFFSET 0 keeps the planner from joining
    -- the set with the table, for which it would read the whole index, and from reading the whole table.
    RETURN format('FROM pg_catalog.unnest(%L::pg_catalog.int8multirange) AS b(numbers) CROSS JOIN LATERAL (SELECT * FROM %s%s%s%s OFFSET 0) AS e',
                  looks, source, @extschema@.feed_between(t, 'pg_catalog.lower(b.numbers)', 'pg_catalog.upper(b.numbers)'), and_in, ending);
END $$;
COMMENT ON FUNCTION feed_from(feed_table, text, int8multirange, text) IS 'The end of a query for rows e of a set of transactions, where source is: a table AS e WHERE. Not for use by hand.';

CREATE FUNCTION feed_ranges(t feed_table, numbers int8multirange, columns text, in_order boolean)
RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF isempty(numbers) THEN
        RETURN NULL;
    -- A BRIN index is read by a bitmap, whose price the planner puts as high as that of the whole table: only where
    -- sequential scans are off, or in a join from which there is no other way out, does it take it.
    ELSIF numbers = int8multirange(range_merge(numbers)) AND (in_order OR t.ordered) THEN
        RETURN format('(SELECT %s FROM %s AS e WHERE %s%s)', columns, t.relid,
                      @extschema@.feed_between(t, lower(numbers)::text, upper(numbers)::text), @extschema@.feed_order_by(t, in_order));
    END IF;
    RETURN format('(SELECT %s %s)', columns, @extschema@.feed_from(t, format('%s AS e WHERE ', t.relid), numbers, @extschema@.feed_order_by(t, in_order)));
END $$;
COMMENT ON FUNCTION feed_ranges(feed_table, int8multirange, text, boolean) IS 'The query for all rows of a set of transactions, by number if in order; null for none. Not for use by hand.';

CREATE FUNCTION feed_one(number bigint)
RETURNS int8multirange
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN number IS NULL THEN '{}'::int8multirange ELSE int8multirange(int8range(number, number + 1)) END;
COMMENT ON FUNCTION feed_one(bigint) IS 'The set of one transaction, or of none for null. Not for use by hand.';

CREATE FUNCTION feed_select(t feed_table, b feed_batch, columns text, in_order boolean DEFAULT true)
RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    query text;
BEGIN
    IF b.resumed IS NULL AND b.cut IS NULL THEN
        query := @extschema@.feed_ranges(t, b.transactions, columns, in_order);
    ELSE
        query := concat_ws(' UNION ALL ',
            CASE WHEN b.resumed IS NOT NULL
                 THEN @extschema@.feed_slice(t, b.resumed, b.resumed_after, CASE WHEN b.cut = b.resumed THEN b.cut_after END, columns, in_order) END,
            @extschema@.feed_ranges(t, b.transactions - @extschema@.feed_one(b.resumed) - @extschema@.feed_one(b.cut), columns, in_order),
            CASE WHEN b.cut IS NOT NULL AND b.cut IS DISTINCT FROM b.resumed
                 THEN @extschema@.feed_slice(t, b.cut, NULL, b.cut_after, columns, in_order) END);
    END IF;
    RETURN coalesce(query, format('SELECT %s FROM %s AS e WHERE false', columns, t.relid));
END $$;
COMMENT ON FUNCTION feed_select(feed_table, feed_batch, text, boolean) IS 'The query for the rows of a batch, in their order or as they come: the rest of the transaction that the last batch stopped in, whole transactions, the first part of one. Not for use by hand.';

---------------------------------------------------------------------------
-- The next batch
---------------------------------------------------------------------------

CREATE FUNCTION feed_table_of("table" regclass)
RETURNS feed_table
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    t @extschema@.feed_table;
BEGIN
    SELECT * INTO t FROM @extschema@.feed_table WHERE relid = "table";
    IF NOT FOUND THEN
        t := @extschema@.feed_describe("table");
    END IF;
    RETURN t;
END $$;
COMMENT ON FUNCTION feed_table_of(regclass) IS 'How a table is read: as feed_enable kept it, or else from the catalog. Not for use by hand.';

CREATE FUNCTION feed_first(numbers int8multirange, amount bigint)
RETURNS int8multirange
LANGUAGE sql STABLE
RETURN (SELECT coalesce(range_agg(CASE WHEN before + upper(r) - lower(r) > amount THEN int8range(lower(r), lower(r) + amount - before) ELSE r END), '{}')
        FROM (SELECT r, (sum(upper(r) - lower(r)) OVER (ORDER BY r))::bigint - (upper(r) - lower(r)) AS before FROM unnest(numbers) AS r) AS counted
        WHERE before < amount);
COMMENT ON FUNCTION feed_first(int8multirange, bigint) IS 'The smallest so many numbers of a set. Not for use by hand.';

CREATE FUNCTION feed_window(t feed_table, numbers int8multirange, max_rows int)
RETURNS int8multirange
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    amount bigint := 1;
    total bigint := (SELECT coalesce(sum(upper(n) - lower(n)), 0) FROM unnest(numbers) AS n);
    too_few bigint := 0;
    too_many bigint := total + 1;
    tried int8multirange;
    found bigint;
BEGIN
    -- What is looked at has to be sorted, so it should be little more than is wanted: try one transaction, then as many as
    -- its rows suggest. The true number is between the two bounds, and every try moves one: it ends when they meet.
    LOOP
        tried := @extschema@.feed_first(numbers, amount);
        EXECUTE format('SELECT count(*) FROM (SELECT %s LIMIT %s) AS e',
                       @extschema@.feed_from(t, format('%s AS e WHERE ', t.relid), tried, ''), max_rows * 4::bigint) INTO found;
        IF found < max_rows THEN
            EXIT WHEN amount >= total;
            too_few := amount;
            amount := least(CASE found WHEN 0 THEN amount * 32 ELSE 1 + amount::float8 * max_rows * 1.25 / found END,
                            greatest((amount + too_many + 1) / 2, amount + 1), total);
        ELSE
            EXIT WHEN found < max_rows * 4::bigint OR amount - too_few <= 1;
            too_many := amount;
            amount := greatest(amount / 4, too_few + 1);
        END IF;
    END LOOP;
    RETURN tried;
END $$;
COMMENT ON FUNCTION feed_window(feed_table, int8multirange, int) IS 'The smallest numbers of a set that have so many rows, or a few times as many; all of it if it has not. Not for use by hand: feed_cut calls it where the index gives no order.';

CREATE FUNCTION feed_cut(t feed_table, b feed_batch, max_rows int)
RETURNS feed_batch
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The key of the last row is kept as text, which any session must read as the same value.
SET datestyle = 'ISO' SET intervalstyle = 'iso_8601' SET extra_float_digits = 1
AS $$
DECLARE
    part @extschema@.feed_batch := b;
    number bigint;
    last_key text[];
BEGIN
    IF NOT t.ordered THEN
        part.transactions := @extschema@.feed_one(b.resumed) + @extschema@.feed_window(t, b.transactions - @extschema@.feed_one(b.resumed), max_rows);
    END IF;
    -- As text by the type's own output, not by a cast: anyone may make one of those for a type of his.
    -- Inside out, so that it is done for the last row and not for those before it.
    EXECUTE format('SELECT %s, ARRAY[%s]::text[] FROM (SELECT e.* FROM (%s) AS e OFFSET %s LIMIT 1) AS e',
                   @extschema@.feed_number(t),
                   (SELECT string_agg(format('concat(e.%I)', c), ', ' ORDER BY place) FROM unnest(t.order_columns) WITH ORDINALITY AS k(c, place)),
                   @extschema@.feed_select(t, part, @extschema@.feed_order(t)), max_rows - 1)
    INTO number, last_key;
    IF number IS NULL THEN
        RETURN b;
    END IF;
    IF number = b.resumed THEN
        b.transactions := @extschema@.feed_one(number);
    ELSE
        b.transactions := b.transactions * (int8multirange(int8range(0, number + 1)) + @extschema@.feed_one(b.resumed));
    END IF;
    IF t.order_columns <> '{}' THEN
        b.cut := number;
        b.cut_after := last_key;
    END IF;
    RETURN b;
END $$;
COMMENT ON FUNCTION feed_cut(feed_table, feed_batch, int) IS 'A batch that stops after so many rows; where nothing tells rows of one transaction apart, after the transaction that reaches them. Not for use by hand.';

CREATE FUNCTION feed_lacks(t feed_table)
RETURNS name
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT c FROM unnest(t.number_column || t.order_columns) AS c
            WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = t.relid AND attname = c AND NOT attisdropped) LIMIT 1);
END $$;
COMMENT ON FUNCTION feed_lacks(feed_table) IS 'A column that a table is read by and has no more, or null. Not for use by hand.';

CREATE FUNCTION feed_check_table(t feed_table)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    problem text := @extschema@.feed_problem(t.relid);
    lacks name;
BEGIN
    IF problem IS NOT NULL THEN
        RAISE 'cannot read % by transactions: it %', t.relid, problem USING ERRCODE = 'wrong_object_type';
    ELSIF row_security_active(t.relid) THEN
        RAISE 'row security hides rows of % from this role', t.relid USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = 'A feed and an exact count speak of all rows, hidden ones too.';
    ELSIF NOT @extschema@.feed_is_guarded(t.relid, @extschema@.feed_key(t), t.is_generated)
          AND EXISTS (SELECT FROM @extschema@.feed_table AS f WHERE f.relid = t.relid) THEN
        IF NOT EXISTS (SELECT FROM pg_class WHERE oid = t.relid) THEN
            RAISE 'the table of this feed, once oid %, is gone', t.relid::oid USING ERRCODE = 'undefined_table', HINT = 'Call feed_drop().';
        END IF;
        lacks := @extschema@.feed_lacks(t);
        IF lacks IS NOT NULL THEN
            RAISE 'table % has no column % any more, which its feed relies on', t.relid, quote_ident(lacks) USING ERRCODE = 'undefined_column',
                  HINT = format('Give the column its name back, or let the owner call feed_enable(%L) again.', t.relid);
        END IF;
        RAISE 'table % has lost the guard of column %', t.relid, quote_ident(t.number_column) USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = 'Its triggers were disabled or dropped, or another column has this name now. Rows that came meanwhile may have numbers that readers have passed.',
              HINT = format('Let the owner call feed_enable(%L).', t.relid);
    END IF;
END $$;
COMMENT ON FUNCTION feed_check_table(feed_table) IS 'Error if the table is gone, cannot be read by transactions any more, is not guarded, or row security hides rows of it. Not for use by hand.';

CREATE FUNCTION feed_part("table" regclass, member regclass)
RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    bounds text;
BEGIN
    IF member = "table" OR has_table_privilege(member, 'SELECT') AND NOT row_security_active(member)
       AND (SELECT has_schema_privilege(relnamespace, 'USAGE') FROM pg_class WHERE oid = member) THEN
        RETURN format('ONLY %s AS e WHERE ', member);
    END IF;
    -- Who may read a table reads its partitions through it, whatever rights they have themselves. Its bounds let the planner
    -- leave out the others; not where they name a type by its schema, which may be closed to the reader.
    bounds := pg_get_partition_constraintdef(member);
    RETURN format('%s AS e WHERE e.tableoid = %s AND (%s) AND ', "table", member::oid,
                  CASE WHEN bounds ~ '::("([^"]|"")+"|\w+)\.' THEN 'true' ELSE coalesce(bounds, 'true') END);
END $$;
COMMENT ON FUNCTION feed_part(regclass, regclass) IS 'The part of a query that says: rows e of this partition, and. Not for use by hand.';

CREATE FUNCTION feed_check_members(t feed_table, p feed_position)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    member regclass;
    source text;
    passed boolean;
BEGIN
    PERFORM @extschema@.feed_check_numbers(t);
    FOR member IN SELECT * FROM @extschema@.feed_new_members(t.relid, p.tables) LOOP
        source := @extschema@.feed_part(t.relid, member);
        EXECUTE format('SELECT EXISTS (SELECT %s)', @extschema@.feed_from(t, source, p.transactions, ''))
            || CASE WHEN p.partial IS NULL THEN '' ELSE format(
                   ' OR EXISTS (SELECT FROM %s%s AND (%s) <= (%s))', source, @extschema@.feed_between(t, p.partial::text, (p.partial + 1)::text),
                   @extschema@.feed_columns(t.order_columns), @extschema@.feed_literals(p.last_key)) END INTO passed;
        IF passed THEN
            RAISE 'partition % came with rows of transactions that the feed has passed', member
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'It was attached, or detached and attached again, since the last read.',
                  HINT = 'If the feed has had its rows, or is to leave them out, go on by feed_seek(name, ''here''). Otherwise detach it, then give its rows new numbers (UPDATE … SET column = DEFAULT) and attach it again in one transaction.';
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION feed_check_members(feed_table, feed_position) IS 'Error if a partition that was not there at the last batch has rows of transactions read already. Not for use by hand.';

CREATE FUNCTION feed_plan_for(t feed_table)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT t.ordered THEN
        PERFORM set_config('enable_bitmapscan', 'on', true);
    END IF;
END $$;
COMMENT ON FUNCTION feed_plan_for(feed_table) IS 'Let a BRIN index be read, which only a bitmap can, until the calling function ends. Not for use by hand.';

CREATE FUNCTION feed_next(t feed_table, p feed_position, max_rows int)
RETURNS feed_batch
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET jit = off SET max_parallel_workers_per_gather = 0
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_memoize = off
AS $$
DECLARE
    b @extschema@.feed_batch;
    ended int8multirange;
    beyond boolean;
BEGIN
    IF max_rows < 1 THEN
        RAISE 'max_rows must be 1 or more, not %', max_rows USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM @extschema@.feed_check_table(t);
    ended := @extschema@.ended_transactions(t.base);
    b.transactions := ended - p.transactions;
    b.resumed := p.partial;
    b.resumed_after := p.last_key;
    IF NOT pg_is_in_recovery() AND upper(p.transactions) > @extschema@.next_transaction(t.base) THEN
        RAISE 'this position on % is ahead of the server', t.relid USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = format('It has read transactions up to %s, and the next one is %s.', upper(p.transactions) - 1, @extschema@.next_transaction(t.base)),
              HINT = format('After a restore call feed_rebase(%L, %s): it lets numbers go on above these.', t.relid, upper(p.transactions) - 1);
    END IF;
    -- A standby may not have come so far yet as the one that the position is from. The batch of nothing leaves the position as it is.
    IF isempty(b.transactions) OR NOT b.transactions @> p.partial THEN
        -- No rows, and the position stays where it is.
        RETURN ROW('{}', p.partial, p.last_key, p.partial, p.last_key, p.tables, NULL)::@extschema@.feed_batch;
    END IF;
    PERFORM @extschema@.feed_plan_for(t);
    EXECUTE @extschema@.feed_beyond(t) INTO beyond;
    IF beyond THEN
        PERFORM @extschema@.feed_say_beyond(t.relid);
    END IF;
    IF (SELECT relhassubclass OR relkind = 'p' FROM pg_class WHERE oid = t.relid) THEN
        b.tables := @extschema@.feed_members(t.relid);
        IF p.tables <> b.tables THEN
            PERFORM @extschema@.feed_check_members(t, p);
            -- A standby behind the position may not have the partitions yet that it remembers: they are not to be forgotten.
            IF NOT p.transactions <@ ended THEN
                b.tables := ARRAY(SELECT unnest(b.tables) UNION SELECT unnest(p.tables) ORDER BY 1);
            END IF;
        END IF;
    END IF;
    RETURN CASE WHEN max_rows IS NULL THEN b ELSE @extschema@.feed_cut(t, b, max_rows) END;
END $$;
COMMENT ON FUNCTION feed_next(feed_table, feed_position, int) IS 'The batch that follows a position, of at most so many rows. Not for use by hand: feed_read, feed_next_batch and feed_batch_after call it.';

CREATE FUNCTION feed_advance("position" feed_position, batch feed_batch)
RETURNS feed_position
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF "position".transactions && batch.transactions
       OR ("position".partial, "position".last_key) IS DISTINCT FROM (batch.resumed, batch.resumed_after) THEN
        RAISE 'this batch does not follow this position' USING ERRCODE = 'invalid_parameter_value',
              DETAIL = format('Position %s, batch %s.', "position", batch);
    END IF;
    RETURN ROW("position".transactions + batch.transactions - @extschema@.feed_one(batch.cut),
               batch.cut, batch.cut_after, batch.tables, batch.origin)::@extschema@.feed_position;
END $$;
COMMENT ON FUNCTION feed_advance(feed_position, feed_batch) IS
'The position after a batch: position plus batch. Pure arithmetic.
Error invalid_parameter_value if the batch is not one that follows the position.';

---------------------------------------------------------------------------
-- Without any state in the database
---------------------------------------------------------------------------

CREATE FUNCTION feed_start("table" regclass, start text DEFAULT 'beginning')
RETURNS feed_position
LANGUAGE plpgsql VOLATILE STRICT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    t @extschema@.feed_table := @extschema@.feed_table_of("table");
    p @extschema@.feed_position;
BEGIN
    IF start NOT IN ('beginning', 'now') THEN
        RAISE 'start must be ''beginning'' or ''now'', not %', quote_literal(start) USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM @extschema@.feed_check_table(t);
    p.transactions := CASE start WHEN 'now' THEN @extschema@.ended_transactions(t.base) ELSE '{}' END;
    IF (SELECT relhassubclass OR relkind = 'p' FROM pg_class WHERE oid = "table") THEN
        p.tables := @extschema@.feed_members("table");
    END IF;
    p.origin := @extschema@.server_origin();
    PERFORM @extschema@.flush_wal();
    RETURN p;
END $$;
COMMENT ON FUNCTION feed_start(regclass, text) IS
'A position to begin with, for a reader that keeps it itself: ''beginning'' has read nothing, ''now'' every transaction that has ended. Flushes the WAL first.
Errors: invalid_parameter_value (start), undefined_column and others of feed_enable if the table cannot be read.';

CREATE FUNCTION feed_check_origin(origin text)
RETURNS void
LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF origin <> @extschema@.server_origin() THEN
        RAISE 'this position is of another server or timeline' USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = format('It was read on %s, this is %s (system identifier/timeline). What was read there may be missing here, and its numbers may be used again.',
                              origin, @extschema@.server_origin()),
              HINT = 'If nothing was lost on the way here, go on by setting the origin of the position to null.';
    END IF;
END $$;
COMMENT ON FUNCTION feed_check_origin(text) IS 'Error (object_not_in_prerequisite_state) if transaction numbers are of another server or timeline. Not for use by hand.';

CREATE FUNCTION feed_batch_after("table" regclass, "position" feed_position, max_rows int DEFAULT NULL)
RETURNS feed_batch
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    b @extschema@.feed_batch;
BEGIN
    IF "position".transactions IS NULL THEN
        RAISE 'position must not be null' USING ERRCODE = 'null_value_not_allowed', HINT = 'feed_start() gives one to begin with.';
    END IF;
    PERFORM @extschema@.feed_check_origin("position".origin);
    b := @extschema@.feed_next(@extschema@.feed_table_of("table"), "position", max_rows);
    b.origin := @extschema@.server_origin();
    PERFORM @extschema@.flush_wal();
    RETURN b;
END $$;
COMMENT ON FUNCTION feed_batch_after(regclass, feed_position, int) IS
'The batch that follows a position kept by the reader, of at most max_rows rows (all there are if null): read it by feed_rows, then go on from feed_advance(position, batch). It may be of no rows. Flushes the WAL first, so that no crash takes back what is handed out. On a primary and on a standby.
Range: max_rows 1 to 2147483647. Errors: object_not_in_prerequisite_state if the position is of another server or timeline, the table was restored (see feed_rebase), or a partition was attached with rows already passed; undefined_column and others of feed_enable.';

CREATE FUNCTION feed_check_row_type(relid regclass, row_type regtype)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF row_type <> (SELECT reltype FROM pg_class WHERE oid = relid) THEN
        RAISE 'row_type must be null::%, not of type %', relid, row_type USING ERRCODE = 'datatype_mismatch';
    END IF;
END $$;
COMMENT ON FUNCTION feed_check_row_type(regclass, regtype) IS 'Error unless a type is that of the rows of a table. Not for use by hand.';

CREATE FUNCTION feed_check_snapshot(t feed_table, b feed_batch)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    missing int8multirange := b.transactions - @extschema@.ended_transactions(t.base);
BEGIN
    IF NOT isempty(missing) THEN
        RAISE 'this batch is newer than what this transaction sees' USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = format('Transactions %s have not ended in its snapshot.', missing),
              HINT = 'In REPEATABLE READ and SERIALIZABLE begin a new transaction; on a standby wait until it has come so far.';
    END IF;
END $$;
COMMENT ON FUNCTION feed_check_snapshot(feed_table, feed_batch) IS 'Error unless all transactions of a batch have ended in the current snapshot. Not for use by hand.';

CREATE FUNCTION feed_rows("table" regclass, batch feed_batch, row_type anyelement)
RETURNS SETOF anyelement
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET jit = off SET max_parallel_workers_per_gather = 0
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_memoize = off
AS $$
DECLARE
    t @extschema@.feed_table := @extschema@.feed_table_of("table");
BEGIN
    IF batch.transactions IS NULL THEN
        RAISE 'batch must not be null' USING ERRCODE = 'null_value_not_allowed', HINT = 'feed_batch_after() gives one.';
    END IF;
    PERFORM @extschema@.feed_check_table(t);
    PERFORM @extschema@.feed_check_origin(batch.origin);
    PERFORM @extschema@.feed_check_snapshot(t, batch);
    PERFORM @extschema@.feed_check_row_type(t.relid, pg_typeof(row_type));
    PERFORM @extschema@.feed_plan_for(t);
    RETURN QUERY EXECUTE @extschema@.feed_select(t, batch, 'e.*');
END $$;
COMMENT ON FUNCTION feed_rows(regclass, feed_batch, anyelement) IS
'The rows of a batch, by transaction number, within one in the order of the key; row_type is null::the_table. The same rows at any later time, on a primary and on its standbys.
Errors: object_not_in_prerequisite_state if the batch is newer than the snapshot (REPEATABLE READ, a standby behind) or of another server or timeline; datatype_mismatch.';

---------------------------------------------------------------------------
-- With the position in the database
---------------------------------------------------------------------------

CREATE FUNCTION feed_say_unknown(feed_name text)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE 'feed % does not exist, or % may not read its table', coalesce(quote_literal(feed_name), 'null'), quote_ident(current_user)
    USING ERRCODE = 'undefined_object';
END $$;
COMMENT ON FUNCTION feed_say_unknown(text) IS 'The error about a feed that is not to be seen. Not for use by hand.';

CREATE FUNCTION feed_lock(feed_name text)
RETURNS feed
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    f @extschema@.feed;
BEGIN
    -- Readers of one feed take turns. The lock is a statement of its own: the next one has a snapshot that
    -- knows the position left behind. A row lock would take a transaction id, and a WAL flush, at each idle poll.
    PERFORM pg_advisory_xact_lock(hashtext('inorder.feed'), hashtext(feed_name));
    SELECT * INTO f FROM @extschema@.feed AS known
    WHERE name = feed_name AND coalesce((SELECT has_schema_privilege(relnamespace, 'USAGE') FROM pg_class WHERE oid = known.relid), true);
    IF NOT FOUND THEN
        PERFORM @extschema@.feed_say_unknown(feed_name);
    END IF;
    RETURN f;
END $$;
COMMENT ON FUNCTION feed_lock(text) IS 'A feed, locked against its other readers until the transaction ends. Not for use by hand.';

CREATE FUNCTION feed_create(name text, "table" regclass, start text DEFAULT 'beginning', "column" name DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF feed_create.name IS NULL OR feed_create.name = '' THEN
        RAISE 'a feed must have a name' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM @extschema@.feed_ensure("table", "column");
    -- One whose table is gone may be left over.
    DELETE FROM @extschema@.feed AS f WHERE f.name = feed_create.name AND NOT EXISTS (SELECT FROM pg_class WHERE oid = f.relid);
    INSERT INTO @extschema@.feed (name, relid, position)
    SELECT feed_create.name, "table", ROW(p.transactions, NULL, NULL, p.tables, NULL)::@extschema@.feed_position
    FROM @extschema@.feed_start("table", coalesce(start, 'beginning')) AS p;
EXCEPTION WHEN unique_violation THEN
    RAISE 'feed % exists already', quote_literal(feed_create.name) USING ERRCODE = 'duplicate_object';
END $$;
COMMENT ON FUNCTION feed_create(text, regclass, text, name) IS
'Make a feed: a named position in an insert-only table, which feed_enable makes readable and guards. Start ''beginning'' delivers the rows that are there, ''now'' only what commits later. A table may have any number of feeds.
Owner of the table only. Errors: duplicate_object, invalid_parameter_value (name, start), and those of feed_enable.';

CREATE FUNCTION feed_drop(name text)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    f @extschema@.feed := @extschema@.feed_lock(feed_drop.name);
BEGIN
    PERFORM @extschema@.feed_check_owner(f.relid);
    DELETE FROM @extschema@.feed WHERE feed.name = feed_drop.name;
    DELETE FROM @extschema@.feed_table WHERE relid = f.relid AND NOT EXISTS (SELECT FROM pg_class WHERE oid = f.relid);
END $$;
COMMENT ON FUNCTION feed_drop(text) IS
'Drop a feed. The guard of its table stays until feed_disable. Owner of the table only, or anyone when the table is gone. Error undefined_object.';

CREATE FUNCTION feed_seek(name text, transactions int8multirange)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    f @extschema@.feed := @extschema@.feed_lock(feed_seek.name);
    t @extschema@.feed_table := @extschema@.feed_table_of(f.relid);
    unended int8multirange := transactions - @extschema@.ended_transactions(t.base);
BEGIN
    IF NOT isempty(unended) THEN
        RAISE 'transactions % have not ended', unended USING ERRCODE = 'invalid_parameter_value',
              DETAIL = 'A feed that had read them would miss their rows.';
    END IF;
    UPDATE @extschema@.feed
    SET position = ROW(transactions, NULL, NULL, @extschema@.feed_members(f.relid), NULL)::@extschema@.feed_position, pending = NULL, moved = clock_timestamp()
    WHERE feed.name = feed_seek.name;
END $$;
COMMENT ON FUNCTION feed_seek(text, int8multirange) IS
'Set a feed''s position to these transactions: they count as read, all others not. An unfinished batch is forgotten.
Errors: undefined_object, invalid_parameter_value for transactions that have not ended.';

CREATE FUNCTION feed_seek(name text, start text)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    f @extschema@.feed := @extschema@.feed_lock(feed_seek.name);
    t @extschema@.feed_table := @extschema@.feed_table_of(f.relid);
BEGIN
    CASE start
        WHEN 'beginning' THEN PERFORM @extschema@.feed_seek(feed_seek.name, '{}'::int8multirange);
        WHEN 'now' THEN PERFORM @extschema@.feed_seek(feed_seek.name, @extschema@.ended_transactions(t.base));
        WHEN 'here' THEN
            UPDATE @extschema@.feed SET position.tables = @extschema@.feed_members(f.relid), pending = NULL WHERE feed.name = feed_seek.name;
        ELSE RAISE 'start must be ''beginning'', ''now'' or ''here'', not %', quote_literal(start) USING ERRCODE = 'invalid_parameter_value';
    END CASE;
END $$;
COMMENT ON FUNCTION feed_seek(text, text) IS
'Set a feed''s position: ''beginning'' (nothing read), ''now'' (all that has ended is read) or ''here'' (as it is; partitions attached since are taken as read where their transactions are). An unfinished batch is forgotten: its rows come again, under the next number.
Errors: undefined_object, invalid_parameter_value.';

CREATE FUNCTION feed_check_pending(f feed)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (f.pending).transactions IS NOT NULL THEN
        RAISE 'feed % has an unfinished batch, %', quote_literal(f.name), f.batch USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = format('Read it by feed_batch_rows() and call feed_finish_batch(%L, %s), or forget it by feed_seek(%1$L, ''here''): its rows come again, in batches of other numbers.', f.name, f.batch);
    END IF;
END $$;
COMMENT ON FUNCTION feed_check_pending(feed) IS 'Error if a batch is unfinished. Not for use by hand.';

CREATE FUNCTION feed_read(name text, row_type anyelement, max_rows int DEFAULT NULL)
RETURNS SETOF anyelement
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET jit = off SET max_parallel_workers_per_gather = 0
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_memoize = off
AS $$
DECLARE
    f @extschema@.feed := @extschema@.feed_lock(feed_read.name);
    t @extschema@.feed_table;
    b @extschema@.feed_batch;
    delivered bigint;
BEGIN
    PERFORM @extschema@.feed_check_pending(f);
    t := @extschema@.feed_table_of(f.relid);
    b := @extschema@.feed_next(t, f.position, max_rows);
    PERFORM @extschema@.feed_check_row_type(t.relid, pg_typeof(row_type));
    IF isempty(b.transactions) THEN
        RETURN;
    END IF;
    PERFORM @extschema@.feed_plan_for(t);
    RETURN QUERY EXECUTE @extschema@.feed_select(t, b, 'e.*');
    GET DIAGNOSTICS delivered = ROW_COUNT;
    -- Without rows there is nothing to remember: an idle poll writes nothing.
    IF delivered > 0 THEN
        UPDATE @extschema@.feed SET position = @extschema@.feed_advance(f.position, b), moved = clock_timestamp() WHERE feed.name = f.name;
    END IF;
END $$;
COMMENT ON FUNCTION feed_read(text, anyelement, int) IS
'The rows that committed since the last read and were not read yet, at most max_rows (all if null), and move the position in this very transaction: if it fails, the next read gives the same rows. Rows come by transaction number, within one in the order of the key; row_type is null::the_table. A second reader of the same feed waits for the first; nobody else waits, and no writer ever.
Range: max_rows 1 to 2147483647; where the key does not tell rows of one transaction apart, its rows come together. Errors: undefined_object, datatype_mismatch, object_not_in_prerequisite_state (unfinished batch, restored table, attached partition, row security), serialization_failure in REPEATABLE READ and SERIALIZABLE after another reader.';

CREATE FUNCTION feed_take(feed_name text, max_rows int, OUT taken feed, OUT batch feed_batch, OUT query text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET jit = off SET max_parallel_workers_per_gather = 0
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_memoize = off
AS $$
DECLARE
    t @extschema@.feed_table;
    filled boolean;
BEGIN
    taken := @extschema@.feed_lock(feed_name);
    PERFORM @extschema@.feed_check_pending(taken);
    t := @extschema@.feed_table_of(taken.relid);
    batch := @extschema@.feed_next(t, taken.position, max_rows);
    PERFORM @extschema@.feed_plan_for(t);
    EXECUTE format('SELECT EXISTS (%s)', @extschema@.feed_select(t, batch, '1', false)) INTO filled;
    IF filled THEN
        query := @extschema@.feed_select(t, batch, 'e.*', false);
    END IF;
END $$;
COMMENT ON FUNCTION feed_take(text, int) IS 'A feed, locked, its next batch and the query for its rows; null if there are none. Not for use by hand.';

CREATE FUNCTION feed_apply_query(feed_name text, max_rows int)
RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    next record;
BEGIN
    SELECT * INTO next FROM @extschema@.feed_take(feed_name, max_rows);
    IF next.query IS NOT NULL THEN
        UPDATE @extschema@.feed SET position = @extschema@.feed_advance((next.taken).position, next.batch), moved = clock_timestamp() WHERE name = feed_name;
    END IF;
    RETURN next.query;
END $$;
COMMENT ON FUNCTION feed_apply_query(text, int) IS 'Move a feed and return the query for the rows it passed. Not for use by hand: feed_apply calls it.';

-- The one function without a search_path of its own: the statement is the caller's, and finds what the caller's path finds.
CREATE FUNCTION feed_apply(name text, statement text, max_rows int DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    query pg_catalog.text := @extschema@.feed_apply_query(feed_apply.name, max_rows);
    affected pg_catalog.int8;
BEGIN
    IF query IS NOT NULL THEN
        EXECUTE pg_catalog.concat('WITH batch AS NOT MATERIALIZED (', query, ') ', statement);
        GET DIAGNOSTICS affected = ROW_COUNT;
    END IF;
    RETURN affected;
END $$;
COMMENT ON FUNCTION feed_apply(text, text, int) IS
'Run a statement over the rows that feed_read would return, as the table "batch", and move the position with it: SELECT feed_apply(''hourly'', ''INSERT INTO hourly SELECT date_trunc(hour, at), count(*) FROM batch GROUP BY 1''). The rows come in no order, and are not copied on the way. Returns the rows that the statement processed, null if there was nothing new (and it did not run).
The statement runs with the caller''s rights and search_path. Range and errors as feed_read.';

CREATE FUNCTION feed_next_batch(name text, max_rows int DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    f @extschema@.feed := @extschema@.feed_lock(feed_next_batch.name);
    next record;
BEGIN
    IF (f.pending).transactions IS NULL THEN
        SELECT * INTO next FROM @extschema@.feed_take(f.name, max_rows);
        IF next.query IS NULL THEN
            RETURN NULL;
        END IF;
        UPDATE @extschema@.feed SET batch = feed.batch + 1, pending = next.batch WHERE feed.name = f.name RETURNING feed.batch INTO f.batch;
    END IF;
    -- What leaves the database must not be taken back by a crash: neither the rows nor the batch itself.
    PERFORM @extschema@.flush_wal();
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'local', true);
    END IF;
    RETURN f.batch;
END $$;
COMMENT ON FUNCTION feed_next_batch(text, int) IS
'For a sink outside the database: the number of the next batch, of at most max_rows rows, or null if there is nothing new. Commit, read it by feed_batch_rows, and when the sink has it, feed_finish_batch. Until then the same batch is handed out again, with the same number and rows, also after a crash: a sink that remembers the last number it took gets every row exactly once.
Numbers count from 1 without gaps. Range: max_rows 1 to 2147483647, ignored while a batch is unfinished. Errors as feed_read.';

CREATE FUNCTION feed_pending(f feed, batch bigint)
RETURNS feed_batch
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (f.pending).transactions IS NULL OR batch IS DISTINCT FROM f.batch THEN
        RAISE 'feed % has no unfinished batch %', quote_literal(f.name), batch USING ERRCODE = 'invalid_parameter_value',
              DETAIL = CASE WHEN (f.pending).transactions IS NULL THEN format('The last one was %s, and it is finished.', f.batch)
                            ELSE format('The unfinished one is %s.', f.batch) END;
    END IF;
    RETURN f.pending;
END $$;
COMMENT ON FUNCTION feed_pending(feed, bigint) IS 'The unfinished batch, or an error if it has another number. Not for use by hand.';

CREATE FUNCTION feed_batch_rows(name text, batch bigint, row_type anyelement)
RETURNS SETOF anyelement
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET jit = off SET max_parallel_workers_per_gather = 0
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_memoize = off
AS $$
DECLARE
    f @extschema@.feed;
    t @extschema@.feed_table;
    b @extschema@.feed_batch;
BEGIN
    SELECT * INTO f FROM @extschema@.feed WHERE feed.name = feed_batch_rows.name;
    IF NOT FOUND THEN
        PERFORM @extschema@.feed_say_unknown(feed_batch_rows.name);
    END IF;
    b := @extschema@.feed_pending(f, feed_batch_rows.batch);
    t := @extschema@.feed_table_of(f.relid);
    PERFORM @extschema@.feed_check_table(t);
    PERFORM @extschema@.feed_check_snapshot(t, b);
    PERFORM @extschema@.feed_check_row_type(t.relid, pg_typeof(row_type));
    PERFORM @extschema@.feed_plan_for(t);
    RETURN QUERY EXECUTE @extschema@.feed_select(t, b, 'e.*');
END $$;
COMMENT ON FUNCTION feed_batch_rows(text, bigint, anyelement) IS
'The rows of the unfinished batch with this number, in the order of feed_read; any number of times.
Errors: undefined_object, invalid_parameter_value (no such unfinished batch), datatype_mismatch, object_not_in_prerequisite_state if the batch is newer than the snapshot.';

CREATE FUNCTION feed_finish_batch(name text, batch bigint)
RETURNS boolean
LANGUAGE plpgsql VOLATILE STRICT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    f @extschema@.feed := @extschema@.feed_lock(feed_finish_batch.name);
BEGIN
    IF (f.pending).transactions IS NULL AND feed_finish_batch.batch = f.batch THEN
        RETURN false;
    END IF;
    UPDATE @extschema@.feed
    SET position = @extschema@.feed_advance(f.position, @extschema@.feed_pending(f, feed_finish_batch.batch)), pending = NULL, moved = clock_timestamp()
    WHERE feed.name = f.name;
    RETURN true;
END $$;
COMMENT ON FUNCTION feed_finish_batch(text, bigint) IS
'Move the position over the unfinished batch with this number. True if it was unfinished, false if it was finished before (so that it may be called again when its answer was lost).
Error invalid_parameter_value for any other number.';
