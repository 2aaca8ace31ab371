-- uuid_after_random_nextval(): the layout and order of its keys, and the arguments that it refuses.
CREATE FUNCTION free_bits(id uuid) RETURNS bit varying IMMUTABLE
RETURN (SELECT substring(b, 1, 48) || substring(b, 53, 12) || substring(b, 67, 62) FROM (SELECT ('x' || encode(uuid_send(id), 'hex'))::bit(128) AS b) AS whole);
CREATE FUNCTION moment_of(id uuid, ones int) RETURNS timestamptz IMMUTABLE
RETURN to_timestamp(substring(free_bits(id), ones + 1, 54)::bit(54)::bigint / 4096e3);

CREATE TEMP TABLE after_made (ones int, n int, id uuid);
DO $$
DECLARE
    before timestamptz;
BEGIN
    FOR o IN 16 .. 48 LOOP
        before := clock_timestamp() - interval '1 us';
        INSERT INTO after_made SELECT o, n, uuid_after_random_nextval(o) FROM generate_series(1, 300) AS n;
        ASSERT (SELECT bool_and(moment_of(a.id, a.ones) BETWEEN before AND clock_timestamp() + interval '1 ms') FROM after_made AS a WHERE a.ones = o),
            format('the clock is not in keys with %s', o);
    END LOOP;
END $$;
SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE id::text ~ '^.{14}8.{4}[89ab]') AS version_8,
    count(*) FILTER (WHERE substring(free_bits(id), 1, ones)::text = repeat('1', ones)) AS leading_ones FROM after_made;
SELECT count(*) AS not_ascending FROM (SELECT id <= lag(id) OVER (PARTITION BY ones ORDER BY n) AS wrong FROM after_made) AS pairs WHERE wrong;
-- The bits after the time are random: in the first keys of new ticks, each bit is set half of the time.
SELECT min(share) > 0.3 AND max(share) < 0.7 AS random FROM (SELECT avg(get_bit(substring(free_bits(id), 103, 20), b)) AS share
    FROM after_made, generate_series(0, 19) AS b WHERE ones = 48 GROUP BY b) AS s;
-- With the default argument, a key sorts after all random keys except one in 2^32.
SELECT uuid_after_random_nextval()::text LIKE 'ffffffff-%' AS by_default;
SELECT uuid_after_random_nextval() > overlay(overlay(max(md5(n::text)) PLACING '4' FROM 13) PLACING 'b' FROM 17)::uuid AS after FROM generate_series(1, 10000) AS n;
-- The argument may change from call to call.
SELECT count(DISTINCT uuid_after_random_nextval(16 + n % 33)) FROM generate_series(1, 10000) AS n;
SELECT error_of(format('SELECT uuid_after_random_nextval(%s)', ones)) FROM unnest(ARRAY[-2147483648, 0, 15, 49, 2147483647]) AS ones;
SELECT uuid_after_random_nextval(NULL) IS NULL AS null_for_null;
DROP TABLE after_made;
DROP FUNCTION moment_of, free_bits;
