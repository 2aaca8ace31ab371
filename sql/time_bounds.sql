-- Time on keys: comparing uuid_v1, and uuid of version 7, with timestamptz and tstzrange.
--
-- Each operator is rewritten by the planner into comparisons of the key with a bound of its own type
-- (src/time_support.c), so btree, BRIN, statistics and partition pruning serve it.
--
-- The operators over ranges have names of their own: as <@ and @> they would match a tstzrange exactly, and so come
-- before the server's own, which are polymorphic, wherever the other side is a literal or an untyped parameter.

CREATE FUNCTION @extschema@.uuid_v1_time_bound(moment timestamptz, after boolean) RETURNS @extschema@.uuid_v1
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_time_bound(timestamptz, boolean) IS
'Internal function. What the planner compares keys with instead of a moment: the smallest key of its microsecond, or '
'(after) of a later one; the lowest of all before 1582-10-15 00:00:00+00.
A bound after 5236-03-31 21:21:00.684697+00 is an error (datetime_field_overflow) unless the planner calls.';

CREATE FUNCTION @extschema@.uuid_v1_range_bound(range tstzrange, upper boolean) RETURNS @extschema@.uuid_v1
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_range_bound(tstzrange, boolean) IS
'Internal function. What the planner compares keys with instead of a range: the smallest key in it, or (upper) behind '
'it; the lowest of all before 1582-10-15 00:00:00+00.
A bound after 5236-03-31 21:21:00.684697+00 is an error (datetime_field_overflow) unless the planner calls.';

CREATE FUNCTION @extschema@.uuid_v7_time_bound(moment timestamptz, after boolean) RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v7_time_bound(timestamptz, boolean) IS
'Internal function. What the planner compares keys with instead of a moment: the smallest key of its microsecond, or '
'(after) of a later one; the least uuid or the greatest, which are of no version, outside of 1970-01-01 00:00:00+00 to '
'10889-08-02 05:31:50.655999+00.';

CREATE FUNCTION @extschema@.uuid_v7_range_bound(range tstzrange, upper boolean) RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v7_range_bound(tstzrange, boolean) IS
'Internal function. What the planner compares keys with instead of a range: the smallest key in it, or (upper) behind '
'it; the least uuid or the greatest, which are of no version, outside of 1970-01-01 00:00:00+00 to '
'10889-08-02 05:31:50.655999+00.';

CREATE FUNCTION @extschema@.uuid_v7_checked_support(internal) RETURNS internal
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v7_checked_support(internal) IS 'planner support';

CREATE FUNCTION @extschema@.uuid_v7_checked(id uuid, moment "any") RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 3 SUPPORT @extschema@.uuid_v7_checked_support;
COMMENT ON FUNCTION @extschema@.uuid_v7_checked(uuid, "any") IS
'Internal function. What the planner puts beside a comparison with bounds: true, or an error '
'(invalid_parameter_value) if the key is not of version 7. It costs more than the bounds, to be evaluated after them.';

CREATE FUNCTION @extschema@.uuid_v1_floor(moment timestamptz) RETURNS @extschema@.uuid_v1
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_floor(timestamptz) IS
'Smallest value of that microsecond.
Range: 1582-10-15 00:00:00+00 to 5236-03-31 21:21:00.684697+00; anything else, infinity included, is an error '
'(datetime_field_overflow).';

CREATE FUNCTION @extschema@.uuid_v1_ceiling(moment timestamptz) RETURNS @extschema@.uuid_v1
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_ceiling(timestamptz) IS
'Largest value of that microsecond.
Range: 1582-10-15 00:00:00+00 to 5236-03-31 21:21:00.684697+00; anything else, infinity included, is an error '
'(datetime_field_overflow).';

CREATE FUNCTION @extschema@.uuid_v7_ceiling(moment timestamptz) RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v7_ceiling(timestamptz) IS
'Largest version-7 key of that microsecond.
Range: 1970-01-01 00:00:00+00 to 10889-08-02 05:31:50.655999+00; anything else, infinity included, is an error '
'(datetime_field_overflow).';

CREATE FUNCTION @extschema@.uuid_time_lt_support(internal) RETURNS internal
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_time_lt_support(internal) IS 'planner support';

CREATE FUNCTION @extschema@.uuid_time_le_support(internal) RETURNS internal
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_time_le_support(internal) IS 'planner support';

CREATE FUNCTION @extschema@.uuid_time_ge_support(internal) RETURNS internal
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_time_ge_support(internal) IS 'planner support';

CREATE FUNCTION @extschema@.uuid_time_gt_support(internal) RETURNS internal
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_time_gt_support(internal) IS 'planner support';

CREATE FUNCTION @extschema@.uuid_time_eq_support(internal) RETURNS internal
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_time_eq_support(internal) IS 'planner support';

CREATE FUNCTION @extschema@.uuid_time_ne_support(internal) RETURNS internal
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_time_ne_support(internal) IS 'planner support';

-- uuid_v1 and timestamptz.

CREATE FUNCTION @extschema@.uuid_v1_lt_time(@extschema@.uuid_v1, timestamptz) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_lt_support;
COMMENT ON FUNCTION @extschema@.uuid_v1_lt_time(@extschema@.uuid_v1, timestamptz) IS 'implementation of <~ operator';

CREATE FUNCTION @extschema@.time_lt_uuid_v1(timestamptz, @extschema@.uuid_v1) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_gt_support;
COMMENT ON FUNCTION @extschema@.time_lt_uuid_v1(timestamptz, @extschema@.uuid_v1) IS 'implementation of <~ operator';

CREATE FUNCTION @extschema@.uuid_v1_le_time(@extschema@.uuid_v1, timestamptz) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_le_support;
COMMENT ON FUNCTION @extschema@.uuid_v1_le_time(@extschema@.uuid_v1, timestamptz) IS 'implementation of <=~ operator';

CREATE FUNCTION @extschema@.time_le_uuid_v1(timestamptz, @extschema@.uuid_v1) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_ge_support;
COMMENT ON FUNCTION @extschema@.time_le_uuid_v1(timestamptz, @extschema@.uuid_v1) IS 'implementation of <=~ operator';

CREATE FUNCTION @extschema@.uuid_v1_ge_time(@extschema@.uuid_v1, timestamptz) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_ge_support;
COMMENT ON FUNCTION @extschema@.uuid_v1_ge_time(@extschema@.uuid_v1, timestamptz) IS 'implementation of >=~ operator';

CREATE FUNCTION @extschema@.time_ge_uuid_v1(timestamptz, @extschema@.uuid_v1) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_le_support;
COMMENT ON FUNCTION @extschema@.time_ge_uuid_v1(timestamptz, @extschema@.uuid_v1) IS 'implementation of >=~ operator';

CREATE FUNCTION @extschema@.uuid_v1_gt_time(@extschema@.uuid_v1, timestamptz) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_gt_support;
COMMENT ON FUNCTION @extschema@.uuid_v1_gt_time(@extschema@.uuid_v1, timestamptz) IS 'implementation of >~ operator';

CREATE FUNCTION @extschema@.time_gt_uuid_v1(timestamptz, @extschema@.uuid_v1) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_lt_support;
COMMENT ON FUNCTION @extschema@.time_gt_uuid_v1(timestamptz, @extschema@.uuid_v1) IS 'implementation of >~ operator';

CREATE FUNCTION @extschema@.uuid_v1_eq_time(@extschema@.uuid_v1, timestamptz) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_eq_support;
COMMENT ON FUNCTION @extschema@.uuid_v1_eq_time(@extschema@.uuid_v1, timestamptz) IS 'implementation of =~ operator';

CREATE FUNCTION @extschema@.time_eq_uuid_v1(timestamptz, @extschema@.uuid_v1) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_eq_support;
COMMENT ON FUNCTION @extschema@.time_eq_uuid_v1(timestamptz, @extschema@.uuid_v1) IS 'implementation of =~ operator';

CREATE FUNCTION @extschema@.uuid_v1_ne_time(@extschema@.uuid_v1, timestamptz) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_ne_support;
COMMENT ON FUNCTION @extschema@.uuid_v1_ne_time(@extschema@.uuid_v1, timestamptz) IS 'implementation of <>~ operator';

CREATE FUNCTION @extschema@.time_ne_uuid_v1(timestamptz, @extschema@.uuid_v1) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_ne_support;
COMMENT ON FUNCTION @extschema@.time_ne_uuid_v1(timestamptz, @extschema@.uuid_v1) IS 'implementation of <>~ operator';

CREATE OPERATOR @extschema@.<~ (
    FUNCTION = @extschema@.uuid_v1_lt_time, LEFTARG = @extschema@.uuid_v1, RIGHTARG = timestamptz,
    COMMUTATOR = OPERATOR(@extschema@.>~), NEGATOR = OPERATOR(@extschema@.>=~),
    RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);
COMMENT ON OPERATOR @extschema@.<~ (@extschema@.uuid_v1, timestamptz) IS 'key earlier than the moment';

CREATE OPERATOR @extschema@.<~ (
    FUNCTION = @extschema@.time_lt_uuid_v1, LEFTARG = timestamptz, RIGHTARG = @extschema@.uuid_v1,
    COMMUTATOR = OPERATOR(@extschema@.>~), NEGATOR = OPERATOR(@extschema@.>=~),
    RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);
COMMENT ON OPERATOR @extschema@.<~ (timestamptz, @extschema@.uuid_v1) IS 'moment earlier than the key';

CREATE OPERATOR @extschema@.<=~ (
    FUNCTION = @extschema@.uuid_v1_le_time, LEFTARG = @extschema@.uuid_v1, RIGHTARG = timestamptz,
    COMMUTATOR = OPERATOR(@extschema@.>=~), NEGATOR = OPERATOR(@extschema@.>~),
    RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
COMMENT ON OPERATOR @extschema@.<=~ (@extschema@.uuid_v1, timestamptz) IS 'key not later than the moment';

CREATE OPERATOR @extschema@.<=~ (
    FUNCTION = @extschema@.time_le_uuid_v1, LEFTARG = timestamptz, RIGHTARG = @extschema@.uuid_v1,
    COMMUTATOR = OPERATOR(@extschema@.>=~), NEGATOR = OPERATOR(@extschema@.>~),
    RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
COMMENT ON OPERATOR @extschema@.<=~ (timestamptz, @extschema@.uuid_v1) IS 'moment not later than the key';

CREATE OPERATOR @extschema@.>=~ (
    FUNCTION = @extschema@.uuid_v1_ge_time, LEFTARG = @extschema@.uuid_v1, RIGHTARG = timestamptz,
    COMMUTATOR = OPERATOR(@extschema@.<=~), NEGATOR = OPERATOR(@extschema@.<~),
    RESTRICT = scalargesel, JOIN = scalargejoinsel
);
COMMENT ON OPERATOR @extschema@.>=~ (@extschema@.uuid_v1, timestamptz) IS 'key not earlier than the moment';

CREATE OPERATOR @extschema@.>=~ (
    FUNCTION = @extschema@.time_ge_uuid_v1, LEFTARG = timestamptz, RIGHTARG = @extschema@.uuid_v1,
    COMMUTATOR = OPERATOR(@extschema@.<=~), NEGATOR = OPERATOR(@extschema@.<~),
    RESTRICT = scalargesel, JOIN = scalargejoinsel
);
COMMENT ON OPERATOR @extschema@.>=~ (timestamptz, @extschema@.uuid_v1) IS 'moment not earlier than the key';

CREATE OPERATOR @extschema@.>~ (
    FUNCTION = @extschema@.uuid_v1_gt_time, LEFTARG = @extschema@.uuid_v1, RIGHTARG = timestamptz,
    COMMUTATOR = OPERATOR(@extschema@.<~), NEGATOR = OPERATOR(@extschema@.<=~),
    RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);
COMMENT ON OPERATOR @extschema@.>~ (@extschema@.uuid_v1, timestamptz) IS 'key later than the moment';

CREATE OPERATOR @extschema@.>~ (
    FUNCTION = @extschema@.time_gt_uuid_v1, LEFTARG = timestamptz, RIGHTARG = @extschema@.uuid_v1,
    COMMUTATOR = OPERATOR(@extschema@.<~), NEGATOR = OPERATOR(@extschema@.<=~),
    RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);
COMMENT ON OPERATOR @extschema@.>~ (timestamptz, @extschema@.uuid_v1) IS 'moment later than the key';

CREATE OPERATOR @extschema@.=~ (
    FUNCTION = @extschema@.uuid_v1_eq_time, LEFTARG = @extschema@.uuid_v1, RIGHTARG = timestamptz,
    COMMUTATOR = OPERATOR(@extschema@.=~), NEGATOR = OPERATOR(@extschema@.<>~),
    RESTRICT = eqsel, JOIN = eqjoinsel
);
COMMENT ON OPERATOR @extschema@.=~ (@extschema@.uuid_v1, timestamptz) IS 'key of the same microsecond as the moment';

CREATE OPERATOR @extschema@.=~ (
    FUNCTION = @extschema@.time_eq_uuid_v1, LEFTARG = timestamptz, RIGHTARG = @extschema@.uuid_v1,
    COMMUTATOR = OPERATOR(@extschema@.=~), NEGATOR = OPERATOR(@extschema@.<>~),
    RESTRICT = eqsel, JOIN = eqjoinsel
);
COMMENT ON OPERATOR @extschema@.=~ (timestamptz, @extschema@.uuid_v1) IS 'moment of the same microsecond as the key';

CREATE OPERATOR @extschema@.<>~ (
    FUNCTION = @extschema@.uuid_v1_ne_time, LEFTARG = @extschema@.uuid_v1, RIGHTARG = timestamptz,
    COMMUTATOR = OPERATOR(@extschema@.<>~), NEGATOR = OPERATOR(@extschema@.=~),
    RESTRICT = neqsel, JOIN = neqjoinsel
);
COMMENT ON OPERATOR @extschema@.<>~ (@extschema@.uuid_v1, timestamptz) IS
'key not of the same microsecond as the moment';

CREATE OPERATOR @extschema@.<>~ (
    FUNCTION = @extschema@.time_ne_uuid_v1, LEFTARG = timestamptz, RIGHTARG = @extschema@.uuid_v1,
    COMMUTATOR = OPERATOR(@extschema@.<>~), NEGATOR = OPERATOR(@extschema@.=~),
    RESTRICT = neqsel, JOIN = neqjoinsel
);
COMMENT ON OPERATOR @extschema@.<>~ (timestamptz, @extschema@.uuid_v1) IS
'moment not of the same microsecond as the key';

CREATE FUNCTION @extschema@.uuid_v1_in_range(@extschema@.uuid_v1, tstzrange) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_eq_support;
COMMENT ON FUNCTION @extschema@.uuid_v1_in_range(@extschema@.uuid_v1, tstzrange) IS 'implementation of <@~ operator';

CREATE FUNCTION @extschema@.range_has_uuid_v1(tstzrange, @extschema@.uuid_v1) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_eq_support;
COMMENT ON FUNCTION @extschema@.range_has_uuid_v1(tstzrange, @extschema@.uuid_v1) IS 'implementation of @>~ operator';

CREATE OPERATOR @extschema@.<@~ (
    FUNCTION = @extschema@.uuid_v1_in_range, LEFTARG = @extschema@.uuid_v1, RIGHTARG = tstzrange,
    COMMUTATOR = OPERATOR(@extschema@.@>~), RESTRICT = contsel, JOIN = contjoinsel
);
COMMENT ON OPERATOR @extschema@.<@~ (@extschema@.uuid_v1, tstzrange) IS 'the key''s time is in the range';

CREATE OPERATOR @extschema@.@>~ (
    FUNCTION = @extschema@.range_has_uuid_v1, LEFTARG = tstzrange, RIGHTARG = @extschema@.uuid_v1,
    COMMUTATOR = OPERATOR(@extschema@.<@~), RESTRICT = contsel, JOIN = contjoinsel
);
COMMENT ON OPERATOR @extschema@.@>~ (tstzrange, @extschema@.uuid_v1) IS 'the range holds the key''s time';

-- uuid of version 7 and timestamptz.

CREATE FUNCTION @extschema@.uuid_v7_lt_time(uuid, timestamptz) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_lt_support;
COMMENT ON FUNCTION @extschema@.uuid_v7_lt_time(uuid, timestamptz) IS 'implementation of <~ operator';

CREATE FUNCTION @extschema@.time_lt_uuid_v7(timestamptz, uuid) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_gt_support;
COMMENT ON FUNCTION @extschema@.time_lt_uuid_v7(timestamptz, uuid) IS 'implementation of <~ operator';

CREATE FUNCTION @extschema@.uuid_v7_le_time(uuid, timestamptz) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_le_support;
COMMENT ON FUNCTION @extschema@.uuid_v7_le_time(uuid, timestamptz) IS 'implementation of <=~ operator';

CREATE FUNCTION @extschema@.time_le_uuid_v7(timestamptz, uuid) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_ge_support;
COMMENT ON FUNCTION @extschema@.time_le_uuid_v7(timestamptz, uuid) IS 'implementation of <=~ operator';

CREATE FUNCTION @extschema@.uuid_v7_ge_time(uuid, timestamptz) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_ge_support;
COMMENT ON FUNCTION @extschema@.uuid_v7_ge_time(uuid, timestamptz) IS 'implementation of >=~ operator';

CREATE FUNCTION @extschema@.time_ge_uuid_v7(timestamptz, uuid) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_le_support;
COMMENT ON FUNCTION @extschema@.time_ge_uuid_v7(timestamptz, uuid) IS 'implementation of >=~ operator';

CREATE FUNCTION @extschema@.uuid_v7_gt_time(uuid, timestamptz) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_gt_support;
COMMENT ON FUNCTION @extschema@.uuid_v7_gt_time(uuid, timestamptz) IS 'implementation of >~ operator';

CREATE FUNCTION @extschema@.time_gt_uuid_v7(timestamptz, uuid) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_lt_support;
COMMENT ON FUNCTION @extschema@.time_gt_uuid_v7(timestamptz, uuid) IS 'implementation of >~ operator';

CREATE FUNCTION @extschema@.uuid_v7_eq_time(uuid, timestamptz) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_eq_support;
COMMENT ON FUNCTION @extschema@.uuid_v7_eq_time(uuid, timestamptz) IS 'implementation of =~ operator';

CREATE FUNCTION @extschema@.time_eq_uuid_v7(timestamptz, uuid) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_eq_support;
COMMENT ON FUNCTION @extschema@.time_eq_uuid_v7(timestamptz, uuid) IS 'implementation of =~ operator';

CREATE FUNCTION @extschema@.uuid_v7_ne_time(uuid, timestamptz) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_ne_support;
COMMENT ON FUNCTION @extschema@.uuid_v7_ne_time(uuid, timestamptz) IS 'implementation of <>~ operator';

CREATE FUNCTION @extschema@.time_ne_uuid_v7(timestamptz, uuid) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_ne_support;
COMMENT ON FUNCTION @extschema@.time_ne_uuid_v7(timestamptz, uuid) IS 'implementation of <>~ operator';

CREATE OPERATOR @extschema@.<~ (
    FUNCTION = @extschema@.uuid_v7_lt_time, LEFTARG = uuid, RIGHTARG = timestamptz,
    COMMUTATOR = OPERATOR(@extschema@.>~), NEGATOR = OPERATOR(@extschema@.>=~),
    RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);
COMMENT ON OPERATOR @extschema@.<~ (uuid, timestamptz) IS
'key earlier than the moment; a key that is not of version 7 is an error';

CREATE OPERATOR @extschema@.<~ (
    FUNCTION = @extschema@.time_lt_uuid_v7, LEFTARG = timestamptz, RIGHTARG = uuid,
    COMMUTATOR = OPERATOR(@extschema@.>~), NEGATOR = OPERATOR(@extschema@.>=~),
    RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);
COMMENT ON OPERATOR @extschema@.<~ (timestamptz, uuid) IS
'moment earlier than the key; a key that is not of version 7 is an error';

CREATE OPERATOR @extschema@.<=~ (
    FUNCTION = @extschema@.uuid_v7_le_time, LEFTARG = uuid, RIGHTARG = timestamptz,
    COMMUTATOR = OPERATOR(@extschema@.>=~), NEGATOR = OPERATOR(@extschema@.>~),
    RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
COMMENT ON OPERATOR @extschema@.<=~ (uuid, timestamptz) IS
'key not later than the moment; a key that is not of version 7 is an error';

CREATE OPERATOR @extschema@.<=~ (
    FUNCTION = @extschema@.time_le_uuid_v7, LEFTARG = timestamptz, RIGHTARG = uuid,
    COMMUTATOR = OPERATOR(@extschema@.>=~), NEGATOR = OPERATOR(@extschema@.>~),
    RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
COMMENT ON OPERATOR @extschema@.<=~ (timestamptz, uuid) IS
'moment not later than the key; a key that is not of version 7 is an error';

CREATE OPERATOR @extschema@.>=~ (
    FUNCTION = @extschema@.uuid_v7_ge_time, LEFTARG = uuid, RIGHTARG = timestamptz,
    COMMUTATOR = OPERATOR(@extschema@.<=~), NEGATOR = OPERATOR(@extschema@.<~),
    RESTRICT = scalargesel, JOIN = scalargejoinsel
);
COMMENT ON OPERATOR @extschema@.>=~ (uuid, timestamptz) IS
'key not earlier than the moment; a key that is not of version 7 is an error';

CREATE OPERATOR @extschema@.>=~ (
    FUNCTION = @extschema@.time_ge_uuid_v7, LEFTARG = timestamptz, RIGHTARG = uuid,
    COMMUTATOR = OPERATOR(@extschema@.<=~), NEGATOR = OPERATOR(@extschema@.<~),
    RESTRICT = scalargesel, JOIN = scalargejoinsel
);
COMMENT ON OPERATOR @extschema@.>=~ (timestamptz, uuid) IS
'moment not earlier than the key; a key that is not of version 7 is an error';

CREATE OPERATOR @extschema@.>~ (
    FUNCTION = @extschema@.uuid_v7_gt_time, LEFTARG = uuid, RIGHTARG = timestamptz,
    COMMUTATOR = OPERATOR(@extschema@.<~), NEGATOR = OPERATOR(@extschema@.<=~),
    RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);
COMMENT ON OPERATOR @extschema@.>~ (uuid, timestamptz) IS
'key later than the moment; a key that is not of version 7 is an error';

CREATE OPERATOR @extschema@.>~ (
    FUNCTION = @extschema@.time_gt_uuid_v7, LEFTARG = timestamptz, RIGHTARG = uuid,
    COMMUTATOR = OPERATOR(@extschema@.<~), NEGATOR = OPERATOR(@extschema@.<=~),
    RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);
COMMENT ON OPERATOR @extschema@.>~ (timestamptz, uuid) IS
'moment later than the key; a key that is not of version 7 is an error';

CREATE OPERATOR @extschema@.=~ (
    FUNCTION = @extschema@.uuid_v7_eq_time, LEFTARG = uuid, RIGHTARG = timestamptz,
    COMMUTATOR = OPERATOR(@extschema@.=~), NEGATOR = OPERATOR(@extschema@.<>~),
    RESTRICT = eqsel, JOIN = eqjoinsel
);
COMMENT ON OPERATOR @extschema@.=~ (uuid, timestamptz) IS
'key of the same microsecond as the moment; a key that is not of version 7 is an error';

CREATE OPERATOR @extschema@.=~ (
    FUNCTION = @extschema@.time_eq_uuid_v7, LEFTARG = timestamptz, RIGHTARG = uuid,
    COMMUTATOR = OPERATOR(@extschema@.=~), NEGATOR = OPERATOR(@extschema@.<>~),
    RESTRICT = eqsel, JOIN = eqjoinsel
);
COMMENT ON OPERATOR @extschema@.=~ (timestamptz, uuid) IS
'moment of the same microsecond as the key; a key that is not of version 7 is an error';

CREATE OPERATOR @extschema@.<>~ (
    FUNCTION = @extschema@.uuid_v7_ne_time, LEFTARG = uuid, RIGHTARG = timestamptz,
    COMMUTATOR = OPERATOR(@extschema@.<>~), NEGATOR = OPERATOR(@extschema@.=~),
    RESTRICT = neqsel, JOIN = neqjoinsel
);
COMMENT ON OPERATOR @extschema@.<>~ (uuid, timestamptz) IS
'key not of the same microsecond as the moment; a key that is not of version 7 is an error';

CREATE OPERATOR @extschema@.<>~ (
    FUNCTION = @extschema@.time_ne_uuid_v7, LEFTARG = timestamptz, RIGHTARG = uuid,
    COMMUTATOR = OPERATOR(@extschema@.<>~), NEGATOR = OPERATOR(@extschema@.=~),
    RESTRICT = neqsel, JOIN = neqjoinsel
);
COMMENT ON OPERATOR @extschema@.<>~ (timestamptz, uuid) IS
'moment not of the same microsecond as the key; a key that is not of version 7 is an error';

CREATE FUNCTION @extschema@.uuid_v7_in_range(uuid, tstzrange) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_eq_support;
COMMENT ON FUNCTION @extschema@.uuid_v7_in_range(uuid, tstzrange) IS 'implementation of <@~ operator';

CREATE FUNCTION @extschema@.range_has_uuid_v7(tstzrange, uuid) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.uuid_time_eq_support;
COMMENT ON FUNCTION @extschema@.range_has_uuid_v7(tstzrange, uuid) IS 'implementation of @>~ operator';

CREATE OPERATOR @extschema@.<@~ (
    FUNCTION = @extschema@.uuid_v7_in_range, LEFTARG = uuid, RIGHTARG = tstzrange,
    COMMUTATOR = OPERATOR(@extschema@.@>~), RESTRICT = contsel, JOIN = contjoinsel
);
COMMENT ON OPERATOR @extschema@.<@~ (uuid, tstzrange) IS
'the key''s time is in the range; a key that is not of version 7 is an error';

CREATE OPERATOR @extschema@.@>~ (
    FUNCTION = @extschema@.range_has_uuid_v7, LEFTARG = tstzrange, RIGHTARG = uuid,
    COMMUTATOR = OPERATOR(@extschema@.<@~), RESTRICT = contsel, JOIN = contjoinsel
);
COMMENT ON OPERATOR @extschema@.@>~ (tstzrange, uuid) IS
'the range holds the key''s time; a key that is not of version 7 is an error';
