-- Sets of transactions: what has ended, what comes next, and where that was read.
--
-- The functions of the internal schema are the same C functions under a name that nobody can take over.

CREATE FUNCTION @extschema@.xact_id_generated(base bigint DEFAULT 0)
RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.xact_id_generated(bigint) IS
'Number of the current transaction, as xact_id, for one purpose: column bigint GENERATED ALWAYS AS '
'(xact_id_generated()) STORED.
Labelled immutable since a generated column takes nothing else; the server evaluates it as each statement starts. '
'Anywhere else use xact_id: a cached plan would keep the number of an earlier transaction.
Range: base 0 to 281474976710655, and so is the sum. Assigns a transaction id; not on a standby.';

CREATE FUNCTION @extschema@.ended_transactions(base bigint DEFAULT 0)
RETURNS int8multirange
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.ended_transactions(bigint) IS
'Numbers (transaction id plus base) of all transactions that have ended in the snapshot of the calling statement, '
'from 0 on: rows of these will neither come nor go. The own transaction and those of other databases and prepared '
'ones that are in progress are left out; numbers of savepoints may be in it, since no row carries them. On a primary '
'and on a standby.
Range: base 0 to 281474976710655, and so is the sum. Compare pg_current_snapshot, which shows no transaction in '
'progress on a standby.';

CREATE FUNCTION inorder_internal.ended_transactions(base bigint)
RETURNS int8multirange
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION inorder_internal.ended_transactions(bigint) IS
'Internal function. The public one of this name.';

CREATE FUNCTION @extschema@.next_transaction(base bigint DEFAULT 0)
RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.next_transaction(bigint) IS
'Number (transaction id plus base) that the next transaction to ask for an id will have; it assigns none.
Range: base 0 to 281474976710655, and so is the sum.';

CREATE FUNCTION inorder_internal.next_transaction(base bigint)
RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION inorder_internal.next_transaction(bigint) IS
'Internal function. The public one of this name.';

CREATE FUNCTION @extschema@.flush_wal()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.flush_wal() IS
'Wait until everything committed so far is on disk, also what committed with synchronous_commit = off: after that no '
'crash takes back what a reader outside the database was given. Does nothing on a standby, which has only what its '
'primary flushed.';

CREATE FUNCTION @extschema@.server_origin()
RETURNS text
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.server_origin() IS
'Where transaction numbers come from: system identifier and timeline, as 7654321098765432109/1. Numbers of one origin '
'never repeat; after a restore or a promotion they may. Servers that were promoted from copies of one backup have one '
'origin, unless the later one knew of the timeline of the earlier one.';

CREATE FUNCTION inorder_internal.server_origin()
RETURNS text
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION inorder_internal.server_origin() IS
'Internal function. The public one of this name.';

CREATE FUNCTION inorder_internal.server_system()
RETURNS text
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION inorder_internal.server_system() IS
'Internal function. System identifier of this server, the first part of its origin.';

CREATE FUNCTION inorder_internal.uuid_xact_floor(number bigint)
RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION inorder_internal.uuid_xact_floor(bigint) IS
'Internal function. The public one of this name.';
