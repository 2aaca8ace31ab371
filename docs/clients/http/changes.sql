-- Run after stream.sql, to stream the changes of the table customers, which changes_enable('customers') logs.
CREATE OR REPLACE FUNCTION stream_table() RETURNS regclass LANGUAGE sql AS $$ SELECT 'customers_changes'::regclass $$;
CREATE OR REPLACE FUNCTION stream_rows(from_position feed_position, batch feed_batch) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    query text := reader_changes_query('customers', from_position, batch);
    rows jsonb;
BEGIN
    EXECUTE format('SELECT jsonb_agg(to_jsonb(c)) FROM (%s) AS c', query) INTO rows;
    IF reader_changes_query('customers', from_position, batch) <> query THEN
        RAISE 'the table customers was changed during the read' USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN rows;
END $$;
