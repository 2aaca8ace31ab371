-- The steps of a worker of the feed "mailer", which reads the table "events", for the database of the source.

-- Return the next batch of a worker: number, token, rows as one JSON text, number of tries, and a label for the log. If
-- there is no batch, wait until there are rows, at most a second, and return nulls.
CREATE PROCEDURE take_batch(
    worker text, INOUT number bigint DEFAULT NULL, INOUT token bigint DEFAULT NULL, INOUT rows text DEFAULT NULL,
    INOUT tries int DEFAULT NULL, INOUT label text DEFAULT NULL
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT b.number, b.token, b.tries INTO number, token, tries
    FROM feed_take_batch('mailer', worker, max_rows => 100, lease => '1 minute', max_tries => 5) AS b;
    COMMIT;  -- no session waits for a worker that waits for rows; a failure to read the batch does not undo the try
    IF number IS NULL THEN
        PERFORM feed_wait('mailer', timeout => '1 second');
    ELSE
        SELECT json_agg(row), format('batch %s, try %s of 5, %s rows', number, tries, count(*)) INTO rows, label
        FROM feed_batch_rows('mailer', number, null::events) AS row;
    END IF;
END $$;

-- Finish a batch that was stored, or return a batch that failed: it will be tried again, or is dead. Return the result.
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
