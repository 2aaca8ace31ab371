-- The trigger that logs changes (logging.c). The function is in the public schema, because triggers on users' tables,
-- and dumps of these tables, refer to it. The first argument of a trigger is the OID of the log, which must belong to
-- the owner of the table.
CREATE FUNCTION @extschema@.changes_trigger() RETURNS trigger
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION @extschema@.changes_trigger() IS
'Internal function: write the keys of changed rows into the log; called by triggers that changes_enable creates.';
