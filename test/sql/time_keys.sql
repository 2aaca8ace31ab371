-- uuid_time_nextval() computes the prefix (Unix seconds / interval_length) mod interval_count.
--
-- The clock advances between two readings. The test therefore checks that a key is between the block of an earlier
-- reading and the block of a later one. The kernel's coarse clock, which the function reads, may be 10 ms behind the
-- precise one.
CREATE FUNCTION block_at(moment timestamptz, length int, count int) RETURNS bigint LANGUAGE sql AS $$
    SELECT mod(floor(extract(epoch FROM moment) / length), count)::bigint
$$;

CREATE FUNCTION wrong_blocks(length int, count int, bytes int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    before timestamptz := clock_timestamp() - interval '50 ms';
    ids uuid[];
BEGIN
    SELECT array_agg(uuid_time_nextval(length, count)) INTO ids FROM generate_series(1, 100);
    RETURN count(*) FROM unnest(ids) AS id
        WHERE prefix(id, bytes) NOT IN (block_at(before, length, count), block_at(clock_timestamp(), length, count))
           OR substr(id::text, 15, 1) <> '8' OR substr(id::text, 20, 1) !~ '[89ab]';
END $$;

SELECT length, count, wrong_blocks(length, count, bytes)
FROM unnest(ARRAY[1, 60, 65537, 16777217, 2147483647]) AS length,
     (VALUES (1, 0), (2, 1), (256, 1), (257, 2), (65536, 2), (65537, 3), (16777217, 4), (2147483647, 4)) AS c (count, bytes)
WHERE bytes > 0
ORDER BY 1, 2;

-- The defaults are 65536 intervals of one minute.
SELECT abs(prefix(uuid_time_nextval(), 2) - block_at(clock_timestamp(), 60, 65536)) IN (0, 1, 65535) AS defaults;

-- With one interval, keys have no prefix, and every byte is random.
SELECT count(DISTINCT prefix(uuid_time_nextval(60, 1), 1)) > 100 AS first_byte_random FROM generate_series(1, 1000);

SELECT error_of($$SELECT uuid_time_nextval(0)$$);
SELECT error_of($$SELECT uuid_time_nextval(-1)$$);
SELECT error_of($$SELECT uuid_time_nextval(60, 0)$$);
SELECT error_of($$SELECT uuid_time_nextval(60, -1)$$);
SELECT error_of($$SELECT uuid_time_nextval(60, -2147483648)$$);
SELECT uuid_time_nextval(NULL) IS NULL AND uuid_time_nextval(60, NULL) IS NULL AS null_for_null;
