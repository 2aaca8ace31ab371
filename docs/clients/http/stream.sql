-- The steps of a stream, for the database of the table events, which feed_enable() has made readable.

-- The part of positions that stays the same until a partition, the guard or the server changes. Cursors contain a hash
-- of this part, which includes server and timeline.
CREATE TABLE stream_tables (
    hash text PRIMARY KEY,
    part jsonb NOT NULL
);

-- The table that is read, and the rows of a batch as JSON. changes.sql replaces both functions.
CREATE FUNCTION stream_table() RETURNS regclass LANGUAGE sql AS $$ SELECT 'events'::regclass $$;
CREATE FUNCTION stream_rows(from_position feed_position, batch feed_batch) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_agg(to_jsonb(e)) FROM reader_batch_rows('events', batch, null::events) AS e
$$;

-- The cursor of a position: a hash in stream_tables, the distances between the bounds of the set of transactions, and,
-- if the position is inside a transaction, the place in that transaction.
CREATE FUNCTION stream_cursor(p feed_position) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    place jsonb := jsonb_strip_nulls(jsonb_build_object('partial', p.partial, 'last_key', p.last_key));
    shared jsonb := p::jsonb - '{transactions,partial,last_key}'::text[];
    shared_hash text := left(encode(sha256(convert_to(shared::text, 'UTF8')), 'base64'), 8);
    distances text := (
        SELECT string_agg(distance::text, ' ' ORDER BY bound)
        FROM (SELECT bound, bound - lag(bound, 1, 0::bigint) OVER (ORDER BY bound) AS distance
              FROM unnest(p.transactions) AS range, unnest(ARRAY[lower(range), upper(range)]) AS bound) AS bounds);
BEGIN
    IF NOT EXISTS (SELECT FROM stream_tables WHERE hash = shared_hash) THEN
        INSERT INTO stream_tables VALUES (shared_hash, shared) ON CONFLICT DO NOTHING;
    END IF;
    RETURN concat_ws(' ', shared_hash, distances) || CASE WHEN place = '{}' THEN '' ELSE place::text END;
END $$;

-- The position of a cursor. The empty cursor is the beginning, and 'now' is the end.
CREATE FUNCTION stream_position(cursor text) RETURNS feed_position LANGUAGE plpgsql AS $$
DECLARE
    numbers text[] := string_to_array(split_part(cursor, '{', 1), ' ');
    place jsonb := coalesce(substring(cursor FROM '[{].*'), '{}');
    shared jsonb := (SELECT part FROM stream_tables WHERE hash = numbers[1]);
    transactions int8multirange;
BEGIN
    IF cursor IN ('', 'now') THEN
        RETURN reader_start(stream_table(), CASE cursor WHEN '' THEN 'beginning' ELSE 'now' END);
    END IF;
    IF shared IS NULL AND cursor IS NOT NULL THEN
        RAISE 'this cursor is of another database' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    SELECT range_agg(int8range((upper - distance)::bigint, upper::bigint)) FILTER (WHERE n % 2 = 0) INTO transactions
    FROM (SELECT n, distance, sum(distance) OVER (ORDER BY n) AS upper
          FROM unnest(numbers[2:]::bigint[]) WITH ORDINALITY AS d (distance, n)) AS sums;
    RETURN (shared || place || jsonb_build_object('transactions', coalesce(transactions, '{}')))::feed_position;
END $$;

-- Return at most 1,000 rows after a cursor, and the cursor after these rows. The head is the cursor that the service
-- has reached; no row after the head is returned, and at the head the next cursor is the head itself. A head of another
-- server or timeline, which the service has not noticed yet, is ignored. Without a head, wait at most a second for rows.
CREATE PROCEDURE stream_next(after text, head text, INOUT rows text DEFAULT NULL, INOUT next text DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
    from_position feed_position;
    head_position feed_position;
    batch feed_batch;
    next_position feed_position;
BEGIN
    IF head IS NULL AND after <> 'now' THEN
        PERFORM reader_wait(stream_table(), stream_position(after));
    END IF;
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
    from_position := stream_position(after);
    IF EXISTS (SELECT FROM stream_tables AS t
               WHERE t.hash = substring(head FROM '[^ {]*') AND t.part ->> 'origin' = from_position.origin) THEN
        head_position := stream_position(head);
    END IF;
    batch := reader_next_batch(stream_table(), from_position, 1000);
    next_position := reader_advance(from_position, batch);
    IF coalesce(from_position.partial, head_position.partial, next_position.partial) IS NULL
       AND from_position.transactions <@ head_position.transactions
       AND (head_position.transactions <@ next_position.transactions OR isempty(batch.transactions)) THEN
        batch := reader_batch_between(from_position, head_position);
        next_position := head_position;
    END IF;
    rows := coalesce(stream_rows(from_position, batch), '[]');
    next := stream_cursor(next_position);
END $$;
