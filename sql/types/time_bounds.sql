-- Comparisons of keys (uuid_v1, and uuid of version 7) with times (timestamptz and tstzrange).
--
-- The planner rewrites each operator into comparisons of the key with bounds of the key's own type (time_support.c).
-- For these comparisons the planner can use btree and BRIN indexes, statistics and partition pruning.
--
-- The range operators are not named <@ and @>. If one operand were a tstzrange, and the other operand a literal or an
-- untyped parameter, operators with these names would be an exact match, and would be preferred to the polymorphic
-- operators of the server.

CREATE FUNCTION @extschema@.uuid_v1_time_bound(moment timestamptz, after boolean) RETURNS @extschema@.uuid_v1
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_time_bound(timestamptz, boolean) IS
'Internal function: return the smallest key of the microsecond or, if "after" is true, of the next microsecond.';

CREATE FUNCTION @extschema@.uuid_v1_range_bound(range tstzrange, upper boolean) RETURNS @extschema@.uuid_v1
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_range_bound(tstzrange, boolean) IS
'Internal function: return the smallest key in the range or, if "upper" is true, after the range.';

CREATE FUNCTION @extschema@.uuid_v7_time_bound(moment timestamptz, after boolean) RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v7_time_bound(timestamptz, boolean) IS
'Internal function: return the smallest key of the microsecond or, if "after" is true, of the next microsecond.';

CREATE FUNCTION @extschema@.uuid_v7_range_bound(range tstzrange, upper boolean) RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v7_range_bound(tstzrange, boolean) IS
'Internal function: return the smallest key in the range or, if "upper" is true, after the range.';

CREATE FUNCTION @extschema@.uuid_v7_checked_support(internal) RETURNS internal
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v7_checked_support(internal) IS 'planner support';

-- This function has a higher cost than the bounds, and is therefore evaluated after the comparisons with the bounds.
CREATE FUNCTION @extschema@.uuid_v7_checked(id uuid, moment "any") RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 3 SUPPORT @extschema@.uuid_v7_checked_support;
COMMENT ON FUNCTION @extschema@.uuid_v7_checked(uuid, "any") IS
'Internal function: check that a key is of version 7; the planner adds this check to a comparison with bounds.';

CREATE FUNCTION @extschema@.uuid_v1_floor(moment timestamptz) RETURNS @extschema@.uuid_v1
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_floor(timestamptz) IS
'Return the smallest value whose uuid_v1_get_timestamp is the given moment.';

CREATE FUNCTION @extschema@.uuid_v1_ceiling(moment timestamptz) RETURNS @extschema@.uuid_v1
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v1_ceiling(timestamptz) IS
'Return the largest value whose uuid_v1_get_timestamp is the given moment.';

CREATE FUNCTION @extschema@.uuid_v7_ceiling(moment timestamptz) RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_v7_ceiling(timestamptz) IS
'Return the largest version-7 key whose uuid_v7_time is the given moment.';

CREATE FUNCTION @extschema@.uuid_time_support(internal) RETURNS internal
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_time_support(internal) IS 'planner support';

-- The operators, each for both types of keys.

DO $$
DECLARE
    c record;
    types text;
BEGIN
    -- Types are arguments of format(), and not parts of a format string, because the name of the schema may contain any
    -- character, even a percent sign.
    FOR c IN SELECT v.operator, format(v.function, k.kind) AS function, format(v.lefttype, k.type) AS lefttype,
                    format(v.righttype, k.type) AS righttype, v.commutator, v.negator, v.selectivity,
                    v.meaning || k.unless AS meaning FROM (VALUES
   ('<~', 'uuid_%s_lt_time', '%s', 'timestamptz', '>~', '>=~', 'scalarlt', 'key earlier than the moment'),
   ('<~', 'time_lt_uuid_%s', 'timestamptz', '%s', '>~', '>=~', 'scalarlt', 'moment earlier than the key'),
   ('<=~', 'uuid_%s_le_time', '%s', 'timestamptz', '>=~', '>~', 'scalarle', 'key not later than the moment'),
   ('<=~', 'time_le_uuid_%s', 'timestamptz', '%s', '>=~', '>~', 'scalarle', 'moment not later than the key'),
   ('>=~', 'uuid_%s_ge_time', '%s', 'timestamptz', '<=~', '<~', 'scalarge', 'key not earlier than the moment'),
   ('>=~', 'time_ge_uuid_%s', 'timestamptz', '%s', '<=~', '<~', 'scalarge', 'moment not earlier than the key'),
   ('>~', 'uuid_%s_gt_time', '%s', 'timestamptz', '<~', '<=~', 'scalargt', 'key later than the moment'),
   ('>~', 'time_gt_uuid_%s', 'timestamptz', '%s', '<~', '<=~', 'scalargt', 'moment later than the key'),
   ('=~', 'uuid_%s_eq_time', '%s', 'timestamptz', '=~', '<>~', 'eq', 'key and moment in the same microsecond'),
   ('=~', 'time_eq_uuid_%s', 'timestamptz', '%s', '=~', '<>~', 'eq', 'moment and key in the same microsecond'),
   ('<>~', 'uuid_%s_ne_time', '%s', 'timestamptz', '<>~', '=~', 'neq', 'key and moment in different microseconds'),
   ('<>~', 'time_ne_uuid_%s', 'timestamptz', '%s', '<>~', '=~', 'neq', 'moment and key in different microseconds'),
   ('<@~', 'uuid_%s_in_range', '%s', 'tstzrange', '@>~', NULL, 'cont', 'the key''s time is in the range'),
   ('@>~', 'range_has_uuid_%s', 'tstzrange', '%s', '<@~', NULL, 'cont', 'the range contains the key''s time')
    ) AS v(operator, function, lefttype, righttype, commutator, negator, selectivity, meaning)
    CROSS JOIN (VALUES ('v1', '@extschema@.uuid_v1', ''), ('v7', 'uuid', '; error if the key is not of version 7'))
    AS k(kind, type, unless) LOOP
        types := concat(c.lefttype, ', ', c.righttype);
        EXECUTE format('CREATE FUNCTION %s.%s(%s) RETURNS boolean AS %L LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE ',
                       '@extschema@', c.function, types, 'MODULE_PATHNAME')
                || 'SUPPORT @extschema@.uuid_time_support';
        EXECUTE format('COMMENT ON FUNCTION %s.%s(%s) IS %L', '@extschema@', c.function, types,
                       format('implementation of %s operator', c.operator));
        EXECUTE format('CREATE OPERATOR %1$s.%2$s (FUNCTION = %1$s.%3$s, LEFTARG = %4$s, RIGHTARG = %5$s, '
                       'COMMUTATOR = OPERATOR(%1$s.%6$s)%7$s, RESTRICT = %8$ssel, JOIN = %8$sjoinsel)',
                       '@extschema@', c.operator, c.function, c.lefttype, c.righttype, c.commutator,
                       format(', NEGATOR = OPERATOR(%s.' || c.negator || ')', '@extschema@'), c.selectivity);
        EXECUTE format('COMMENT ON OPERATOR %s.%s (%s) IS %L', '@extschema@', c.operator, types, c.meaning);
    END LOOP;
END $$;
