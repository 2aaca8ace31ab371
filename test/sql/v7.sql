-- uuid_v7_nextval(), and the time and the lower bound of its keys.
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';

-- Keys have the right version and variant. Every key is greater than the previous one, even across statements, however
-- fast a session generates keys.
CREATE TABLE made AS SELECT n, uuid_v7_nextval() AS id FROM generate_series(1, 10000) AS n;
INSERT INTO made SELECT n, uuid_v7_nextval() FROM generate_series(10001, 10100) AS n;
SELECT count(*) FILTER (WHERE substr(id::text, 15, 1) <> '7') AS wrong_version,
       count(*) FILTER (WHERE substr(id::text, 20, 1) !~ '[89ab]') AS wrong_variant,
       count(*) FILTER (WHERE id <= before) AS not_greater,
       count(*) FILTER (WHERE uuid_v7_time(id) < uuid_v7_time(before)) AS earlier
FROM (SELECT id, lag(id) OVER (ORDER BY n) AS before FROM made) AS pairs;

-- The time of a key is that of the clock, to the microsecond.
DO $$
DECLARE
    before timestamptz;
    id uuid;
BEGIN
    FOR i IN 1 .. 1000 LOOP
        before := clock_timestamp();
        id := uuid_v7_nextval();
        ASSERT uuid_v7_time(id) BETWEEN before AND clock_timestamp(), format('%s is not %s', id, before);
        ASSERT id >= uuid_v7_floor(before), format('%s is below the floor of %s', id, before);
    END LOOP;
END $$;

DROP TABLE made;

-- A key of another generator: the test vector of RFC 9562, appendix A.6.
SELECT date_trunc('milliseconds', uuid_v7_time('017f22e2-79b0-7cc3-98c4-dc0c0c07398f'));

-- The bound is the smallest key of the microsecond.
SELECT moment, uuid_v7_floor(moment), uuid_v7_time(uuid_v7_floor(moment)) = moment AS same
FROM unnest(ARRAY['1970-01-01 00:00:00+00', '1970-01-01 00:00:00.000001+00', '1970-01-01 00:00:00.000999+00',
                  '1970-01-01 00:00:00.001+00', '1999-12-31 23:59:59.999999+00', '2000-01-01 00:00:00+00',
                  '2026-11-21 12:34:56.789012+00', '10889-08-02 05:31:50.655999+00']::timestamptz[]) AS moment;
SELECT count(*) FILTER (WHERE uuid_v7_time(uuid_v7_floor(moment)) <> moment) AS not_the_same,
       count(*) FILTER (WHERE uuid_v7_floor(moment) <= uuid_v7_floor(moment - interval '1 microsecond')) AS not_above
FROM (SELECT timestamptz '2026-01-01' + n * interval '1 microsecond' AS moment
      FROM generate_series(1, 2000) AS n) AS m;
-- No key of an earlier microsecond is at or above the bound: the next lower fraction belongs to the previous
-- microsecond.
SELECT uuid_v7_time('01920000-0000-7004-bfff-ffffffffffff') < uuid_v7_time('01920000-0000-7005-8000-000000000000') AS before,
       uuid_v7_floor(uuid_v7_time('01920000-0000-7005-8000-000000000000')) AS floor;

SELECT error_of($$SELECT uuid_v7_floor('1969-12-31 23:59:59.999999+00')$$);
SELECT error_of($$SELECT uuid_v7_floor('10889-08-02 05:31:50.656+00')$$);
SELECT error_of($$SELECT uuid_v7_floor('infinity')$$);
SELECT error_of($$SELECT uuid_v7_floor('-infinity')$$);
SELECT error_of($$SELECT uuid_v7_floor('294276-12-31 23:59:59.999999+00')$$);
SELECT error_of($$SELECT uuid_v7_floor('4713-01-01 00:00:00+00 BC')$$);
SELECT error_of($$SELECT uuid_v7_time('00000000-0000-0000-0000-000000000000')$$);
SELECT error_of($$SELECT uuid_v7_time('ffffffff-ffff-ffff-ffff-ffffffffffff')$$);
SELECT error_of($$SELECT uuid_v7_time('919108f7-52d1-4320-9bac-f847db4148a8')$$);
SELECT error_of($$SELECT uuid_v7_time('017f22e2-79b0-7cc3-d8c4-dc0c0c07398f')$$);
SELECT uuid_v7_time(NULL) IS NULL AND uuid_v7_floor(NULL) IS NULL AS null_for_null;
SELECT uuid_v7_time('ffffffff-ffff-7fff-bfff-ffffffffffff') AS last;
RESET timezone;
