-- Sets of transactions: what has ended, what comes next, and where that was said.

CREATE FUNCTION xact_id_generated(base bigint DEFAULT 0)
RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION xact_id_generated(bigint) IS
'Number of the current transaction, as xact_id, for one purpose: column bigint GENERATED ALWAYS AS (xact_id_generated()) STORED.
Labelled immutable since a generated column takes nothing else; the server evaluates it as each statement starts. Anywhere else use xact_id: a cached plan would keep the number of an earlier transaction.
Range: base 0 to 281474976710655, and so is the sum. Assigns a transaction id; not on a standby.';

CREATE FUNCTION ended_transactions(base bigint DEFAULT 0)
RETURNS int8multirange
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION ended_transactions(bigint) IS
'Numbers (transaction id plus base) of all transactions that have ended in the snapshot of the calling statement, from 0 on: rows of these will neither come nor go. The own transaction and those of other databases and prepared ones that are in progress are left out; numbers of savepoints may be in it, since no row carries them. On a primary and on a standby.
Range: base 0 to 281474976710655, and so is the sum. Compare pg_current_snapshot, which shows no transaction in progress on a standby.';

CREATE FUNCTION next_transaction(base bigint DEFAULT 0)
RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION next_transaction(bigint) IS
'Number (transaction id plus base) that the next transaction to ask for an id will have; it assigns none.
Range: base 0 to 281474976710655, and so is the sum.';

CREATE FUNCTION flush_wal()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION flush_wal() IS
'Wait until everything committed so far is on disk, also what committed with synchronous_commit = off: after that no crash takes back what a reader outside the database was told. Does nothing on a standby, which has only what its primary flushed.';

CREATE FUNCTION server_origin()
RETURNS text
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION server_origin() IS
'Where transaction numbers come from: system identifier and timeline, as 7654321098765432109/1. Numbers of one origin never repeat; after a restore or a promotion they may.';
