-- Keys for tables that are full of random ones.

CREATE FUNCTION @extschema@.uuid_after_random_nextval(leading_ones int DEFAULT 32) RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION @extschema@.uuid_after_random_nextval(int) IS
'Next key by the clock that sorts after random keys (version 4): leading_ones one bits, 42 bits of Unix milliseconds, '
'12 bits of their fraction, 20 to 52 random bits (version 8, RFC 9562 section 5.8). Of n random keys about n / '
'2^leading_ones sort among them or after them.
Each is greater than the previous one of the session with the same argument, also when the clock steps back.
Range: leading_ones 16 to 48, anything else is an error (invalid_parameter_value); the clock must show 1970 to 2109.';
