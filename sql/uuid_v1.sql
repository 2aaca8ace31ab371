-- The type uuid_v1: version-1 UUIDs, time first.
--
-- Reference P4 in docs/uuid_v1.md. 16 bytes: 60 bits of time as one native word, then clock sequence and node.

CREATE TYPE uuid_v1;

CREATE FUNCTION uuid_v1_in(cstring) RETURNS uuid_v1
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION uuid_v1_in(cstring) IS 'I/O';

CREATE FUNCTION uuid_v1_out(uuid_v1) RETURNS cstring
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION uuid_v1_out(uuid_v1) IS 'I/O';

CREATE FUNCTION uuid_v1_recv(internal) RETURNS uuid_v1
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION uuid_v1_recv(internal) IS 'I/O: 16 bytes in the order of RFC 9562, as uuid has them';

CREATE FUNCTION uuid_v1_send(uuid_v1) RETURNS bytea
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION uuid_v1_send(uuid_v1) IS 'I/O: 16 bytes in the order of RFC 9562, as uuid has them';

CREATE TYPE uuid_v1 (
    INPUT = uuid_v1_in, OUTPUT = uuid_v1_out, RECEIVE = uuid_v1_recv, SEND = uuid_v1_send,
    INTERNALLENGTH = 16, ALIGNMENT = char, STORAGE = plain
);
COMMENT ON TYPE uuid_v1 IS
'Version-1 UUID (RFC 9562 section 5.1), ordered by time, then clock sequence, then node. Text and binary form are those of uuid; a UUID of another version or variant is an error.
Range: 1582-10-15 to 5236-03-31.';

-- Casts, in assignments and explicitly.

CREATE FUNCTION uuid_v1(id uuid) RETURNS uuid_v1
AS 'MODULE_PATHNAME', 'uuid_v1_from_uuid' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION uuid_v1(uuid) IS 'The same UUID as uuid_v1. One that is not of version 1 is an error (invalid_parameter_value).';

CREATE FUNCTION uuid(id uuid_v1) RETURNS uuid
AS 'MODULE_PATHNAME', 'uuid_v1_to_uuid' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION uuid(uuid_v1) IS 'The same UUID as uuid.';

CREATE CAST (uuid AS uuid_v1) WITH FUNCTION uuid_v1(uuid) AS ASSIGNMENT;
CREATE CAST (uuid_v1 AS uuid) WITH FUNCTION uuid(uuid_v1) AS ASSIGNMENT;

-- Its parts.

CREATE FUNCTION uuid_v1_get_timestamp(id uuid_v1) RETURNS timestamptz
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION uuid_v1_get_timestamp(uuid_v1) IS 'Time, cut to microseconds: 1582-10-15 00:00:00+00 to 5236-03-31 21:21:00.684697+00.';

CREATE FUNCTION uuid_v1_get_epoch(id uuid_v1) RETURNS float8
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION uuid_v1_get_epoch(uuid_v1) IS 'Time in seconds since 1970-01-01 00:00:00+00, negative before.';

CREATE FUNCTION uuid_v1_get_clockseq(id uuid_v1) RETURNS smallint
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION uuid_v1_get_clockseq(uuid_v1) IS 'Clock sequence without the variant''s bits: 0 to 16383.';

CREATE FUNCTION uuid_v1_get_node(id uuid_v1) RETURNS bytea
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION uuid_v1_get_node(uuid_v1) IS 'Node: 6 bytes.';

CREATE FUNCTION uuid_v1_nextval() RETURNS uuid_v1
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION uuid_v1_nextval() IS
'Next version-1 UUID of this session: a random node with the multicast bit and a random clock sequence, both kept for the session (RFC 9562 sections 5.1 and 6.10). A tick of 100 ns is used once; when the clock steps back, the clock sequence goes on by one.
Range: the clock must show no later than 5236.';

-- Comparisons.

CREATE FUNCTION uuid_v1_lt(uuid_v1, uuid_v1) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION uuid_v1_lt(uuid_v1, uuid_v1) IS 'implementation of < operator';

CREATE FUNCTION uuid_v1_le(uuid_v1, uuid_v1) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION uuid_v1_le(uuid_v1, uuid_v1) IS 'implementation of <= operator';

CREATE FUNCTION uuid_v1_eq(uuid_v1, uuid_v1) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION uuid_v1_eq(uuid_v1, uuid_v1) IS 'implementation of = operator';

CREATE FUNCTION uuid_v1_ge(uuid_v1, uuid_v1) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION uuid_v1_ge(uuid_v1, uuid_v1) IS 'implementation of >= operator';

CREATE FUNCTION uuid_v1_gt(uuid_v1, uuid_v1) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION uuid_v1_gt(uuid_v1, uuid_v1) IS 'implementation of > operator';

CREATE FUNCTION uuid_v1_ne(uuid_v1, uuid_v1) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION uuid_v1_ne(uuid_v1, uuid_v1) IS 'implementation of <> operator';

CREATE OPERATOR < (
    FUNCTION = uuid_v1_lt, LEFTARG = uuid_v1, RIGHTARG = uuid_v1, COMMUTATOR = >, NEGATOR = >=,
    RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);
COMMENT ON OPERATOR < (uuid_v1, uuid_v1) IS 'less than: by time, then clock sequence, then node';

CREATE OPERATOR <= (
    FUNCTION = uuid_v1_le, LEFTARG = uuid_v1, RIGHTARG = uuid_v1, COMMUTATOR = >=, NEGATOR = >,
    RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
COMMENT ON OPERATOR <= (uuid_v1, uuid_v1) IS 'less than or equal: by time, then clock sequence, then node';

CREATE OPERATOR = (
    FUNCTION = uuid_v1_eq, LEFTARG = uuid_v1, RIGHTARG = uuid_v1, COMMUTATOR = =, NEGATOR = <>,
    RESTRICT = eqsel, JOIN = eqjoinsel, HASHES, MERGES
);
COMMENT ON OPERATOR = (uuid_v1, uuid_v1) IS 'equal: by time, then clock sequence, then node';

CREATE OPERATOR >= (
    FUNCTION = uuid_v1_ge, LEFTARG = uuid_v1, RIGHTARG = uuid_v1, COMMUTATOR = <=, NEGATOR = <,
    RESTRICT = scalargesel, JOIN = scalargejoinsel
);
COMMENT ON OPERATOR >= (uuid_v1, uuid_v1) IS 'greater than or equal: by time, then clock sequence, then node';

CREATE OPERATOR > (
    FUNCTION = uuid_v1_gt, LEFTARG = uuid_v1, RIGHTARG = uuid_v1, COMMUTATOR = <, NEGATOR = <=,
    RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);
COMMENT ON OPERATOR > (uuid_v1, uuid_v1) IS 'greater than: by time, then clock sequence, then node';

CREATE OPERATOR <> (
    FUNCTION = uuid_v1_ne, LEFTARG = uuid_v1, RIGHTARG = uuid_v1, COMMUTATOR = <>, NEGATOR = =,
    RESTRICT = neqsel, JOIN = neqjoinsel
);
COMMENT ON OPERATOR <> (uuid_v1, uuid_v1) IS 'not equal: by time, then clock sequence, then node';

CREATE FUNCTION uuid_v1_cmp(uuid_v1, uuid_v1) RETURNS int
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION uuid_v1_cmp(uuid_v1, uuid_v1) IS 'less-equal-greater';

CREATE FUNCTION uuid_v1_sortsupport(internal) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION uuid_v1_sortsupport(internal) IS 'sort support; the time is the abbreviation';

CREATE FUNCTION uuid_v1_hash(uuid_v1) RETURNS int
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION uuid_v1_hash(uuid_v1) IS 'hash';

CREATE FUNCTION uuid_v1_hash_extended(uuid_v1, bigint) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION uuid_v1_hash_extended(uuid_v1, bigint) IS 'hash';

CREATE FUNCTION uuid_v1_distance(internal, internal) RETURNS float8
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION uuid_v1_distance(internal, internal) IS 'BRIN multi minmax distance, in ticks of 100 ns';

CREATE FUNCTION uuid_v1_smaller(uuid_v1, uuid_v1) RETURNS uuid_v1
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION uuid_v1_smaller(uuid_v1, uuid_v1) IS 'smaller of two';

CREATE FUNCTION uuid_v1_larger(uuid_v1, uuid_v1) RETURNS uuid_v1
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION uuid_v1_larger(uuid_v1, uuid_v1) IS 'larger of two';

-- Index support.

CREATE OPERATOR CLASS uuid_v1_ops DEFAULT FOR TYPE uuid_v1 USING btree AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 uuid_v1_cmp(uuid_v1, uuid_v1),
    FUNCTION 2 uuid_v1_sortsupport(internal),
    FUNCTION 4 btequalimage(oid);

-- Skip support is of PostgreSQL 18 and later; earlier ones refuse a function of that number.
DO $$
BEGIN
    IF current_setting('server_version_num')::int >= 180000 THEN
        CREATE FUNCTION uuid_v1_skipsupport(internal) RETURNS void
        AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
        COMMENT ON FUNCTION uuid_v1_skipsupport(internal) IS 'skip support';
        ALTER OPERATOR FAMILY uuid_v1_ops USING btree ADD FUNCTION 6 (uuid_v1) uuid_v1_skipsupport(internal);
    END IF;
END $$;

CREATE OPERATOR CLASS uuid_v1_ops DEFAULT FOR TYPE uuid_v1 USING hash AS
    OPERATOR 1 =,
    FUNCTION 1 uuid_v1_hash(uuid_v1),
    FUNCTION 2 uuid_v1_hash_extended(uuid_v1, bigint);

CREATE OPERATOR CLASS uuid_v1_minmax_ops DEFAULT FOR TYPE uuid_v1 USING brin AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 brin_minmax_opcinfo(internal),
    FUNCTION 2 brin_minmax_add_value(internal, internal, internal, internal),
    FUNCTION 3 brin_minmax_consistent(internal, internal, internal),
    FUNCTION 4 brin_minmax_union(internal, internal, internal);

CREATE OPERATOR CLASS uuid_v1_minmax_multi_ops FOR TYPE uuid_v1 USING brin AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 brin_minmax_multi_opcinfo(internal),
    FUNCTION 2 brin_minmax_multi_add_value(internal, internal, internal, internal),
    FUNCTION 3 brin_minmax_multi_consistent(internal, internal, internal, int4),
    FUNCTION 4 brin_minmax_multi_union(internal, internal, internal),
    FUNCTION 5 brin_minmax_multi_options(internal),
    FUNCTION 11 uuid_v1_distance(internal, internal);

CREATE AGGREGATE min(uuid_v1) (
    SFUNC = uuid_v1_smaller, STYPE = uuid_v1, COMBINEFUNC = uuid_v1_smaller, SORTOP = <, PARALLEL = SAFE
);
COMMENT ON AGGREGATE min(uuid_v1) IS 'earliest of all values';

CREATE AGGREGATE max(uuid_v1) (
    SFUNC = uuid_v1_larger, STYPE = uuid_v1, COMBINEFUNC = uuid_v1_larger, SORTOP = >, PARALLEL = SAFE
);
COMMENT ON AGGREGATE max(uuid_v1) IS 'latest of all values';
