-- Batches for readers in parallel: from one position to another, and divided into parts. The public functions are in
-- split.c.
--
-- A batch has an order: the rest of a transaction (resumed), whole transactions by number, the first part of one more
-- (cut). It is divided along that order, before or inside a transaction. So each part is a batch, and every row of the
-- batch is in exactly one.

CREATE FUNCTION inorder_internal.say_unrelated(p @extschema@.feed_position, q @extschema@.feed_position)
RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE 'no batch leads from from_position to to_position' USING ERRCODE = 'invalid_parameter_value',
          DETAIL = format('From: %s, then %s up to %s. To: %s, then %s up to %s.',
                          inorder_internal.few_of(p.transactions),
                          coalesce(p.partial::text, (p.ordering).column_name, 'none'),
                          coalesce(left(p.last_key::text, 200), (p.ordering).next_value::text, 'none'),
                          inorder_internal.few_of(q.transactions),
                          coalesce(q.partial::text, (q.ordering).column_name, 'none'),
                          coalesce(left(q.last_key::text, 200), (q.ordering).next_value::text, 'none'));
END $$;

-- The transactions between two positions in whole transactions or of ordered sets; null if the second does not follow
-- the first.
CREATE FUNCTION inorder_internal.set_between(p @extschema@.feed_position, q @extschema@.feed_position)
RETURNS int8multirange
LANGUAGE sql IMMUTABLE
-- An ordered set is delivered to its end before the next one begins.
RETURN CASE
    WHEN ((p).ordering.column_name, (p).ordering.attnum)
         IS DISTINCT FROM ((q).ordering.column_name, (q).ordering.attnum) THEN NULL
    WHEN (p).ordering.frozen IS NULL AND (q).ordering.frozen IS NULL
    THEN inorder_internal.minus((q).transactions, (p).transactions)
    WHEN (q).ordering.frozen IS NULL
    THEN CASE WHEN (q).transactions = inorder_internal.plus((p).transactions, (p).ordering.frozen)
              THEN (p).ordering.frozen END
    WHEN (q).transactions = (p).transactions AND coalesce((p).ordering.frozen = (q).ordering.frozen, true)
         AND coalesce((p).ordering.next_value <= (q).ordering.next_value, true)
    THEN (q).ordering.frozen END;

CREATE FUNCTION inorder_internal.between_positions(
    p @extschema@.feed_position, q @extschema@.feed_position, OUT batch @extschema@.feed_batch
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM inorder_internal.check_position(p), inorder_internal.check_position(q);
    IF p.partial = q.partial THEN
        batch.transactions := CASE WHEN p.transactions = q.transactions THEN inorder_internal.one(p.partial) END;
    ELSIF p.partial IS NOT NULL OR q.partial IS NOT NULL THEN
        batch.transactions := CASE WHEN p.partial IS NULL OR q.transactions @> p.partial
                                   THEN inorder_internal.plus(inorder_internal.minus(q.transactions, p.transactions),
                                                              inorder_internal.one(q.partial)) END;
    ELSE
        batch.transactions := inorder_internal.set_between(p, q);
    END IF;
    IF batch.transactions IS NULL OR NOT p.transactions <@ q.transactions OR p.transactions @> q.partial THEN
        PERFORM inorder_internal.say_unrelated(p, q);
    END IF;
    batch.format := inorder_internal.position_format();
    batch.resumed := p.partial;
    batch.resumed_after := p.last_key;
    batch.cut := q.partial;
    batch.cut_after := q.last_key;
    batch.ordering := q.ordering;
    IF (q.ordering).column_name IS NOT NULL THEN
        batch.ordering.frozen := NULL;
        batch.ordering.from_value := (p.ordering).next_value;
        batch.ordering.up_to := coalesce((p.ordering).up_to, (q.ordering).up_to);
    END IF;
    batch.members := q.members;
    batch.origin := q.origin;
END $$;

-- Error unless a batch can be divided into parts.
CREATE FUNCTION inorder_internal.check_splittable(b @extschema@.feed_batch)
RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (b.ordering).column_name IS NOT NULL THEN
        RAISE 'a batch in the order of a column cannot be split' USING ERRCODE = 'feature_not_supported',
              DETAIL = 'Readers in parallel keep no order.';
    -- One of no transactions ends where it begins, perhaps inside of one: see no_batch().
    ELSIF NOT isempty(b.transactions)
          AND (NOT b.transactions @> inorder_internal.one(b.resumed) + inorder_internal.one(b.cut)
               OR b.resumed = b.cut AND b.transactions <> inorder_internal.one(b.cut)) THEN
        RAISE 'this batch is not one that a server writes' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
END $$;

CREATE FUNCTION inorder_internal.whole_transactions(b @extschema@.feed_batch)
RETURNS int8multirange
LANGUAGE sql IMMUTABLE
RETURN inorder_internal.minus(inorder_internal.minus((b).transactions, inorder_internal.one((b).resumed)),
                              inorder_internal.one((b).cut));

CREATE FUNCTION inorder_internal.of_batch(b @extschema@.feed_batch, numbers int8multirange)
RETURNS @extschema@.feed_batch
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    b.transactions := inorder_internal.common(b.transactions, numbers);
    IF numbers @> b.resumed IS NOT TRUE THEN
        b.resumed := NULL;
        b.resumed_after := NULL;
    END IF;
    IF numbers @> b.cut IS NOT TRUE THEN
        b.cut := NULL;
        b.cut_after := NULL;
    END IF;
    RETURN b;
END $$;

-- The query for the number of rows of a batch that are of certain transactions.
CREATE FUNCTION inorder_internal.count_query(
    t inorder_internal.feed_table, b @extschema@.feed_batch, numbers int8multirange
)
RETURNS text
LANGUAGE sql STABLE
RETURN format('SELECT pg_catalog.count(*) FROM (%s) AS e',
              inorder_internal.batch_query(t, NULL::text, inorder_internal.of_batch(b, numbers), '1::pg_catalog.int4',
                                           false));

-- The query for the transaction numbers of every so many rows of a batch.
CREATE FUNCTION inorder_internal.numbers_query(
    t inorder_internal.feed_table, b @extschema@.feed_batch, numbers int8multirange, stride bigint
)
RETURNS text
LANGUAGE sql STABLE
-- The number is taken out of the chosen keys only. The place has another name than the key.
RETURN format('SELECT pg_catalog.array_agg(s.number ORDER BY s.number) FROM (SELECT %s AS number '
              'FROM (SELECT e.%I, pg_catalog.row_number() OVER () FROM (%s) AS e) AS e(%2$I, %4$I) '
              'WHERE e.%4$I OPERATOR(pg_catalog.%%) %s::pg_catalog.int8 OPERATOR(pg_catalog.=) '
              '0::pg_catalog.int8) AS s',
              inorder_internal.number_text(t), (t).key_column,
              inorder_internal.batch_query(t, NULL::text, inorder_internal.of_batch(b, numbers),
                                           format('e.%I', (t).key_column), false),
              CASE WHEN (t).key_column = 'place' THEN 'row_place'::text ELSE 'place' END, stride);

-- The query for the key of the row at a place among those of one transaction; null if no key distinguishes them. A part
-- remembers the key that the batch does, so it must not be cut by another one.
CREATE FUNCTION inorder_internal.inside_query(
    t inorder_internal.feed_table, b @extschema@.feed_batch, number bigint, amount bigint
)
RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF t.order_columns = '{}'::name[] THEN
        RETURN NULL;
    END IF;
    PERFORM inorder_internal.check_order(t, b.members, number);
    RETURN inorder_internal.cut_query(t, NULL::text, inorder_internal.of_batch(b, inorder_internal.one(number)),
                                      least(amount, 2147483647)::int);
END $$;

-- The part of a batch up to a key of a transaction, or to the end of the transaction if the key is null.
CREATE FUNCTION inorder_internal.part_to(b @extschema@.feed_batch, number bigint, key text[])
RETURNS @extschema@.feed_batch
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    b.transactions := CASE
        WHEN number = b.cut THEN b.transactions
        WHEN number = b.resumed THEN inorder_internal.one(number)
        ELSE inorder_internal.plus(
            inorder_internal.one(b.resumed),
            inorder_internal.common(inorder_internal.whole_transactions(b),
                                    int8multirange(int8range(0, number, '[]')))) END;
    b.cut := CASE WHEN key IS NOT NULL THEN number END;
    b.cut_after := key;
    RETURN b;
END $$;

CREATE FUNCTION inorder_internal.rest_after(b @extschema@.feed_batch, part @extschema@.feed_batch)
RETURNS @extschema@.feed_batch
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    b.transactions := inorder_internal.plus(inorder_internal.minus(b.transactions, part.transactions),
                                            inorder_internal.one(part.cut));
    b.resumed := part.cut;
    b.resumed_after := part.cut_after;
    RETURN b;
END $$;

CREATE FUNCTION @extschema@.reader_batch_between(
    from_position @extschema@.feed_position, to_position @extschema@.feed_position
)
RETURNS @extschema@.feed_batch
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.reader_batch_between(@extschema@.feed_position, @extschema@.feed_position) IS
'Return the batch that leads from one position to another, with all rows of the batches between them. For readers '
'that keep positions only, as stream processors do: the same two positions give the same rows each time. With an order '
'column both must be in the same set, or at its ends. Does not access tables, so it does not check that keys inside '
'of one transaction ascend.
Errors: invalid_parameter_value if to_position does not follow from_position, null_value_not_allowed, '
'numeric_value_out_of_range, object_not_in_prerequisite_state if a position is of another server or timeline.';

CREATE FUNCTION @extschema@.reader_split(relation regclass, batch @extschema@.feed_batch, parts int)
RETURNS SETOF @extschema@.feed_batch
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.reader_split(regclass, @extschema@.feed_batch, int) IS
'Divide a batch into parts of about equal numbers of rows, also inside of large transactions, to be read in parallel '
'by reader_batch_rows. Each row of the batch is in exactly one part. Returns fewer parts if there are too few rows, or '
'if no key distinguishes the rows of a transaction. Continue with reader_advance(position, batch), of the batch '
'itself. Reads the index on the transaction number, but not the rows; of a BRIN index the rows, twice.
Range: parts 1 to 10000. Errors: invalid_parameter_value (parts), feature_not_supported for a batch in the order of a '
'column, and those of reader_batch_rows.';
