-- Keys for tables that are full of random keys.

CREATE FUNCTION @extschema@.uuid_after_random_nextval(leading_ones int DEFAULT 32) RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION @extschema@.uuid_after_random_nextval(int) IS
'Return the next key from the clock (version 8, RFC 9562 section 5.8), which sorts after random version-4 keys.';
