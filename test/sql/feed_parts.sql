-- Queries read only partitions that have rows (src/ports/parts.c). No row is lost, whatever the bounds are.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
SET datestyle = 'German';
SET timezone = 'Asia/Kathmandu';
CREATE TYPE letter AS ENUM ('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j');
CREATE TABLE made (name text PRIMARY KEY, kind text, partitioned text, value text, bounds text);
-- The value of a row is computed from r, 0 to 39. Each of ten partitions has four values, from a to b - 1.
INSERT INTO made VALUES
    ('by_day', 'date', 'RANGE (v)', $$date '2024-01-30' + r$$, $$FROM (date '2024-01-30' + <a>) TO (date '2024-01-30' + <b>)$$),
    ('by_time', 'timestamptz', 'RANGE (v)', $$timestamptz '2024-03-30 23:30+00' + r * interval '1 hour'$$,
     $$FROM (timestamptz '2024-03-30 23:30+00' + <a> * interval '1 hour') TO (timestamptz '2024-03-30 23:30+00' + <b> * interval '1 hour')$$),
    ('by_text', 'text', 'RANGE (v)', $$'it''s \ ' || lpad(r::text, 2, '0')$$, $$FROM ('it''s \ ' || lpad(<a>::text, 2, '0')) TO ('it''s \ ' || lpad(<b>::text, 2, '0'))$$),
    ('by_c_text', 'text COLLATE "POSIX"', 'RANGE (v COLLATE "C")', $$'it''s \ ' || chr(r + 60)$$, $$FROM ('it''s \ ' || chr(<a> + 60)) TO ('it''s \ ' || chr(<b> + 60))$$),
    ('by_numeric', 'numeric', 'RANGE (v)', 'r / 7.0', 'FROM (<a> / 7.0) TO (<b> / 7.0)'),
    ('by_uuid', 'uuid', 'RANGE (v)', $$lpad(to_hex(r), 32, '0')::uuid$$, $$FROM (lpad(to_hex(<a>), 32, '0')::uuid) TO (lpad(to_hex(<b>), 32, '0')::uuid)$$),
    ('by_two', 'int', 'RANGE (at, v)', 'r', 'FROM (<a> / 5, <a>) TO (<b> / 5, <b>)'),
    ('by_list', 'varchar', 'LIST (v)', 'CASE WHEN r > 0 THEN chr(r + 64) END', 'IN (<list>)'),
    ('by_enum', 'letter', 'LIST (v)', 'chr(97 + r / 4)::letter', 'IN (chr(97 + <a> / 4)::letter)'),
    ('by_hash', 'int', 'HASH (v)', 'r', 'WITH (MODULUS 10, REMAINDER <i>)'),
    ('by_expression', 'int', 'RANGE (abs(v))', 'r', 'FROM (<a>) TO (<b>)'),
    ('by_int', 'int', 'RANGE (v)', 'r', 'FROM (<a>) TO (<b>)'),
    ('with_default', 'int', 'RANGE (v)', 'r * 3 / 2 - 10', 'FROM (<a>) TO (<b>)'),
    ('with_ends', 'int', 'RANGE (v)', 'r * 3 / 2 - 10', 'FROM (<low>) TO (<high>)');
CREATE FUNCTION of_uuid(name text) RETURNS boolean LANGUAGE sql RETURN length(name) % 2 = 0;
CREATE FUNCTION bounds_of(bounds text, i int) RETURNS text LANGUAGE sql AS $$
    SELECT replace(replace(replace(replace(replace(replace(bounds, '<a>', (4 * i)::text), '<b>', (4 * i + 4)::text), '<i>', i::text),
           '<low>', CASE i WHEN 0 THEN 'MINVALUE' ELSE (4 * i)::text END), '<high>', CASE i WHEN 9 THEN 'MAXVALUE' ELSE (4 * i + 4)::text END),
           '<list>', (SELECT string_agg(CASE j WHEN 0 THEN 'NULL' ELSE quote_literal(chr(j + 64)) END, ', ') FROM generate_series(4 * i, 4 * i + 3) AS j))
$$;
DO $$
DECLARE
    m made;
BEGIN
    FOR m IN SELECT * FROM made ORDER BY name LOOP
        EXECUTE format('CREATE TABLE %1$s (v %2$s, n int, at int, id %3$s) PARTITION BY %4$s; CREATE INDEX ON %1$s (id)', m.name, m.kind,
                       CASE WHEN of_uuid(m.name) THEN 'uuid DEFAULT uuid_xact_nextval()' ELSE 'bigint DEFAULT xact_id()' END, m.partitioned);
        FOR i IN 0 .. CASE m.name WHEN 'by_int' THEN 8 ELSE 9 END LOOP
            EXECUTE format('CREATE TABLE %1$s_%2$s PARTITION OF %1$s FOR VALUES %3$s', m.name, i, bounds_of(m.bounds, i));
        END LOOP;
    END LOOP;
END $$;
CREATE TABLE with_default_rest PARTITION OF with_default DEFAULT;
-- A partition with its own partitions has its columns in a different order.
CREATE TABLE by_int_9 (gone int, id uuid DEFAULT uuid_xact_nextval(), at int, n int, v int) PARTITION BY LIST (at);
ALTER TABLE by_int_9 DROP COLUMN gone;
CREATE TABLE by_int_9_a PARTITION OF by_int_9 FOR VALUES IN (6, NULL);
CREATE TABLE by_int_9_b PARTITION OF by_int_9 DEFAULT;
ALTER TABLE by_int ATTACH PARTITION by_int_9 FOR VALUES FROM (36) TO (40);
SELECT count(feed_create(name, name::regclass)) FROM made;
-- Most transactions have rows in one or two partitions; one transaction has rows in all.
SELECT setseed(0.5);
DO $$
DECLARE
    m made;
    r int;
BEGIN
    FOR i IN 1 .. 24 LOOP
        r := (random() * 1000)::int;
        FOR m IN SELECT * FROM made ORDER BY name LOOP
            EXECUTE format('INSERT INTO %I (v, n, at) SELECT %s, $1 * 100 + j, r / 5 FROM (SELECT j, ($2 + j / 4) %% 40 AS r FROM generate_series(0, $3) AS j) AS s', m.name, m.value)
            USING i, r, CASE WHEN i = 12 THEN 99 ELSE i % 9 END;
        END LOOP;
        COMMIT;
    END LOOP;
END $$;
-- A role without privileges on the partitions reads the table in batches, from a feed and from positions that it keeps.
CREATE ROLE inorder_parts;
GRANT SELECT ON made TO inorder_parts;
DO $$
DECLARE
    m made;
BEGIN
    FOR m IN SELECT * FROM made LOOP
        EXECUTE format('GRANT SELECT ON %I TO inorder_parts', m.name);
        PERFORM feed_grant(m.name, 'inorder_parts');
    END LOOP;
END $$;
CREATE FUNCTION deliver(name text, OUT rows int, OUT lost int, OUT more int) LANGUAGE plpgsql AS $$
DECLARE
    p feed_position := reader_start(name::regclass);
    b feed_batch;
    piece int[];
    got int[] := '{}';
    kept int[] := '{}';
BEGIN
    LOOP
        EXECUTE format('SELECT array_agg(n) FROM feed_read(%L, null::%I, 60, ''postgres'')', name, name) INTO piece;
        got := got || piece;
        b := reader_next_batch(name::regclass, p, 50);
        EXIT WHEN piece IS NULL AND isempty(b.transactions);
        EXECUTE format('SELECT array_agg((e).n) FROM (SELECT reader_batch_rows($1, $2, null::%I) AS e) AS e', name) USING name::regclass, b INTO piece;
        kept := kept || piece;
        p := reader_advance(p, b);
    END LOOP;
    EXECUTE format('SELECT count(*), count(*) FILTER (WHERE n <> ALL ($1) OR n <> ALL ($2)) FROM %I', name) USING got, kept INTO rows, lost;
    more := cardinality(got) + cardinality(kept) - 2 * rows;
END $$;
SET ROLE inorder_parts;
SELECT name, d.* FROM made, deliver(name) AS d ORDER BY name;
RESET ROLE;
-- The condition selects only partitions that have rows of the batch.
DO $$
DECLARE
    m made;
BEGIN
    FOR m IN SELECT * FROM made LOOP
        EXECUTE format('INSERT INTO %I (v, n, at) SELECT %s, -1, r / 5 FROM unnest(ARRAY[17, 39]) AS r', m.name, m.value);
    END LOOP;
END $$;
CREATE FUNCTION condition(name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    p feed_position := reader_start(name::regclass);
    number bigint;
BEGIN
    EXECUTE format('SELECT %s FROM %I WHERE n = -1 LIMIT 1', CASE WHEN of_uuid(name) THEN 'uuid_xact_id(id)' ELSE 'id' END, name) INTO number;
    p.transactions := int8multirange(int8range(0, number));
    RETURN substring(reader_batch_query(name::regclass, reader_next_batch(name::regclass, p)) FROM ' IS NULL AND (.*?) ?(AND )?e.id OPERATOR');
END $$;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT name, condition(name) FROM made ORDER BY name;
COMMIT;
-- Only built-in functions are called, whatever the caller's search_path. The settings of the session do not change.
CREATE SCHEMA inorder_shadow;
CREATE FUNCTION inorder_shadow.le(date, date) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE ''attack''; END';
CREATE OPERATOR inorder_shadow.<= (FUNCTION = inorder_shadow.le, LEFTARG = date, RIGHTARG = date);
CREATE OPERATOR inorder_shadow.>= (FUNCTION = inorder_shadow.le, LEFTARG = date, RIGHTARG = date);
SET search_path = inorder_shadow, pg_catalog, public;
SELECT feed_apply('by_day', 'SELECT n FROM batch');
RESET search_path;
SHOW datestyle;
SHOW timezone;
DROP SCHEMA inorder_shadow CASCADE;
DROP TABLE by_int, by_day, by_time, by_text, by_c_text, by_numeric, by_uuid, by_two, by_list, by_enum, by_hash, by_expression, with_default, with_ends, made CASCADE;
DROP TYPE letter;
DROP FUNCTION deliver, condition, bounds_of, of_uuid;
DROP ROLE inorder_parts;
