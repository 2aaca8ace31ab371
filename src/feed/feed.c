/*
 * feed.c
 *	  Rows of feeds, as they are returned to the caller or given to her statement.
 *
 * Each call looks, runs, and is done.  What it returns, and how it moves the
 * position, is said by sql/feed/take.sql and sql/feed/reader.sql, as the owner of
 * the state (state.c).  Here the rows are read, with the rights of the caller
 * (query.c).
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "feed/apply.h"
#include "feed/caller.h"
#include "names.h"
#include "ports/ground.h"
#include "ports/origin.h"
#include "ports/query.h"

PG_FUNCTION_INFO_V1(feed_peek);
PG_FUNCTION_INFO_V1(feed_apply);
PG_FUNCTION_INFO_V1(feed_batch_rows);
PG_FUNCTION_INFO_V1(reader_batch_rows);

static StateCall take = {
	"SELECT k, k.t, (k.t).ordered, k.relation, (k.next).query IS NOT NULL, (k.next).members,"
	" CASE WHEN (k.next).has_rows"
	" THEN coalesce((k.next).query, inorder_internal.found_query(k.t, (k.next).batch, NULL, 'e.*', $7)) END"
	" FROM inorder_internal.take_next($1, $2, $3, $4, true, $5, $6) AS k"
};
static StateCall move = {"SELECT inorder_internal.move_over($1, $2, $3, $4)"};
#define TO_RETURN "SELECT k.t, (k.t).ordered, (k.t).relation::pg_catalog.oid, k.members, k.query FROM "
static StateCall unfinished = {TO_RETURN "inorder_internal.unfinished_rows($1, $2, $3, $4) AS k"};
static StateCall kept = {TO_RETURN "inorder_internal.kept_rows($1, $2, $3) AS k"};

/* Whether rows of the table, as it is now, are what the executor of the query made itself ready for */
static bool
has_columns(Oid row_type, TupleDesc expected)
{
	TupleDesc	actual = lookup_rowtype_tupdesc(row_type, -1);
	bool		result = expected == NULL || expected->natts == actual->natts;

	for (int i = 0; result && expected != NULL && i < actual->natts; i++)
		result = TupleDescAttr(actual, i)->attisdropped || TupleDescAttr(expected, i)->attisdropped ?
			TupleDescAttr(actual, i)->attisdropped == TupleDescAttr(expected, i)->attisdropped :
			TupleDescAttr(actual, i)->atttypid == TupleDescAttr(expected, i)->atttypid;
	ReleaseTupleDesc(actual);
	return result;
}

/*
 * Rows are of the type of the table, which the caller names by null::table.
 * That locks nothing: the columns may have changed since, until we had the lock.
 */
static void
check_row_type(const Table *table, FunctionCallInfo fcinfo, int argument)
{
	Oid			row_type = get_fn_expr_argtype(fcinfo->flinfo, argument);
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	if (row_type != get_rel_type_id(table->oid))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("row_type must be null::%s, not of type %s",
						quote_qualified_identifier(get_namespace_name(get_rel_namespace(table->oid)),
												   get_rel_name(table->oid)),
						format_type_extended(row_type, -1, FORMAT_TYPE_ALLOW_INVALID))));	/* it may be gone */
	if (result != NULL && IsA(result, ReturnSetInfo) && !has_columns(row_type, result->expectedDesc))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("columns of %s were changed after this query began", relation_name(table->oid)),
				 errhint("Try again.")));
}

static Value
owner_argument(FunctionCallInfo fcinfo, int number)
{
	return PG_ARGISNULL(number) ? caller_value() : argument_value(fcinfo, number, OIDOID);
}

/* A feed of which a reader takes what comes next */
typedef struct Taken
{
	Value		feed;			/* inorder_internal.taken */
	Table		table;
	Value		query;			/* for the rows that come next; null if there are none */
	bool		is_limited;		/* by the query, so that its last row ends the batch */
	LastRow		last;
} Taken;

static Taken
take_next(FunctionCallInfo fcinfo, bool at_once, bool moves, bool in_order)
{
	Value		found[7];
	Taken		taken;

	state_call(&take, 7,
			   (Value[]) {caller_value(), argument_value(fcinfo, 0, TEXTOID), owner_argument(fcinfo, 3),
			   argument_value(fcinfo, 2, INT4OID), value_of(BoolGetDatum(moves), BOOLOID), value_of(BoolGetDatum(at_once), BOOLOID),
			   value_of(BoolGetDatum(in_order), BOOLOID)}, 7, found);
	taken = (Taken) {
		.feed = found[0], .query = found[6], .is_limited = DatumGetBool(found[4].value),
		.last = {null_of(INT8OID), null_of(TEXTARRAYOID)},
		.table = {.oid = DatumGetObjectId(found[3].value), .description = found[1], .ordered = DatumGetBool(found[2].value)}
	};
	if (!found[5].null)
		stand_on(&taken.table, found[5]);
	return taken;
}

static void
move_over(const Taken *taken, uint64 amount)
{
	Value		nothing;

	state_call(&move, 4, (Value[]) {taken->feed, number_value((int64) amount), taken->last.number, taken->last.key}, 1, &nothing);
}

/* The rows that come next, as the result of the calling function; returns how many */
static uint64
read_next(Taken *taken, FunctionCallInfo fcinfo, bool moves)
{
	uint64		found = 0;

	*taken = take_next(fcinfo, true, moves, true);
	check_row_type(&taken->table, fcinfo, 1);
	InitMaterializedSRF(fcinfo, 0);
	if (!taken->query.null)
		found = query_rows_until(&taken->table, text_of(taken->query), fcinfo, taken->is_limited ? PG_GETARG_INT32(2) : 0,
								 &taken->last);
	check_ground(&taken->table);
	return found;
}

/* As PG_FUNCTION_INFO_V1(feed_read), which a session calls before it runs the first query with feed_read */
extern PGDLLEXPORT Datum feed_read(PG_FUNCTION_ARGS);
extern PGDLLEXPORT const Pg_finfo_record *pg_finfo_feed_read(void);

const Pg_finfo_record *
pg_finfo_feed_read(void)
{
	static const Pg_finfo_record info = {1};

	watch_runs();
	return &info;
}

/* feed_read(name text, row_type anyelement, max_rows int, owner regrole) -> setof row_type */
Datum
feed_read(PG_FUNCTION_ARGS)
{
	uint64		wanted = rows_taken(fcinfo, argument_value(fcinfo, 2, INT4OID));
	Taken		taken;
	uint64		found = read_next(&taken, fcinfo, true);

	check_taken(found, wanted);
	if (!taken.query.null)
		move_over(&taken, found);
	return (Datum) 0;
}

/* feed_peek(name text, row_type anyelement, max_rows int, owner regrole) -> setof row_type */
Datum
feed_peek(PG_FUNCTION_ARGS)
{
	Taken		taken;

	(void) read_next(&taken, fcinfo, false);
	return (Datum) 0;
}

/* feed_apply(name text, statement text, max_rows int, owner regrole) -> bigint */
Datum
feed_apply(PG_FUNCTION_ARGS)
{
	Taken		taken;
	uint64		processed;

	if (PG_ARGISNULL(1))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("statement must not be null")));
	taken = take_next(fcinfo, false, true, false);
	if (taken.query.null)
		PG_RETURN_NULL();
	move_over(&taken, 1);
	processed = query_batch(&taken.table, text_of(taken.query), text_to_cstring(PG_GETARG_TEXT_PP(1)));
	check_ground(&taken.table);
	PG_RETURN_INT64((int64) processed);
}

/* Return the rows of a batch, once a function of the owner's has looked at it */
static void
return_batch(StateCall *look, int count, const Value *arguments, FunctionCallInfo fcinfo, int row_type)
{
	Value		found[5];
	Table		table;

	state_call(look, count, arguments, 5, found);
	table = (Table) {.oid = DatumGetObjectId(found[2].value), .description = found[0], .ordered = DatumGetBool(found[1].value)};
	stand_on(&table, found[3]);
	check_row_type(&table, fcinfo, row_type);
	InitMaterializedSRF(fcinfo, 0);
	(void) query_rows(&table, text_of(found[4]), fcinfo);
	check_ground(&table);
}

/* feed_batch_rows(name text, number bigint, row_type anyelement, owner regrole) -> setof row_type */
Datum
feed_batch_rows(PG_FUNCTION_ARGS)
{
	return_batch(&unfinished, 4,
				 (Value[]) {caller_value(), argument_value(fcinfo, 0, TEXTOID), argument_value(fcinfo, 1, INT8OID),
				 owner_argument(fcinfo, 3)}, fcinfo, 2);
	return (Datum) 0;
}

/*
 * reader_batch_rows(relation regclass, batch feed_batch, row_type anyelement) -> setof row_type
 *
 * A standby may be promoted in mid-call: what a call says is of the origin that it began on, or an error (origin.c).
 */
Datum
reader_batch_rows(PG_FUNCTION_ARGS)
{
	Origin		origin = origin_here();
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, 1);

	/* A call by the fast-path protocol has no expression */
	if (!OidIsValid(type))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the type of argument 2 is not known"),
				 errhint("Call the function in a query.")));
	return_batch(&kept, 3, (Value[]) {caller_value(), argument_value(fcinfo, 0, REGCLASSOID), argument_value(fcinfo, 1, type)},
				 fcinfo, 2);
	expect_origin(origin);
	return (Datum) 0;
}
