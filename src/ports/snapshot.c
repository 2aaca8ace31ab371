/*
 * snapshot.c
 *	  The transactions that have ended, as a set of their numbers.
 *
 * A reader needs the rows that it has not read yet.  The simple rule
 * "everything above the last number" loses rows, because a transaction with a
 * smaller number may commit later.  The careful rule "everything below the
 * oldest transaction in progress" (the xmin of a snapshot) loses nothing, but a
 * single open transaction holds back all rows of later transactions.  A
 * position is therefore the set of the transactions that have been read:
 *
 *	  ended	 =  [0, xmax)  minus the transactions in progress
 *	  new	 =  ended  minus  position
 *
 * A transaction that is open for hours is one gap in the set, and its rows are
 * delivered when it commits.
 *
 * Numbers are top-level ids.  No row carries the id of a savepoint, and on one server it does not matter if a set
 * includes ids of savepoints.  A standby, however, cannot distinguish ids of savepoints from other ids in progress, and
 * would refuse a batch with the id of a savepoint as long as the transaction of the savepoint is open.  Batches and
 * positions are therefore computed from ended_everywhere(), which leaves out the ids of savepoints in progress.  A set
 * is checked against ended_transactions() and not against ended_everywhere(), because ended_everywhere() may include an
 * id at first, and leave it out later.  As long as one transaction has more than 64 savepoints, snapshots list no ids
 * of savepoints, and ended_everywhere() includes these ids.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "ports/numbers.h"
#include "keys/uuid_datum.h"

PG_FUNCTION_INFO_V1(ended_transactions);
PG_FUNCTION_INFO_V1(ended_everywhere);
PG_FUNCTION_INFO_V1(next_transaction);
PG_FUNCTION_INFO_V1(make_durable_here);

/*
 * Convert a transaction id of a snapshot to 64 bits.  The upper half can be computed, because VACUUM ensures that the
 * id is less than 2^32 below the next id.
 */
static uint64
widen(TransactionId xid, uint64 next_id)
{
	return next_id - (uint32) ((TransactionId) next_id - xid);
}

static int
compare_numbers(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return (x > y) - (x < y);
}

static Snapshot
current_snapshot(void)
{
	Snapshot	snapshot = ActiveSnapshotSet() ? GetActiveSnapshot() : NULL;

	if (snapshot == NULL || snapshot->snapshot_type != SNAPSHOT_MVCC)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no MVCC snapshot is active")));
	return snapshot;
}

/*
 * Return the transactions that have ended in the active snapshot, as numbers of a table with this base.  If
 * "everywhere" is true, the set leaves out ids of savepoints that a standby may regard as in progress.
 *
 * Our own transaction has not ended, although the snapshot does not list it.
 * On a standby the list of top-level ids is empty, and subxip holds every id
 * in progress; if suboverflowed is set, only ids of savepoints are missing.
 */
Numbers
ended_numbers(int64 base, bool everywhere)
{
	Snapshot	snapshot = current_snapshot();
	uint64		next_id = U64FromFullTransactionId(ReadNextFullTransactionId());
	uint64		own_id = U64FromFullTransactionId(GetTopFullTransactionIdIfAny());
	uint64		end = widen(snapshot->xmax, next_id);	/* this and later transactions have not ended */
	bool		standby = snapshot->takenDuringRecovery;
	int			top_count = standby ? 0 : (int) snapshot->xcnt;
	int			sub_count = standby || (everywhere && !snapshot->suboverflowed) ? snapshot->subxcnt : 0;
	uint64	   *open_ids = palloc(sizeof(uint64) * (top_count + sub_count + 2));	/* ids in progress and "end" */
	Numbers		numbers = {0, palloc(sizeof(Range) * (top_count + sub_count + 2))};
	uint64		from = 0;
	int			count = 0;

	for (int i = 0; i < top_count; i++)
		open_ids[count++] = widen(snapshot->xip[i], next_id);
	for (int i = 0; i < sub_count; i++)
	{
		uint64		id = widen(snapshot->subxip[i], next_id);

		if (id < end)			/* ids of savepoints may be greater than "end" */
			open_ids[count++] = id;
	}
	if (own_id != 0 && own_id < end)
		open_ids[count++] = own_id;
	qsort(open_ids, count, sizeof(uint64), compare_numbers);
	open_ids[count] = end;
	for (int i = 0; i <= count; i++)
	{
		uint64		below = xact_plus_base(open_ids[i], base);

		if (from < below)
			numbers.ranges[numbers.count++] = (Range) {(int64) from, (int64) below};
		from = below + 1;
	}
	return numbers;
}

/* ended_transactions(base bigint) -> int8multirange */
Datum
ended_transactions(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(numbers_datum(ended_numbers(PG_GETARG_INT64(0), false)));
}

/* ended_everywhere(base bigint) -> int8multirange */
Datum
ended_everywhere(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(numbers_datum(ended_numbers(PG_GETARG_INT64(0), true)));
}

/* next_transaction(base bigint) -> bigint, the lowest number that no transaction has had yet */
Datum
next_transaction(PG_FUNCTION_ARGS)
{
	uint64		next_id = U64FromFullTransactionId(ReadNextFullTransactionId());

	PG_RETURN_INT64((int64) xact_plus_base(next_id, PG_GETARG_INT64(0)));
}

/*
 * Return the end of the last WAL record.  If the next record begins after a page header, the insert position is after
 * that header.  XLogFlush() cannot flush up to that position, because the header does not exist yet.
 */
static XLogRecPtr
end_of_wal(void)
{
	XLogRecPtr	position = GetXLogInsertRecPtr();

	if (XLogSegmentOffset(position, wal_segment_size) == SizeOfXLogLongPHD)
		return position - SizeOfXLogLongPHD;
	if (position % XLOG_BLCKSZ == SizeOfXLogShortPHD)
		return position - SizeOfXLogShortPHD;
	return position;
}

/* State when this process last flushed the WAL: the number of ended transactions, and the transaction of the process */
static uint64 durable_count;
static LocalTransactionId durable_in;

static void
flush_wal(void)
{
	uint64		ended = ended_count();

	/* All rows on a standby come from WAL that the primary has flushed. */
	if (RecoveryInProgress())
		return;
	XLogFlush(end_of_wal());
	durable_count = ended;
	durable_in = my_local_transaction;
}

/*
 * Return true if this transaction uses one snapshot for all statements, and has already flushed the WAL of all rows in
 * this snapshot
 */
static bool
is_snapshot_durable(void)
{
	return IsolationUsesXactSnapshot() && durable_in == my_local_transaction;
}

/*
 * Flush the WAL of the rows that were read, before the caller gets the rows.  The
 * snapshot of the rows sees only transactions that have ended by now.  If no
 * transaction has ended since the last flush, nothing has to be flushed.
 */
void
make_seen_durable(void)
{
	if (!is_snapshot_durable() && ended_count() != durable_count)
		flush_wal();
}

/*
 * Make the commit of this transaction flush the WAL, even if synchronous_commit
 * is or will be off; false if the transaction has not written.
 */
bool
make_commit_durable(void)
{
	if (!TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return false;
	ForceSyncCommit();
	return true;
}

/*
 * make_durable(keeps_commit boolean) -> boolean
 *
 * Flush the WAL of all rows that this transaction sees: at its commit, if keeps_commit is true and the transaction has
 * written; otherwise immediately.
 */
Datum
make_durable_here(PG_FUNCTION_ARGS)
{
	if (!(PG_GETARG_BOOL(0) && make_commit_durable()) && !is_snapshot_durable())
		flush_wal();
	PG_RETURN_BOOL(true);
}
