-- For the database of the sink. The rows of a batch and its number are stored in one transaction.
CREATE TABLE mails (id uuid, body text);
CREATE TABLE batches (number bigint PRIMARY KEY);
-- Rows that cannot be stored (dead letters). A batch that is tried again is stored row by row, without such rows.
CREATE TABLE dead_letters (batch bigint, content json, error text);

-- Store a batch, and return the number of its rows in dead_letters.
CREATE FUNCTION store_batch(number bigint, rows text, tries int DEFAULT 1) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    element json;
BEGIN
    INSERT INTO batches VALUES (number) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN 0;
    ELSIF tries = 1 THEN
        INSERT INTO mails SELECT row.* FROM json_populate_recordset(null::mails, rows::json) AS row;
        RETURN 0;
    END IF;
    FOR element IN SELECT json_array_elements(rows::json) LOOP
        BEGIN
            INSERT INTO mails SELECT row.* FROM json_populate_record(null::mails, element) AS row;
            SET CONSTRAINTS ALL IMMEDIATE;  -- checks this row now, instead of all rows at the commit
        EXCEPTION WHEN data_exception OR integrity_constraint_violation THEN
            INSERT INTO dead_letters VALUES (number, element, SQLERRM);
        END;
    END LOOP;
    RETURN (SELECT count(*) FROM dead_letters AS d WHERE d.batch = number);
END $$;
