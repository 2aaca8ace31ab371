-- ended_transactions() agrees with the server's own snapshot, except for the calling transaction. xact_id_generated()
-- returns the right number in a generated column.
CREATE FUNCTION own() RETURNS bigint LANGUAGE sql AS $$
    SELECT pg_current_xact_id_if_assigned()::text::bigint
$$;
CREATE FUNCTION ended_by_snapshot() RETURNS int8multirange LANGUAGE sql STABLE AS $$
    SELECT int8multirange(int8range(0, pg_snapshot_xmax(s)::text::bigint))
         - coalesce((SELECT range_agg(int8range(x::text::bigint, x::text::bigint, '[]')) FROM pg_snapshot_xip(s) AS x), '{}')
    FROM pg_current_snapshot() AS s
$$;
CREATE TABLE t (step text, wanted bigint DEFAULT pg_current_xact_id()::text::bigint);
SELECT ended_transactions() = ended_by_snapshot() AS same, lower(ended_transactions()) AS lowest,
       upper(ended_transactions()) <= inorder_internal.next_transaction(0) AS below_next;

-- Three cases: the transaction has no id; it has an id; its id is below the end of the snapshot. Rolling
-- back to a savepoint moves this end.
BEGIN;
SELECT ended_transactions() = ended_by_snapshot() AS same, own() IS NULL AS no_id;
INSERT INTO t VALUES ('own');
SELECT ended_transactions() @> own() AS own_ended;
SAVEPOINT s;
INSERT INTO t VALUES ('savepoint');
ROLLBACK TO s;
SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint > own() AS own_below_end, ended_transactions() @> own() AS own_ended,
       ended_transactions() = ended_by_snapshot() - int8multirange(int8range(own(), own(), '[]')) AS only_own_is_missing;
SAVEPOINT s;
INSERT INTO t VALUES ('savepoint kept');
RELEASE s;
SELECT ended_transactions() @> own() AS own_ended;
SELECT own() AS committed \gset
COMMIT;
SELECT ended_transactions() @> :committed::bigint AS ended;
BEGIN;
INSERT INTO t VALUES ('rolled back');
SELECT own() AS aborted \gset
ROLLBACK;
SELECT ended_transactions() @> :aborted::bigint AS ended_too;

-- If the first id of a transaction is assigned inside a savepoint, it is not the number of the transaction.
BEGIN;
SAVEPOINT a;
SAVEPOINT b;
INSERT INTO t VALUES ('deep');
SELECT ended_transactions() @> own() AS own_ended;
COMMIT;

-- A prepared transaction is in progress until it is committed.
BEGIN;
INSERT INTO t VALUES ('prepared');
SELECT own() AS prepared \gset
PREPARE TRANSACTION 'inorder snapshot';
INSERT INTO t VALUES ('later');
SELECT ended_transactions() @> :prepared::bigint AS ended, ended_transactions() = ended_by_snapshot() AS same,
       upper(ended_transactions()) > :prepared AS goes_on_above;
COMMIT PREPARED 'inorder snapshot';
SELECT ended_transactions() @> :prepared::bigint AS ended;

-- REPEATABLE READ uses one snapshot. Otherwise each statement has a new snapshot, even in procedures.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT ended_transactions() AS before \gset
INSERT INTO t VALUES ('repeatable');
SELECT ended_transactions() = :'before' AS unchanged;
COMMIT;
CREATE PROCEDURE steps() LANGUAGE plpgsql AS $$
DECLARE
    number bigint;
BEGIN
    FOR i IN 1 .. 3 LOOP
        INSERT INTO t VALUES ('procedure') RETURNING wanted INTO number;
        ASSERT NOT ended_transactions() @> number;
        COMMIT;
        ASSERT ended_transactions() @> number;
    END LOOP;
END $$;
CALL steps();

-- Numbers with a base.
SELECT upper(ended_transactions(1000)) - upper(ended_transactions()) AS base, lower(ended_transactions(1000)) AS from,
       inorder_internal.next_transaction(1000) - inorder_internal.next_transaction(0) AS same_base;
SELECT upper(ended_transactions(281474976710655 - inorder_internal.next_transaction(0))) = 281474976710655
    OR upper(ended_transactions()) < inorder_internal.next_transaction(0) AS highest, inorder_internal.next_transaction(281474976710655 - inorder_internal.next_transaction(0)) AS highest_next;
SELECT error_of($$SELECT ended_transactions(-1)$$);
SELECT error_of($$SELECT inorder_internal.next_transaction(281474976710656)$$);
SELECT regexp_replace(error_of('SELECT ended_transactions(281474976710655)'), 'id \d+', 'id N');
SELECT regexp_replace(error_of('SELECT inorder_internal.next_transaction(281474976710655)'), 'id \d+', 'id N');
SELECT ended_transactions(NULL) IS NULL AND inorder_internal.next_transaction(NULL) IS NULL AS null_for_null;

-- next_transaction() returns the next id without assigning it.
SELECT inorder_internal.next_transaction(0) AS next \gset
BEGIN;
SELECT inorder_internal.next_transaction(0) = :next AS unchanged, own() IS NULL AS no_id;
SELECT xact_id() = :next AS came;
COMMIT;

SELECT inorder_internal.server_origin() = system_identifier || '/' || timeline_id AS origin FROM pg_control_system(), pg_control_checkpoint();
SET synchronous_commit = off;
INSERT INTO t VALUES ('asynchronous');
SELECT pg_current_wal_insert_lsn() AS place \gset
SELECT inorder_internal.make_durable(false);
-- The header of a new page (at most 40 bytes) is only written with the next record.
SELECT pg_current_wal_flush_lsn() >= :'place'::pg_lsn - 40 AS flushed;
RESET synchronous_commit;
SELECT inorder_internal.make_durable(false);

-- A generated column has the number of the inserting transaction, whichever statement inserts the row.
CREATE TABLE g (step text, wanted bigint, xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED);
CREATE VIEW wrong AS SELECT * FROM g WHERE xact IS DISTINCT FROM wanted;
CREATE FUNCTION current_id() RETURNS bigint LANGUAGE sql AS $$ SELECT pg_current_xact_id()::text::bigint $$;
INSERT INTO g VALUES ('autocommit', current_id());
BEGIN;
INSERT INTO g VALUES ('before savepoint', current_id());
SAVEPOINT a;
INSERT INTO g VALUES ('in savepoint', current_id());
ROLLBACK TO a;
INSERT INTO g VALUES ('after rollback', current_id());
COMMIT;
BEGIN;
SAVEPOINT a;
INSERT INTO g VALUES ('first in savepoint', current_id());
COMMIT;
DO $$
BEGIN
    INSERT INTO g VALUES ('exception block', current_id());
    PERFORM 1 / 0;
EXCEPTION WHEN division_by_zero THEN
    INSERT INTO g VALUES ('handler', current_id());
END $$;
-- Cached plans that are used in several transactions.
SET plan_cache_mode = force_generic_plan;
PREPARE add (text) AS INSERT INTO g VALUES ($1, current_id());
EXECUTE add('prepared 1');
EXECUTE add('prepared 2');
BEGIN; EXECUTE add('prepared 3'); EXECUTE add('prepared 3 again'); COMMIT;
PREPARE add_returning AS INSERT INTO g VALUES ('returning', current_id()) RETURNING xact = current_id() AS same;
EXECUTE add_returning;
EXECUTE add_returning;
CREATE FUNCTION add_by_function(step text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN INSERT INTO g VALUES (step, current_id()); END $$;
SELECT add_by_function('function 1');
SELECT add_by_function('function 2');
CREATE PROCEDURE add_ten() LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. 10 LOOP
        INSERT INTO g VALUES ('procedure ' || i, current_id());
        COMMIT;
    END LOOP;
END $$;
CALL add_ten();
SELECT count(DISTINCT xact) AS transactions FROM g WHERE step LIKE 'procedure%';
RESET plan_cache_mode;
BEGIN;
COPY g (step) FROM stdin;
copied 1
copied 2
\.
UPDATE g SET wanted = current_id() WHERE step LIKE 'copied%';
COMMIT;
BEGIN;
INSERT INTO g VALUES ('two-phase', current_id());
PREPARE TRANSACTION 'inorder generated';
INSERT INTO g VALUES ('in between', current_id());
COMMIT PREPARED 'inorder generated';
MERGE INTO g USING (VALUES ('merged')) AS v (step) ON g.step = v.step WHEN NOT MATCHED THEN INSERT (step, wanted) VALUES (v.step, current_id());
-- UPDATE does not change the number.
UPDATE g SET step = step || '.';
PREPARE change AS UPDATE g SET step = step || '.';
EXECUTE change;
EXECUTE change;
INSERT INTO g SELECT * FROM (VALUES ('a', current_id()), ('b', current_id())) AS v RETURNING xact = wanted AS same;
SELECT count(*) AS rows FROM g;
SELECT * FROM wrong;
SELECT error_of($$INSERT INTO g (step, xact) VALUES ('forged', 1)$$);
SELECT regexp_replace(error_of($$INSERT INTO g (step, xact) OVERRIDING SYSTEM VALUE VALUES ('forged', 1)$$), E'\n.*', '');
SELECT error_of($$SELECT xact_id_generated(-1)$$), xact_id_generated(NULL) IS NULL AS null_for_null;
SELECT xact_id_generated(1000) - xact_id() AS base;
DROP VIEW wrong;
DROP TABLE g, t;

-- The C functions for sets of transactions return the same results as the server's operators, in the form in which the
-- server stores sets.
CREATE FUNCTION drawn(seed int, size int) RETURNS int8multirange LANGUAGE sql IMMUTABLE
RETURN (SELECT coalesce(range_agg(int8range(n, n + 1 + abs(hashint8(n)) % 3)), '{}')
        FROM (SELECT abs(hashint8(seed * 1000 + i)) % (4 * size) AS n FROM generate_series(1, size) AS i) AS s);
CREATE FUNCTION is_same(a int8multirange, b int8multirange) RETURNS boolean LANGUAGE sql IMMUTABLE
RETURN a = b AND multirange_send(a) = multirange_send(b) AND a::text = b::text AND hash_multirange(a) = hash_multirange(b);
WITH pairs AS (
    SELECT drawn(i, i % 9) AS a, drawn(i + 1, i % 7) AS b FROM generate_series(1, 100) AS i
    UNION ALL
    VALUES ('{}'::int8multirange, '{}'::int8multirange), (drawn(1, 4000), drawn(2, 4000)), (drawn(3, 4000), '{[5,14000)}'),
           ('{(,5)}', '{[3,8)}'), ('{[3,8),[9,)}', '{[1,4)}'), ('{(,)}', '{[1,4)}'), ('{}', '{(,)}'),
           ('{[-9223372036854775808,3)}', '{[2,9223372036854775807)}')
)
SELECT count(*), count(*) FILTER (WHERE is_same(inorder_internal.minus(a, b), a - b)) AS minus,
       count(*) FILTER (WHERE is_same(inorder_internal.plus(a, b), a + b)) AS plus
FROM pairs;
WITH sets AS (SELECT drawn(i, i % 9) AS a FROM generate_series(1, 60) AS i UNION ALL VALUES ('{}'), (drawn(5, 4000)))
SELECT count(*), count(*) FILTER (WHERE inorder_internal.total(a) = e.total) AS total
FROM sets CROSS JOIN LATERAL (
    SELECT count(n) AS total FROM unnest(a) AS r, generate_series(lower(r), upper(r) - 1) AS n) AS e;
SELECT inorder_internal.total('{[3,)}');
DROP FUNCTION drawn, is_same;
