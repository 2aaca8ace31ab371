-- In the database of the table events, which a feed can read: the steps of a stream.

-- The part that all positions share until a partition, the guard or the server changes. Cursors contain its hash, which
-- no other server or timeline gives to another part.
CREATE TABLE stream_tables (
    hash  text PRIMARY KEY,
    known jsonb NOT NULL
);

-- The table that is read, and the rows of a batch as JSON. changes.sql replaces both, for the changes of a table.
CREATE FUNCTION stream_table() RETURNS regclass LANGUAGE sql AS $$ SELECT 'events'::regclass $$;
CREATE FUNCTION stream_rows(p feed_position, b feed_batch) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_agg(to_jsonb(e)) FROM reader_batch_rows('events', b, null::events) AS e
$$;

-- A position as a cursor: a hash of stream_tables, the distances between the bounds of its transactions, and, if there
-- is one, its place within a transaction.
CREATE FUNCTION stream_cursor(p feed_position) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    place jsonb := jsonb_strip_nulls(jsonb_build_object('partial', p.partial, 'last_key', p.last_key));
    of_all jsonb := p::jsonb - '{transactions,partial,last_key}'::text[];
    its_hash text := left(encode(sha256(convert_to(of_all::text, 'UTF8')), 'base64'), 8);
    distances text := (
        SELECT string_agg(distance::text, ' ' ORDER BY bound)
        FROM (SELECT bound, bound - lag(bound, 1, 0::bigint) OVER (ORDER BY bound) AS distance
              FROM unnest(p.transactions) AS range, unnest(ARRAY[lower(range), upper(range)]) AS bound) AS bounds);
BEGIN
    IF NOT EXISTS (SELECT FROM stream_tables WHERE hash = its_hash) THEN
        INSERT INTO stream_tables VALUES (its_hash, of_all) ON CONFLICT DO NOTHING;
    END IF;
    RETURN concat_ws(' ', its_hash, distances) || CASE WHEN place = '{}' THEN '' ELSE place::text END;
END $$;

-- The position of a cursor. The empty cursor is the beginning, 'now' the end.
CREATE FUNCTION stream_position(cursor text) RETURNS feed_position LANGUAGE plpgsql AS $$
DECLARE
    numbers text[] := string_to_array(split_part(cursor, '{', 1), ' ');
    place jsonb := coalesce(substring(cursor FROM '[{].*'), '{}');
    of_all jsonb := (SELECT known FROM stream_tables WHERE hash = numbers[1]);
    transactions int8multirange;
BEGIN
    IF cursor IN ('', 'now') THEN
        RETURN reader_start(stream_table(), CASE cursor WHEN '' THEN 'beginning' ELSE 'now' END);
    END IF;
    IF of_all IS NULL AND cursor IS NOT NULL THEN
        RAISE 'this cursor is of another database' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    SELECT range_agg(int8range((upper - distance)::bigint, upper::bigint)) FILTER (WHERE n % 2 = 0) INTO transactions
    FROM (SELECT n, distance, sum(distance) OVER (ORDER BY n) AS upper
          FROM unnest(numbers[2:]::bigint[]) WITH ORDINALITY AS d (distance, n)) AS sums;
    RETURN (of_all || place || jsonb_build_object('transactions', coalesce(transactions, '{}')))::feed_position;
END $$;

-- At most 1,000 rows after a cursor, and the cursor after them. The head is the cursor that the process of a client has
-- reached: a client that reaches it, too, gets that very cursor; a head of another server or timeline, where the process
-- has not noticed that, counts as none. Without a head it waits for rows, a second at most.
CREATE PROCEDURE stream_next(after text, head text, INOUT rows text DEFAULT NULL, INOUT next text DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
    p feed_position;
    h feed_position;
    b feed_batch;
    q feed_position;
BEGIN
    IF head IS NULL AND after <> 'now' THEN
        PERFORM reader_wait(stream_table(), stream_position(after));
    END IF;
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
    p := stream_position(after);
    IF EXISTS (SELECT FROM stream_tables AS t
               WHERE t.hash = substring(head FROM '[^ {]*') AND t.known ->> 'origin' = p.origin) THEN
        h := stream_position(head);
    END IF;
    b := reader_next_batch(stream_table(), p, 1000);
    q := reader_advance(p, b);
    IF coalesce(p.partial, h.partial, q.partial) IS NULL AND p.transactions <@ h.transactions
       AND (h.transactions <@ q.transactions OR isempty(b.transactions)) THEN
        b := reader_batch_between(p, h);
        q := h;
    END IF;
    rows := coalesce(stream_rows(p, b), '[]');
    next := stream_cursor(q);
END $$;
