-- The type uuid_v1: version-1 UUIDs, time first.
--
-- The type is modelled on study P4 in docs/uuid_v1.md. A value has 16 bytes: 60 bits of time, then clock sequence and
-- node. With the bits in this order, the functions of uuid can compare, sort and hash values.

CREATE TYPE @extschema@.uuid_v1;

CREATE FUNCTION @extschema@.uuid_v1_in(cstring) RETURNS @extschema@.uuid_v1
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_in(cstring) IS 'I/O';

CREATE FUNCTION @extschema@.uuid_v1_out(@extschema@.uuid_v1) RETURNS cstring
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_out(@extschema@.uuid_v1) IS 'I/O';

CREATE FUNCTION @extschema@.uuid_v1_recv(internal) RETURNS @extschema@.uuid_v1
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_recv(internal) IS 'I/O: 16 bytes in the order of RFC 9562, as for uuid';

CREATE FUNCTION @extschema@.uuid_v1_send(@extschema@.uuid_v1) RETURNS bytea
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_send(@extschema@.uuid_v1) IS
'I/O: 16 bytes in the order of RFC 9562, as for uuid';

CREATE TYPE @extschema@.uuid_v1 (
    INPUT = @extschema@.uuid_v1_in, OUTPUT = @extschema@.uuid_v1_out,
    RECEIVE = @extschema@.uuid_v1_recv, SEND = @extschema@.uuid_v1_send,
    INTERNALLENGTH = 16, ALIGNMENT = char, STORAGE = plain
);
COMMENT ON TYPE @extschema@.uuid_v1 IS
'Version-1 UUID (RFC 9562 section 5.1), ordered by time, then clock sequence, then node.';

-- Casts, which are applied in assignments or explicitly.

CREATE FUNCTION @extschema@.uuid_v1(id uuid) RETURNS @extschema@.uuid_v1
AS 'MODULE_PATHNAME', 'uuid_v1_from_uuid' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1(uuid) IS 'Convert a version-1 UUID of type uuid to type uuid_v1.';

CREATE FUNCTION @extschema@.uuid(id @extschema@.uuid_v1) RETURNS uuid
AS 'MODULE_PATHNAME', 'uuid_v1_to_uuid' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid(@extschema@.uuid_v1) IS 'Convert a UUID of type uuid_v1 to type uuid.';

CREATE CAST (uuid AS @extschema@.uuid_v1) WITH FUNCTION @extschema@.uuid_v1(uuid) AS ASSIGNMENT;
COMMENT ON CAST (uuid AS @extschema@.uuid_v1) IS 'the same UUID; error if it is not of version 1';
CREATE CAST (@extschema@.uuid_v1 AS uuid) WITH FUNCTION @extschema@.uuid(@extschema@.uuid_v1) AS ASSIGNMENT;
COMMENT ON CAST (@extschema@.uuid_v1 AS uuid) IS 'the same UUID';

-- The same conversions, under the names of the extension uuid_v1 0.1.

CREATE FUNCTION @extschema@.uuid_v1_convert(id uuid) RETURNS @extschema@.uuid_v1
AS 'MODULE_PATHNAME', 'uuid_v1_from_uuid' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_convert(uuid) IS 'Convert a version-1 UUID of type uuid to type uuid_v1.';

CREATE FUNCTION @extschema@.uuid_v1_convert(id @extschema@.uuid_v1) RETURNS uuid
AS 'MODULE_PATHNAME', 'uuid_v1_to_uuid' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_convert(@extschema@.uuid_v1) IS 'Convert a UUID of type uuid_v1 to type uuid.';

-- The parts of a value.

CREATE FUNCTION @extschema@.uuid_v1_get_timestamp(id @extschema@.uuid_v1) RETURNS timestamptz
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_get_timestamp(@extschema@.uuid_v1) IS
'Return the time, truncated to microseconds: 1582-10-15 00:00:00+00 to 5236-03-31 21:21:00.684697+00.';

CREATE FUNCTION @extschema@.uuid_v1_get_epoch(id @extschema@.uuid_v1) RETURNS float8
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_get_epoch(@extschema@.uuid_v1) IS
'Return the time in seconds since 1970-01-01 00:00:00+00; earlier times are negative.';

CREATE FUNCTION @extschema@.uuid_v1_get_clockseq(id @extschema@.uuid_v1) RETURNS smallint
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_get_clockseq(@extschema@.uuid_v1) IS
'Return the clock sequence without the variant''s bits: 0 to 16383.';

CREATE FUNCTION @extschema@.uuid_v1_get_node(id @extschema@.uuid_v1) RETURNS bytea
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_get_node(@extschema@.uuid_v1) IS 'Return the node: 6 bytes.';

CREATE FUNCTION @extschema@.uuid_v1_nextval() RETURNS @extschema@.uuid_v1
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_nextval() IS
'Return the next version-1 UUID of this session, with a random node and a random clock sequence (RFC 9562 sections '
'5.1 and 6.10).';

-- Comparisons call the functions of uuid.

DO $$
DECLARE
    type CONSTANT text := '@extschema@.uuid_v1, @extschema@.uuid_v1';
    c record;
BEGIN
    FOR c IN SELECT * FROM (VALUES
        ('<', 'lt', '>', '>=', 'scalarlt', '', 'less than'),
        ('<=', 'le', '>=', '>', 'scalarle', '', 'less than or equal'),
        ('=', 'eq', '=', '<>', 'eq', ', HASHES, MERGES', 'equal'),
        ('>=', 'ge', '<=', '<', 'scalarge', '', 'greater than or equal'),
        ('>', 'gt', '<', '<=', 'scalargt', '', 'greater than'),
        ('<>', 'ne', '<>', '=', 'neq', '', 'not equal')
    ) AS v(operator, name, commutator, negator, selectivity, more, meaning) LOOP
        EXECUTE format('CREATE FUNCTION %s.uuid_v1_%s(%s) RETURNS boolean AS %L LANGUAGE internal '
                       'IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE', '@extschema@', c.name, type, 'uuid_' || c.name);
        EXECUTE format('COMMENT ON FUNCTION %s.uuid_v1_%s(%s) IS %L', '@extschema@', c.name, type,
                       format('implementation of %s operator', c.operator));
        EXECUTE format('CREATE OPERATOR %1$s.%2$s (FUNCTION = %1$s.uuid_v1_%3$s, LEFTARG = %1$s.uuid_v1, '
                       'RIGHTARG = %1$s.uuid_v1, COMMUTATOR = OPERATOR(%1$s.%4$s), NEGATOR = OPERATOR(%1$s.%5$s), '
                       'RESTRICT = %6$ssel, JOIN = %6$sjoinsel%7$s)',
                       '@extschema@', c.operator, c.name, c.commutator, c.negator, c.selectivity, c.more);
        EXECUTE format('COMMENT ON OPERATOR %s.%s (%s) IS %L', '@extschema@', c.operator, type,
                       format('%s: by time, then clock sequence, then node', c.meaning));
    END LOOP;
END $$;

CREATE FUNCTION @extschema@.uuid_v1_cmp(@extschema@.uuid_v1, @extschema@.uuid_v1) RETURNS int
AS 'uuid_cmp' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_cmp(@extschema@.uuid_v1, @extschema@.uuid_v1) IS 'less-equal-greater';

CREATE FUNCTION @extschema@.uuid_v1_sortsupport(internal) RETURNS void
AS 'uuid_sortsupport' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_sortsupport(internal) IS 'sort support';

CREATE FUNCTION @extschema@.uuid_v1_hash(@extschema@.uuid_v1) RETURNS int
AS 'uuid_hash' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_hash(@extschema@.uuid_v1) IS 'hash';

CREATE FUNCTION @extschema@.uuid_v1_hash_extended(@extschema@.uuid_v1, bigint) RETURNS bigint
AS 'uuid_hash_extended' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_hash_extended(@extschema@.uuid_v1, bigint) IS 'hash';

CREATE FUNCTION @extschema@.uuid_v1_smaller(@extschema@.uuid_v1, @extschema@.uuid_v1) RETURNS @extschema@.uuid_v1
AS 'MODULE_PATHNAME', 'uuid_smaller' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_smaller(@extschema@.uuid_v1, @extschema@.uuid_v1) IS 'smaller of two';

CREATE FUNCTION @extschema@.uuid_v1_larger(@extschema@.uuid_v1, @extschema@.uuid_v1) RETURNS @extschema@.uuid_v1
AS 'MODULE_PATHNAME', 'uuid_larger' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_larger(@extschema@.uuid_v1, @extschema@.uuid_v1) IS 'larger of two';

-- Index support.

CREATE OPERATOR CLASS @extschema@.uuid_v1_ops DEFAULT FOR TYPE @extschema@.uuid_v1 USING btree AS
    OPERATOR 1 @extschema@.<, OPERATOR 2 @extschema@.<=, OPERATOR 3 @extschema@.=,
    OPERATOR 4 @extschema@.>=, OPERATOR 5 @extschema@.>,
    FUNCTION 1 @extschema@.uuid_v1_cmp(@extschema@.uuid_v1, @extschema@.uuid_v1),
    FUNCTION 2 @extschema@.uuid_v1_sortsupport(internal),
    FUNCTION 4 btequalimage(oid);
COMMENT ON OPERATOR CLASS @extschema@.uuid_v1_ops USING btree IS 'by time, then clock sequence, then node';

-- PostgreSQL 18 and later have skip support; earlier versions reject support function 6.
DO $$
BEGIN
    IF current_setting('server_version_num')::int >= 180000 THEN
        CREATE FUNCTION @extschema@.uuid_v1_skipsupport(internal) RETURNS void
        AS 'uuid_skipsupport' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
        COMMENT ON FUNCTION @extschema@.uuid_v1_skipsupport(internal) IS 'skip support';
        ALTER OPERATOR FAMILY @extschema@.uuid_v1_ops USING btree
            ADD FUNCTION 6 (@extschema@.uuid_v1) @extschema@.uuid_v1_skipsupport(internal);
    END IF;
END $$;

CREATE OPERATOR CLASS @extschema@.uuid_v1_ops DEFAULT FOR TYPE @extschema@.uuid_v1 USING hash AS
    OPERATOR 1 @extschema@.=,
    FUNCTION 1 @extschema@.uuid_v1_hash(@extschema@.uuid_v1),
    FUNCTION 2 @extschema@.uuid_v1_hash_extended(@extschema@.uuid_v1, bigint);
COMMENT ON OPERATOR CLASS @extschema@.uuid_v1_ops USING hash IS 'hash of all bytes';

CREATE OPERATOR CLASS @extschema@.uuid_v1_minmax_ops DEFAULT FOR TYPE @extschema@.uuid_v1 USING brin AS
    OPERATOR 1 @extschema@.<, OPERATOR 2 @extschema@.<=, OPERATOR 3 @extschema@.=,
    OPERATOR 4 @extschema@.>=, OPERATOR 5 @extschema@.>,
    FUNCTION 1 brin_minmax_opcinfo(internal),
    FUNCTION 2 brin_minmax_add_value(internal, internal, internal, internal),
    FUNCTION 3 brin_minmax_consistent(internal, internal, internal),
    FUNCTION 4 brin_minmax_union(internal, internal, internal);
COMMENT ON OPERATOR CLASS @extschema@.uuid_v1_minmax_ops USING brin IS 'smallest and largest value of a block range';

CREATE OPERATOR CLASS @extschema@.uuid_v1_minmax_multi_ops FOR TYPE @extschema@.uuid_v1 USING brin AS
    OPERATOR 1 @extschema@.<, OPERATOR 2 @extschema@.<=, OPERATOR 3 @extschema@.=,
    OPERATOR 4 @extschema@.>=, OPERATOR 5 @extschema@.>,
    FUNCTION 1 brin_minmax_multi_opcinfo(internal),
    FUNCTION 2 brin_minmax_multi_add_value(internal, internal, internal, internal),
    FUNCTION 3 brin_minmax_multi_consistent(internal, internal, internal, int4),
    FUNCTION 4 brin_minmax_multi_union(internal, internal, internal),
    FUNCTION 5 brin_minmax_multi_options(internal),
    FUNCTION 11 brin_minmax_multi_distance_uuid(internal, internal);
COMMENT ON OPERATOR CLASS @extschema@.uuid_v1_minmax_multi_ops USING brin IS
'several ranges of values for a block range';

CREATE AGGREGATE @extschema@.min(@extschema@.uuid_v1) (
    SFUNC = @extschema@.uuid_v1_smaller, STYPE = @extschema@.uuid_v1,
    COMBINEFUNC = @extschema@.uuid_v1_smaller, SORTOP = OPERATOR(@extschema@.<), PARALLEL = SAFE
);
COMMENT ON AGGREGATE @extschema@.min(@extschema@.uuid_v1) IS 'earliest of all values';

CREATE AGGREGATE @extschema@.max(@extschema@.uuid_v1) (
    SFUNC = @extschema@.uuid_v1_larger, STYPE = @extschema@.uuid_v1,
    COMBINEFUNC = @extschema@.uuid_v1_larger, SORTOP = OPERATOR(@extschema@.>), PARALLEL = SAFE
);
COMMENT ON AGGREGATE @extschema@.max(@extschema@.uuid_v1) IS 'latest of all values';
