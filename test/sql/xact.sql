-- uuid_xact_nextval() and xact_id() contain the top-level transaction id, regardless of how a row is inserted.
CREATE FUNCTION current_number() RETURNS bigint LANGUAGE sql AS $$
    SELECT pg_current_xact_id()::text::bigint
$$;
CREATE TABLE t (step text, id uuid DEFAULT uuid_xact_nextval(), number bigint DEFAULT xact_id(), wanted bigint);
CREATE VIEW wrong AS SELECT * FROM t WHERE uuid_xact_id(id) <> wanted OR number <> wanted OR wanted IS NULL;

INSERT INTO t (step, wanted) VALUES ('autocommit', current_number());

-- Insert rows inside and after savepoints that are released or rolled back.
BEGIN;
INSERT INTO t (step, wanted) VALUES ('before savepoint', current_number());
SAVEPOINT a;
INSERT INTO t (step, wanted) VALUES ('in savepoint', current_number());
SAVEPOINT b;
INSERT INTO t (step, wanted) VALUES ('rolled back', current_number());
ROLLBACK TO b;
INSERT INTO t (step, wanted) VALUES ('after rollback', current_number());
RELEASE a;
INSERT INTO t (step, wanted) VALUES ('after release', current_number());
COMMIT;

-- The first write of a transaction is inside a savepoint.
BEGIN;
SAVEPOINT a;
INSERT INTO t (step) VALUES ('first in savepoint');
UPDATE t SET wanted = current_number() WHERE step = 'first in savepoint';
COMMIT;

-- An EXCEPTION block is a subtransaction.
DO $$
BEGIN
    BEGIN
        INSERT INTO t (step, wanted) VALUES ('exception block', current_number());
        INSERT INTO t (step, wanted) VALUES ('undone', 1 / 0);
    EXCEPTION WHEN division_by_zero THEN
        INSERT INTO t (step, wanted) VALUES ('handler', current_number());
    END;
END $$;

-- Cached plans: prepared statements, generic from the first call, and PL/pgSQL.
SET plan_cache_mode = force_generic_plan;
PREPARE add (text) AS INSERT INTO t (step, wanted) VALUES ($1, current_number());
EXECUTE add('prepared 1');
EXECUTE add('prepared 2');
BEGIN; EXECUTE add('prepared 3'); COMMIT;
PREPARE named AS SELECT xact_id() = current_number() AND uuid_xact_id(uuid_xact_nextval()) = current_number() AS same;
EXECUTE named;
EXECUTE named;
RESET plan_cache_mode;
CREATE PROCEDURE add_many() LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. 10 LOOP
        INSERT INTO t (step, wanted) VALUES ('procedure ' || i, current_number());
        COMMIT;
    END LOOP;
END $$;
CALL add_many();
SELECT count(DISTINCT number) AS transactions FROM t WHERE step LIKE 'procedure%';

-- COPY, and a prepared transaction that another transaction commits.
BEGIN;
COPY t (step) FROM stdin;
copied 1
copied 2
\.
UPDATE t SET wanted = current_number() WHERE step LIKE 'copied%';
COMMIT;
BEGIN;
INSERT INTO t (step, wanted) VALUES ('two-phase', current_number());
PREPARE TRANSACTION 'inorder';
INSERT INTO t (step, wanted) VALUES ('in between', current_number());
COMMIT PREPARED 'inorder';

SELECT count(*) AS rows FROM t;
SELECT * FROM wrong;
SELECT a.id > b.id AS later_transaction_later_key FROM t a, t b WHERE a.step = 'in between' AND b.step = 'two-phase';

-- Keys of one transaction ascend in the order in which they were generated, across statements and savepoints. They have
-- version 8.
CREATE TABLE made (n bigserial, id uuid);
BEGIN;
INSERT INTO made (id) SELECT uuid_xact_nextval() FROM generate_series(1, 20000);
SAVEPOINT a;
INSERT INTO made (id) SELECT uuid_xact_nextval() FROM generate_series(1, 1000);
RELEASE a;
INSERT INTO made (id) SELECT uuid_xact_nextval() FROM generate_series(1, 1000);
COMMIT;
SELECT count(*) FILTER (WHERE id <= before) AS not_greater, count(DISTINCT uuid_xact_id(id)) AS transactions,
       count(*) FILTER (WHERE substr(id::text, 15, 1) <> '8' OR substr(id::text, 20, 1) !~ '[89ab]') AS wrong_layout
FROM (SELECT id, lag(id) OVER (ORDER BY n) AS before FROM made) AS pairs;
-- The steps between keys are pseudo-random, below 2^43 = 2048 * 2^32. One run in 40,000 has a pair of equal steps, and
-- fewer than one in 10^9 has more pairs. The limits of the mean are 7 standard deviations away.
CREATE FUNCTION tail(id uuid) RETURNS numeric LANGUAGE sql AS $$
    SELECT ('x' || lpad(substr(h, 14, 3), 16, '0'))::bit(64)::bigint::numeric * 2::numeric ^ 62
         + mod(('x' || substr(h, 17))::bit(64)::bigint::numeric + 2::numeric ^ 64, 2::numeric ^ 62)
    FROM replace(id::text, '-', '') AS h
$$;
SELECT count(step) - count(DISTINCT step) <= 1 AS differ, min(step) >= 1 AS at_least_1, max(step) <= 2::numeric ^ 43 AS at_most_2_43,
       avg(step) / 2::numeric ^ 42 BETWEEN 0.97 AND 1.03 AS uniform
FROM (SELECT tail(id) - lag(tail(id)) OVER (ORDER BY n) AS step FROM made WHERE n <= 20000) AS steps;
DROP TABLE made;

-- The first key of a transaction does not predict the first key of the next transaction. The chance that ten
-- transactions are in ascending order is 1 in 10! = 3,628,800.
SELECT count(DISTINCT tail(id)), bool_and(tail(id) > before) AS ascending
FROM (SELECT id, lag(tail(id)) OVER (ORDER BY number) AS before FROM t WHERE step LIKE 'procedure%') AS pairs;

-- Numbers with a base.
SELECT uuid_xact_id(uuid_xact_nextval(1000)) - current_number() AS base, xact_id(1000) - xact_id() AS same_base;
SELECT uuid_xact_id(uuid_xact_nextval(281474976710655 - current_number())) AS highest,
       xact_id(281474976710655 - current_number()) AS highest_number;
SELECT error_of($$SELECT uuid_xact_nextval(-1)$$);
SELECT error_of($$SELECT xact_id(-1)$$);
SELECT error_of($$SELECT uuid_xact_nextval(281474976710656)$$);
SELECT error_of($$SELECT xact_id(9223372036854775807)$$);
SELECT error_of($$SELECT uuid_xact_nextval(-9223372036854775808)$$);
SELECT regexp_replace(error_of('SELECT uuid_xact_nextval(281474976710655)'), 'id \d+', 'id N');
SELECT regexp_replace(error_of('SELECT xact_id(281474976710655)'), 'id \d+', 'id N');
SELECT uuid_xact_nextval(NULL) IS NULL AND xact_id(NULL) IS NULL AS null_for_null;

-- Functions that read keys.
SELECT uuid_xact_floor(0), uuid_xact_floor(281474976710655), uuid_xact_id(uuid_xact_floor(8775));
SELECT count(*) FILTER (WHERE id < uuid_xact_floor(uuid_xact_id(id)) OR id >= uuid_xact_floor(uuid_xact_id(id) + 1)) AS outside
FROM t;
SELECT error_of($$SELECT uuid_xact_floor(-1)$$);
SELECT error_of($$SELECT uuid_xact_floor(281474976710656)$$);
SELECT error_of($$SELECT uuid_xact_id('017f22e2-79b0-7cc3-98c4-dc0c0c07398f')$$);
SELECT error_of($$SELECT uuid_xact_id('017f22e2-79b0-8cc3-08c4-dc0c0c07398f')$$);

-- A read-only transaction may call the functions, as it may call pg_current_xact_id().
BEGIN READ ONLY;
SELECT xact_id() = current_number() AS same;
COMMIT;

-- xact_id() is stable: an index on the number can be used.
CREATE INDEX t_number ON t (number);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE number = xact_id();
RESET enable_seqscan;
RESET enable_bitmapscan;
DROP VIEW wrong;
DROP TABLE t;
