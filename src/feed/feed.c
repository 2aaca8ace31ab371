/*
 * feed.c
 *	  Return the rows of feeds to the caller, or pass them to the caller's
 *	  statement.
 *
 * The functions in sql/feed/take.sql and sql/feed/reader.sql, which run as the
 * owner of the state (state.c), find the batch and move the position.  The functions
 * of this file read the rows, with the privileges of the caller (query.c).
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "executor/tstoreReceiver.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/typcache.h"

#include "feed/apply.h"
#include "feed/caller.h"
#include "feed/feed.h"
#include "ports/kept.h"
#include "ports/plan.h"
#include "ports/query.h"

PG_FUNCTION_INFO_V1(feed_peek);
PG_FUNCTION_INFO_V1(feed_read);
PG_FUNCTION_INFO_V1(feed_apply);
PG_FUNCTION_INFO_V1(feed_batch_rows);
PG_FUNCTION_INFO_V1(reader_batch_rows);

/* Return true if a row type has the columns that the running query expects */
static bool
has_columns(Oid row_type, TupleDesc expected)
{
	TupleDesc	actual = lookup_rowtype_tupdesc(row_type, -1);
	bool		is_same = expected == NULL || expected->natts == actual->natts;

	for (int i = 0; is_same && expected != NULL && i < actual->natts; i++)
		is_same = TupleDescAttr(actual, i)->attisdropped || TupleDescAttr(expected, i)->attisdropped ?
			TupleDescAttr(actual, i)->attisdropped == TupleDescAttr(expected, i)->attisdropped :
			TupleDescAttr(actual, i)->atttypid == TupleDescAttr(expected, i)->atttypid;
	ReleaseTupleDesc(actual);
	return is_same;
}

/*
 * Check that row_type, given as null::table, is the type of the table.  A query
 * that names the row type of a table does not lock the table.  The columns may
 * therefore have changed before the table was locked.
 */
static void
check_row_type(const Table *table, FunctionCallInfo fcinfo, int argument)
{
	Oid			row_type = get_fn_expr_argtype(fcinfo->flinfo, argument);
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	if (row_type != get_rel_type_id(table->oid))
		owner_error("say_row_type", 2, (Value[]) {table->description, value_of(ObjectIdGetDatum(row_type), REGTYPEOID)});
	if (result != NULL && IsA(result, ReturnSetInfo) && !has_columns(row_type, result->expectedDesc))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("columns of %s were changed after this query began", relation_name(table->oid)),
				 errhint("Try again.")));
}

Value
result_column(HeapTupleHeader result, const char *name, Oid type)
{
	Value		value = {.type = type};

	value.value = GetAttributeByName(result, name, &value.null);
	return value;
}

/* Call an internal function that finds rows.  Store the table in "source", with its proof if the function made one. */
HeapTupleHeader
look_up_rows(RowSource *source, const char *function, int count, const Value *arguments)
{
	HeapTupleHeader result = DatumGetHeapTupleHeader(owner_call(function, count, arguments).value);
	Value		members = result_column(result, "members", InvalidOid);

	source->table = table_of(result_column(result, "t", InvalidOid).value);
	if (!members.null)
		use_proof(&source->table, members);
	return result;
}

static RowSource
look_up_batch(const char *function, int count, const Value *arguments)
{
	RowSource	source = {0};
	Value		batch = result_column(look_up_rows(&source, function, count, arguments), "batch", InvalidOid);

	source.batch = batch.null ? NULL : DatumGetHeapTupleHeader(batch.value);
	return source;
}

/* Return the query for the rows of a batch */
static char *
query_for(const RowSource *source, bool in_order)
{
	Value		batch = value_of(PointerGetDatum(source->batch), HeapTupleHeaderGetTypeId(source->batch));

	return text_of(owner_call("text_for_rows", 3, (Value[]) {
		source->table.description, batch, value_of(BoolGetDatum(in_order), BOOLOID)
	}));
}

/*
 * Use the indexes to find the next batch of a feed without workers, and move the feed past the batch if "moves" is
 * true.  Return false if the SQL functions must search or raise an error; in this case, only locks have been taken.
 *
 * The current role is not changed, because the code looks up no name and calls no user-defined function.
 */
static bool
take_by_index(Datum name, Datum owner, const BatchRequest *request, bool moves, RowSource *source)
{
	Oid			caller = GetUserId();
	BatchRequest complete_request = *request;
	Oid			schema;
	Feed		feed;
	BatchEnd	end;

	(void) state_owner(&schema);
	if (!open_feed(name, owner, caller, moves, &feed) || feed.is_shared || feed.is_divided || (moves && feed.is_renamed))
		return false;
	complete_request.whole = DatumGetBool(feed.row.values[FEED_WHOLE]);
	source->table = table_with_proof(feed.table, caller);
	if (!find_next_batch(&source->table, &feed.position, &complete_request, &source->batch, &end) ||
		(!end.has_row && ((moves && feed.is_poll_due) || is_swapped(&source->table))))
		return false;
	if (moves && end.has_row)
		(void) move_feed(&feed, source->batch, end.is_all, false);
	if (source->batch == NULL)
		source->table.proof = NULL; /* without a proof, check_proof() checks nothing */
	return true;
}

/*
 * Find an unfinished batch that belongs to no share.  Return false if the quick checks do not show that the rows of the
 * batch are readable.
 */
static bool
look_up_quickly(FunctionCallInfo fcinfo, RowSource *source)
{
	Oid			caller = GetUserId();
	Oid			schema;
	Row			batch;
	Feed		feed;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		return false;
	(void) state_owner(&schema);
	if (!open_feed(PG_GETARG_DATUM(0), owner_argument(fcinfo, 3).value, caller, false, &feed))
		return false;
	PushActiveSnapshot(GetTransactionSnapshot());
	batch = batch_by_number(feed.row.values[FEED_ID], PG_GETARG_DATUM(1));
	PopActiveSnapshot();
	if (batch.tuple == NULL || DatumGetBool(batch.values[KEPT_IS_OPEN]) ||
		!DatumGetBool(batch.values[KEPT_WRITTEN_HERE]) || !batch.nulls[KEPT_SHARE])
		return false;
	source->table = table_with_proof(feed.table, caller);
	source->batch = DatumGetHeapTupleHeader(batch.values[KEPT_BATCH]);
	return is_readable(&source->table, source->batch);
}

/* Find the next batch of a feed, and move the position past the batch if "moves" is true. */
static RowSource
take_next(FunctionCallInfo fcinfo, bool moves)
{
	Value		owner = owner_argument(fcinfo, 3);
	BatchRequest request = {!PG_ARGISNULL(2), PG_GETARG_INT32(2)};
	RowSource	source = {0};

	if (!PG_ARGISNULL(0) && (!request.is_limited || request.max_rows > 0) &&
		take_by_index(PG_GETARG_DATUM(0), owner.value, &request, moves, &source))
		return source;
	return look_up_batch("next_rows", 5, (Value[]) {
		caller_value(), argument_value(fcinfo, 0, TEXTOID), owner, argument_value(fcinfo, 2, INT4OID),
			value_of(BoolGetDatum(moves), BOOLOID)
	});
}

static void
read_rows(const RowSource *source, DestReceiver *rows)
{
	Bounds		bounds;

	if (is_planned(&source->table, source->batch, &bounds))
		run_planned(&source->table, &bounds, rows);
	else
		query_into(&source->table, query_for(source, true), rows);
}

/* Return the rows of a source as the result of the calling function */
static void
return_rows(const RowSource *source, FunctionCallInfo fcinfo, int row_type)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	DestReceiver *rows = CreateDestReceiver(DestTuplestore);

	check_row_type(&source->table, fcinfo, row_type);
	InitMaterializedSRF(fcinfo, 0);
	SetTuplestoreDestReceiverParams(rows, result->setResult, result->econtext->ecxt_per_query_memory, false,
									result->setDesc, "the columns of the table differ from those of row_type");
	if (source->batch != NULL)
		read_rows(source, rows);
	rows->rDestroy(rows);
	check_proof(&source->table);
}

/* feed_read(name text, row_type anyelement, max_rows int, owner regrole) -> setof row_type */
Datum
feed_read(PG_FUNCTION_ARGS)
{
	RowSource	source;

	check_caller(fcinfo);
	source = take_next(fcinfo, true);
	return_rows(&source, fcinfo, 1);
	(void) make_commit_durable();
	return (Datum) 0;
}

/* feed_peek(name text, row_type anyelement, max_rows int, owner regrole) -> setof row_type */
Datum
feed_peek(PG_FUNCTION_ARGS)
{
	RowSource	source = take_next(fcinfo, false);

	return_rows(&source, fcinfo, 1);
	return (Datum) 0;
}

/* feed_apply(name text, statement text, max_rows int, owner regrole) -> bigint */
Datum
feed_apply(PG_FUNCTION_ARGS)
{
	RowSource	source;
	Value		name = argument_value(fcinfo, 0, TEXTOID);
	char	   *statement;
	uint64		processed;

	if (PG_ARGISNULL(1))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("statement must not be null")));
	statement = text_to_cstring(PG_GETARG_TEXT_PP(1));
	refuse_with(statement);
	source = take_next(fcinfo, true);
	if (source.batch == NULL)
	{
		check_without_batch(&source.table, statement, name);
		PG_RETURN_NULL();
	}
	processed = query_batch(&source.table, query_for(&source, false), statement, name);
	check_proof(&source.table);
	PG_RETURN_INT64((int64) processed);
}

/* feed_batch_rows(name text, number bigint, row_type anyelement, owner regrole) -> setof row_type */
Datum
feed_batch_rows(PG_FUNCTION_ARGS)
{
	RowSource	source = {0};

	if (!look_up_quickly(fcinfo, &source))
		source = look_up_batch("unfinished_rows", 4, (Value[]) {
		caller_value(), argument_value(fcinfo, 0, TEXTOID), argument_value(fcinfo, 1, INT8OID), owner_argument(fcinfo, 3)
	});

	return_rows(&source, fcinfo, 2);
	make_seen_durable();
	return (Datum) 0;
}

/*
 * reader_batch_rows(relation regclass, batch feed_batch, row_type anyelement) -> setof row_type
 *
 * A standby may be promoted during the call.  The result then belongs to the timeline on which the call began,
 * or the call fails (origin.c).
 */
Datum
reader_batch_rows(PG_FUNCTION_ARGS)
{
	TimeLineID	timeline = timeline_here();
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, 1);
	RowSource	source;

	/* A call through the fast-path protocol has no expression. */
	if (!OidIsValid(type))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the type of argument 2 is not known"),
				 errhint("Call the function in a query.")));
	source = look_up_batch("kept_rows", 3, (Value[]) {
		caller_value(), argument_value(fcinfo, 0, REGCLASSOID), argument_value(fcinfo, 1, type)
	});
	return_rows(&source, fcinfo, 2);
	make_seen_durable();
	expect_timeline(timeline);
	return (Datum) 0;
}
