-- Positions and batches: what a reader has read, and what it reads next.
--
-- Why a set of transactions is a position:
--  1. A row carries the number of the transaction that inserted it. That number is never
--     changed and the row is never deleted. The guard ensures both.
--  2. ended(S) is the set of transactions that have ended in snapshot S: they are committed or
--     aborted, permanently. Rows that they have committed are visible in S.
--  3. A position P is the set of transactions read so far; a batch is B = ended(S) - P.
--  4. B and P are disjoint: no row is delivered twice.
--  5. Rows are read under a snapshot S' that is not older than S. All transactions of B have ended
--     in S', and each row that B will ever have is visible: no row is missed.
--  6. The next position is P + B. A transaction in progress is in neither set: it will be in a later B.
--  7. Each transaction ends, and is then in ended(S) for every later S: each row is delivered.
--  8. The position moves in the transaction that processes the rows, or the batch is kept until it is finished.
--  9. Readers of one feed are serialized: the second reader sees the position that the first reader has set.
-- 10. A batch may end inside a transaction, after row K. P then contains K instead of that
--     transaction, and the next batch continues with the rows of the transaction after K.

CREATE TYPE @extschema@.feed_member AS (
    relation oid,
    name text,
    system text,
    attached bigint[],
    guarded bigint[],
    ordered_by text[]
);
COMMENT ON TYPE @extschema@.feed_member IS 'A table or partition as stored in a position.';

CREATE TYPE @extschema@.feed_order AS (
    column_name text,
    attnum smallint,
    frozen int8multirange,
    from_value bigint,
    next_value bigint,
    up_to bigint,
    walked_from bigint
);
COMMENT ON TYPE @extschema@.feed_order IS
'Part of a position or batch that reads rows in the order of a column, which column_name and attnum identify.';

CREATE TYPE @extschema@.feed_position AS (
    format int,
    transactions int8multirange,
    partial bigint,
    last_key text[],
    ordering @extschema@.feed_order,
    members @extschema@.feed_member[],
    origin text
);
COMMENT ON TYPE @extschema@.feed_position IS
'Rows that were read: whole transactions and, possibly, a part of one transaction (up to a key) or of a set of '
'transactions (up to a value).';

CREATE TYPE @extschema@.feed_batch AS (
    format int,
    transactions int8multirange,
    resumed bigint,
    resumed_after text[],
    cut bigint,
    cut_after text[],
    ordering @extschema@.feed_order,
    members @extschema@.feed_member[],
    origin text
);
COMMENT ON TYPE @extschema@.feed_batch IS 'Rows to be read next: transactions, some of them in part.';

-- Return the format of positions and batches that this version writes: see of_jsonb(), which also reads earlier
-- formats.
CREATE FUNCTION inorder_internal.position_format() RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 1;

-- Return the set of one number; the empty set for null.
CREATE FUNCTION inorder_internal.one_number(number bigint) RETURNS int8multirange
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN number IS NULL THEN '{}'::int8multirange ELSE int8multirange(int8range(number, number + 1)) END;

-- Return a string that shows a set in a message: its first four ranges, and the number of other ranges.
CREATE FUNCTION inorder_internal.few_of(numbers int8multirange) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    omitted bigint := (SELECT count(*) FROM unnest(numbers)) - 4;
BEGIN
    RETURN CASE WHEN omitted > 0
                THEN format('%s and %s more ranges',
                            (SELECT range_agg(r) FROM (SELECT r FROM unnest(numbers) AS r LIMIT 4) AS f), omitted)
                ELSE numbers::text END;
END $$;

-- Return true if all members of a set are between 0 and 281474976710655, the range of transaction numbers; null for
-- null.
CREATE FUNCTION inorder_internal.are_numbers(numbers int8multirange) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
-- Only the bounds are compared, because <@ would examine each range, which takes a millisecond for 10,000 ranges.
RETURN isempty(numbers) OR coalesce(lower(numbers) >= 0::bigint AND upper(numbers) <= 281474976710656, false);

-- Return true if a position has a valid form. A position contains whole transactions and, possibly, either a
-- transaction that was read in part or the order of a column. A position in the order of a column is between two sets,
-- or in the middle of a set that is disjoint from the transactions that were read.
CREATE FUNCTION inorder_internal.is_place(p @extschema@.feed_position) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (p).partial IS NOT NULL AND (p).ordering IS NULL
    OR (p).partial IS NULL AND (p).last_key IS NULL
       AND ((p).ordering IS NULL
            OR (p).ordering.column_name <> '' AND (p).ordering.attnum >= 0
               AND num_nulls((p).ordering.from_value, (p).ordering.walked_from) = 2
               AND CASE num_nulls((p).ordering.frozen, (p).ordering.next_value, (p).ordering.up_to)
                       WHEN 0 THEN inorder_internal.are_numbers((p).ordering.frozen)
                                   AND NOT isempty((p).ordering.frozen) AND NOT (p).ordering.frozen && (p).transactions
                       ELSE num_nonnulls((p).ordering.frozen, (p).ordering.next_value, (p).ordering.up_to) = 0 END)
       IS TRUE;

-- Return true if a batch begins at a position.
CREATE FUNCTION inorder_internal.follows(p @extschema@.feed_position, b @extschema@.feed_batch)
RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN isempty((p).transactions * (b).transactions)
    -- Columns are compared one by one, because a comparison of rows would become a different expression when it is
    -- dumped and restored.
    AND (p).partial IS NOT DISTINCT FROM (b).resumed AND (p).last_key IS NOT DISTINCT FROM (b).resumed_after
    AND (p).ordering.column_name IS NOT DISTINCT FROM (b).ordering.column_name
    AND (p).ordering.attnum IS NOT DISTINCT FROM (b).ordering.attnum
    AND (p).ordering.next_value IS NOT DISTINCT FROM (b).ordering.from_value
    AND ((p).ordering.frozen IS NULL OR isempty((b).transactions)
         OR (p).ordering.frozen = (b).transactions AND (p).ordering.up_to = (b).ordering.up_to);

-- PUBLIC may call the two functions below. The functions are in PL/pgSQL, which requires USAGE on each schema that a
-- body names. The bodies therefore name no schema other than pg_catalog. The functions are not immutable, because the
-- planner would evaluate a call of an immutable function even if the condition for the call is false.
--
-- Raise the error about a batch that does not follow a position. The sets of transactions are passed as strings for the
-- message.
CREATE FUNCTION inorder_internal.say_not_following(
    from_position @extschema@.feed_position, batch @extschema@.feed_batch, passed text, transactions text
) RETURNS @extschema@.feed_position
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE 'this batch does not follow this position' USING ERRCODE = 'invalid_parameter_value',
          DETAIL = format('Position: %s, then %s up to %s. Batch: %s, first %s above %s.',
                          passed, coalesce(from_position.partial::text, (from_position.ordering).column_name, 'none'),
                          coalesce(left(from_position.last_key::text, 200), (from_position.ordering).next_value::text,
                                   'none'),
                          transactions, coalesce(batch.resumed::text, (batch.ordering).column_name, 'none'),
                          coalesce(left(batch.resumed_after::text, 200), (batch.ordering).from_value::text, 'none'));
END $$;

CREATE FUNCTION inorder_internal.say_beyond(transactions text) RETURNS @extschema@.feed_position
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE 'the position after this batch would hold transactions %, which must be between 0 and 281474976710655',
        transactions USING ERRCODE = 'numeric_value_out_of_range';
END $$;

-- Return the value of "ordering" in the position that follows a batch.
CREATE FUNCTION inorder_internal.ordering_after(p @extschema@.feed_position, b @extschema@.feed_batch)
RETURNS @extschema@.feed_order
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN (b).ordering.column_name IS NULL OR isempty((b).transactions) THEN (p).ordering
            WHEN (b).ordering.next_value IS NULL
            THEN ROW((b).ordering.column_name, (b).ordering.attnum, NULL, NULL, NULL, NULL, NULL)
                 ::@extschema@.feed_order
            ELSE ROW((b).ordering.column_name, (b).ordering.attnum, (b).transactions, NULL, (b).ordering.next_value,
                     (b).ordering.up_to, NULL)::@extschema@.feed_order END;

CREATE FUNCTION inorder_internal.advance(
    from_position @extschema@.feed_position, batch @extschema@.feed_batch
) RETURNS @extschema@.feed_position
LANGUAGE sql STABLE PARALLEL SAFE  -- an IMMUTABLE function that calls STABLE functions would not be inlined
RETURN CASE
    WHEN NOT inorder_internal.follows(from_position, batch)
    THEN inorder_internal.say_not_following(
        from_position, batch, inorder_internal.few_of((from_position).transactions),
        inorder_internal.few_of((batch).transactions))
    WHEN NOT inorder_internal.are_numbers((from_position).transactions)
         OR NOT inorder_internal.are_numbers((batch).transactions)
    THEN inorder_internal.say_beyond(inorder_internal.few_of(
        inorder_internal.plus((from_position).transactions, (batch).transactions)))
    ELSE ROW(inorder_internal.position_format(),
             inorder_internal.plus((from_position).transactions, CASE
                 WHEN (batch).cut IS NOT NULL
                 THEN inorder_internal.minus((batch).transactions, inorder_internal.one_number((batch).cut))
                 -- The batch is in the order of a column, and ends inside its set.
                 WHEN (batch).ordering.next_value IS NOT NULL THEN '{}'::int8multirange
                 ELSE (batch).transactions END),
             (batch).cut, (batch).cut_after, inorder_internal.ordering_after(from_position, batch), (batch).members,
             (batch).origin)::@extschema@.feed_position END;

CREATE FUNCTION @extschema@.reader_advance(from_position @extschema@.feed_position, batch @extschema@.feed_batch)
RETURNS @extschema@.feed_position
LANGUAGE sql STABLE PARALLEL SAFE
RETURN inorder_internal.advance(from_position, batch);
COMMENT ON FUNCTION @extschema@.reader_advance(@extschema@.feed_position, @extschema@.feed_batch) IS
'Return the position after a batch: position plus batch.';
