-- Positions and batches: what a reader has read, and what it reads next.
--
-- Why a set of transactions is a position:
--  1. A row carries the number of the transaction that inserted it. That number is never
--     changed and the row is never deleted. The guard ensures both.
--  2. ended(S) is the set of transactions that have ended in snapshot S: committed or aborted,
--     permanently. What they committed is visible in S.
--  3. A position P is the set of transactions read so far; a batch is B = ended(S) - P.
--  4. B and P are disjoint: no row is delivered twice.
--  5. Rows are read under a snapshot S' not older than S. All of B has ended in it, so each row
--     that B will ever have is visible: none is missed.
--  6. The next position is P + B. A transaction in progress is in neither, and so is in a later B.
--  7. Each transaction ends, and is then in ended(S) for every later S: each row is delivered.
--  8. Position and rows change in one transaction, or the batch is kept until it is finished.
--  9. Readers of one feed are serialized: the second sees the position of the first.
-- 10. A batch may end inside a transaction, after its row K: then P contains K instead of that
--     transaction, and the next batch continues with its rows above K.

CREATE TYPE @extschema@.feed_member AS (
    relation oid,
    name text,
    system text,
    attached bigint[],
    guarded bigint[],
    ordered_by text[]
);
COMMENT ON TYPE @extschema@.feed_member IS
'A table or partition as stored in a position: oid and name, the system identifier of its server, the transactions '
'that attached it and the partitions above it, from the top down, those that last created or changed its guard (for '
'each that had not ended also where its row of the catalog was) and, for the table itself, the columns that '
'distinguish rows of one transaction.';

CREATE TYPE @extschema@.feed_position AS (
    transactions int8multirange,
    partial bigint,
    last_key text[],
    members @extschema@.feed_member[],
    origin text
);
COMMENT ON TYPE @extschema@.feed_position IS
'What a reader has read: whole transactions by number, rows of one more (partial) up to a key, the partitions at that '
'time, and server and timeline (see server_origin). With an order column partial is null, and last_key has the column '
'and the set of transactions that is read in part, up to a row.';

CREATE TYPE @extschema@.feed_batch AS (
    transactions int8multirange,
    resumed bigint,
    resumed_after text[],
    cut bigint,
    cut_after text[],
    members @extschema@.feed_member[],
    origin text
);
COMMENT ON TYPE @extschema@.feed_batch IS
'What is read next: transactions by number; of one (resumed) only rows above a key, of one (cut) only rows up to a '
'key. With an order column these two are null, and only rows from one key up to another are read of all of them. Each '
'later read of the batch returns the same rows.';

-- The set of one transaction, or of none for null.
CREATE FUNCTION inorder_internal.one(number bigint)
RETURNS int8multirange
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN number IS NULL THEN '{}'::int8multirange ELSE int8multirange(int8range(number, number + 1)) END;

-- A set as a message shows it: four ranges at most, and how many there are more.
CREATE FUNCTION inorder_internal.few_of(numbers int8multirange)
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    more bigint := (SELECT count(*) FROM unnest(numbers)) - 4;
BEGIN
    RETURN CASE WHEN more > 0
                THEN format('%s and %s ranges more',
                            (SELECT range_agg(r) FROM (SELECT r FROM unnest(numbers) AS r LIMIT 4) AS f), more)
                ELSE numbers::text END;
END $$;

-- Whether all members of a set are between 0 and 281474976710655, as the numbers of transactions are; null for null.
CREATE FUNCTION inorder_internal.are_numbers(numbers int8multirange)
RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
-- By its bounds: <@ looks at each range, which takes a millisecond for 10,000.
RETURN isempty(numbers) OR coalesce(lower(numbers) >= 0::bigint AND upper(numbers) <= 281474976710656, false);

-- PUBLIC may call these. PL/pgSQL refers to pg_catalog only, since it requires USAGE on the schemas that it names. The
-- planner would evaluate an immutable error before the conditions for it.
-- The error about a batch of another position; the sets of transactions are given as messages show them.
CREATE FUNCTION inorder_internal.say_not_following(
    from_position @extschema@.feed_position, batch @extschema@.feed_batch, passed text, transactions text
)
RETURNS @extschema@.feed_position
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE 'this batch does not follow this position' USING ERRCODE = 'invalid_parameter_value',
          DETAIL = format('Position: %s, then %s up to %s. Batch: %s, first %s above %s.',
                          passed, coalesce(from_position.partial::text, 'none'),
                          coalesce(left(from_position.last_key::text, 200), 'none'),
                          transactions, coalesce(batch.resumed::text, 'none'),
                          coalesce(left(batch.resumed_after::text, 200), 'none'));
END $$;

CREATE FUNCTION inorder_internal.say_beyond(transactions text)
RETURNS @extschema@.feed_position
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE 'the position after this batch would hold transactions %, which must be between 0 and 281474976710655',
        transactions USING ERRCODE = 'numeric_value_out_of_range';
END $$;

-- The position after a batch, which has read these transactions completely.
CREATE FUNCTION inorder_internal.advanced(
    from_position @extschema@.feed_position, batch @extschema@.feed_batch, read int8multirange
)
RETURNS @extschema@.feed_position
LANGUAGE sql STABLE PARALLEL SAFE  -- as what it raises errors by is: the server inlines no other
-- Six members of last_key: see order_of() in sql/feed/order.sql.
RETURN CASE
    WHEN NOT isempty(inorder_internal.common((from_position).transactions, (batch).transactions))
         OR ((from_position).partial, (from_position).last_key)
            IS DISTINCT FROM ((batch).resumed, (batch).resumed_after)
         OR (from_position).partial IS NULL AND cardinality((from_position).last_key) = 6
            AND NOT isempty((batch).transactions)
            AND (batch).transactions <> inorder_internal.text_numbers(((from_position).last_key)[4])
    THEN inorder_internal.say_not_following(
        from_position, batch, inorder_internal.few_of((from_position).transactions),
        inorder_internal.few_of((batch).transactions))
    WHEN NOT inorder_internal.are_numbers((from_position).transactions)
         OR NOT inorder_internal.are_numbers((batch).transactions)
    THEN inorder_internal.say_beyond(inorder_internal.few_of(
        inorder_internal.plus((from_position).transactions, (batch).transactions)))
    ELSE ROW(read, (batch).cut, (batch).cut_after, (batch).members, (batch).origin)::@extschema@.feed_position END;

CREATE FUNCTION @extschema@.reader_advance(from_position @extschema@.feed_position, batch @extschema@.feed_batch)
RETURNS @extschema@.feed_position
LANGUAGE sql STABLE PARALLEL SAFE
RETURN inorder_internal.advanced(from_position, batch, inorder_internal.plus(
    (from_position).transactions,
    CASE WHEN (batch).cut IS NOT NULL
         THEN inorder_internal.minus((batch).transactions,
                                     int8multirange(int8range((batch).cut, (batch).cut, '[]'::text)))
         -- An ordered batch that ends in the middle of its set.
         WHEN cardinality((batch).cut_after) = 6 THEN '{}'::int8multirange
         ELSE (batch).transactions END));
COMMENT ON FUNCTION @extschema@.reader_advance(@extschema@.feed_position, @extschema@.feed_batch) IS
'Return the position after a batch: position plus batch. Does not access tables.
Errors: invalid_parameter_value if the batch does not follow the position, numeric_value_out_of_range.';

CREATE FUNCTION inorder_internal.advance(from_position @extschema@.feed_position, batch @extschema@.feed_batch)
RETURNS @extschema@.feed_position
LANGUAGE sql STABLE PARALLEL SAFE
RETURN @extschema@.reader_advance(from_position, batch);
