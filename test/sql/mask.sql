-- uuid_mask() and uuid_unmask(): test vectors, round trips, randomness, and refused arguments. mask_1.out is the output
-- without OpenSSL.
SELECT error_of($$SELECT uuid_mask('019c0f3a-5b2e-7d41-9a77-0123456789ab', '\x000102030405060708090a0b0c0d0e0f')$$) AS refused,
    error_of($$SELECT uuid_mask('019c0f3a-5b2e-7d41-9a77-0123456789ab', '\x000102030405060708090a0b0c0d0e0f')$$) LIKE '0A000%' AS cannot \gset
\echo :refused
\if :cannot
\quit
\endif

-- Test vectors of the program openssl: enc -aes-128-ecb -nopad (or 256), repeated until the block is a version-4 UUID.
CREATE TEMP TABLE v AS SELECT id::uuid, key::bytea, version, masked::uuid FROM (VALUES
    ('01890000-0000-7000-8000-000000000000', '\x000102030405060708090a0b0c0d0e0f', 7, '2f12ff68-8180-413f-ab92-3647567e9406'),
    ('01890000-0000-7000-8000-000000000000', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', 7, 'c788323e-8b9e-4331-ba1d-cba7d6ee43e0'),
    ('ffffffff-ffff-7fff-bfff-ffffffffffff', '\x00000000000000000000000000000000', 7, '9bf97f58-cd5e-4b7c-a2eb-835b7f116806'),
    ('019c0f3a-5b2e-7d41-9a77-0123456789ab', '\x00000000000000000000000000000000', 7, 'bb66d21f-e805-4835-a3b6-57aa0fc1a032'),
    ('00000000-04d2-8000-8000-000000000001', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', 8, '9adb4750-5968-49b0-b18e-4c3bd79c2e4e'),
    ('018f6b3e-9f10-4c55-8123-456789abcdef', '\x000102030405060708090a0b0c0d0e0f', 4, 'dc92fa72-493b-47b0-8af2-c33af796cdb7')
) AS given (id, key, version, masked);
-- The keys alternate: each call has a different key from the previous call.
SELECT count(*), count(*) FILTER (WHERE uuid_mask(id, key, version) = masked) AS masked,
    count(*) FILTER (WHERE uuid_unmask(masked, key, version) = id) AS unmasked FROM v;
SELECT uuid_mask(id, key) = masked AS by_default, uuid_unmask(masked, key) = id AS back FROM v LIMIT 1;
-- Successive keys have the same length, and differ only in the last byte.
SELECT length, count(DISTINCT uuid_mask('01890000-0000-7000-8000-000000000000', set_byte(substr(sha256('a'), 1, length), length - 1, n))) AS masks
FROM (VALUES (16), (32)) AS l (length), generate_series(1, 3) AS n GROUP BY length ORDER BY 1;

-- Different ids have different masks: 3,000 ids of each kind, with keys of both lengths.
CREATE TEMP TABLE made AS
SELECT 7 AS version, uuid_v7_floor('2026-01-01 UTC'::timestamptz + n * interval '1 ms') AS id FROM generate_series(1, 3000) AS n UNION ALL
SELECT 8, uuid_xact_floor(n) FROM generate_series(1, 3000) AS n UNION ALL
SELECT 4, overlay(overlay(md5(n::text) PLACING '4' FROM 13) PLACING '8' FROM 17)::uuid FROM generate_series(1, 3000) AS n;
CREATE TEMP TABLE k AS SELECT length, substr(sha256('secret'), 1, length) AS key FROM (VALUES (16), (32)) AS l (length);
SELECT length, version, count(*) AS ids, count(*) FILTER (WHERE uuid_unmask(masked, key, version) <> id) AS not_undone,
    count(*) FILTER (WHERE masked::text !~ '^.{14}4.{4}[89ab]') AS of_another_version
FROM made, k, LATERAL (SELECT uuid_mask(id, key, version) AS masked) AS m GROUP BY length, version ORDER BY 1, 2;

-- A change of one bit of the id or of the key changes half of the 122 bits, each bit equally often.
CREATE FUNCTION flipped(value bytea, n int) RETURNS bytea IMMUTABLE RETURN set_bit(value, n, 1 - get_bit(value, n));
CREATE FUNCTION changed(one uuid, other uuid) RETURNS bit(128) IMMUTABLE
RETURN ('x' || encode(uuid_send(one), 'hex'))::bit(128) # ('x' || encode(uuid_send(other), 'hex'))::bit(128);
CREATE TEMP TABLE flips AS
SELECT flipped, changed(uuid_mask(id, key), CASE flipped WHEN 'id' THEN uuid_mask(encode(flipped(uuid_send(id), n), 'hex')::uuid, key)
                                                         ELSE uuid_mask(id, flipped(key, n)) END) AS bits
FROM (SELECT id FROM made WHERE version = 7 LIMIT 100) AS m, (SELECT key FROM k WHERE length = 16) AS k, generate_series(0, 127) AS n,
    (VALUES ('id'), ('key')) AS f (flipped)
-- set_bit() counts from the lowest bit of each byte. Version and variant of the id are not changed.
WHERE flipped = 'key' OR n NOT BETWEEN 52 AND 55 AND n NOT BETWEEN 70 AND 71;
SELECT flipped, count(*), avg(bit_count(bits)) BETWEEN 60.5 AND 61.5 AS half, min(bit_count(bits)) > 30 AS never_few, max(bit_count(bits)) < 92 AS never_most
FROM flips GROUP BY flipped ORDER BY 1;
SELECT count(*) AS bits_that_change, min(share) > 0.45 AS not_seldom, max(share) < 0.55 AS not_often
FROM (SELECT avg(get_bit(bits, n)) AS share FROM flips, generate_series(0, 127) AS n GROUP BY n) AS s WHERE share > 0;
-- The masks of ordered ids are not ordered.
SELECT abs(corr(a, b)) < 0.05 AS no_order FROM (SELECT row_number() OVER (ORDER BY id) AS a, row_number() OVER (ORDER BY uuid_mask(id, key)) AS b
    FROM made, k WHERE version = 7 AND length = 16) AS ranked;

-- With another key, or with a value that is not a mask, uuid_unmask() returns a different id.
SELECT count(*) AS of_another_key FROM made, LATERAL (SELECT uuid_mask(id, sha256('a'), version) AS masked) AS m
WHERE uuid_unmask(masked, sha256('b'), version) IN (SELECT id FROM made);

SELECT error_of($$SELECT uuid_mask('018f6b3e-9f10-4c55-8123-456789abcdef', sha256('a'))$$);
SELECT error_of($$SELECT uuid_mask('019c0f3a-5b2e-7d41-1a77-0123456789ab', sha256('a'))$$) AS variant;
SELECT error_of($$SELECT uuid_unmask('019c0f3a-5b2e-7d41-9a77-0123456789ab', sha256('a'))$$);
SELECT error_of(format('SELECT uuid_mask(%L, %L, %s)', '00000000-0000-0000-8000-000000000000', '', version)) FROM unnest(ARRAY[-2147483648, 0, 9, 2147483647]) AS version;
SELECT error_of(format('SELECT uuid_unmask(%L, %L, %s)', '00000000-0000-4000-8000-000000000000', '', version)) FROM unnest(ARRAY[-2147483648, 0, 9, 2147483647]) AS version;
SELECT error_of(format('SELECT uuid_mask(uuid_v7_nextval(), substr(repeat(''secret'', 9)::bytea, 1, %s))', length)) FROM unnest(ARRAY[0, 15, 17, 24, 31, 33, 54]) AS length;
-- After an error, the previous key is not used.
CREATE FUNCTION masked_or_null(id uuid, key bytea) RETURNS uuid LANGUAGE plpgsql AS $$ BEGIN RETURN uuid_mask(id, key); EXCEPTION WHEN invalid_parameter_value THEN RETURN NULL; END $$;
SELECT count(masked_or_null(id, key)) AS masked, count(*) AS of, bool_and(masked_or_null(id, key) = uuid_mask(id, key)) FILTER (WHERE length(key) = 16) AS same
FROM (SELECT '019c0f3a-5b2e-7d41-9a77-0123456789ab'::uuid AS id, substr(sha256('a'), 1, CASE WHEN n % 3 = 0 THEN 7 ELSE 16 END) AS key FROM generate_series(1, 30) AS n OFFSET 0) AS given
WHERE length(key) = 16 OR masked_or_null(id, key) IS NULL;
SELECT uuid_mask(NULL, sha256('a')) AS id, uuid_mask(uuid_v7_nextval(), NULL) AS key, uuid_mask(uuid_v7_nextval(), sha256('a'), NULL) AS version, uuid_unmask(NULL, sha256('a'));
-- An index on the id is used for a lookup by mask.
CREATE TEMP TABLE customers (id uuid PRIMARY KEY);
INSERT INTO customers SELECT id FROM made WHERE version = 7;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT FROM customers WHERE id = uuid_unmask('2f12ff68-8180-413f-ab92-3647567e9406', sha256('a'));
RESET enable_seqscan;
DROP FUNCTION masked_or_null, changed, flipped CASCADE;
