-- uuid_sequence_nextval() computes the prefix (nextval / block_size) mod block_count exactly.
CREATE SEQUENCE s MINVALUE -9223372036854775808 START 1;

-- expected_prefix() implements the definition with exact numeric division, rounded down.
CREATE FUNCTION modulo(a numeric, b numeric) RETURNS numeric LANGUAGE sql AS $$
    SELECT mod(mod(a, b) + b, b)
$$;
CREATE FUNCTION expected_prefix(n numeric, size numeric, count numeric) RETURNS bigint LANGUAGE sql AS $$
    SELECT modulo(div(n - modulo(n, size), size), count)::bigint
$$;

-- Test every combination of sizes and counts at the positions around each boundary.
CREATE TABLE cases AS
SELECT size, count, bytes, position
FROM unnest(ARRAY[1, 2, 255, 256, 257, 65536, 65537, 16777217, 2147483647]) AS size,
     (VALUES (2, 1), (255, 1), (256, 1), (257, 2), (65535, 2), (65536, 2), (65537, 3),
             (16777216, 3), (16777217, 4), (2147483647, 4)) AS c (count, bytes),
     LATERAL (SELECT DISTINCT least(greatest(center + step, -9223372036854775808), 9223372036854775807)::bigint
              FROM unnest(ARRAY[0, 1, size, size::numeric * count, -size::numeric * count,
                                9223372036854775806, -9223372036854775807]::numeric[]) AS center,
                   unnest(ARRAY[-1, 0, 1]) AS step) AS p (position);

SELECT count(*) > 1000 AS many, count(*) FILTER (WHERE prefix(id, bytes) <> wanted) AS wrong_prefix,
       count(*) FILTER (WHERE substr(id::text, 15, 1) <> '8') AS wrong_version,
       count(*) FILTER (WHERE substr(id::text, 20, 1) !~ '[89ab]') AS wrong_variant
FROM (SELECT bytes, expected_prefix(position, size, count) AS wanted,
             CASE WHEN setval('s', position, false) IS NOT NULL
                  THEN uuid_sequence_nextval('s', size, count) END AS id
      FROM cases) AS made;

-- With one block, keys have no prefix, and every byte is random.
SELECT setval('s', 1);
SELECT count(DISTINCT prefix(uuid_sequence_nextval('s', 1, 1), 1)) > 100 AS first_byte_random
FROM generate_series(1, 1000);

-- The defaults are 65536 values per block and 65536 blocks.
SELECT setval('s', 65536 * 65536::bigint + 3 * 65536 - 1);
SELECT prefix(uuid_sequence_nextval('s'), 2) AS block;

-- A block has exactly the requested size, even if the size is not a power of 256.
SELECT setval('s', 1000, false);
SELECT block, count(*) FROM (SELECT prefix(uuid_sequence_nextval('s', 1000, 300), 2) AS block
                             FROM generate_series(1, 2500)) AS made
GROUP BY block ORDER BY block;

-- Inside a block, the order is random.
SELECT setval('s', 0, false);
SELECT count(*) FILTER (WHERE id > before) BETWEEN 300 AND 700 AS unordered
FROM (SELECT id, lag(id) OVER (ORDER BY n) AS before
      FROM (SELECT n, uuid_sequence_nextval('s') AS id FROM generate_series(1, 1001) AS n) AS made) AS pairs;

-- A descending sequence uses the blocks in descending order.
CREATE SEQUENCE down INCREMENT -1 START 3 MAXVALUE 3;
SELECT array_agg(prefix(uuid_sequence_nextval('down', 2, 256), 1)) AS blocks FROM generate_series(1, 8);

-- Invalid parameters.
SELECT error_of($$SELECT uuid_sequence_nextval('s', 0)$$);
SELECT error_of($$SELECT uuid_sequence_nextval('s', -1)$$);
SELECT error_of($$SELECT uuid_sequence_nextval('s', -2147483648)$$);
SELECT error_of($$SELECT uuid_sequence_nextval('s', 1, 0)$$);
SELECT error_of($$SELECT uuid_sequence_nextval('s', 1, -1)$$);
SELECT uuid_sequence_nextval(NULL) IS NULL AS null_for_null;

-- Invalid sequences, with the error codes.
CREATE TABLE not_a_sequence (n int);
SELECT error_of($$SELECT uuid_sequence_nextval('missing')$$);
SELECT error_of($$SELECT uuid_sequence_nextval(4294967295)$$);
SELECT error_of($$SELECT uuid_sequence_nextval(0)$$);
SELECT error_of($$SELECT uuid_sequence_nextval('not_a_sequence')$$);
CREATE ROLE inorder_guest;
SET ROLE inorder_guest;
SELECT error_of($$SELECT uuid_sequence_nextval('s')$$);
RESET ROLE;
GRANT USAGE ON SEQUENCE s TO inorder_guest;
SET ROLE inorder_guest;
SELECT error_of($$SELECT uuid_sequence_nextval('s')$$);
RESET ROLE;
REVOKE USAGE ON SEQUENCE s FROM inorder_guest;
DROP ROLE inorder_guest;
CREATE SEQUENCE short MAXVALUE 2;
SELECT prefix(uuid_sequence_nextval('short', 1, 256), 1) FROM generate_series(1, 2);
SELECT error_of($$SELECT uuid_sequence_nextval('short')$$);

-- A column default with this function depends only on the sequence.
CREATE TABLE t (id uuid DEFAULT uuid_sequence_nextval('s', 10) PRIMARY KEY, n int);
INSERT INTO t (n) SELECT generate_series(1, 1000);
SELECT count(DISTINCT id) FROM t;

DROP TABLE t, cases, not_a_sequence;
DROP SEQUENCE s, down, short;
