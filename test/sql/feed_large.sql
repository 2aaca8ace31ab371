-- Read transactions in many batches. Each row is delivered once, in order, wherever a batch begins. The rows are read
-- by the key, without sorting the whole transaction.
CREATE TABLE b (k int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, size int, xact bigint NOT NULL DEFAULT xact_id());
CREATE INDEX ON b (xact) WHERE xact > 0;
CREATE TABLE n (k int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, size int, xact bigint NOT NULL DEFAULT xact_id());
CREATE INDEX ON n (xact);
CREATE TABLE p (k int GENERATED ALWAYS AS IDENTITY, size int, xact bigint NOT NULL DEFAULT xact_id(), part int GENERATED ALWAYS AS (1) STORED) PARTITION BY HASH (k);
ALTER TABLE p ADD PRIMARY KEY (k);
CREATE INDEX ON p (xact);
CREATE TABLE p0 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE p1 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SELECT feed_enable(t) FROM unnest('{b,n,p}'::regclass[]) AS t;
\set ECHO none
SELECT format('INSERT INTO %s (size) SELECT %s FROM generate_series(1, %2$s)', t, s) FROM unnest('{3,1000,3,2,350,750}'::int[]) WITH ORDINALITY AS s(s, place), unnest('{b,n,p}'::text[]) AS t ORDER BY place \gexec
\set ECHO all
ANALYZE b, n, p;
-- Read batches of max_rows rows from the start of a transaction. Return the number of batches, the number of rows, and
-- whether all rows came in order.
CREATE FUNCTION read(t regclass, max_rows int, whole boolean, first_size int, OUT batches int, OUT read int, OUT in_order boolean, OUT sizes text) LANGUAGE plpgsql AS $$
DECLARE
    position feed_position := reader_start(t);
    batch feed_batch;
    got int[] := '{}';
    piece int[];
    every int[];
    first bigint;
BEGIN
    EXECUTE format('SELECT min(xact) FROM %s WHERE size = $1', t) INTO first USING first_size;
    position.transactions := int8multirange(int8range(0, first));
    EXECUTE format('SELECT array_agg(k ORDER BY xact, k) FROM %s WHERE xact >= $1', t) INTO every USING first;
    batches := 0;
    LOOP
        batch := reader_next_batch(t, position, max_rows, whole);
        EXIT WHEN isempty(batch.transactions);
        EXECUTE format('SELECT array_agg(r.k ORDER BY place) FROM reader_batch_rows($1, $2, null::%s) WITH ORDINALITY AS r(k, size, xact%s, place)', t, CASE t WHEN 'p'::regclass THEN ', part' ELSE '' END)
        INTO piece USING t, batch;
        IF cardinality(piece) > 0 THEN
            batches := batches + 1;
            sizes := CASE WHEN batches <= 8 THEN concat_ws(' ', sizes, cardinality(piece)) ELSE sizes END;
        END IF;
        got := got || piece;
        position := reader_advance(position, batch);
    END LOOP;
    read := cardinality(got);
    in_order := got = every;
END $$;
SELECT t, max_rows, whole, first, (read(t, max_rows, whole, first)).*
FROM unnest('{b,n,p}'::regclass[]) AS t, (VALUES (250, false, 3), (250, false, 1000), (500, false, 1000), (250, false, 750), (1000, false, 1000), (250, true, 3), (250, true, 1000)) AS c(max_rows, whole, first) ORDER BY t, whole, first, max_rows;
-- Even the first batch is read by the key, without sorting the transaction.
CREATE FUNCTION scans_of_key(t regclass) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    position feed_position := reader_start(t);
    key regclass := (SELECT indexrelid FROM pg_index WHERE indrelid = t AND indisprimary);
    before bigint;
BEGIN
    EXECUTE format('SELECT int8multirange(int8range(0, min(xact))) FROM %s WHERE size = 1000', t) INTO position.transactions;
    before := pg_stat_get_xact_numscans(key);
    PERFORM reader_next_batch(t, position, 150);
    RETURN pg_stat_get_xact_numscans(key) > before;
END $$;
SELECT scans_of_key('b');
DROP FUNCTION scans_of_key(regclass);
DROP FUNCTION read(regclass, int, boolean, int);
DROP TABLE b, n, p;
