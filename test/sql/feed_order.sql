-- A feed with an order column delivers one set of transactions after the other, each in several batches.
\set SHOW_CONTEXT never
CREATE TABLE e (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), seq bigint GENERATED ALWAYS AS IDENTITY, n int);
-- The column must meet these requirements.
SELECT error_of($$SELECT feed_create('o', 'e', order_column => 'none')$$), error_of($$SELECT feed_create('o', 'e', order_column => 'id')$$);
SELECT error_of($$SELECT feed_create('o', 'e', order_column => 'n')$$), error_of($$SELECT reader_start('e', order_column => 'ctid')$$);
SELECT feed_create('o', 'e', order_column => 'seq');
CREATE INDEX part ON e (seq) WHERE seq > 0;
CREATE INDEX second ON e (n, seq);
CREATE INDEX expression ON e ((seq + 0));
CREATE INDEX other ON e USING brin (seq);
SELECT error_of($$SELECT feed_create('o', 'e', order_column => 'seq')$$);
CREATE INDEX good ON e (seq, n);
SELECT feed_create('o', 'e', order_column => 'seq'), feed_create('plain', 'e');
SELECT name, key_column, order_column, position FROM feeds ORDER BY name;
-- A sequence that may return values out of order is refused, and so are several sequences.
CREATE TABLE drawn (xact bigint PRIMARY KEY DEFAULT xact_id(), a bigserial, b bigint NOT NULL, c smallserial, d numeric NOT NULL, e bigint GENERATED ALWAYS AS (1) STORED NOT NULL,
    x bigint NOT NULL);
CREATE INDEX ON drawn (a);
CREATE INDEX ON drawn (b);
CREATE INDEX ON drawn (c);
CREATE INDEX ON drawn (d);
CREATE INDEX ON drawn (e);
SELECT feed_enable('drawn');
CREATE FUNCTION ordered_by(c name) RETURNS text LANGUAGE sql RETURN error_of(format('SELECT feed_create(''d'', ''drawn'', order_column => %L); SELECT feed_drop(''d'')', c));
SELECT c, ordered_by(c) FROM unnest('{a,b,c,d,e,x,xact}'::name[]) AS c;
ALTER SEQUENCE drawn_a_seq CACHE 2;
SELECT ordered_by('a');
ALTER SEQUENCE drawn_a_seq CACHE 1 CYCLE;
SELECT ordered_by('a');
ALTER SEQUENCE drawn_a_seq NO CYCLE INCREMENT BY -1 MINVALUE -9;
SELECT ordered_by('a');
-- Types and operators of the table's owner are refused, because their functions would run as the reader.
CREATE DOMAIN big AS bigint CHECK (value > 0);
CREATE FUNCTION compare(bigint, bigint) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RAISE 'run as %', current_user; END $$;
CREATE OPERATOR CLASS own FOR TYPE bigint USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 compare(bigint, bigint);
ALTER TABLE drawn ADD f big NOT NULL DEFAULT 1, ADD g bigint NOT NULL DEFAULT 1;
CREATE INDEX ON drawn (f);
CREATE INDEX ON drawn (g own);
SELECT ordered_by('f'), ordered_by('g');

-- Batches may have any size, and the sets are read one after another. Rows that are inserted in the meantime belong to the next
-- set.
INSERT INTO e (n) SELECT generate_series(1, 5);
INSERT INTO e (n) SELECT generate_series(6, 10);
SELECT array_agg(seq) FROM feed_read('o', null::e, 3);
INSERT INTO e (seq, n) OVERRIDING SYSTEM VALUE VALUES (0, 0), (4, 11);
SELECT array_agg(seq) FROM feed_peek('o', null::e, 5);
SELECT array_agg(seq) FROM feed_read('o', null::e, 5);
SELECT array_agg(seq) FROM feed_read('o', null::e, 5);
SELECT array_agg(seq) FROM feed_read('o', null::e, 5);
SELECT array_agg(seq) FROM feed_read('o', null::e, 5);
SELECT array_agg(seq) FROM feed_read('plain', null::e);
-- The last batch of a set has exactly max_rows rows: the next call finds no rows.
INSERT INTO e (n) SELECT generate_series(1, 6);
SELECT array_agg(seq) FROM feed_read('o', null::e, 3);
SELECT array_agg(seq) FROM feed_read('o', null::e, 3);
SELECT array_agg(seq) FROM feed_read('o', null::e, 3);
-- Read with feed_apply(), and with a sink outside the database.
INSERT INTO e (n) SELECT generate_series(1, 5);
SELECT feed_apply('o', 'SELECT * FROM batch', 2);
SELECT feed_wait('o', '0'), (feed_take_batch('o', 'w', 2)).number;
SELECT array_agg(seq) FROM feed_batch_rows('o', 1, null::e);
SELECT (feed_take_batch('o', 'w', 1)).number;
SELECT array_agg(seq) FROM feed_batch_rows('o', 1, null::e);
SELECT (SELECT feed_finish_batch('o', 1, token) FROM feed_take_batch('o', 'w')), (feed_take_batch('o', 'w')).number;
SELECT array_agg(seq) FROM feed_batch_rows('o', 2, null::e);
SELECT (SELECT feed_finish_batch('o', 2, token) FROM feed_take_batch('o', 'w')), (feed_take_batch('o', 'w')).number, feed_wait('o', '0');
-- feed_seek() moves the feed to another position.
SELECT feed_seek('o', 'beginning');
SELECT count(*), min(seq), max(seq) FROM feed_read('o', null::e, 10);
SELECT feed_seek('o', 'here');
SELECT array_agg(seq) FROM feed_read('o', null::e, 3);
SELECT feed_seek('o', 'now');
SELECT order_column FROM feeds WHERE name = 'o';
INSERT INTO e (n) VALUES (1);
SELECT array_agg(seq) FROM feed_read('o', null::e, 3);
SELECT feed_seek('o', '{}'::int8multirange);
SELECT array_agg(seq) FROM feed_read('o', null::e, 4);
BEGIN;
SELECT array_agg(seq) FROM feed_read('o', null::e, 2);
ROLLBACK;
SELECT array_agg(seq) FROM feed_read('o', null::e, 2);

-- The reader keeps positions and batches as text or jsonb.
CREATE FUNCTION drained(t regclass, o name, size int, start text DEFAULT 'beginning') RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    p feed_position := reader_start(t, start, o);
    b feed_batch;
    piece bigint[];
    result bigint[] := '{}';
BEGIN
    LOOP
        b := reader_next_batch(t, p::jsonb::feed_position, size);
        EXIT WHEN isempty(b.transactions);
        EXECUTE format('SELECT array_agg(%I) FROM reader_batch_rows($1, $2, null::%s)', o, t) INTO piece USING t, b::text::feed_batch;
        result := result || piece;
        p := reader_advance(p::text::feed_position, b);
    END LOOP;
    RETURN result;
END $$;
SELECT size, drained('e', 'seq', size) = (SELECT array_agg(seq ORDER BY seq) FROM e) FROM unnest('{1,2,3,7,1000,null}'::int[]) AS size;
SELECT reader_wait('e', reader_start('e', 'beginning', 'seq'), '0'), reader_wait('e', reader_start('e', 'now', 'seq'), '0');
-- Batches that do not follow the position, and forged positions and batches, are refused.
CREATE TABLE kept AS SELECT reader_start('e', 'beginning', 'seq') AS p;
ALTER TABLE kept ADD b feed_batch;
UPDATE kept SET b = reader_next_batch('e', p, 3);
UPDATE kept SET p = reader_advance(p, b);
SELECT split_part(error_of('SELECT reader_advance(p, b) FROM kept'), E'\n', 1);
SELECT error_of(format('SELECT reader_next_batch(''e'', ROW(1, (p).transactions, NULL, NULL, %L::feed_order, (p).members, (p).origin)::feed_position, 2) FROM kept', forged))
FROM unnest(ARRAY['(seq,,,,,,)', '(,2,,,,,)', '("",2,,,,,)', '(seq,2,{},,1,1,)', '(seq,2,"{[1,9)}",,1,,)', '(seq,2,,,1,1,)', '(seq,2,,5,,,)', '(seq,2,,,,,5)', '(n,3,,,,,)',
                  '(seq,3,,,,,)', '(none,0,,,,,)', '(none,-1,,,,,)', '("seq ) OR (true",2,,,,,)', '(ctid,-1,,,,,)']) AS forged;
SELECT error_of('SELECT reader_next_batch(''e'', ROW(1, ''{[0,9)}'', NULL, NULL, ROW(''seq'', 2, ''{[3,5)}'', NULL, 1, 1, NULL)::feed_order, (p).members, (p).origin)::feed_position) FROM kept');
SELECT regexp_replace(error_of(format('SELECT reader_next_batch(''e'', ROW(1, ''{}'', %s, (p).ordering, (p).members, (p).origin)::feed_position) FROM kept', forged)), '\d{3,}', 'N', 'g')
FROM unnest(ARRAY['5, ''{x}''', '5, NULL', 'NULL, ''{x}''']) AS forged;
SELECT error_of(format('SELECT reader_batch_rows(''e'', ROW(1, (b).transactions, NULL, NULL, NULL, NULL, %L::feed_order, (b).members, (b).origin)::feed_batch, null::e) FROM kept', forged))
FROM unnest(ARRAY['(seq,3,,,,,)', '(none,0,,,,,)', '("seq ) OR (true",2,,,,,)']) AS forged;
DROP TABLE kept;
-- Forged positions cannot be stored either.
SELECT split_part(error_of(format($$UPDATE inorder_internal.feed_state SET position.ordering = %L WHERE feed = (SELECT id FROM inorder_internal.feed WHERE name = 'o')$$, forged)), E'\n', 1)
FROM unnest(ARRAY['(seq,,,,,,)', '(seq,2,,,1,,)', '(seq,2,"{[1,9)}",,1,,)', '(seq,2,"{[0,9)}",,,1,)', '(seq,2,{},,1,1,)', '(seq,-2,,,,,)', '(seq,2,"{[3,999999999999999)}",,1,1,)']) AS forged;

-- Read all forms of the number, partitions, a column with an odd name, and equal values.
CREATE TABLE f_number (id int GENERATED ALWAYS AS IDENTITY, "o""d %I $1" int NOT NULL, xact bigint NOT NULL DEFAULT xact_id());
CREATE INDEX ON f_number (xact);
CREATE TABLE f_partial (LIKE f_number INCLUDING ALL EXCLUDING INDEXES);
CREATE INDEX ON f_partial (xact) WHERE xact > 0;
CREATE TABLE f_generated (id int GENERATED ALWAYS AS IDENTITY, "o""d %I $1" smallint NOT NULL, xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED);
CREATE INDEX ON f_generated (xact);
CREATE TABLE f_uuid (id uuid DEFAULT uuid_xact_nextval(), "o""d %I $1" bigint NOT NULL);
CREATE INDEX ON f_uuid (id);
CREATE TABLE f_parts (id uuid DEFAULT uuid_xact_nextval(), "o""d %I $1" bigint NOT NULL) PARTITION BY HASH (id);
CREATE TABLE f_parts_0 PARTITION OF f_parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE f_parts_1 (x int, "o""d %I $1" bigint NOT NULL, id uuid DEFAULT uuid_xact_nextval());
ALTER TABLE f_parts_1 DROP x;
ALTER TABLE f_parts ATTACH PARTITION f_parts_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE INDEX ON f_parts (id);
CREATE FUNCTION sizes(t regclass) RETURNS TABLE (size int, pieces bigint, right_order boolean, all_rows boolean) LANGUAGE plpgsql AS $$
DECLARE
    expected bigint[];
    got int;
BEGIN
    EXECUTE format('SELECT array_agg("o""d %%I $1" ORDER BY "o""d %%I $1") FROM %s', t) INTO expected;
    FOREACH size IN ARRAY '{7,35,null}'::int[] LOOP
        right_order := drained(t, 'o"d %I $1', size) = expected;
        PERFORM feed_create('f', t, 'beginning', order_column => 'o"d %I $1');
        EXECUTE format('CREATE TEMP TABLE seen AS SELECT 0 AS piece, * FROM %s LIMIT 0', t);
        pieces := 0;
        LOOP
            EXECUTE format('INSERT INTO seen SELECT $2, * FROM feed_read(''f'', null::%s, $1)', t) USING size, pieces;
            GET DIAGNOSTICS got = ROW_COUNT;
            EXIT WHEN got = 0;
            pieces := pieces + 1;
        END LOOP;
        EXECUTE format('SELECT count(*) = (SELECT count(*) FROM %s) AND count(*) = count(DISTINCT id) FROM seen', t) INTO all_rows;
        PERFORM feed_drop('f');
        DROP TABLE seen;
        RETURN NEXT;
    END LOOP;
END $$;
DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY '{f_number,f_partial,f_generated,f_uuid,f_parts}'::text[] LOOP
        EXECUTE format('CREATE INDEX ON %I ("o""d %%I $1")', t);
        PERFORM feed_enable(t::regclass);
        FOR i IN 1 .. 12 LOOP
            EXECUTE format('INSERT INTO %I ("o""d %%I $1") SELECT (g * 7 + $1) %% 40 FROM generate_series(1, 5) AS g', t) USING i;
            COMMIT;
        END LOOP;
    END LOOP;
END $$;
SELECT t, s.* FROM unnest('{f_number,f_partial,f_generated,f_uuid,f_parts}'::text[]) AS t, sizes(t::regclass) AS s;
-- Read sets with gaps, which have few or many ranges: the rows of every n-th transaction are read.
DO $$
DECLARE
    t text;
    numbers int8multirange;
    o text;
    expected bigint;
    got bigint;
    size int;
    amount int;
BEGIN
    FOREACH t IN ARRAY '{f_number,f_partial,f_generated,f_uuid,f_parts}'::text[] LOOP
        PERFORM feed_create('g', t::regclass, order_column => 'o"d %I $1');
        FOREACH amount IN ARRAY '{2,11}'::int[] LOOP
            FOREACH size IN ARRAY '{7,1000}'::int[] LOOP
                EXECUTE format('SELECT range_agg(int8range(n, n + 1)) FROM (SELECT DISTINCT %s AS n FROM %I) AS e WHERE n %% $1 = 0',
                               CASE WHEN t IN ('f_uuid', 'f_parts') THEN 'uuid_xact_id(id)' ELSE 'xact' END, t) INTO numbers USING amount;
                EXECUTE format('SELECT count(*) FROM %I WHERE NOT %s <@ $1', t,
                               CASE WHEN t IN ('f_uuid', 'f_parts') THEN 'uuid_xact_id(id)' ELSE 'xact' END) INTO expected USING numbers;
                PERFORM feed_seek('g', numbers);
                got := 0;
                LOOP
                    EXECUTE format('SELECT count(*) + $1 FROM feed_read(''g'', null::%I, $2)', t) INTO o USING got, size;
                    EXIT WHEN o::bigint = got;
                    got := o;
                END LOOP;
                IF got <> expected THEN
                    RAISE '% of % by %: % rows, not %', amount, t, size, got, expected;
                END IF;
            END LOOP;
        END LOOP;
        PERFORM feed_drop('g');
    END LOOP;
END $$;

-- The column changes between two batches.
SELECT feed_seek('o', 'beginning');
SELECT array_agg(seq) FROM feed_read('o', null::e, 3);
ALTER TABLE e RENAME seq TO was;
SELECT error_of($$SELECT feed_read('o', null::e, 3)$$), error_of($$SELECT (feed_take_batch('o', 'w')).number$$), error_of($$SELECT feed_peek('o', null::e)$$),
    error_of($$SELECT feed_apply('o', 'SELECT 1 FROM batch')$$), error_of($$SELECT feed_wait('o')$$);
ALTER TABLE e RENAME n TO seq;
SELECT error_of($$SELECT feed_read('o', null::e, 3)$$);
SELECT feed_seek('o', 'here');
SELECT error_of($$SELECT feed_read('o', null::e, 3)$$);
ALTER TABLE e RENAME seq TO n;
ALTER TABLE e RENAME was TO seq;
SELECT array_agg(seq) FROM feed_read('o', null::e, 3);
ALTER TABLE e ALTER seq SET CACHE 10;
SELECT error_of($$SELECT feed_read('o', null::e, 3)$$);
ALTER TABLE e ALTER seq SET CACHE 1;
ALTER TABLE e ALTER seq DROP IDENTITY;
ALTER TABLE e ALTER seq DROP NOT NULL;
SELECT error_of($$SELECT feed_read('o', null::e, 3)$$);
ALTER TABLE e ALTER seq SET NOT NULL;
ALTER TABLE e ALTER seq TYPE numeric;
SELECT error_of($$SELECT feed_read('o', null::e, 3)$$);
ALTER TABLE e ALTER seq TYPE int;
SELECT array_agg(seq) FROM feed_read('o', null::e, 3);
DROP INDEX good;
SELECT error_of($$SELECT feed_read('o', null::e, 3)$$);
CREATE INDEX good ON e (seq);
-- A worker reads the batch that it was given, or gets an error.
SELECT (feed_take_batch('o', 'w', 2)).number;
ALTER TABLE e RENAME seq TO was;
SELECT error_of($$SELECT feed_batch_rows('o', 3, null::e)$$);
ALTER TABLE e RENAME was TO seq;
SELECT array_agg(seq) FROM feed_batch_rows('o', 3, null::e);
SELECT feed_finish_batch('o', 3, token) FROM feed_take_batch('o', 'w');
-- Drop the column, and create it again under the same name, between two sets and inside a set.
SELECT count(*) FROM feed_read('o', null::e);
ALTER TABLE e DROP seq;
SELECT error_of($$SELECT feed_read('o', null::e, 3)$$);
INSERT INTO e (n) VALUES (1), (2);
SELECT error_of($$SELECT feed_read('o', null::e, 3)$$);
ALTER TABLE e ADD seq bigint NOT NULL GENERATED ALWAYS AS IDENTITY;
CREATE INDEX ON e (seq);
SELECT error_of($$SELECT feed_read('o', null::e, 3)$$);
SELECT feed_seek('o', 'here');
SELECT count(*) FROM feed_read('o', null::e, 1);
ALTER TABLE e DROP seq, ADD seq bigint NOT NULL GENERATED ALWAYS AS IDENTITY;
CREATE INDEX ON e (seq);
SELECT feed_seek('o', 'here');
SELECT error_of($$SELECT feed_read('o', null::e, 1)$$);
SELECT feed_seek('o', 'beginning');
SELECT drained('e', 'seq', 4) = array_agg(seq) FROM feed_read('o', null::e);

-- The remaining rows of a set are dropped with their partition: the feed continues with the next set.
CREATE TABLE p (id uuid DEFAULT uuid_xact_nextval(), seq bigint NOT NULL, k int) PARTITION BY LIST (k);
CREATE TABLE p_1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE p_2 PARTITION OF p FOR VALUES IN (2);
CREATE INDEX ON p (id);
CREATE INDEX ON p (seq);
SELECT feed_create('r', 'p', order_column => 'seq'), feed_create('r2', 'p', order_column => 'seq'), feed_create('r3', 'p', order_column => 'seq'), feed_create('r4', 'p', order_column => 'seq');
INSERT INTO p (seq, k) VALUES (1, 1), (2, 1), (3, 2), (4, 2);
SELECT array_agg(seq) FROM feed_read('r', null::p, 2);
SELECT array_agg(seq) FROM feed_read('r2', null::p, 2);
SELECT array_agg(seq) FROM feed_read('r3', null::p, 2);
SELECT array_agg(seq) FROM feed_read('r4', null::p, 2);
DROP TABLE p_2;
SELECT feed_wait('r', '0');
SELECT array_agg(seq) FROM feed_peek('r', null::p);
-- A poll that finds no rows moves the position to the end of the set, if the poll is recorded.
SELECT (position).ordering.frozen IS NOT NULL AS in_set FROM inorder_internal.feed_state WHERE feed = (SELECT id FROM inorder_internal.feed WHERE name = 'r4');
SELECT array_agg(seq) FROM feed_read('r4', null::p);
SELECT (position).ordering.frozen IS NOT NULL AS in_set FROM inorder_internal.feed_state WHERE feed = (SELECT id FROM inorder_internal.feed WHERE name = 'r4');
INSERT INTO p (seq, k) VALUES (5, 1), (6, 1);
SELECT feed_wait('r', '0');
SELECT array_agg(seq) FROM feed_peek('r', null::p, 1);
SELECT array_agg(seq) FROM feed_read('r', null::p, 1);
SELECT array_agg(seq) FROM feed_read('r', null::p, 1);
SELECT array_agg(seq) FROM feed_read('r', null::p, 1);
SELECT (feed_take_batch('r2', 'w', 1)).number;
SELECT array_agg(seq) FROM feed_batch_rows('r2', 1, null::p);
SELECT feed_finish_batch('r2', 1, token) FROM feed_take_batch('r2', 'w');
SELECT feed_apply('r3', 'SELECT seq FROM batch');
-- Each partition draws values from its own sequence.
CREATE SEQUENCE one;
CREATE SEQUENCE two;
ALTER TABLE p ALTER seq SET DEFAULT nextval('one');
ALTER TABLE p_1 ALTER seq SET DEFAULT nextval('one');
INSERT INTO p (k) VALUES (1);
SELECT array_agg(seq) FROM feed_read('r', null::p);
ALTER TABLE p_1 ALTER seq SET DEFAULT nextval('two');
INSERT INTO p (k) VALUES (1);
SELECT error_of($$SELECT feed_read('r', null::p)$$);
ALTER TABLE p_1 ALTER seq SET DEFAULT nextval('one');
CREATE TABLE p_3 (id uuid DEFAULT uuid_xact_nextval(), seq bigint NOT NULL, k int);
ALTER TABLE p ATTACH PARTITION p_3 FOR VALUES IN (3);
SELECT array_agg(seq) FROM feed_read('r', null::p);
-- Attach a partition with rows of the set that is read in part.
INSERT INTO p (k) VALUES (1), (1), (1);
SELECT array_agg(seq) FROM feed_read('r', null::p, 1);
CREATE TABLE p_4 (id uuid DEFAULT uuid_xact_nextval(), seq bigint NOT NULL, k int);
INSERT INTO p_4 SELECT id, seq, 4 FROM p ORDER BY id DESC LIMIT 1;
CREATE INDEX ON p_4 (seq);
ALTER TABLE p ATTACH PARTITION p_4 FOR VALUES IN (4);
SELECT error_of($$SELECT feed_read('r', null::p, 1)$$);
SELECT feed_seek('r', 'here');
SELECT array_agg(seq) FROM feed_read('r', null::p);
DROP TABLE e, drawn, f_number, f_partial, f_generated, f_uuid, f_parts, p;
