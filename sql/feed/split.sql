-- Batches for parallel readers: a batch from one position to another, and the parts of a batch.
--
-- The rows of a batch have an order: the last part of a transaction (resumed), then whole transactions by number, then
-- the first part of one more transaction (cut). A batch is divided in that order, between two transactions or inside a
-- transaction. Each part is therefore a batch, and every row of the batch is in exactly one part.

-- Return the transactions between two positions, neither of which is inside a transaction; null if the second position
-- does not follow the first position.
CREATE FUNCTION inorder_internal.set_between(p @extschema@.feed_position, q @extschema@.feed_position)
RETURNS int8multirange
LANGUAGE sql IMMUTABLE
-- All rows of a set are delivered in order before the next set begins.
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

CREATE FUNCTION inorder_internal.of_batch(b @extschema@.feed_batch, numbers int8multirange)
RETURNS @extschema@.feed_batch
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    b.transactions := b.transactions * numbers;
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

-- Return the query for the number of rows of a batch in certain transactions.
CREATE FUNCTION inorder_internal.batch_count_query(
    t inorder_internal.feed_table, b @extschema@.feed_batch, numbers int8multirange
) RETURNS text
LANGUAGE sql STABLE
RETURN format('SELECT pg_catalog.count(*) FROM (%s) AS e',
              inorder_internal.batch_query(t, NULL::text, inorder_internal.of_batch(b, numbers), '1::pg_catalog.int4',
                                           false));

-- Return the query for the transaction number of every n-th row of a batch.
CREATE FUNCTION inorder_internal.numbers_query(
    t inorder_internal.feed_table, b @extschema@.feed_batch, numbers int8multirange, stride bigint
) RETURNS text
LANGUAGE sql STABLE
-- The number is extracted only from the selected keys. The name of the column with the place of a row must differ from
-- the name of the key column.
RETURN format('SELECT pg_catalog.array_agg(pg_catalog.concat(s.number)) FROM (SELECT %s AS number '
              'FROM (SELECT e.%I, pg_catalog.row_number() OVER () FROM (%s) AS e) AS e(%2$I, %4$I) '
              'WHERE e.%4$I OPERATOR(pg_catalog.%%) %s::pg_catalog.int8 OPERATOR(pg_catalog.=) '
              '0::pg_catalog.int8) AS s',
              inorder_internal.number_text(t), (t).key_column,
              inorder_internal.batch_query(t, NULL::text, inorder_internal.of_batch(b, numbers),
                                           format('e.%I', (t).key_column), false),
              CASE WHEN (t).key_column = 'place' THEN 'row_place'::text ELSE 'place' END, stride);

-- Return the first part of a batch, up to a key of a transaction or, if the key is null, up to the end of the
-- transaction.
CREATE FUNCTION inorder_internal.part_to(b @extschema@.feed_batch, number bigint, key text[])
RETURNS @extschema@.feed_batch
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    b.transactions := CASE
        WHEN number = b.cut THEN b.transactions
        WHEN number = b.resumed THEN inorder_internal.one_number(number)
        ELSE inorder_internal.plus(
            inorder_internal.one_number(b.resumed),
            inorder_internal.whole_transactions(b) * int8multirange(int8range(0, number, '[]'))) END;
    b.cut := CASE WHEN key IS NOT NULL THEN number END;
    b.cut_after := key;
    RETURN b;
END $$;

CREATE FUNCTION inorder_internal.rest_after(b @extschema@.feed_batch, part @extschema@.feed_batch)
RETURNS @extschema@.feed_batch
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    b.transactions := inorder_internal.plus(inorder_internal.minus(b.transactions, part.transactions),
                                            inorder_internal.one_number(part.cut));
    b.resumed := part.cut;
    b.resumed_after := part.cut_after;
    RETURN b;
END $$;

-- Return the key of the n-th row of one transaction, at which a part ends: see key_at(). A part stores the same key
-- columns as its batch. A batch that was cut by another key is therefore refused.
CREATE FUNCTION inorder_internal.key_of_part(
    t inorder_internal.feed_table, b @extschema@.feed_batch, number bigint, place bigint, caller oid
) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF cardinality(t.order_columns) > 0 THEN
        PERFORM inorder_internal.check_order(t, b.members, number);
    END IF;
    RETURN inorder_internal.key_at(t, b, number, place, caller);
END $$;

-- Return transactions of a batch, in the order of the batch, with the estimated number of rows of each transaction. In
-- a large batch only a sample of the rows is examined, and transactions with few rows may be missing.
CREATE FUNCTION inorder_internal.distribution(
    t inorder_internal.feed_table, b @extschema@.feed_batch, caller oid, OUT numbers bigint[], OUT rows bigint[]
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    whole int8multirange := inorder_internal.whole_transactions(b);
    number bigint;
    amount bigint;
    stride bigint;
BEGIN
    IF NOT isempty(whole) THEN
        amount := inorder_internal.count_as_caller(t, inorder_internal.batch_count_query(t, b, whole), false, caller);
        -- At most 10,000 rows at even distances are examined. The difference between the sizes of the parts is
        -- therefore limited.
        stride := amount / 10000 + 1;
        SELECT array_agg(s.number ORDER BY s.number), array_agg(s.rows ORDER BY s.number) INTO numbers, rows
        FROM (SELECT n AS number, count(*) * stride AS rows
              FROM unnest(inorder_internal.as_caller(t, inorder_internal.numbers_query(
                  t, b, whole, stride), false, caller)::bigint[]) AS n GROUP BY n) AS s;
    END IF;
    -- The batch may begin and end with a part of a transaction.
    FOREACH number IN ARRAY ARRAY[b.resumed, nullif(b.cut, b.resumed)] LOOP
        CONTINUE WHEN NOT b.transactions @> number IS TRUE;
        amount := inorder_internal.count_as_caller(
            t, inorder_internal.batch_count_query(t, b, inorder_internal.one_number(number)), false, caller);
        IF number = b.resumed THEN
            numbers := number || numbers;
            rows := amount || rows;
        ELSE
            numbers := numbers || number;
            rows := rows || amount;
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION inorder_internal.split(
    t inorder_internal.feed_table, b @extschema@.feed_batch, parts int, caller oid
) RETURNS SETOF @extschema@.feed_batch
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    numbers bigint[];
    rows bigint[];
    total numeric;
    part inorder_internal.found_batch.batch%TYPE;
    key text[];
    -- A part ends in transaction "at", after its first "place" rows; "before" counts the rows before this transaction.
    at int := 1;
    before bigint := 0;
    place bigint;
    last int;
    -- The remaining rows begin in the transaction "first", of which "taken" rows are in earlier parts.
    first int := 1;
    taken bigint := 0;
BEGIN
    IF parts > 1 THEN
        SELECT d.numbers, d.rows INTO numbers, rows FROM inorder_internal.distribution(t, b, caller) AS d;
        total := (SELECT sum(r) FROM unnest(rows) AS r);
    END IF;
    FOR i IN 1 .. CASE WHEN total > 0 THEN parts - 1 ELSE 0 END LOOP
        WHILE at < cardinality(rows) AND before + rows[at] <= div(total * i, parts) LOOP
            before := before + rows[at];
            at := at + 1;
        END LOOP;
        place := div(total * i, parts) - before;
        CONTINUE WHEN at = first AND place <= taken;
        -- A part ends inside a large transaction, or at the end of a small transaction.
        key := CASE WHEN place > 0 AND rows[at] > div(div(total, parts), 8)
                    THEN inorder_internal.key_of_part(t, b, numbers[at],
                                                      place - CASE WHEN at = first THEN taken ELSE 0 END, caller) END;
        last := CASE WHEN place = 0 THEN at - 1 ELSE at END;
        CONTINUE WHEN key IS NULL AND (last < first OR last >= cardinality(rows));
        part := inorder_internal.part_to(b, numbers[last], key);
        RETURN NEXT part;
        b := inorder_internal.rest_after(b, part);
        first := CASE WHEN key IS NULL THEN last + 1 ELSE at END;
        taken := CASE WHEN key IS NULL THEN 0 ELSE place END;
    END LOOP;
    RETURN NEXT b;
END $$;

CREATE FUNCTION inorder_internal.reader_batch_between(
    caller oid, p @extschema@.feed_position, q @extschema@.feed_position, OUT batch @extschema@.feed_batch
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM inorder_internal.check_position(p), inorder_internal.check_position(q);
    IF p.partial = q.partial THEN
        batch.transactions := CASE WHEN p.transactions = q.transactions THEN inorder_internal.one_number(p.partial) END;
    ELSIF p.partial IS NOT NULL OR q.partial IS NOT NULL THEN
        batch.transactions := CASE WHEN p.partial IS NULL OR q.transactions @> p.partial
                                   THEN inorder_internal.plus(inorder_internal.minus(q.transactions, p.transactions),
                                                              inorder_internal.one_number(q.partial)) END;
    ELSE
        batch.transactions := inorder_internal.set_between(p, q);
    END IF;
    IF batch.transactions IS NULL OR NOT p.transactions <@ q.transactions OR p.transactions @> q.partial THEN
        RAISE 'to_position does not follow from_position' USING ERRCODE = 'invalid_parameter_value',
              DETAIL = format('From: %s, then %s up to %s. To: %s, then %s up to %s.',
                              inorder_internal.few_of(p.transactions),
                              coalesce(p.partial::text, (p.ordering).column_name, 'none'),
                              coalesce(left(p.last_key::text, 200), (p.ordering).next_value::text, 'none'),
                              inorder_internal.few_of(q.transactions),
                              coalesce(q.partial::text, (q.ordering).column_name, 'none'),
                              coalesce(left(q.last_key::text, 200), (q.ordering).next_value::text, 'none'));
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

CREATE FUNCTION inorder_internal.reader_split(
    caller oid, relation regclass, batch @extschema@.feed_batch, parts int
) RETURNS SETOF @extschema@.feed_batch
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    origin text := inorder_internal.server_origin();
    t inorder_internal.feed_table := inorder_internal.open_table(caller, relation);
    members inorder_internal.found_batch.members%TYPE := inorder_internal.proved_members(t, caller);
BEGIN
    IF (parts BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE 'parts must be between 1 and 10000, not %', coalesce(parts::text, 'null')
        USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM inorder_internal.check_kept_batch(batch), inorder_internal.readable_batch(t, batch, members);
    IF (batch.ordering).column_name IS NOT NULL THEN
        RAISE 'a batch in the order of a column cannot be split' USING ERRCODE = 'feature_not_supported',
              DETAIL = 'Parallel readers do not keep an order.';
    -- A batch without transactions ends where it begins, perhaps inside a transaction: see no_batch().
    ELSIF NOT isempty(batch.transactions)
          AND (NOT batch.transactions @> inorder_internal.one_number(batch.resumed)
                                         + inorder_internal.one_number(batch.cut)
               OR batch.resumed = batch.cut AND batch.transactions <> inorder_internal.one_number(batch.cut)) THEN
        RAISE 'invalid batch' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN QUERY SELECT * FROM inorder_internal.split(t, batch, parts, caller);
    PERFORM inorder_internal.unchanged_members(t, inorder_internal.seen_members(relation, members)),
            inorder_internal.expect_origin(origin);
END $$;

CREATE FUNCTION @extschema@.reader_batch_between(
    from_position @extschema@.feed_position, to_position @extschema@.feed_position
) RETURNS @extschema@.feed_batch
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.reader_batch_between(@extschema@.feed_position, @extschema@.feed_position) IS
'Return the batch with all rows between two positions.';

CREATE FUNCTION @extschema@.reader_split(relation regclass, batch @extschema@.feed_batch, parts int)
RETURNS SETOF @extschema@.feed_batch
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.reader_split(regclass, @extschema@.feed_batch, int) IS
'Divide a batch into parts of about equal numbers of rows, for parallel calls of reader_batch_rows.';
