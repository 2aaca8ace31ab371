-- Masks: the form of a key outside of the database, where it must show neither order nor time.

CREATE FUNCTION @extschema@.uuid_mask(id uuid, key bytea, version int DEFAULT 7) RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION @extschema@.uuid_mask(uuid, bytea, int) IS
'Mask of a key: a uuid of version 4 that looks random without the secret key, and from which uuid_unmask '
'returns the id. It is a permutation of the 122 bits that version and variant leave free: AES, applied '
'until the block is a UUID of version 4 again (cycle walking: Black and Rogaway, 2002, method 2).
Ranges: key 16 bytes (AES-128) or 32 (AES-256); version 1 to 8, which the id must have. Anything else is an error '
'(invalid_parameter_value); feature_not_supported if server or extension was built without OpenSSL.
Not authenticated: equal ids have equal masks, and each uuid of version 4 is the mask of some id.';

CREATE FUNCTION @extschema@.uuid_unmask(masked uuid, key bytea, version int DEFAULT 7) RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION @extschema@.uuid_unmask(uuid, bytea, int) IS
'The id of which uuid_mask made this mask, by the same key and version. By another key, or of a uuid that is no mask, '
'it is an id that no table has: look it up.
Ranges: those of uuid_mask; masked must be of version 4.';
