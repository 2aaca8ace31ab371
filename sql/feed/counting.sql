-- It is in the public schema, because triggers on users' tables, and dumps of these, refer to it (groups.c).
CREATE FUNCTION @extschema@.exact_count_trigger() RETURNS trigger
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION @extschema@.exact_count_trigger() IS
'Internal function. Trigger on tables that are counted by group: writes into the deltas what a statement adds to each '
'group. Its arguments are the OID of the deltas, and columns. Created by exact_count_start.';
