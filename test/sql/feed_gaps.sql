-- Positions with many gaps are sets of a hundred ranges. Few of these transactions have rows in the table.
SET client_min_messages = warning;
CREATE TABLE byuuid (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
CREATE TABLE bybtree (n int PRIMARY KEY, xact bigint DEFAULT xact_id());
CREATE INDEX ON bybtree (xact, n);
CREATE TABLE bypart (n int PRIMARY KEY, xact bigint DEFAULT xact_id());
CREATE INDEX ON bypart (xact) WHERE xact > 0;
-- This table has the transactions of the loop below, in order. Other transactions may have numbers in between.
CREATE TABLE drawn (n int PRIMARY KEY, number bigint);
CREATE TABLE byparts (n int, xact bigint DEFAULT xact_id(), PRIMARY KEY (n, xact)) PARTITION BY HASH (n);
CREATE INDEX ON byparts (xact, n);
SELECT format('CREATE TABLE byparts_%s PARTITION OF byparts FOR VALUES WITH (MODULUS 5, REMAINDER %1$s)', i) FROM generate_series(0, 4) AS i \gexec
SELECT count(feed_create('of ' || t, t::regclass)) FROM unnest('{byuuid,bybtree,bypart,byparts}'::text[]) AS t;
SELECT inorder_internal.next_transaction(0) AS first \gset
-- 240 transactions: every third has 1, 2 or 40 rows; every fifth rolls back.
DO $$
DECLARE
    t text;
    numbers bigint[];
BEGIN
    FOR i IN 1 .. 240 LOOP
        numbers := numbers || xact_id();
        IF i % 3 = 0 THEN
            FOREACH t IN ARRAY '{byuuid,bybtree,bypart,byparts}'::text[] LOOP
                EXECUTE format('INSERT INTO %I (n) SELECT 100 * $1 + j FROM generate_series(1, $2) AS j', t)
                USING i, CASE WHEN i % 90 = 0 THEN 40 ELSE 1 + i % 2 END;
            END LOOP;
        END IF;
        IF i % 5 = 1 THEN ROLLBACK; ELSE COMMIT; END IF;
    END LOOP;
    INSERT INTO drawn SELECT place - 1, number FROM unnest(numbers) WITH ORDINALITY AS u(number, place);
END $$;
-- Return the rows, in order, that a reader must get after a position with these transactions.
CREATE FUNCTION wanted(passed int8multirange) RETURNS int[] LANGUAGE sql
RETURN ARRAY(SELECT n FROM bybtree WHERE NOT passed @> xact ORDER BY xact, n);
CREATE FUNCTION is_delivered(of_table regclass, passed int8multirange, max_rows int) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    piece int[];
    found int[] := '{}';
    feed text := 'of ' || of_table;
    p feed_position;
    b feed_batch;
    kept int[] := '{}';
BEGIN
    PERFORM feed_seek(feed, passed);
    p := ROW(1, passed, NULL, NULL, NULL, (reader_start(of_table)).members, inorder_internal.server_origin());
    LOOP
        EXECUTE format('SELECT array_agg(r.n ORDER BY place) FROM feed_read($1, null::%s, $2) WITH ORDINALITY AS r(%s, place)', of_table,
                       CASE of_table WHEN 'byuuid'::regclass THEN 'id, n' ELSE 'n, xact' END) USING feed, max_rows INTO piece;
        EXIT WHEN piece IS NULL;
        IF cardinality(piece) > max_rows THEN RAISE 'a piece of % rows', cardinality(piece); END IF;
        found := found || piece;
        b := reader_next_batch(of_table, p, max_rows);
        EXECUTE format('SELECT array_agg(r.n ORDER BY place) FROM reader_batch_rows($1, $2, null::%s) WITH ORDINALITY AS r(%s, place)', of_table,
                       CASE of_table WHEN 'byuuid'::regclass THEN 'id, n' ELSE 'n, xact' END) USING of_table, b INTO piece;
        p := reader_advance(p, b);
        kept := kept || piece;
    END LOOP;
    RETURN found = wanted(passed) AND kept = found;
END $$;
WITH sets AS (
    SELECT label, int8multirange(int8range(0, :first)) + range_agg(int8range(number, number + 1)) FILTER (WHERE passed) AS passed
    FROM (SELECT 'every second', n, n % 2 = 0 FROM generate_series(0, 239) AS n
          UNION ALL SELECT 'one of seven', n, n % 7 = 0 FROM generate_series(0, 239) AS n
          UNION ALL SELECT 'six of seven', n, n % 7 > 0 FROM generate_series(0, 239) AS n
          UNION ALL SELECT 'all with rows', n, n % 3 < 2 FROM generate_series(0, 239) AS n
          UNION ALL SELECT 'none with rows', n, n % 3 = 2 FROM generate_series(0, 239) AS n) AS s(label, n, passed) JOIN drawn USING (n)
    GROUP BY label
)
SELECT label, array_agg(t || ' by ' || max_rows ORDER BY t, max_rows) FILTER (WHERE NOT is_delivered(t::regclass, passed, max_rows)) AS differs,
       cardinality(wanted(passed)) AS rows
FROM sets, (VALUES ('byuuid', 30), ('bybtree', 23), ('bybtree', 100000), ('bypart', 100), ('byparts', 30), ('byparts', 100000)) AS read (t, max_rows)
GROUP BY label, passed ORDER BY label;
-- A transaction is read in part, and the position has gaps above it.
SELECT feed_seek('of bybtree', int8multirange(int8range(0, (SELECT number FROM drawn WHERE n = 89))) + (SELECT range_agg(int8range(number, number + 1)) FROM drawn WHERE n > 90 AND n % 2 = 1));
SELECT count(*), min(n), max(n) FROM feed_read('of bybtree', null::bybtree, 15);
SELECT count(*), min(n), max(n) FROM feed_read('of bybtree', null::bybtree, 15);
SELECT count(*), min(n), max(n) FROM feed_read('of bybtree', null::bybtree, 15);
SELECT count(*) AS rest FROM feed_read('of bybtree', null::bybtree);
SELECT count(*) AS none FROM feed_read('of bybtree', null::bybtree);
-- Messages show only a few ranges of a set, to every role.
CREATE FUNCTION is_short(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE detail text;
BEGIN
    EXECUTE query;
    RETURN NULL;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
    RETURN detail ~ 'more ranges' AND length(SQLERRM || detail) < 500;
END $$;
CREATE VIEW many AS SELECT range_agg(int8range(n, n + 1)) AS numbers FROM generate_series(0, 2000, 2) AS n;
GRANT SELECT ON many TO PUBLIC;
SET ROLE pg_monitor;
SELECT is_short('SELECT reader_advance(ROW(1, numbers, NULL, NULL, NULL, NULL, NULL)::feed_position, ROW(1, numbers, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::feed_batch) FROM many') AS short;
SELECT is_short('SELECT reader_batch_between(ROW(1, numbers, NULL, NULL, NULL, NULL, NULL)::feed_position, ROW(1, int8multirange(), NULL, NULL, NULL, NULL, NULL)::feed_position) FROM many') AS short;
RESET ROLE;
DROP VIEW many;
DROP FUNCTION wanted, is_delivered, is_short;
DROP TABLE byuuid, bybtree, bypart, byparts, drawn;
