-- reader_batch_between() and reader_split() return batches for parallel readers. Test positions and batches as jsonb,
-- too.
\set SHOW_CONTEXT never
CREATE TABLE a (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
CREATE TABLE b (xact bigint NOT NULL DEFAULT xact_id(), n int PRIMARY KEY);
CREATE INDEX ON b (xact);
CREATE TABLE c (xact bigint NOT NULL DEFAULT xact_id(), n int PRIMARY KEY);
CREATE INDEX ON c (xact) WHERE xact > 0;
CREATE TABLE d (id uuid DEFAULT uuid_xact_nextval(), n int) PARTITION BY RANGE (n);
CREATE INDEX ON d (id);
CREATE TABLE d1 PARTITION OF d FOR VALUES FROM (0) TO (30);
CREATE TABLE d2 PARTITION OF d DEFAULT;
SELECT feed_enable(t) FROM unnest('{a,b,c,d}'::regclass[]) AS t;
-- Mask the numbers in a string, and remove additional ranges, which are caused by open transactions of other sessions.
CREATE FUNCTION masked(text) RETURNS text LANGUAGE sql RETURN regexp_replace(regexp_replace($1, '[0-9a-f]{8}-[0-9a-f-]+|[0-9]{3,}', '#', 'g'), '(,\[#,#\))+', '', 'g');
-- Sixty transactions with one row each, and one transaction with 300 rows in the middle.
CREATE PROCEDURE fill(relation regclass) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..60 LOOP
        EXECUTE format('INSERT INTO %s (n) SELECT $1 + g FROM generate_series(0, $2) AS g', relation)
            USING CASE WHEN i = 20 THEN 1000 ELSE i END, CASE WHEN i = 20 THEN 299 ELSE 0 END;
        COMMIT;
    END LOOP;
END $$;
CALL fill('a'); CALL fill('b'); CALL fill('c'); CALL fill('d');
-- These functions return the number of rows of each part, and whether the parts have each row of the batch exactly
-- once.
CREATE FUNCTION rows_of(relation regclass, batch feed_batch) RETURNS SETOF int LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE format('SELECT n FROM reader_batch_rows(%L, $1, null::%1$s)', relation) USING batch;
END $$;
CREATE FUNCTION part_sizes(relation regclass, batch feed_batch, parts int, OUT sizes int[], OUT same boolean) LANGUAGE plpgsql AS $$
DECLARE
    part feed_batch;
    got int[];
    every int[] := '{}';
BEGIN
    FOR part IN SELECT (p).* FROM reader_split(relation, batch, parts) AS p LOOP
        got := ARRAY(SELECT rows_of(relation, part));
        sizes := sizes || cardinality(got);
        every := every || got;
    END LOOP;
    same := every = ARRAY(SELECT rows_of(relation, batch));
END $$;
SELECT t, parts, s.* FROM unnest('{a,b,c,d}'::regclass[]) AS t, reader_next_batch(t, reader_start(t)) AS batch, unnest('{1,2,4,9}'::int[]) AS parts, part_sizes(t, batch, parts) AS s;
-- Batches from any position to any later position, inside the large transaction and at its ends.
CREATE TABLE steps (t regclass, i int, p feed_position, PRIMARY KEY (t, i));
INSERT INTO steps SELECT t, 0, reader_start(t) FROM unnest('{a,b,c}'::regclass[]) AS t;
DO $$
DECLARE
    limits int[] := '{10,50,100,189,1,20}';
BEGIN
    FOR step IN 0..5 LOOP
        INSERT INTO steps SELECT s.t, s.i + 1, reader_advance(s.p, reader_next_batch(s.t, s.p, limits[s.i + 1])) FROM steps AS s WHERE s.i = step;
    END LOOP;
END $$;
SELECT t, count(*), bool_and(p = reader_advance(q, reader_batch_between(q, p))) AS leads_there
FROM (SELECT f.t, f.p AS q, s.p FROM steps AS f JOIN steps AS s ON s.t = f.t AND s.i >= f.i) AS pairs GROUP BY t ORDER BY t;
SELECT f.t, f.i AS "from", s.i AS "to", z.* FROM steps AS f JOIN steps AS s ON s.t = f.t AND s.i > f.i, reader_batch_between(f.p, s.p) AS batch, part_sizes(f.t, batch, 3) AS z
WHERE f.t = 'a'::regclass ORDER BY 1, 2, 3;
SELECT f.t, count(*), bool_and(z.same) AS same, max(cardinality(z.sizes)) AS parts FROM steps AS f JOIN steps AS s ON s.t = f.t AND s.i > f.i AND f.t <> 'a'::regclass, reader_batch_between(f.p, s.p) AS batch, part_sizes(f.t, batch, 5) AS z GROUP BY f.t ORDER BY f.t;
-- More parts than rows, an empty batch, and rows that no key distinguishes.
SELECT z.* FROM steps AS f JOIN steps AS s ON s.t = f.t AND s.i = f.i + 2, reader_batch_between(f.p, s.p) AS batch, part_sizes(f.t, batch, 10000) AS z WHERE f.t = 'a'::regclass AND f.i = 4;
SELECT s.* FROM steps AS f, reader_batch_between(f.p, f.p) AS batch, part_sizes(f.t, batch, 3) AS s WHERE f.t = 'a'::regclass AND f.i = 2;
SELECT isempty((batch).transactions) AS none, z.* FROM reader_start('a') AS f, reader_next_batch('a', f, 30) AS first, reader_advance(f, first) AS inside, LATERAL (SELECT ROW(1, '{}', (inside).partial, (inside).last_key, (inside).partial, (inside).last_key, NULL, (inside).members, (inside).origin)::feed_batch AS batch OFFSET 0) AS n, part_sizes('a', batch, 3) AS z;
-- A key column with a name of 63 bytes, and a key column with the name of a column of the query.
SELECT repeat('本', 21) AS odd \gset
CREATE TABLE long (n serial PRIMARY KEY, :"odd" bigint NOT NULL DEFAULT xact_id());
CREATE TABLE placed (n serial PRIMARY KEY, place bigint NOT NULL DEFAULT xact_id());
CREATE INDEX ON long (:"odd") WHERE :"odd" > 0;
CREATE INDEX ON placed (place) WHERE place > 0;
SELECT feed_enable('long', :'odd'), feed_enable('placed', 'place');
INSERT INTO long SELECT FROM generate_series(1, 300);
INSERT INTO long SELECT FROM generate_series(1, 300);
INSERT INTO placed (n) SELECT generate_series(1, 300);
INSERT INTO placed (n) SELECT generate_series(301, 600);
SELECT t, s.* FROM unnest('{long,placed}'::regclass[]) AS t, reader_next_batch(t, reader_start(t)) AS batch, part_sizes(t, batch, 2) AS s;
-- A batch whose rows are not in the order of their numbers: it ends inside a transaction that ended late, after
-- transactions with higher numbers.
SELECT (f).transactions IS NOT NULL AS made FROM (SELECT reader_batch_between(ROW(1, '{[0,5)}', 9, '{1}', NULL, NULL, NULL)::feed_position, ROW(1, '{[0,5),[6,20)}', 5, '{7}', NULL, NULL, NULL)::feed_position) AS f) AS b;
-- With an order column, a batch begins inside a set, and ends in the same set or in a later one.
CREATE TABLE e (xact bigint NOT NULL DEFAULT xact_id(), seq bigint PRIMARY KEY);
CREATE INDEX ON e (xact);
SELECT feed_enable('e');
INSERT INTO steps VALUES ('e', 0, reader_start('e', order_column => 'seq'));
INSERT INTO e (seq) SELECT generate_series(1, 10);
INSERT INTO steps SELECT t, 1, reader_advance(p, reader_next_batch(t, p, 4)) FROM steps WHERE (t, i) = ('e'::regclass, 0);
INSERT INTO steps SELECT t, 2, reader_advance(p, reader_next_batch(t, p, 4)) FROM steps WHERE (t, i) = ('e'::regclass, 1);
INSERT INTO steps SELECT t, 3, reader_advance(p, reader_next_batch(t, p)) FROM steps WHERE (t, i) = ('e'::regclass, 2);
INSERT INTO e (seq) VALUES (0), (20);
INSERT INTO steps SELECT t, 4, reader_advance(p, reader_next_batch(t, p)) FROM steps WHERE (t, i) = ('e'::regclass, 3);
SELECT f.i AS "from", s.i AS "to", array(SELECT seq FROM reader_batch_rows('e', reader_batch_between(f.p, s.p), null::e)) AS rows
FROM steps AS f JOIN steps AS s ON s.t = f.t AND s.i > f.i AND (f.i, s.i) NOT IN ((1, 4), (2, 4)) WHERE f.t = 'e'::regclass ORDER BY 1, 2;
CREATE FUNCTION batch_from(t regclass, i int, j int) RETURNS feed_batch LANGUAGE sql AS 'SELECT reader_batch_between(f.p, s.p) FROM steps AS f JOIN steps AS s ON s.t = f.t WHERE f.t = $1 AND (f.i, s.i) = ($2, $3)';
SELECT left(s, 5) || left(masked(substr(s, 6)), 110) AS error FROM (SELECT error_of(s) AS s FROM unnest(ARRAY[
    'SELECT batch_from(''e'', 1, 4)', 'SELECT batch_from(''e'', 2, 1)', 'SELECT batch_from(''e'', 4, 3)', 'SELECT batch_from(''a'', 3, 2)', 'SELECT batch_from(''a'', 6, 0)',
    'SELECT reader_batch_between(NULL, NULL)',
    'SELECT reader_batch_between(f.p, s.p) FROM steps AS f, steps AS s WHERE f.t = ''b''::regclass AND f.i = 3 AND s.t = ''a''::regclass AND s.i = 3',
    'SELECT reader_split(''e'', batch_from(''e'', 0, 3), 2)',
    'SELECT reader_split(''a'', batch_from(''a'', 0, 3), 0)', 'SELECT reader_split(''a'', batch_from(''a'', 0, 3), 10001)', 'SELECT reader_split(''a'', batch_from(''a'', 0, 3), NULL)', 'SELECT reader_split(''a'', NULL, 1)',
    'SELECT reader_split(''a'', batch_from(''b'', 0, 3), 1)', 'SELECT reader_split(''pg_class'', batch_from(''b'', 0, 3), 1)',
    'SELECT reader_split(''a'', ROW(1, ''{[3,9)}'', 1, ''{}'', NULL, NULL, NULL, NULL, NULL)::feed_batch, 2)',
    'SELECT reader_split(''a'', ROW(1, ''{[3,9)}'', 4, ''{x}'', 4, ''{y}'', NULL, NULL, NULL)::feed_batch, 2)']) AS s) AS s;
-- A position or batch and its jsonb have the same text, and convert to each other.
SELECT t, bool_and(p::text = p::jsonb::text AND p::text::feed_position = p AND p::jsonb::feed_position = p AND p::jsonb = to_jsonb(p)) AS same FROM steps GROUP BY t ORDER BY t;
SELECT bool_and(b::text = b::jsonb::text AND b::text::feed_batch = b AND b::jsonb::feed_batch = b AND b::jsonb = to_jsonb(b)) AS same FROM steps, reader_next_batch(t, p, 7) AS b;
CREATE TABLE sets (numbers int8multirange);
INSERT INTO sets VALUES (NULL), ('{}'), ('{[0,1)}'), ('{[1,2),[3,9),[11,12)}'), ('{[-5,3),[4,5)}'), ('{(,5)}'), ('{[5,)}'), ('{(,)}'), ('{(,3),[7,)}'),
    ('{[999999999999999998,999999999999999999)}'), ('{[-9223372036854775808,9223372036854775807)}');
INSERT INTO sets SELECT range_agg(int8range(7 * n, 7 * n + 1 + n % 6)) FROM generate_series(1, 1000) AS n;
SELECT count(*), bool_and(p::text::feed_position IS NOT DISTINCT FROM p AND p::jsonb = to_jsonb(p) AND p::jsonb::feed_position IS NOT DISTINCT FROM p) AS same
FROM sets, LATERAL (VALUES (ROW(1, numbers, NULL, NULL, NULL, NULL, NULL)::feed_position), (ROW(1, numbers, 7, ARRAY['a "b"', NULL, '{[1,2)}'], NULL, NULL, '1/2')::feed_position),
                           (ROW(1, '{}', NULL, NULL, ROW('s', 2, numbers, NULL, 5, 9, NULL)::feed_order, NULL, NULL)::feed_position),
                           (ROW(1, numbers, NULL, NULL, NULL, ARRAY[ROW(1, 'a "q" \ (', 's', '{1}', NULL, '{x}')::feed_member], '')::feed_position)) AS v(p);
-- A set is parsed as the input function of its type parses it.
CREATE FUNCTION read_as(way text, written text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    numbers int8multirange;
BEGIN
    EXECUTE format(way, written) INTO numbers;
    RETURN numbers::text;
EXCEPTION WHEN data_exception THEN
    RETURN SQLSTATE;
END $$;
SELECT n AS written, read_as('SELECT (jsonb_build_object(''transactions'', %L)::feed_position).transactions', n) AS read, read_as('SELECT %L::int8multirange', n) AS by_the_server
FROM unnest(ARRAY['{[1,2),[3,9)}', '{[1,3),[5,6]}', '{[5,9),[1,6)}', '{[1,2),[2,3)}', '{[1,2),[1,2)}', '{[2,2),[3,4)}', '{[3,2)}', '{ [1,2) }', '{}', '{[1,2),}', '{[1,2)', '{[01,2),[3,4)}',
                  '{[1,-2)}', '{[+1,2)}', '{[1234567890123456789,9223372036854775807)}', '{[1,9223372036854775808)}', '', '{', '{[1,2)} ', '{[1,2)}x']) AS n;
DROP TABLE sets;
DROP FUNCTION read_as;
SELECT ROW(1, '{[1,3),[5,8)}', 9, '{"a b"}', NULL, NULL, '1/2')::feed_position::jsonb, NULL::feed_batch::jsonb;
SELECT left(s, 5) || left(masked(substr(s, 6)), 110) AS error FROM (SELECT error_of(s) AS s FROM unnest(ARRAY[
    'SELECT ''[]''::jsonb::feed_position', 'SELECT ''{}''::jsonb::feed_batch', 'SELECT ''1''::jsonb::feed_batch',
    'SELECT (reader_start(''a'')::jsonb || ''{"partial": "x"}'')::feed_position', 'SELECT (reader_start(''a'')::jsonb || ''{"more": 1}'')::feed_position',
    'SELECT (reader_start(''a'')::jsonb - ''members'')::feed_position', 'SELECT reader_start(''a'')::jsonb::feed_batch',
    'SELECT (reader_start(''a'')::jsonb || ''{"transactions": "{[1,"}'')::feed_position', 'SELECT (reader_start(''a'')::jsonb || ''{"format": 2, "more": 1}'')::feed_position',
    'SELECT (reader_start(''a'')::jsonb || ''{"format": 2}'')::feed_position', 'SELECT (reader_start(''a'')::jsonb || ''{"format": 0}'')::feed_position',
    'SELECT (jsonb_set(reader_start(''a'')::jsonb, ''{members,0,more}'', ''1''))::feed_position', 'SELECT (reader_start(''a'')::jsonb || ''{"ordering": {"more": 1}}'')::feed_position',
    'SELECT ((reader_start(''a'')::jsonb - ''format'')::feed_position).format', 'SELECT ''("{}",,,,,,)''::text::feed_position']) AS s) AS s;
SELECT 'null'::jsonb::feed_position;
SELECT b::jsonb::feed_batch = b AS same, p::jsonb::feed_position = p AS same FROM steps, reader_next_batch(t, p) AS b WHERE (t, i) = ('a'::regclass, 1);
DROP TABLE a, b, c, d, e, long, placed, steps;
DROP PROCEDURE fill; DROP FUNCTION rows_of, part_sizes, batch_from, masked;
