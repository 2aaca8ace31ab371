\set SHOW_CONTEXT never
-- With whole transactions, max_rows is rounded up to the end of the last transaction.
CREATE TABLE u (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), size int);
CREATE TABLE b (k int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, size int, xact bigint NOT NULL DEFAULT xact_id());
CREATE INDEX ON b (xact) WHERE xact > 0;
CREATE TABLE p (k int GENERATED ALWAYS AS IDENTITY, size int, xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED, PRIMARY KEY (k, size)) PARTITION BY HASH (size);
CREATE INDEX ON p (xact);
CREATE TABLE p0 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE p1 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SELECT feed_create('whole', t::regclass, whole_transactions => true), feed_rename('whole', t || ' whole'), feed_create(t || ' cut', t::regclass) FROM unnest('{u,b,p}'::text[]) AS t;
SELECT name, order_column, whole_transactions FROM feeds ORDER BY name;
\set ECHO none
SELECT format('INSERT INTO %s (size) SELECT %s FROM generate_series(1, %2$s)', t, s) FROM unnest('{3,10,1,1,5}'::int[]) WITH ORDINALITY AS s(s, place), unnest('{u,b,p}'::text[]) AS t ORDER BY place \gexec
\set ECHO all
-- Return the sizes of the transactions in each batch, and the number of transactions that are in several batches.
CREATE FUNCTION read(feed text, max_rows int, OUT batches text, OUT parts bigint) LANGUAGE plpgsql AS $$
DECLARE
    found text;
    amount bigint;
BEGIN
    parts := 0;
    LOOP
        EXECUTE format('SELECT string_agg(format(''%%s:%%s'', size, rows), '' '' ORDER BY size), count(*) FILTER (WHERE size <> 1 AND rows < size)
                        FROM (SELECT size, count(*) AS rows FROM feed_read(%L, null::%I, %s) GROUP BY size) AS s', feed, left(feed, 1), max_rows) INTO found, amount;
        EXIT WHEN found IS NULL;
        batches := concat_ws(' | ', batches, found);
        parts := parts + amount;
    END LOOP;
    PERFORM feed_seek(feed, 'beginning');
END $$;
SELECT f || k AS feed, (read(f || k, 4)).* FROM unnest('{u,b,p}'::text[]) AS f, unnest('{" whole"," cut"}'::text[]) AS k ORDER BY k, f;
SELECT f || ' whole' AS feed, m AS max_rows, (read(f || ' whole', m)).* FROM unnest('{1,13,14}'::int[]) AS m, unnest('{u,b,p}'::text[]) AS f;
-- The same for feed_peek(), feed_apply() and feed_take_batch(), and for a reader that keeps its position.
SELECT count(*) FROM feed_peek('b whole', null::b, 4);
SELECT feed_apply('b whole', 'SELECT FROM batch', 4), (feed_take_batch('b whole', 'w', 1)).number;
SELECT count(*) FROM feed_batch_rows('b whole', 1, null::b);
SELECT feed_finish_batch('b whole', 1, token) FROM feed_take_batch('b whole', 'w');
SELECT partial FROM feeds WHERE name = 'b whole';
SELECT t, m, w, (SELECT count(*) FROM unnest((b).transactions)) > 0 AS some, (b).cut IS NOT NULL AS cut
FROM unnest('{u,b,p}'::regclass[]) AS t, unnest('{4,13}'::int[]) AS m, unnest('{t,f,NULL}'::bool[]) AS w, reader_next_batch(t, reader_start(t), m, w) AS b ORDER BY t::text, m, w;
-- After a position inside a transaction, the next batch has only the remaining rows of that transaction.
CREATE TABLE kept AS SELECT t, reader_advance(s, reader_next_batch(t, s, 4)) AS p FROM unnest('{u,b,p}'::regclass[]) AS t, reader_start(t) AS s;
SELECT (SELECT count(*) FROM reader_batch_rows(t, reader_next_batch(t, p, 1, true), null::u)) FROM kept WHERE t = 'u'::regclass;
SELECT (SELECT count(*) FROM reader_batch_rows(t, reader_next_batch(t, p, 1, true), null::b)) FROM kept WHERE t = 'b'::regclass;
SELECT (SELECT count(*) FROM reader_batch_rows(t, reader_next_batch(t, p, 10, true), null::p)) FROM kept WHERE t = 'p'::regclass;
-- Whole transactions are refused for a feed with an order column.
CREATE INDEX ON b (k);
SELECT feed_create('no', 'b', order_column => 'k', whole_transactions => true);
SELECT reader_next_batch('b', reader_start('b', order_column => 'k'), 1, true);
SELECT feed_seek('b cut', 'here'), feed_drop(name) FROM feeds WHERE name <> 'b cut' ORDER BY name;
DROP TABLE u, b, p, kept;
DROP FUNCTION read;
