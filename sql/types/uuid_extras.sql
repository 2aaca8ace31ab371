-- The aggregates min(uuid) and max(uuid), if the server lacks them, and bounds of partitions.

DO $$
BEGIN
    -- A user may already have created these functions in this schema.
    IF to_regprocedure('pg_catalog.min(uuid)') IS NULL AND to_regprocedure('@extschema@.min(uuid)') IS NULL THEN
        CREATE FUNCTION @extschema@.uuid_smaller(uuid, uuid) RETURNS uuid
        AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
        COMMENT ON FUNCTION @extschema@.uuid_smaller(uuid, uuid) IS 'smaller of two';

        CREATE AGGREGATE @extschema@.min(uuid) (
            SFUNC = @extschema@.uuid_smaller, STYPE = uuid,
            COMBINEFUNC = @extschema@.uuid_smaller, SORTOP = OPERATOR(pg_catalog.<), PARALLEL = SAFE
        );
        COMMENT ON AGGREGATE @extschema@.min(uuid) IS 'smallest of all values';
    END IF;
    IF to_regprocedure('pg_catalog.max(uuid)') IS NULL AND to_regprocedure('@extschema@.max(uuid)') IS NULL THEN
        CREATE FUNCTION @extschema@.uuid_larger(uuid, uuid) RETURNS uuid
        AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
        COMMENT ON FUNCTION @extschema@.uuid_larger(uuid, uuid) IS 'larger of two';

        CREATE AGGREGATE @extschema@.max(uuid) (
            SFUNC = @extschema@.uuid_larger, STYPE = uuid,
            COMBINEFUNC = @extschema@.uuid_larger, SORTOP = OPERATOR(pg_catalog.>), PARALLEL = SAFE
        );
        COMMENT ON AGGREGATE @extschema@.max(uuid) IS 'largest of all values';
    END IF;
END $$;

CREATE FUNCTION inorder_internal.time_steps(
    first timestamptz, last timestamptz, step interval, OUT name text, OUT start timestamptz, OUT stop timestamptz
) RETURNS SETOF record
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    days boolean := first = date_trunc('day', first)
        AND extract(hour FROM step) = 0 AND extract(minute FROM step) = 0 AND extract(second FROM step) = 0;
    pattern text := CASE WHEN step >= interval '1 second' AND first = date_trunc('second', first)
                         THEN 'YYYYMMDD_HH24MISS' ELSE 'YYYYMMDD_HH24MISSUS' END;
    longest numeric := 10 ^ 12;  -- seconds: 31,688 years
BEGIN
    IF NOT isfinite(first) OR NOT isfinite(last) OR last <= first THEN
        RAISE 'last must be later than first, and both must be finite, not % to %', first, last
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF first < '1970-01-01 00:00:00+00'::timestamptz OR last > '10889-08-02 05:31:50.655999+00'::timestamptz THEN
        RAISE 'first and last must be from 1970-01-01 00:00:00+00 to 10889-08-02 05:31:50.655999+00: not % to %',
            first, last USING ERRCODE = 'datetime_field_overflow';
    END IF;
    -- Each start is computed from "first", and not from the previous start. Steps of months then keep the day of the
    -- month.
    start := first;
    FOR number IN 1 .. 2147483647 LOOP
        EXIT WHEN start >= last;
        -- The sum of "first" and the steps may be outside the range of timestamptz.
        stop := CASE WHEN abs(number * extract(epoch FROM step)) < longest THEN least(first + number * step, last)
                     WHEN step > interval '0' THEN last ELSE start END;
        IF stop <= start THEN
            RAISE 'step must be positive, not %', step USING ERRCODE = 'invalid_parameter_value';
        END IF;
        -- Times in names are in UTC, because an hour of local time may occur twice.
        name := CASE WHEN days THEN to_char(start, 'YYYYMMDD') ELSE to_char(start AT TIME ZONE 'UTC', pattern) END;
        RETURN NEXT;
        start := stop;
    END LOOP;
END $$;

CREATE FUNCTION @extschema@.uuid_v7_partition_bounds(
    first timestamptz, last timestamptz, step interval, OUT name text, OUT lower uuid, OUT upper uuid
) RETURNS SETOF record
LANGUAGE sql STABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
    SELECT s.name, @extschema@.uuid_v7_floor(s.start), @extschema@.uuid_v7_floor(s.stop)
    FROM inorder_internal.time_steps(first, last, step) AS s;
END;
COMMENT ON FUNCTION @extschema@.uuid_v7_partition_bounds(timestamptz, timestamptz, interval) IS
'Return bounds of range partitions on a version-7 key, one row per partition from first to last.';
