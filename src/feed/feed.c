/*
 * feed.c
 *	  Feeds whose position the database keeps: what users call.
 *
 * What a call takes, and how it moves the position, is in sql/feed/take.sql, as the
 * owner of the state (state.c).  Here its rows are read, with the rights of the
 * caller (query.c).
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "feed/batch.h"
#include "feed/caller.h"
#include "feed/feed.h"
#include "ports/ground.h"
#include "feed/wait.h"

PG_FUNCTION_INFO_V1(feed_peek);
PG_FUNCTION_INFO_V1(feed_apply);
PG_FUNCTION_INFO_V1(feed_batch_rows);
PG_FUNCTION_INFO_V1(feed_wait);
PG_FUNCTION_INFO_V1(seen_feeds);
PG_FUNCTION_INFO_V1(seen_batches);

static StateCall take = {
	"SELECT k, k.t, (k.t).ordered, k.relation, (k.next).query IS NOT NULL, (k.next).members,"
	" CASE WHEN (k.next).has_rows"
	" THEN coalesce((k.next).query, inorder_internal.found_query(k.t, (k.next).batch, NULL, 'e.*', $7)) END"
	" FROM inorder_internal.take_next($1, $2, $3, $4, true, $5, $6) AS k"
};
static StateCall move = {"SELECT inorder_internal.move_over($1, $2, $3, $4)"};
static StateCall unfinished = {
	"SELECT u.t, (u.t).ordered, (u.t).relation::pg_catalog.oid, u.batch FROM inorder_internal.unfinished_batch($1, $2, $3, $4) AS u"
};
static StateCall next = {"SELECT inorder_internal.is_batch_next($1, $2, $3)"};
static StateCall seen = {"SELECT f.* FROM inorder_internal.feeds_of($1) AS f", .stable = true};
static StateCall batches = {"SELECT b.* FROM inorder_internal.batches_of($1) AS b", .stable = true};

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

/* feed_batch_rows(name text, batch bigint, row_type anyelement, owner regrole) -> setof row_type */
Datum
feed_batch_rows(PG_FUNCTION_ARGS)
{
	Value		found[4];
	Table		table;

	state_call(&unfinished, 4,
			   (Value[]) {caller_value(), argument_value(fcinfo, 0, TEXTOID), argument_value(fcinfo, 1, INT8OID),
			   owner_argument(fcinfo, 3)}, 4, found);
	table = (Table) {.oid = DatumGetObjectId(found[2].value), .description = found[0], .ordered = DatumGetBool(found[1].value)};
	check_row_type(&table, fcinfo, 2);
	InitMaterializedSRF(fcinfo, 0);
	prove_ground(&table);
	read_batch(&table, found[3], fcinfo);
	return (Datum) 0;
}

static bool
has_next_batch(FunctionCallInfo fcinfo)
{
	Value		found;

	state_call(&next, 3, (Value[]) {caller_value(), argument_value(fcinfo, 0, TEXTOID), owner_argument(fcinfo, 2)}, 1, &found);
	return DatumGetBool(found.value);
}

/* feed_wait(name text, timeout interval, owner regrole) -> boolean */
Datum
feed_wait(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(wait_until(has_next_batch, fcinfo, 1));
}

/* seen_feeds() -> setof inorder_internal.seen_feed */
Datum
seen_feeds(PG_FUNCTION_ARGS)
{
	state_rows(&seen, 1, (Value[]) {caller_value()}, fcinfo);
	return (Datum) 0;
}

/* seen_batches() -> setof inorder_internal.seen_batch */
Datum
seen_batches(PG_FUNCTION_ARGS)
{
	state_rows(&batches, 1, (Value[]) {caller_value()}, fcinfo);
	return (Datum) 0;
}
