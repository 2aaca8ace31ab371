/*
 * split.c
 *	  Batches for readers in parallel: what users call.
 *
 * sql/feed/split.sql divides; here it is found where, so that the parts have about
 * equal numbers of rows.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/multirangetypes.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"

#include "feed/feed.h"
#include "ports/ground.h"
#include "ports/origin.h"
#include "feed/sample.h"

PG_FUNCTION_INFO_V1(reader_batch_between);
PG_FUNCTION_INFO_V1(reader_split);

#define PARTS_MAX 10000
#define SAMPLED_ROWS 10000		/* where they are read to be counted */

static StateCall check_readable = {"SELECT inorder_internal.check_readable($1, $2, $3)"};
static StateCall between = {"SELECT inorder_internal.between_positions($1, $2)"};
static StateCall take_apart = {
	"SELECT (SELECT inorder_internal.check_splittable($1)),"
	" inorder_internal.one(($1).resumed) OPERATOR(pg_catalog.*) ($1).transactions,"
	" inorder_internal.whole_transactions($1),"
	" CASE WHEN ($1).cut IS DISTINCT FROM ($1).resumed THEN inorder_internal.one(($1).cut)"
	" ELSE '{}'::pg_catalog.int8multirange END, ($1).resumed, ($1).cut"
};
static StateCall check_kept = {"SELECT inorder_internal.check_kept_batch($1)"};
static StateCall count_text = {"SELECT inorder_internal.count_query($1, $2, $3)"};
static StateCall numbers_text = {"SELECT inorder_internal.numbers_query($1, $2, $3, $4)"};
static StateCall inside_text = {"SELECT inorder_internal.inside_query($1, $2, $3, $4)"};
static StateCall part_to = {
	"SELECT p.part, inorder_internal.rest_after($1, p.part)"
	" FROM (SELECT inorder_internal.part_to($1, $2, $3) AS part OFFSET 0) AS p"
};

/* reader_batch_between(from_position feed_position, to_position feed_position) -> feed_batch */
Datum
reader_batch_between(PG_FUNCTION_ARGS)
{
	Value		batch;

	state_call(&between, 2, (Value[]) {composite_argument(fcinfo, 0), composite_argument(fcinfo, 1)}, 1, &batch);
	PG_RETURN_DATUM(batch.value);
}

/* A batch in its order: shares of the rows of the transaction that begins it, of whole ones, of the one that ends it */
typedef struct Rows
{
	Share	   *shares;
	int			count;
	int64		total;
} Rows;

static bool
is_empty(Value numbers)
{
	return DatumGetMultirangeTypeP(numbers.value)->rangeCount == 0;
}

static int64
count_rows(const Table *table, Value batch, Value numbers)
{
	Value		query;
	int64		rows;

	state_call(&count_text, 3, (Value[]) {table->description, batch, numbers}, 1, &query);
	PushActiveSnapshot(GetTransactionSnapshot());
	rows = query_count(table, text_of(query), false);
	PopActiveSnapshot();
	return rows;
}

/* Where no index has the numbers in order: by the rows */
static Sample
sample_by_rows(const Table *table, Value batch, Value numbers)
{
	int64		stride = count_rows(table, batch, numbers) / SAMPLED_ROWS + 1;
	Value		query;
	Value		found;
	ArrayType  *array;

	state_call(&numbers_text, 4, (Value[]) {table->description, batch, numbers, number_value(stride)}, 1, &query);
	if (!query_row(table, text_of(query), false, 1, &found) || found.null)
		return sample_of(NULL, 0, stride);
	array = DatumGetArrayTypeP(found.value);
	return sample_of((int64 *) ARR_DATA_PTR(array), ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array)), stride);
}

static void
add_share(Rows *rows, Share share)
{
	rows->shares[rows->count++] = share;
	rows->total += share.rows;
}

static void
add_one(Rows *rows, const Table *table, Value batch, Value numbers, Value number)
{
	if (!is_empty(numbers))
		add_share(rows, (Share) {DatumGetInt64(number.value), count_rows(table, batch, numbers)});
}

/* For one part they need not be known. */
static Rows
rows_of_batch(const Table *table, Value batch, int parts)
{
	Value		found[6];
	Sample		whole = {NULL, 0};
	Rows		rows = {NULL, 0, 0};

	state_call(&take_apart, 1, &batch, 6, found);
	if (parts == 1)
		return rows;
	if (!is_empty(found[2]))
		whole = table->ordered ? sample_by_index(table, found[2]) : sample_by_rows(table, batch, found[2]);
	rows.shares = palloc_extended(sizeof(Share) * ((Size) whole.count + 2), MCXT_ALLOC_HUGE);
	add_one(&rows, table, batch, found[1], found[4]);
	for (int i = 0; i < whole.count; i++)
		add_share(&rows, whole.shares[i]);
	add_one(&rows, table, batch, found[3], found[5]);
	return rows;
}

/* What is still to be divided: from the share on that is the first, but for the rows of that which were taken */
typedef struct Rest
{
	Value		batch;
	int			first;
	int64		taken;
} Rest;

static void
return_part(FunctionCallInfo fcinfo, Value part)
{
	HeapTupleHeader header = DatumGetHeapTupleHeader(part.value);
	HeapTupleData tuple = {.t_len = HeapTupleHeaderGetDatumLength(header), .t_data = header};

	ItemPointerSetInvalid(&tuple.t_self);
	tuplestore_puttuple(((ReturnSetInfo *) fcinfo->resultinfo)->setResult, &tuple);
}

/* The key of the row at a place among those of one transaction; false if there is none */
static bool
find_key(const Table *table, Value batch, uint64 number, int64 place, Value *key)
{
	Value		query;
	Value		found[2];

	state_call(&inside_text, 4,
			   (Value[]) {table->description, batch, number_value((int64) number), number_value(place)}, 1, &query);
	if (query.null || !query_row(table, text_of(query), false, 2, found))
		return false;
	*key = found[1];
	return true;
}

/* Return as a part what ends after a key of a share or, without one, after the share */
static void
part_at(FunctionCallInfo fcinfo, Rest *rest, uint64 number, Value key)
{
	Value		both[2];

	state_call(&part_to, 3, (Value[]) {rest->batch, number_value((int64) number), key}, 2, both);
	return_part(fcinfo, both[0]);
	rest->batch = both[1];
}

/* Divide before a row of a share: inside of a large one, otherwise at its end */
static void
divide(const Table *table, FunctionCallInfo fcinfo, const Rows *rows, Rest *rest, int share, int64 row, bool large)
{
	uint64		number = rows->shares[share].number;
	int64		taken = share == rest->first ? rest->taken : 0;
	int			last = row == 0 ? share - 1 : share;
	Value		key;

	if (row <= taken && share == rest->first)
		return;
	if (large && row > 0 && find_key(table, rest->batch, number, row - taken, &key))
	{
		part_at(fcinfo, rest, number, key);
		rest->first = share;
		rest->taken = row;
	}
	else if (last >= rest->first && last < rows->count - 1)
	{
		part_at(fcinfo, rest, rows->shares[last].number, null_of(TEXTARRAYOID));
		rest->first = last + 1;
		rest->taken = 0;
	}
}

static void
split(const Table *table, FunctionCallInfo fcinfo, Value batch, int parts)
{
	Rows		rows = rows_of_batch(table, batch, parts);
	Rest		rest = {batch, 0, 0};
	int			share = 0;
	int64		before = 0;

	for (int i = 1; i < parts && rows.count > 0; i++)
	{
		int64		row = rows.total / parts * i + rows.total % parts * i / parts;

		CHECK_FOR_INTERRUPTS();
		while (share < rows.count - 1 && before + rows.shares[share].rows <= row)
			before += rows.shares[share++].rows;
		divide(table, fcinfo, &rows, &rest, share, row - before, rows.shares[share].rows > rows.total / parts / 8);
	}
	return_part(fcinfo, rest.batch);
}

/* reader_split(relation regclass, batch feed_batch, parts int) -> setof feed_batch */
Datum
reader_split(PG_FUNCTION_ARGS)
{
	Origin		origin = origin_here();
	Table		table = open_table(readable_argument(fcinfo, 0));
	Value		batch = composite_argument(fcinfo, 1);
	Value		parts = argument_value(fcinfo, 2, INT4OID);
	Value		nothing;

	if (parts.null || DatumGetInt32(parts.value) < 1 || DatumGetInt32(parts.value) > PARTS_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("parts must be between 1 and %d, not %s", PARTS_MAX,
						parts.null ? "null" : psprintf("%d", DatumGetInt32(parts.value)))));
	InitMaterializedSRF(fcinfo, 0);
	state_call(&check_kept, 1, &batch, 1, &nothing);
	state_call(&check_readable, 3, (Value[]) {table.description, batch, caller_value()}, 1, &nothing);
	split(&table, fcinfo, batch, DatumGetInt32(parts.value));
	check_ground(&table);
	expect_origin(origin);
	return (Datum) 0;
}
