/*
 * batches.c
 *	  Give batches to workers, and finish them.
 *
 * As in kept.c, rows are found without a query, and the current role remains
 * the caller.  The functions in sql/, which as_owner() calls, handle all other
 * cases: a batch of a share, a batch that was given to another worker before,
 * and all errors.
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
#include "funcapi.h"
#include "mb/pg_wchar.h"
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
PG_FUNCTION_INFO_V1(take_as_owner);
PG_FUNCTION_INFO_V1(finish_as_owner);
PG_FUNCTION_INFO_V1(delete_batch);

/* Tokens have 48 bits, because numbers in JSON are exact only up to 2^53. */
#define TOKEN_BYTES 6

/*
 * Compute the generated columns, as INSERT does.  The batches of a share are
 * found using the index on one of these columns, feed * 1024 + share.
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

/* Arguments of feed_take_batch(name text, worker text, max_rows int, lease interval, max_tries int, owner regrole) */
enum
{
	TAKE_NAME, TAKE_WORKER, TAKE_MAX_ROWS, TAKE_LEASE, TAKE_MAX_TRIES, TAKE_OWNER
};

static bool
is_positive_or_null(FunctionCallInfo fcinfo, int argument)
{
	return PG_ARGISNULL(argument) || PG_GETARG_INT32(argument) > 0;
}

/* Return true if the arguments of feed_take_batch() are valid */
static bool
are_valid(FunctionCallInfo fcinfo)
{
	Interval	least_lease = {.time = USECS_PER_SEC};
	Interval	longest_lease = {.day = 1};
	text	   *worker;
	int			length;

	if (PG_ARGISNULL(TAKE_NAME) || PG_ARGISNULL(TAKE_WORKER) || PG_ARGISNULL(TAKE_LEASE))
		return false;
	worker = PG_GETARG_TEXT_PP(TAKE_WORKER);
	length = pg_mbstrlen_with_len(VARDATA_ANY(worker), VARSIZE_ANY_EXHDR(worker));
	return length >= 1 && length <= 200 &&
		is_positive_or_null(fcinfo, TAKE_MAX_ROWS) && is_positive_or_null(fcinfo, TAKE_MAX_TRIES) &&
		DatumGetBool(DirectFunctionCall2(interval_ge, PG_GETARG_DATUM(TAKE_LEASE), IntervalPGetDatum(&least_lease))) &&
		DatumGetBool(DirectFunctionCall2(interval_le, PG_GETARG_DATUM(TAKE_LEASE), IntervalPGetDatum(&longest_lease)));
}

/* Build the row of a new batch for its first worker; given() in SQL builds an identical row */
static Row
given_batch(const Feed *feed, HeapTupleHeader batch, int64 number, FunctionCallInfo fcinfo)
{
	Row			row = empty_row();
	Datum		now = TimestampTzGetDatum(GetCurrentTimestamp());
	Datum		lease_end = DirectFunctionCall2(timestamptz_pl_interval, now, PG_GETARG_DATUM(TAKE_LEASE));

	set_column(&row, KEPT_FEED, feed->row.values[FEED_ID]);
	set_column(&row, KEPT_NUMBER, Int64GetDatum(number));
	set_column(&row, KEPT_RELATION, feed->row.values[FEED_RELATION]);
	set_column(&row, KEPT_BATCH, PointerGetDatum(batch));
	set_column(&row, KEPT_WORKER, PointerGetDatum(PG_GETARG_TEXT_PP(TAKE_WORKER)));
	set_column(&row, KEPT_TOKEN, Int64GetDatum(new_token()));
	set_column(&row, KEPT_TAKEN, FullTransactionIdGetDatum(GetTopFullTransactionId()));
	set_column(&row, KEPT_TRIES, Int32GetDatum(1));
	set_column(&row, KEPT_TRIED, lease_end);
	set_column(&row, KEPT_LEASE_END, lease_end);
	if (!PG_ARGISNULL(TAKE_MAX_TRIES))
		set_column(&row, KEPT_MAX_TRIES, PG_GETARG_DATUM(TAKE_MAX_TRIES));
	return row;
}

/*
 * Give a new batch to a worker.  If no rows follow the position, all columns of the batch are null.  Return false if
 * the SQL functions have to search: if the feed is divided or ordered by a column, if one of its batches could be given
 * to a worker again, or if the next batch cannot be found using the indexes.
 */
static bool
give_new_batch(FunctionCallInfo fcinfo, Row *row)
{
	Oid			caller = GetUserId();
	BatchRequest request = {!PG_ARGISNULL(TAKE_MAX_ROWS), PG_GETARG_INT32(TAKE_MAX_ROWS)};
	Feed		feed;
	Table		table;
	HeapTupleHeader batch;
	BatchEnd	end;
	int64		number;

	*row = empty_row();
	if (!open_feed(PG_GETARG_DATUM(TAKE_NAME), owner_argument(fcinfo, TAKE_OWNER).value, caller, true, &feed) ||
		feed.is_divided || feed.is_renamed || !feed.position.nulls[POSITION_ORDERING] ||
		has_free_batch(&feed, PointerGetDatum(PG_GETARG_TEXT_PP(TAKE_WORKER))))
		return false;
	table = table_with_proof(feed.table, caller);
	request.whole = DatumGetBool(feed.row.values[FEED_WHOLE]);
	if (!find_next_batch(&table, &feed.position, &request, &batch, &end) ||
		(!end.has_row && (feed.is_poll_due || is_swapped(&table))))
		return false;
	if (!end.has_row)
		return true;
	check_proof(&table);
	number = move_feed(&feed, batch, end.is_all, true);
	*row = given_batch(&feed, batch, number, fcinfo);
	store_batch(row);
	return true;
}

/*
 * feed_take_batch(name text, worker text, max_rows int, lease interval, max_tries int, owner regrole)
 *		-> (number bigint, token bigint, tries int, lease_end timestamptz)
 */
Datum
take_as_owner(PG_FUNCTION_ARGS)
{
	static const int columns[] = {KEPT_NUMBER, KEPT_TOKEN, KEPT_TRIES, KEPT_LEASE_END};
	Datum		values[lengthof(columns)];
	bool		nulls[lengthof(columns)];
	TupleDesc	result;
	Row			batch;
	Oid			schema;

	if (!are_valid(fcinfo))
		return as_owner(fcinfo);
	(void) state_owner(&schema);
	if (!give_new_batch(fcinfo, &batch))
		return as_owner(fcinfo);
	(void) make_commit_durable();
	for (int i = 0; i < lengthof(columns); i++)
	{
		values[i] = batch.values[columns[i]];
		nulls[i] = batch.nulls[columns[i]];
	}
	if (get_call_result_type(fcinfo, NULL, &result) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "function returning record called in context that cannot accept type record");
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(result), values, nulls)));
}

/* Wait for transactions that change a row, and lock the newest version of the row; false if the row was deleted */
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

/* Return true if a batch has this token; if "token" is null, true if the batch is dead */
static bool
is_deletable(TupleTableSlot *slot, const int64 *token)
{
	slot_getallattrs(slot);
	if (!DatumGetBool(slot->tts_values[KEPT_WRITTEN_HERE]))
		return false;
	if (token == NULL)
		return !slot->tts_isnull[KEPT_DEAD_SINCE];
	return !slot->tts_isnull[KEPT_TOKEN] && DatumGetInt64(slot->tts_values[KEPT_TOKEN]) == *token;
}

/*
 * Return true if the caller may move the feed, and the table of the feed exists.  The privilege may have been revoked,
 * and the table dropped, while this call waited for the lock on the batch.
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
 * Delete a batch that has this token; if "token" is null, delete a dead batch.  Return false if there is no such batch,
 * or if the caller may not finish the batch.
 */
static bool
delete_unfinished(Datum feed, Oid relation, Oid caller, Datum number, const int64 *token)
{
	Relation	batches;
	Row			batch;
	TupleTableSlot *slot;
	bool		result;

	PreventCommandIfReadOnly("DELETE");
	batches = table_open(state_table("worker_batch"), RowExclusiveLock);
	batch = batch_by_number(feed, number);
	slot = table_slot_create(batches, NULL);
	result = batch.tuple != NULL && lock_row(batches, &batch.tuple->t_self, slot) && is_deletable(slot, token) &&
		is_movable_now(feed, relation, caller);
	if (result)
	{
		CatalogTupleDelete(batches, &slot->tts_tid);
		CommandCounterIncrement();
	}
	ExecDropSingleTupleTableSlot(slot);
	table_close(batches, NoLock);
	return result;
}

/* delete_batch(feed bigint, relation oid, caller oid, number bigint, token bigint) -> boolean */
Datum
delete_batch(PG_FUNCTION_ARGS)
{
	int64		token = PG_GETARG_INT64(4);

	check_state_writer();
	PG_RETURN_BOOL(delete_unfinished(PG_GETARG_DATUM(0), PG_GETARG_OID(1), PG_GETARG_OID(2), PG_GETARG_DATUM(3),
									 PG_ARGISNULL(4) ? NULL : &token));
}

/* feed_finish_batch(name text, number bigint, token bigint, owner regrole) -> boolean */
Datum
finish_as_owner(PG_FUNCTION_ARGS)
{
	Oid			caller = GetUserId();
	int64		token = PG_GETARG_INT64(2);
	Oid			schema;
	Row			feed;
	bool		is_finished;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2))
		return as_owner(fcinfo);
	(void) state_owner(&schema);
	/* An earlier call in the same statement may have changed the batch; the snapshot does not see this change. */
	PushActiveSnapshot(GetTransactionSnapshot());
	is_finished = find_movable(PG_GETARG_DATUM(0), owner_argument(fcinfo, 3).value, caller, &feed) &&
		delete_unfinished(feed.values[FEED_ID], DatumGetObjectId(feed.values[FEED_RELATION]), caller, PG_GETARG_DATUM(1),
						  &token);
	PopActiveSnapshot();
	if (is_finished)
		PG_RETURN_BOOL(true);
	return as_owner(fcinfo);
}
