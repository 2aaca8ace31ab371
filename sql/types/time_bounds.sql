-- Time comparisons on keys: uuid_v1, and uuid of version 7, with timestamptz and tstzrange.
--
-- The planner rewrites each operator into comparisons of the key with a bound of its own type
-- (time_support.c), so btree and BRIN indexes, statistics and partition pruning apply.
--
-- The range operators are not named <@ and @>: these would match a tstzrange exactly, and so be preferred to the
-- server's own, which are polymorphic, if the other side is a literal or an untyped parameter.

CREATE FUNCTION @extschema@.uuid_v1_time_bound(moment timestamptz, after boolean) RETURNS @extschema@.uuid_v1
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_time_bound(timestamptz, boolean) IS
'Internal function. The bound with which the planner compares keys: the smallest key of the microsecond of a moment, '
'or (after) of the next one; the lowest key before 1582-10-15 00:00:00+00.
A bound after 5236-03-31 21:21:00.684697+00 is an error (datetime_field_overflow) unless called by the planner.';

CREATE FUNCTION @extschema@.uuid_v1_range_bound(range tstzrange, upper boolean) RETURNS @extschema@.uuid_v1
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_range_bound(tstzrange, boolean) IS
'Internal function. The bound with which the planner compares keys: the smallest key in a range, or (upper) after it; '
'the lowest key before 1582-10-15 00:00:00+00.
A bound after 5236-03-31 21:21:00.684697+00 is an error (datetime_field_overflow) unless called by the planner.';

CREATE FUNCTION @extschema@.uuid_v7_time_bound(moment timestamptz, after boolean) RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v7_time_bound(timestamptz, boolean) IS
'Internal function. The bound with which the planner compares keys: the smallest key of the microsecond of a moment, '
'or (after) of the next one; outside of 1970-01-01 00:00:00+00 to 10889-08-02 05:31:50.655999+00 the least or the '
'greatest uuid, which are of no version.';

CREATE FUNCTION @extschema@.uuid_v7_range_bound(range tstzrange, upper boolean) RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v7_range_bound(tstzrange, boolean) IS
'Internal function. The bound with which the planner compares keys: the smallest key in a range, or (upper) after it; '
'outside of 1970-01-01 00:00:00+00 to 10889-08-02 05:31:50.655999+00 the least or the greatest uuid, which are of no '
'version.';

CREATE FUNCTION @extschema@.uuid_v7_checked_support(internal) RETURNS internal
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v7_checked_support(internal) IS 'planner support';

CREATE FUNCTION @extschema@.uuid_v7_checked(id uuid, moment "any") RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 3 SUPPORT @extschema@.uuid_v7_checked_support;
COMMENT ON FUNCTION @extschema@.uuid_v7_checked(uuid, "any") IS
'Internal function. Filter that the planner adds to a comparison with bounds: true, or an error '
'(invalid_parameter_value) if the key is not of version 7. Its cost is higher, so it is evaluated after the bounds.';

CREATE FUNCTION @extschema@.uuid_v1_floor(moment timestamptz) RETURNS @extschema@.uuid_v1
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_floor(timestamptz) IS
'Smallest value of the microsecond of a moment.
Range: 1582-10-15 00:00:00+00 to 5236-03-31 21:21:00.684697+00; anything else, including infinity, is an error '
'(datetime_field_overflow).';

CREATE FUNCTION @extschema@.uuid_v1_ceiling(moment timestamptz) RETURNS @extschema@.uuid_v1
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_ceiling(timestamptz) IS
'Largest value of the microsecond of a moment.
Range: 1582-10-15 00:00:00+00 to 5236-03-31 21:21:00.684697+00; anything else, including infinity, is an error '
'(datetime_field_overflow).';

CREATE FUNCTION @extschema@.uuid_v7_ceiling(moment timestamptz) RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v7_ceiling(timestamptz) IS
'Largest version-7 key of the microsecond of a moment.
Range: 1970-01-01 00:00:00+00 to 10889-08-02 05:31:50.655999+00; anything else, including infinity, is an error '
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
'key earlier than the moment; error if the key is not of version 7';

CREATE OPERATOR @extschema@.<~ (
    FUNCTION = @extschema@.time_lt_uuid_v7, LEFTARG = timestamptz, RIGHTARG = uuid,
    COMMUTATOR = OPERATOR(@extschema@.>~), NEGATOR = OPERATOR(@extschema@.>=~),
    RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);
COMMENT ON OPERATOR @extschema@.<~ (timestamptz, uuid) IS
'moment earlier than the key; error if the key is not of version 7';

CREATE OPERATOR @extschema@.<=~ (
    FUNCTION = @extschema@.uuid_v7_le_time, LEFTARG = uuid, RIGHTARG = timestamptz,
    COMMUTATOR = OPERATOR(@extschema@.>=~), NEGATOR = OPERATOR(@extschema@.>~),
    RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
COMMENT ON OPERATOR @extschema@.<=~ (uuid, timestamptz) IS
'key not later than the moment; error if the key is not of version 7';

CREATE OPERATOR @extschema@.<=~ (
    FUNCTION = @extschema@.time_le_uuid_v7, LEFTARG = timestamptz, RIGHTARG = uuid,
    COMMUTATOR = OPERATOR(@extschema@.>=~), NEGATOR = OPERATOR(@extschema@.>~),
    RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
COMMENT ON OPERATOR @extschema@.<=~ (timestamptz, uuid) IS
'moment not later than the key; error if the key is not of version 7';

CREATE OPERATOR @extschema@.>=~ (
    FUNCTION = @extschema@.uuid_v7_ge_time, LEFTARG = uuid, RIGHTARG = timestamptz,
    COMMUTATOR = OPERATOR(@extschema@.<=~), NEGATOR = OPERATOR(@extschema@.<~),
    RESTRICT = scalargesel, JOIN = scalargejoinsel
);
COMMENT ON OPERATOR @extschema@.>=~ (uuid, timestamptz) IS
'key not earlier than the moment; error if the key is not of version 7';

CREATE OPERATOR @extschema@.>=~ (
    FUNCTION = @extschema@.time_ge_uuid_v7, LEFTARG = timestamptz, RIGHTARG = uuid,
    COMMUTATOR = OPERATOR(@extschema@.<=~), NEGATOR = OPERATOR(@extschema@.<~),
    RESTRICT = scalargesel, JOIN = scalargejoinsel
);
COMMENT ON OPERATOR @extschema@.>=~ (timestamptz, uuid) IS
'moment not earlier than the key; error if the key is not of version 7';

CREATE OPERATOR @extschema@.>~ (
    FUNCTION = @extschema@.uuid_v7_gt_time, LEFTARG = uuid, RIGHTARG = timestamptz,
    COMMUTATOR = OPERATOR(@extschema@.<~), NEGATOR = OPERATOR(@extschema@.<=~),
    RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);
COMMENT ON OPERATOR @extschema@.>~ (uuid, timestamptz) IS
'key later than the moment; error if the key is not of version 7';

CREATE OPERATOR @extschema@.>~ (
    FUNCTION = @extschema@.time_gt_uuid_v7, LEFTARG = timestamptz, RIGHTARG = uuid,
    COMMUTATOR = OPERATOR(@extschema@.<~), NEGATOR = OPERATOR(@extschema@.<=~),
    RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);
COMMENT ON OPERATOR @extschema@.>~ (timestamptz, uuid) IS
'moment later than the key; error if the key is not of version 7';

CREATE OPERATOR @extschema@.=~ (
    FUNCTION = @extschema@.uuid_v7_eq_time, LEFTARG = uuid, RIGHTARG = timestamptz,
    COMMUTATOR = OPERATOR(@extschema@.=~), NEGATOR = OPERATOR(@extschema@.<>~),
    RESTRICT = eqsel, JOIN = eqjoinsel
);
COMMENT ON OPERATOR @extschema@.=~ (uuid, timestamptz) IS
'key of the same microsecond as the moment; error if the key is not of version 7';

CREATE OPERATOR @extschema@.=~ (
    FUNCTION = @extschema@.time_eq_uuid_v7, LEFTARG = timestamptz, RIGHTARG = uuid,
    COMMUTATOR = OPERATOR(@extschema@.=~), NEGATOR = OPERATOR(@extschema@.<>~),
    RESTRICT = eqsel, JOIN = eqjoinsel
);
COMMENT ON OPERATOR @extschema@.=~ (timestamptz, uuid) IS
'moment of the same microsecond as the key; error if the key is not of version 7';

CREATE OPERATOR @extschema@.<>~ (
    FUNCTION = @extschema@.uuid_v7_ne_time, LEFTARG = uuid, RIGHTARG = timestamptz,
    COMMUTATOR = OPERATOR(@extschema@.<>~), NEGATOR = OPERATOR(@extschema@.=~),
    RESTRICT = neqsel, JOIN = neqjoinsel
);
COMMENT ON OPERATOR @extschema@.<>~ (uuid, timestamptz) IS
'key not of the same microsecond as the moment; error if the key is not of version 7';

CREATE OPERATOR @extschema@.<>~ (
    FUNCTION = @extschema@.time_ne_uuid_v7, LEFTARG = timestamptz, RIGHTARG = uuid,
    COMMUTATOR = OPERATOR(@extschema@.<>~), NEGATOR = OPERATOR(@extschema@.=~),
    RESTRICT = neqsel, JOIN = neqjoinsel
);
COMMENT ON OPERATOR @extschema@.<>~ (timestamptz, uuid) IS
'moment not of the same microsecond as the key; error if the key is not of version 7';

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
'the key''s time is in the range; error if the key is not of version 7';

CREATE OPERATOR @extschema@.@>~ (
    FUNCTION = @extschema@.range_has_uuid_v7, LEFTARG = tstzrange, RIGHTARG = uuid,
    COMMUTATOR = OPERATOR(@extschema@.<@~), RESTRICT = contsel, JOIN = contjoinsel
);
COMMENT ON OPERATOR @extschema@.@>~ (tstzrange, uuid) IS
'the range holds the key''s time; error if the key is not of version 7';
