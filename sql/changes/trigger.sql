-- It is in the public schema, because triggers on users' tables, and dumps of these, refer to it (logging.c).
CREATE FUNCTION @extschema@.changes_trigger() RETURNS trigger
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION @extschema@.changes_trigger() IS
'Internal function. Trigger on tables whose changes are logged: writes the keys of changed rows into the log whose OID '
'is its argument, which must belong to the owner of the table. Created by changes_enable.';
