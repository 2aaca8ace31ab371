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

#include "feed/batch.h"
#include "feed/feed.h"
#include "ports/ground.h"
#include "ports/origin.h"
#include "ports/rights.h"
#include "feed/wait.h"

PG_FUNCTION_INFO_V1(reader_batch_rows);
PG_FUNCTION_INFO_V1(reader_batch_query);
PG_FUNCTION_INFO_V1(reader_wait);

static StateCall describe = {
	"SELECT s.t, (s.t).ordered FROM (SELECT inorder_internal.table_of($1) AS t OFFSET 0) AS s"
};
static StateCall check_reader = {"SELECT inorder_internal.check_reader($1, $2)"};
static StateCall has_after = {"SELECT inorder_internal.has_rows_after($1, $2, $3)"};
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

/* reader_batch_rows(relation regclass, batch feed_batch, row_type anyelement) -> setof row_type */
Datum
reader_batch_rows(PG_FUNCTION_ARGS)
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
				 errhint("BEGIN ISOLATION LEVEL REPEATABLE READ, or read the rows by reader_batch_rows().")));
}

/* reader_batch_query(relation regclass, batch feed_batch) -> text */
Datum
reader_batch_query(PG_FUNCTION_ARGS)
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

static bool
has_batch_after(FunctionCallInfo fcinfo)
{
	Value		found;

	state_call(&has_after, 3, (Value[]) {caller_value(), argument_value(fcinfo, 0, REGCLASSOID), composite_argument(fcinfo, 1)},
			   1, &found);
	return DatumGetBool(found.value);
}

/* reader_wait(relation regclass, from_position feed_position, timeout interval) -> boolean */
Datum
reader_wait(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(wait_until(has_batch_after, fcinfo, 2));
}
