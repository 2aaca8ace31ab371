-- Masks. A mask replaces a key outside the database, and reveals neither the order nor the time of keys.

CREATE FUNCTION @extschema@.uuid_mask(id uuid, key bytea, version int DEFAULT 7) RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION @extschema@.uuid_mask(uuid, bytea, int) IS
'Convert an id to its mask, a uuid of version 4 that looks random without the secret key; uuid_unmask converts it '
'back.';

CREATE FUNCTION @extschema@.uuid_unmask(masked uuid, key bytea, version int DEFAULT 7) RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION @extschema@.uuid_unmask(uuid, bytea, int) IS
'Return the id that uuid_mask converts to this mask with the same key and version.';
