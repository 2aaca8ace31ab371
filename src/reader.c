/*
 * reader.c
 *	  Feeds whose position the reader keeps: what users call.
 *
 * Nothing is written, so all of it works on a standby, too.  A standby may be
 * promoted in mid-call: what a call says is of the origin that it began on, or an
 * error (origin.c).
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

#include "feed.h"
#include "ground.h"
#include "next_batch.h"
#include "order.h"
#include "origin.h"
#include "rights.h"
#include "wait.h"
#include "wal.h"

PG_FUNCTION_INFO_V1(feed_start);
PG_FUNCTION_INFO_V1(feed_batch_after);
PG_FUNCTION_INFO_V1(feed_rows);
PG_FUNCTION_INFO_V1(feed_rows_query);
PG_FUNCTION_INFO_V1(feed_wait_after);
PG_FUNCTION_INFO_V1(feed_backlog);

static StateCall describe = {
	"SELECT s.t, (s.t).ordered FROM (SELECT inorder_internal.table_of($1) AS t OFFSET 0) AS s"
};
static StateCall check_reader = {"SELECT inorder_internal.check_reader($1, $2)"};
static StateCall first_position = {"SELECT inorder_internal.start_position($1, $2, $3)"};
static StateCall check_position = {"SELECT inorder_internal.check_position($1)"};
static StateCall no_batch = {"SELECT inorder_internal.no_batch($1)"};
static StateCall backlog = {"SELECT b.transactions, b.rows FROM inorder_internal.backlog($1, $2) AS b"};
static StateCall readers_query = {"SELECT inorder_internal.readers_query($1, $2)"};
static StateCall check_kept_batch = {"SELECT inorder_internal.check_kept_batch($1)"};

Value
relation_value(Oid relation)
{
	return value_of(ObjectIdGetDatum(relation), REGCLASSOID);
}

/* A table that the caller may read */
Oid
readable_argument(FunctionCallInfo fcinfo, int number)
{
	Value		nothing;

	if (PG_ARGISNULL(number) || !role_may_read(GetUserId(), PG_GETARG_OID(number)))
		state_call(&check_reader, 2, (Value[]) {caller_value(), argument_value(fcinfo, number, REGCLASSOID)}, 1, &nothing);
	return PG_GETARG_OID(number);
}

/* How a table is read, once it is known that the caller may */
Table
open_table(Oid relation)
{
	Value		argument = relation_value(relation);
	Value		found[2];
	Table		table = {.oid = relation};

	(void) lock_readable(relation);
	state_call(&describe, 1, &argument, 2, found);
	table.description = found[0];
	table.ordered = DatumGetBool(found[1].value);
	prove_ground(&table);
	return table;
}

/* A position to begin with, by the word for it, in the order of a column if one is given */
Value
start_position(const Table *table, Value start, Value order_column)
{
	Value		position;

	if (!order_column.null)
		prove_new_order(table, NameStr(*DatumGetName(order_column.value)));
	state_call(&first_position, 3, (Value[]) {table->description, start, order_column}, 1, &position);
	return position;
}

/* An argument of a type of the extension's own */
Value
composite_argument(FunctionCallInfo fcinfo, int number)
{
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, number);

	/* A call by the fast-path protocol has no expression */
	if (!OidIsValid(type))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the type of argument %d is not known", number + 1),
				 errhint("Call the function in a query.")));
	return argument_value(fcinfo, number, type);
}

/* feed_start(relation regclass, start text, order_column name) -> feed_position */
Datum
feed_start(PG_FUNCTION_ARGS)
{
	Origin		origin = origin_here();
	Table		table = open_table(readable_argument(fcinfo, 0));
	Value		position = start_position(&table, argument_value(fcinfo, 1, TEXTOID), argument_value(fcinfo, 2, NAMEOID));

	flush_wal_to_end();
	expect_origin(origin);
	PG_RETURN_DATUM(position.value);
}

/* The table and the position that a reader names */
static Table
open_at(FunctionCallInfo fcinfo, Value *position)
{
	Oid			relation = readable_argument(fcinfo, 0);
	Value		nothing;

	*position = composite_argument(fcinfo, 1);
	state_call(&check_position, 1, position, 1, &nothing);
	return open_table(relation);
}

/* feed_batch_after(relation regclass, from_position feed_position, max_rows int, whole_transactions boolean) -> feed_batch */
Datum
feed_batch_after(PG_FUNCTION_ARGS)
{
	Origin		origin = origin_here();
	Value		position;
	Value		batch;
	Table		table = open_at(fcinfo, &position);

	table.whole = !PG_ARGISNULL(3) && PG_GETARG_BOOL(3);
	if (next_batch(&table, position, argument_value(fcinfo, 2, INT4OID), &batch) == NO_BATCH)
		state_call(&no_batch, 1, &position, 1, &batch);
	check_ground(&table);
	flush_wal_to_end();
	expect_origin(origin);
	PG_RETURN_DATUM(batch.value);
}

/* feed_rows(relation regclass, batch feed_batch, row_type anyelement) -> setof row_type */
Datum
feed_rows(PG_FUNCTION_ARGS)
{
	Origin		origin = origin_here();
	Table		table = open_table(readable_argument(fcinfo, 0));
	Value		batch = composite_argument(fcinfo, 1);
	Value		nothing;

	check_row_type(&table, fcinfo, 2);
	InitMaterializedSRF(fcinfo, 0);
	state_call(&check_kept_batch, 1, &batch, 1, &nothing);
	read_batch(&table, batch, fcinfo);
	expect_origin(origin);
	return (Datum) 0;
}

/* What was looked at is of one snapshot, which must be that of the query, too. */
static void
check_one_snapshot(void)
{
	if (!IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("a query for the rows of a batch needs REPEATABLE READ, not READ COMMITTED"),
				 errhint("BEGIN ISOLATION LEVEL REPEATABLE READ, or read the rows by feed_rows().")));
}

/* feed_rows_query(relation regclass, batch feed_batch) -> text */
Datum
feed_rows_query(PG_FUNCTION_ARGS)
{
	Origin		origin = origin_here();
	Table		table = open_table(readable_argument(fcinfo, 0));
	Value		batch = composite_argument(fcinfo, 1);
	Value		nothing;
	Value		query;

	check_one_snapshot();
	state_call(&check_kept_batch, 1, &batch, 1, &nothing);
	check_names(table.ground, GetTransactionSnapshot());
	state_call(&readers_query, 2, (Value[]) {table.description, value_of(CStringGetTextDatum(rows_query(&table, batch)), TEXTOID)},
			   1, &query);
	plan_in_order(&table);
	expect_origin(origin);
	PG_RETURN_DATUM(query.value);
}

/* Whether feed_batch_after would return a batch with rows now */
static bool
has_batch_after(FunctionCallInfo fcinfo)
{
	Value		position;
	Table		table = open_at(fcinfo, &position);

	return has_next(&table, position);
}

/* feed_wait_after(relation regclass, from_position feed_position, timeout interval) -> boolean */
Datum
feed_wait_after(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(wait_until(has_batch_after, fcinfo, 2));
}

/* feed_backlog(relation regclass, from_position feed_position) -> (transactions bigint, rows_estimated bigint) */
Datum
feed_backlog(PG_FUNCTION_ARGS)
{
	Value		position;
	Value		found[2];
	Table		table = open_at(fcinfo, &position);
	TupleDesc	columns;

	if (get_call_result_type(fcinfo, NULL, &columns) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "feed_backlog() returns two columns");
	state_call(&backlog, 2, (Value[]) {table.description, position}, 2, found);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(columns),
													  (Datum[]) {found[0].value, found[1].value},
													  (bool[]) {found[0].null, found[1].null})));
}
