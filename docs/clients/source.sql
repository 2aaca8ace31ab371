-- In the database that has the rows: the steps of a worker, of a feed 'mailer' of a table "events".

-- The next batch of a worker, with its rows as one JSON text, how often it was tried, and what a log says of it. If there
-- is none, nulls, as soon as there are rows, or after a second.
CREATE PROCEDURE take_batch(
    worker text, INOUT number bigint DEFAULT NULL, INOUT token bigint DEFAULT NULL, INOUT rows text DEFAULT NULL,
    INOUT tries int DEFAULT NULL, INOUT label text DEFAULT NULL
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT taken.number, taken.token, taken.tries INTO number, token, tries
    FROM feed_take_batch('mailer', worker, max_rows => 100, lease => '1 minute', max_tries => 5) AS taken;
    COMMIT;  -- nobody waits for a worker that waits; and a batch that cannot be read is tried once for each lease
    IF number IS NULL THEN
        PERFORM feed_wait('mailer', timeout => '1 second');
    ELSE
        SELECT json_agg(row), format('batch %s, try %s of 5, %s rows', number, tries, count(*)) INTO rows, label
        FROM feed_batch_rows('mailer', number, null::events) AS row;
    END IF;
END $$;

-- Ends the batch: it is stored and finished, or has failed, and will be tried again or is dead. Returns the result.
CREATE FUNCTION end_batch(number bigint, token bigint, failure text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF failure IS NULL THEN
        PERFORM feed_finish_batch('mailer', number, token);
        RETURN 'stored';
    ELSIF feed_fail_batch('mailer', number, token, failure, retry_after => '1 second') THEN
        RETURN 'dead';
    END IF;
    RETURN 'will be tried again';
END $$;
