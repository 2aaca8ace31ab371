/*
 * next_batch.c
 *	  What follows a position in a table.
 *
 * The steps are those of sql/next_batch.sql, which decides; here its questions
 * are put to the table, with the rights of the reader.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "common/int.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/typcache.h"

#include "ground.h"
#include "next_batch.h"
#include "order.h"
#include "parts.h"
#include "probe.h"

static StateCall everything = {
	/* Most looks find nothing: then little is called. */
	"SELECT n.b, (n.b).transactions, (n.b).resumed, ($2).members IS DISTINCT FROM $3,"
	" CASE WHEN n.b IS DISTINCT FROM NULL AND $4 THEN inorder_internal.total(inorder_internal.window_numbers(n.b)) END,"
	" pg_catalog.isempty(($2).transactions), ((n.b).cut_after)[1], ((n.b).cut_after)[2]::pg_catalog.int2,"
	" CASE WHEN (n.b).cut_after IS NOT NULL THEN ((n.b).resumed_after)[6]::pg_catalog.int8 END,"
	" CASE WHEN (n.b).cut_after IS NOT NULL THEN ((n.b).resumed_after)[5]::pg_catalog.int8 END"
	" FROM (SELECT CASE WHEN NOT inorder_internal.is_idle($1, $2) THEN inorder_internal.next_batch($1, $2, $3) END AS b"
	" OFFSET 0) AS n", .stable = true
};
static StateCall probe_text = {"SELECT inorder_internal.probe_query($1, $2, $3, $4)", .stable = true};
static StateCall check_batch = {
	"SELECT inorder_internal.check_batch($1, $2), ($2).cut IS NULL AND ($2).cut_after IS NOT NULL"
};
static StateCall joined_text = {"SELECT inorder_internal.joined_query($1, $2, $3, $4)"};
static StateCall complaint = {"SELECT inorder_internal.complain($1, $2, $3)"};
static StateCall window_text = {"SELECT inorder_internal.window_query($1, $2, $3, $4)"};
static StateCall narrowed = {"SELECT inorder_internal.in_window($1, $2)"};
static StateCall last_of_narrowed = {
	"SELECT inorder_internal.rest_of_one(w, pg_catalog.upper(w.transactions) - 1) FROM inorder_internal.in_window($1, $2) AS w"
};
static StateCall one_of = {"SELECT inorder_internal.rest_of_one($1, $2)"};
static StateCall restricted = {"SELECT inorder_internal.restricted($1, $2)"};
static StateCall cut_text = {"SELECT inorder_internal.cut_query($1, $2, $3, $4)"};
static StateCall cut = {"SELECT inorder_internal.cut_batch($1, $2, $3, $4)"};
static StateCall advance = {"SELECT inorder_internal.advance($1, $2)"};
static StateCall select_text = {"SELECT inorder_internal.batch_query($1, $2, $3, $4, $5)"};

/* Error if the probe finds a fault of the table */
void
probe_table(const Table *table, const char *probe, bool stable)
{
	Value		fault[2];
	Value		nothing;

	if (query_row(table, probe, stable, 2, fault))
		state_call(&complaint, 3, (Value[]) {table->description, fault[0], fault[1]}, 1, &nothing);
}

/* A transaction of so many rows, and of several batches, is read by its key: sorting a smaller one takes no longer. */
#define LARGE_ROWS 1000

/* How many rows the smallest so many transactions have, as far as it matters */
static int64
rows_of(const Table *table, Value batch, int64 amount, Value max_rows)
{
	Value		query;
	Value		found;

	state_call(&window_text, 4,
			   (Value[]) {table->description, batch, number_value(amount), max_rows}, 1, &query);
	if (!query_row(table, text_of(query), false, 1, &found))
		elog(ERROR, "the window has no number of rows");
	return DatumGetInt64(found.value);
}

/* The next amount to try where too few rows were found: what these suggest, but at most half the way to too many */
static int64
more_than(int64 amount, int64 found, int64 wanted, int64 too_many, int64 total)
{
	double		suggested = found == 0 ? amount * 32.0 : 1 + (double) amount * wanted * 1.25 / found;
	int64		halfway = too_many > total ? total : amount / 2 + too_many / 2 + 1;
	int64		next = suggested < (double) halfway ? (int64) suggested : halfway;

	return Min(Max(next, amount + 1), total);
}

/*
 * Where the index gives no order, what is looked at has to be sorted, so it
 * should be little more than is wanted: try one transaction, then as many as
 * its rows suggest.  The right amount is between two bounds, and every try
 * moves one: it ends when they meet.  If all rows are then of one large
 * transaction, the first of a batch, that one is read by its key.
 */
static void
narrow(const Table *table, Value *batch, Value max_rows, int64 total, bool is_first)
{
	int64		wanted = DatumGetInt32(max_rows.value);
	int64		amount = Min(1, total);
	int64		too_few = 0;
	int64		too_many = total + 1;
	bool		alone = is_first && wanted * 4 >= LARGE_ROWS;

	for (;;)
	{
		int64		found = amount == 0 ? 0 : rows_of(table, *batch, amount, max_rows);

		CHECK_FOR_INTERRUPTS();
		if (found < wanted)
		{
			alone = alone && found == 0 && amount < total;
			if (amount >= total)
				break;
			too_few = amount;
			amount = more_than(amount, found, wanted, too_many, total);
		}
		else
		{
			alone = alone && found == wanted * 4;
			if (found < wanted * 4 || amount - too_few <= 1)
				break;
			too_many = amount;
			amount = Max(amount / 4, too_few + 1);
		}
	}
	state_call(alone ? &last_of_narrowed : &narrowed, 2, (Value[]) {*batch, number_value(amount)}, 1, batch);
}

static Value
transactions_of(Value batch)
{
	bool		null;
	Datum		numbers = GetAttributeByName(DatumGetHeapTupleHeader(batch.value), "transactions", &null);

	return null ? null_of(INT8MULTIRANGEOID) : value_of(numbers, INT8MULTIRANGEOID);
}

/* A batch of many ranges of transactions, reduced to the first so many that have rows: for the text of a query only */
static Value
without_empty(const Table *table, Value batch, int64 most)
{
	Value		numbers = transactions_of(batch);

	if (!numbers.null && find_ranges(table, numbers, most, &numbers))
		state_call(&restricted, 2, (Value[]) {batch, numbers}, 1, &batch);
	return batch;
}

/* What a new batch may have */
typedef struct Candidate
{
	Value		batch;
	Value		transactions;
	Value		resumed;		/* one that was read in part */
	Value		other_members;	/* than the position remembers */
	Value		total;			/* how many whole transactions, if that matters */
	Value		nothing_read;	/* by now */
	Order		order;			/* if it is ordered by a column */
} Candidate;

/* Errors that the table itself is the reason of */
static void
look_for_faults(const Table *table, Value position, const Candidate *candidate)
{
	Value		query;

	state_call(&probe_text, 4, (Value[]) {table->description, position, candidate->batch, caller_value()}, 1, &query);
	probe_table(table, text_of(query), true);
}

/* Rows of one transaction may be far apart in the order of a column. */
void
refuse_whole(bool whole)
{
	if (whole)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("whole_transactions and an order column exclude each other"),
				 errdetail("In the order of a column the rows of a transaction need not follow each other.")));
}

/* One snapshot for all: no row in it has a number that the server had not reached when it was asked after that. */
static Next
find_candidate(const Table *table, Value position, Value max_rows, Candidate *candidate)
{
	Value		found[10];
	Found		rows = {true, true};	/* unless an index says more */

	state_call(&everything, 4,
			   (Value[]) {table->description, position, table->members, value_of(BoolGetDatum(!max_rows.null), BOOLOID)},
			   10, found);
	*candidate = (Candidate) {found[0], found[1], found[2], found[3], found[4], found[5],
	{found[6], found[7], found[8], found[9]}};
	if (candidate->batch.null)
		return NO_BATCH;
	check_partitions(table->ground, GetActiveSnapshot());
	if (table->ordered)
		rows = probe(table, candidate->transactions);
	if (rows.beyond || DatumGetBool(candidate->other_members.value))
		look_for_faults(table, position, candidate);
	if (!candidate->order.column.null)
	{
		refuse_whole(table->whole);
		prove_order_column(table, &candidate->order);
		if (!candidate->order.resumed_from.null)
			return REST_OF_SET;
	}
	return rows.rows || !candidate->resumed.null ? BATCH_OF_ROWS : EMPTY_BATCH;
}

/* End a batch after so many rows of it, or with the transaction of the last one, found in a window of its transactions; false if that has fewer */
static bool
cut_in(const Table *table, Value window, Value *batch, Value max_rows)
{
	Value		query;
	Value		last[2];

	/* The rest of a transaction that was read in part may have no rows. */
	window = without_empty(table, window, (int64) DatumGetInt32(max_rows.value) + 1);
	state_call(&cut_text, 4, (Value[]) {table->description, parts_of(table, transactions_of(window)), window, max_rows}, 1,
			   &query);
	if (!query_row(table, text_of(query), false, 2, last))
		return false;
	state_call(&cut, 4, (Value[]) {table->description, *batch, last[0], table->whole ? null_of(TEXTARRAYOID) : last[1]}, 1,
			   batch);
	return true;
}

/*
 * Whether a batch begins with a large transaction, which the window then is.
 * By number the planner would sort all of it.
 */
static bool
begins_large(const Table *table, const Candidate *candidate, int64 wanted, Value *window)
{
	int64		number;

	if (table->ground->reading.is_uuid || !candidate->resumed.null ||
		!first_is_large(table, candidate->transactions, Max(wanted * 4, LARGE_ROWS), &number))
		return false;
	state_call(&one_of, 2, (Value[]) {*window, value_of(Int64GetDatum(number), INT8OID)}, 1, window);
	return true;
}

/* Stop after so many rows; false if there are fewer */
static bool
cut_after(const Table *table, const Candidate *candidate, Value *batch, Value max_rows)
{
	Value		window = *batch;

	if (begins_large(table, candidate, DatumGetInt32(max_rows.value), &window) &&
		cut_in(table, window, batch, max_rows))
		return true;
	window = *batch;
	if (!table->ordered)
	{
		/* A large transaction is read piece by piece, whatever comes after it. */
		if (!candidate->resumed.null)
		{
			state_call(&narrowed, 2, (Value[]) {*batch, value_of(Int64GetDatum(0), INT8OID)}, 1, &window);
			if (cut_in(table, window, batch, max_rows))
				return true;
			window = *batch;
		}
		narrow(table, &window, max_rows, DatumGetInt64(candidate->total.value), candidate->resumed.null);
	}
	return cut_in(table, window, batch, max_rows);
}

/* Whether a batch has rows */
bool
has_rows(const Table *table, Value batch)
{
	Value		found;

	return query_row(table, psprintf("%s LIMIT 1", batch_query(table, batch, "'1'::pg_catalog.int4 AS found", false)),
					 false, 1, &found);
}

/* Limit a batch that was found to so many rows, if any */
static Next
limit(const Table *table, const Candidate *candidate, Next next, Value max_rows, Value *batch)
{
	if (candidate->order.column.null)
		return !max_rows.null && cut_after(table, candidate, batch, max_rows) ? BATCH_OF_ROWS : LAST_BATCH;
	if (!cut_ordered(table, batch, candidate->transactions, &candidate->order, max_rows,
					 DatumGetBool(candidate->nothing_read.value)))
		return next == REST_OF_SET ? REST_OF_SET : EMPTY_BATCH;
	if (next != BATCH_OF_ROWS && max_rows.null && !has_rows(table, *batch))
		return REST_OF_SET;
	return max_rows.null && candidate->order.resumed_from.null ? LAST_BATCH : BATCH_OF_ROWS;
}

Next
next_batch(const Table *table, Value position, Value max_rows, Value *batch)
{
	Candidate	candidate;
	Next		next;

	if (!max_rows.null && DatumGetInt32(max_rows.value) < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_rows must be 1 or more, not %d", DatumGetInt32(max_rows.value))));
	PushActiveSnapshot(GetTransactionSnapshot());
	next = find_candidate(table, position, max_rows, &candidate);
	PopActiveSnapshot();
	*batch = candidate.batch;
	if (next == BATCH_OF_ROWS || next == REST_OF_SET)
		next = limit(table, &candidate, next, max_rows, batch);
	return next;
}

/* The position after a batch */
Value
position_after(Value position, Value batch)
{
	Value		after;

	state_call(&advance, 2, (Value[]) {position, batch}, 1, &after);
	return after;
}

/* Error unless a batch that was made before can be read */
void
check_readable(const Table *table, Value batch)
{
	Value		checked[2];

	state_call(&check_batch, 2, (Value[]) {table->description, batch}, 2, checked);
	if (DatumGetBool(checked[1].value))
		prove_batch_order(table, batch);
	check_partitions(table->ground, GetTransactionSnapshot());
}

/* The query for the rows of a batch that was made before, all of them: the same each time */
char *
rows_query(const Table *table, Value batch)
{
	Value		query;

	check_readable(table, batch);
	state_call(&joined_text, 4, (Value[]) {table->description, batch, table->members, caller_value()}, 1, &query);
	if (!query.null)
		probe_table(table, text_of(query), false);
	return batch_query(table, batch, "e.*", true);
}

/* Its rows, as the result of the calling function */
void
read_batch(const Table *table, Value batch, FunctionCallInfo fcinfo)
{
	(void) query_rows(table, rows_query(table, batch), fcinfo);
	check_ground(table);
}

/* The query for the rows of a batch */
char *
batch_query(const Table *table, Value batch, const char *columns, bool in_order)
{
	Value		query;

	state_call(&select_text, 5,
			   (Value[]) {table->description, parts_of(table, transactions_of(batch)), without_empty(table, batch, PG_INT64_MAX),
			   value_of(CStringGetTextDatum(columns), TEXTOID), value_of(BoolGetDatum(in_order), BOOLOID)}, 1, &query);
	return text_of(query);
}

/* Whether there is one with rows now; and the ground is still what it was found on */
bool
has_next(const Table *table, Value position)
{
	Value		batch;
	Next		next;

	while ((next = next_batch(table, position, null_of(INT4OID), &batch)) == REST_OF_SET)
		position = position_after(position, batch);
	if (next < BATCH_OF_ROWS || !has_rows(table, batch))
		return false;
	check_ground(table);
	return true;
}

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
void
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
