-- After stream.sql: the changes of the table customers, which are logged by changes_enable('customers').
CREATE OR REPLACE FUNCTION stream_table() RETURNS regclass LANGUAGE sql AS $$ SELECT 'customers_changes'::regclass $$;
CREATE OR REPLACE FUNCTION stream_rows(p feed_position, b feed_batch) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    query text := reader_changes_query('customers', p, b);
    rows jsonb;
BEGIN
    EXECUTE format('SELECT jsonb_agg(to_jsonb(c)) FROM (%s) AS c', query) INTO rows;
    IF reader_changes_query('customers', p, b) <> query THEN
        RAISE 'the table customers was changed meanwhile' USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN rows;
END $$;
