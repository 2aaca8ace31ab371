-- Functions of the fictitious next version.
CREATE FUNCTION inorder_internal.added_in_c(number bigint)
RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION inorder_internal.added_in_c(bigint) IS
'Internal function: the next number.';

CREATE FUNCTION @extschema@.added(number bigint)
RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN inorder_internal.added_in_c(number);
COMMENT ON FUNCTION @extschema@.added(bigint) IS
'The next number. Range: number below 9223372036854775807.';
