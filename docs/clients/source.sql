-- In the database that has the rows.
CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), body text);
SELECT feed_create('mailer', 'events');

-- The next batch of a worker, with its rows as one JSON text. If there is none, nulls, as soon as there are rows, or
-- after a second.
CREATE PROCEDURE take_batch(
    worker text, INOUT number bigint DEFAULT NULL, INOUT token bigint DEFAULT NULL, INOUT rows text DEFAULT NULL
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT taken.number, taken.token INTO number, token
    FROM feed_take_batch('mailer', worker, max_rows => 100, lease => '1 minute') AS taken;
    COMMIT;  -- nobody waits for a worker that waits; and a batch that cannot be read has been tried once more
    IF number IS NULL THEN
        PERFORM feed_wait('mailer', timeout => '1 second');
    ELSE
        SELECT json_agg(row) INTO rows FROM feed_batch_rows('mailer', number, null::events) AS row;
    END IF;
END $$;

-- What became of it: stored, so that it is finished; or a failure, after which it is tried again or set aside.
CREATE FUNCTION end_batch(number bigint, token bigint, failure text) RETURNS void LANGUAGE sql AS $$
    SELECT CASE WHEN failure IS NULL THEN feed_finish_batch('mailer', number, token)
                ELSE feed_fail_batch('mailer', number, token, failure, retry_after => '1 second') END
$$;
