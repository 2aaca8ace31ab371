-- The trigger that counts rows by group (groups.c). The function is in the public schema, because triggers on users'
-- tables, and dumps of these tables, refer to it. The arguments of a trigger are the OID of the table of deltas, and
-- the names of the group columns.
CREATE FUNCTION @extschema@.exact_count_trigger() RETURNS trigger
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION @extschema@.exact_count_trigger() IS
'Internal function: count the rows that a statement adds to each group; called by triggers that exact_count_start '
'creates.';
