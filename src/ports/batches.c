/*
 * batches.c
 *	  Give batches to workers, and finish them.
 *
 * As in kept.c, rows are found without a query.  If new_batch() returns null,
 * feed_take_batch() in sql/feed/workers.sql searches for a batch, for example a batch
 * of a share, or a batch that another worker had before.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/xid8.h"

#include "compat.h"
#include "ports/kept.h"

PG_FUNCTION_INFO_V1(keep_batch);
PG_FUNCTION_INFO_V1(new_batch);
PG_FUNCTION_INFO_V1(delete_batch);

/* Tokens have 48 bits, because numbers in JSON are exact only up to 2^53. */
#define TOKEN_BYTES 6

/*
 * Compute the generated columns, as INSERT does.  One of these columns,
 * feed * 1024 + share, is indexed, and finds the batches of a share.
 */
static void
set_generated(Row *batch)
{
	batch->values[KEPT_IS_OPEN] = BoolGetDatum(DatumGetInt64(batch->values[KEPT_NUMBER]) < 0);
	batch->values[KEPT_WRITTEN_HERE] = BoolGetDatum(true);
	batch->nulls[KEPT_IS_OPEN] = batch->nulls[KEPT_WRITTEN_HERE] = false;
	batch->nulls[KEPT_FEED_SHARE] = batch->nulls[KEPT_SHARE];
	batch->values[KEPT_FEED_SHARE] = Int64GetDatum(DatumGetInt64(batch->values[KEPT_FEED]) * 1024 +
												   (batch->nulls[KEPT_SHARE] ? 0 : DatumGetInt32(batch->values[KEPT_SHARE])));
}

static void
insert_row(Relation table, HeapTuple row)
{
	EState	   *estate = CreateExecutorState();
	ResultRelInfo *result = makeNode(ResultRelInfo);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(table), &TTSOpsHeapTuple);

	simple_heap_insert(table, row);
	InitResultRelInfo(result, table, 0, NULL, 0);
	ExecOpenIndices(result, false);
	ExecStoreHeapTuple(row, slot, false);
	slot->tts_tableOid = RelationGetRelid(table);
	insert_index_entries(result, slot, estate);
	ExecCloseIndices(result);
	ExecDropSingleTupleTableSlot(slot);
	FreeExecutorState(estate);
	CommandCounterIncrement();
}

/* Store a batch under its number.  If a row with this number was restored from a dump, the batch replaces that row. */
static void
store_batch(Row *batch)
{
	Relation	batches;
	Row			old_row;

	PreventCommandIfReadOnly("INSERT");
	batches = table_open(state_table("worker_batch"), RowExclusiveLock);
	old_row = batch_by_number(batch->values[KEPT_FEED], batch->values[KEPT_NUMBER]);
	if (old_row.tuple != NULL && DatumGetBool(old_row.values[KEPT_WRITTEN_HERE]))
		elog(ERROR, "feed " INT64_FORMAT " already has batch " INT64_FORMAT, DatumGetInt64(batch->values[KEPT_FEED]),
			 DatumGetInt64(batch->values[KEPT_NUMBER]));
	if (old_row.tuple != NULL)
		CatalogTupleDelete(batches, &old_row.tuple->t_self);
	set_generated(batch);
	insert_row(batches, heap_form_tuple(RelationGetDescr(batches), batch->values, batch->nulls));
	table_close(batches, NoLock);
}

/* keep_batch(b worker_batch) -> worker_batch */
Datum
keep_batch(PG_FUNCTION_ARGS)
{
	Row			batch = row_of(PG_GETARG_DATUM(0), false, KEPT_COLUMNS);

	check_state_writer();
	if (batch.nulls[KEPT_TRIES])
		set_column(&batch, KEPT_TRIES, Int32GetDatum(0));
	if (batch.nulls[KEPT_LEASE_END])
		set_column(&batch, KEPT_LEASE_END, TimestampTzGetDatum(DT_NOBEGIN));
	store_batch(&batch);
	PG_RETURN_DATUM(result_row(fcinfo, &batch, KEPT_COLUMNS));
}

static int64
new_token(void)
{
	uint64		token = 0;

	if (!pg_strong_random(&token, TOKEN_BYTES))
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate random values")));
	return (int64) (token & ((UINT64CONST(1) << (8 * TOKEN_BYTES)) - 1));
}

/* The row of a new batch that is given to its first worker; given() in SQL makes the same row */
static Row
given_batch(const Feed *feed, HeapTupleHeader batch, int64 number, FunctionCallInfo fcinfo)
{
	Row			row = empty_row();
	Datum		now = TimestampTzGetDatum(GetCurrentTimestamp());
	Datum		lease_end = DirectFunctionCall2(timestamptz_pl_interval, now, PG_GETARG_DATUM(5));

	set_column(&row, KEPT_FEED, feed->row.values[FEED_ID]);
	set_column(&row, KEPT_NUMBER, Int64GetDatum(number));
	set_column(&row, KEPT_RELATION, feed->row.values[FEED_RELATION]);
	set_column(&row, KEPT_BATCH, PointerGetDatum(batch));
	set_column(&row, KEPT_WORKER, PG_GETARG_DATUM(3));
	set_column(&row, KEPT_TOKEN, Int64GetDatum(new_token()));
	set_column(&row, KEPT_TAKEN, FullTransactionIdGetDatum(GetTopFullTransactionId()));
	set_column(&row, KEPT_TRIES, Int32GetDatum(1));
	set_column(&row, KEPT_TRIED, lease_end);
	set_column(&row, KEPT_LEASE_END, lease_end);
	if (!PG_ARGISNULL(6))
		set_column(&row, KEPT_MAX_TRIES, PG_GETARG_DATUM(6));
	return row;
}

/*
 * new_batch(name text, owner oid, caller oid, worker text, max_rows int, lease interval, max_tries int) -> worker_batch
 *
 * Give a new batch to a worker, if the feed is not divided, is not in the order of a column, and has no batch that
 * could be given again.  If no rows follow the position, the result has only the id of the feed.  Null if the SQL
 * functions have to search.
 */
Datum
new_batch(PG_FUNCTION_ARGS)
{
	BatchRequest request = {!PG_ARGISNULL(4), PG_GETARG_INT32(4)};
	Row			row = empty_row();
	Feed		feed;
	Table		table;
	HeapTupleHeader batch;
	BatchEnd	end;

	check_state_writer();
	if (PG_ARGISNULL(0) || (request.is_limited && request.max_rows < 1) ||
		!open_feed(PG_GETARG_DATUM(0), PG_GETARG_DATUM(1), PG_GETARG_OID(2), true, &feed) || feed.is_divided ||
		!feed.position.nulls[POSITION_ORDERING] || has_free_batch(&feed, PG_GETARG_DATUM(3)))
		PG_RETURN_NULL();
	table = table_with_proof(feed.table, PG_GETARG_OID(2));
	request.whole = DatumGetBool(feed.row.values[FEED_WHOLE]);
	if (!find_next_batch(&table, &feed.position, &request, &batch, &end) ||
		(!end.has_row && (feed.is_poll_due || is_swapped(&table))))
		PG_RETURN_NULL();
	set_column(&row, KEPT_FEED, feed.row.values[FEED_ID]);
	if (end.has_row)
	{
		int64		number;

		check_proof(&table);
		number = move_feed(&feed, batch, end.is_all, true);
		row = given_batch(&feed, batch, number, fcinfo);
		store_batch(&row);
	}
	PG_RETURN_DATUM(result_row(fcinfo, &row, KEPT_COLUMNS));
}

/* Wait for transactions that change a row, and lock its newest version; false if the row was deleted */
static bool
lock_row(Relation table, ItemPointer place, TupleTableSlot *slot)
{
	TM_FailureData failure;
	int			flags = IsolationUsesXactSnapshot() ? 0 : TUPLE_LOCK_FLAG_FIND_LAST_VERSION;
	TM_Result	result = table_tuple_lock(table, place, GetActiveSnapshot(), slot, GetCurrentCommandId(true),
										  LockTupleExclusive, LockWaitBlock, flags, &failure);

	if (result != TM_Ok && IsolationUsesXactSnapshot())
		refuse_concurrent();
	return result == TM_Ok;
}

/* True if a batch has the token that was passed to delete_batch().  If the token is null, true if the batch is dead. */
static bool
is_deletable(TupleTableSlot *slot, FunctionCallInfo fcinfo)
{
	slot_getallattrs(slot);
	if (!DatumGetBool(slot->tts_values[KEPT_WRITTEN_HERE]))
		return false;
	if (PG_ARGISNULL(4))
		return !slot->tts_isnull[KEPT_DEAD_SINCE];
	return !slot->tts_isnull[KEPT_TOKEN] && DatumGetInt64(slot->tts_values[KEPT_TOKEN]) == PG_GETARG_INT64(4);
}

/*
 * True if the caller may move the feed, and the table of the feed exists.  The privilege may have been revoked, and the
 * table dropped, while this call waited for the lock on the batch.
 */
static bool
is_movable_now(Datum id, Oid relation, Oid caller)
{
	Row			feed;

	PushActiveSnapshot(GetTransactionSnapshot());
	feed = feed_by_id(id);
	PopActiveSnapshot();
	return feed.tuple != NULL && get_rel_relkind(relation) != '\0' && role_may_move(caller, &feed);
}

/*
 * delete_batch(feed bigint, relation oid, caller oid, number bigint, token bigint) -> boolean
 *
 * Delete a batch with this token.  If the token is null, delete a dead batch.  False if there is no such batch, or if
 * the caller lacks the privilege to finish the batch.
 */
Datum
delete_batch(PG_FUNCTION_ARGS)
{
	Relation	batches;
	Row			batch;
	TupleTableSlot *slot;
	bool		result;

	check_state_writer();
	PreventCommandIfReadOnly("DELETE");
	batches = table_open(state_table("worker_batch"), RowExclusiveLock);
	batch = batch_by_number(PG_GETARG_DATUM(0), PG_GETARG_DATUM(3));
	slot = table_slot_create(batches, NULL);
	result = batch.tuple != NULL && lock_row(batches, &batch.tuple->t_self, slot) && is_deletable(slot, fcinfo) &&
		is_movable_now(PG_GETARG_DATUM(0), PG_GETARG_OID(1), PG_GETARG_OID(2));
	if (result)
	{
		CatalogTupleDelete(batches, &slot->tts_tid);
		CommandCounterIncrement();
	}
	ExecDropSingleTupleTableSlot(slot);
	table_close(batches, NoLock);
	PG_RETURN_BOOL(result);
}
