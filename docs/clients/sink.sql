-- In the database that receives them. What a batch contains, and its number, are stored in one transaction.
CREATE TABLE mails (id uuid, body text);
CREATE TABLE batches (number bigint PRIMARY KEY);
CREATE FUNCTION store_batch(number bigint, rows text) RETURNS void LANGUAGE sql AS $$
    WITH new AS (INSERT INTO batches VALUES (number) ON CONFLICT DO NOTHING RETURNING 1)
    INSERT INTO mails SELECT row.* FROM new, json_populate_recordset(null::mails, rows::json) AS row
$$;
