-- The guard: the trigger that keeps a table readable, and whether it is there (guard.c).

-- In the public schema, since triggers on users' tables, and dumps of these, refer to it.
CREATE FUNCTION @extschema@.feed_guard()
RETURNS trigger
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION @extschema@.feed_guard() IS
'Internal function. Trigger on tables with a feed or an exact count: refuses rows with the number of another '
'transaction than the one that inserts them (check_violation), rows of a restored table before feed_rebase '
'(object_not_in_prerequisite_state), and DELETE, TRUNCATE and UPDATE of what readers depend on (restrict_violation). '
'None of these while session_replication_role is replica, until the table is enabled or accepted on this server. '
'Created by feed_enable.';

-- Whether the triggers of the guard are on a table as feed_enable() creates them: function, events, always enabled,
-- without a WHEN clause, for these columns, with this base; and the first column of its type, generated or not.
CREATE FUNCTION inorder_internal.is_guarded(
    relation regclass, columns name[], is_uuid boolean, is_generated boolean, base bigint, guard oid
)
RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT;

CREATE FUNCTION inorder_internal.guard_function()
RETURNS oid
LANGUAGE sql STABLE
RETURN '@extschema@.feed_guard()'::regprocedure::oid;

CREATE FUNCTION inorder_internal.generator()
RETURNS oid
LANGUAGE sql STABLE
RETURN '@extschema@.xact_id_generated(bigint)'::regprocedure::oid;
