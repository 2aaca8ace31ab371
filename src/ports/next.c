/*
 * next.c
 *	  Use the indexes to find the batch that follows a position, where possible.
 *
 * Most searches find no rows, or rows of a few transactions, in a table that is unchanged since the position was made.
 * In these cases, a few descents in the indexes find the batch (probe.c, end.c).  All other cases are left to
 * find_batch() in sql/feed/next.sql.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/datum.h"
#include "utils/multirangetypes.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "keys/uuid_datum.h"
#include "ports/kept.h"

PG_FUNCTION_INFO_V1(next_by_index);
PG_FUNCTION_INFO_V1(pages_read);

/*
 * A probe that reads more pages than this is costly.  For example, after a bulk load was rolled back, each probe reads
 * the index entries of the load until VACUUM removes them.  The full search that follows a costly probe may move the
 * position past the transaction of such a load: see find_next_batch().
 */
#define COSTLY_PAGES 1000

/* A set of at least this many ranges needs more than a few probes. */
#define MANY_RANGES 64

static int64 pages_in_vain;		/* pages read by a costly probe, before the full search that follows it */

/* The format of positions and batches: position_format() in sql/ports/position.sql */
#define FORMAT 1

/*
 * Return true if a position consists of whole transactions that have begun on this server, and is not inside a set
 * ordered by a column
 */
static bool
is_between_transactions(const Row *position, const Table *table, Numbers *read)
{
	Row			order = row_of(position->values[POSITION_ORDERING], position->nulls[POSITION_ORDERING], ORDER_COLUMNS);
	uint64		next_id = U64FromFullTransactionId(ReadNextFullTransactionId());

	if (!position->nulls[POSITION_PARTIAL] || position->nulls[POSITION_TRANSACTIONS] || !order.nulls[ORDER_FROZEN] ||
		!is_bounded(DatumGetMultirangeTypeP(position->values[POSITION_TRANSACTIONS])))
		return false;
	*read = numbers_of(DatumGetMultirangeTypeP(position->values[POSITION_TRANSACTIONS]));
	return read->count == 0 ||
		read->ranges[read->count - 1].high <= (int64) xact_plus_base(next_id, table->reading.base);
}

/* Return true if "members" are the partitions of the table when it was checked */
static bool
are_members(const Table *table, Datum members)
{
	return datumIsEqual(PointerGetDatum(DatumGetArrayTypeP(members)), table->members.value, false, -1);
}

/*
 * Return true if the partitions, and the column that orders the rows, if any, are the same in the position and in the
 * proof
 */
static bool
is_remembered(const Table *table, const Row *position)
{
	Row			order = row_of(position->values[POSITION_ORDERING], position->nulls[POSITION_ORDERING], ORDER_COLUMNS);

	if (!position->nulls[POSITION_ORDERING] && DatumGetInt16(order.values[ORDER_ATTNUM]) != table->proof->order_column)
		return false;
	return !position->nulls[POSITION_MEMBERS] && are_members(table, position->values[POSITION_MEMBERS]);
}

/*
 * Return true if a few probes are enough for a set, and the table is unchanged since the position was made.  If the
 * result is true, this function has locked and checked the table.
 */
static bool
is_worth_probing(Table *table, const Row *position, Numbers set)
{
	if (table->proof->leaf_count >= MANY_LEAVES || set.count >= MANY_RANGES)
		return false;
	prove_table(table);
	return table->proof->leaf_count < MANY_LEAVES && is_remembered(table, position);
}

/* Find out whether the active snapshot sees rows of a set of transactions in a locked table */
static ProbeResult
probe_files(const Table *table, Numbers set)
{
	check_files(table->proof, GetActiveSnapshot());
	return probe_table(table, value_of(numbers_datum(set), INT8MULTIRANGEOID));
}

/* Return the number of buffers of tables and indexes that this process has accessed so far */
static int64
pages_used(void)
{
	return pgBufferUsage.shared_blks_hit + pgBufferUsage.shared_blks_read;
}

/*
 * False if a probe was costly.  The full search must then follow.  "pages_before" is the value of pages_used() before
 * the probe.
 */
static bool
is_cheap(int64 pages_before)
{
	int64		pages_read_by_probe = pages_used() - pages_before;

	if (pages_read_by_probe <= COSTLY_PAGES || XactReadOnly)
		return true;
	pages_in_vain = pages_read_by_probe;
	return false;
}

static Row
position_row(HeapTupleHeader position)
{
	return row_of(PointerGetDatum(position), false, POSITION_COLUMNS);
}

/*
 * Return true if all transactions of a position have ended in the active snapshot, and the table is unchanged.  Sets
 * "outside" to the numbers outside the position, or to the empty set if the snapshot sees no rows with such numbers.
 */
bool
holds_again(Table *table, HeapTupleHeader position, Numbers *outside)
{
	Range		all_numbers = {0, XACT_NUMBER_MAX};
	Row			row = position_row(position);
	Numbers		read;
	ProbeResult	probe;

	if (!is_between_transactions(&row, table, &read) ||
		difference(read, ended_numbers(table->reading.base, false)).count > 0)
		return false;
	*outside = difference((Numbers) {1, &all_numbers}, read);
	if (!is_worth_probing(table, &row, *outside))
		return false;
	probe = probe_files(table, *outside);
	if (!probe.has_rows && !probe.has_beyond)
		outside->count = 0;
	return true;
}

/*
 * Return true if quick checks show that the rows of a batch can be read: the table is unchanged since the batch was
 * made, the batch is not ordered by a column, and the transactions of the batch have ended in the newest snapshot.  If
 * the result is true, this function has locked and checked the table.
 */
bool
is_readable(Table *table, HeapTupleHeader batch)
{
	Row			row = row_of(PointerGetDatum(batch), false, BATCH_COLUMNS);
	MultirangeType *set = DatumGetMultirangeTypeP(row.values[BATCH_TRANSACTIONS]);
	bool		result;

	if (!row.nulls[BATCH_ORDERING] || row.nulls[BATCH_MEMBERS] || !is_bounded(set))
		return false;
	prove_table(table);
	PushActiveSnapshot(GetTransactionSnapshot());	/* a snapshot that is not older than the locks */
	result = are_members(table, row.values[BATCH_MEMBERS]) &&
		difference(numbers_of(set), ended_numbers(table->reading.base, false)).count == 0;
	if (result)
		check_files(table->proof, GetActiveSnapshot());
	PopActiveSnapshot();
	return result;
}

/* Return the numbers of a set that are not above the given number */
static Numbers
up_to(Numbers set, int64 number)
{
	Range		numbers_above = {number + 1, PG_INT64_MAX};

	return difference(set, (Numbers) {1, &numbers_above});
}

/* Attributes of the type found_batch, in the order of the type; the last constant is the number of attributes. */
enum
{
	NEXT_BATCH, NEXT_HAS_ROWS, NEXT_IS_ALL, NEXT_MEMBERS, NEXT_REST, NEXT_IS_COSTLY, NEXT_COLUMNS
};

static HeapTupleHeader
batch_of(const Table *table, Numbers set, int64 cut, Datum cut_after)
{
	Row			batch = empty_row();

	set_column(&batch, BATCH_FORMAT, Int32GetDatum(FORMAT));
	set_column(&batch, BATCH_TRANSACTIONS, numbers_datum(set));
	set_column(&batch, BATCH_MEMBERS, table->members.value);
	set_column(&batch, BATCH_ORIGIN, origin_of_server());
	if (cut_after != (Datum) 0)
	{
		set_column(&batch, BATCH_CUT, Int64GetDatum(cut));
		set_column(&batch, BATCH_CUT_AFTER, cut_after);
	}
	return DatumGetHeapTupleHeader(row_datum(&batch, BATCH_COLUMNS, attribute_type("found_batch", "batch")));
}

/*
 * Run a query with the privileges of the caller to find the key of the last row of a batch that ends inside a
 * transaction.  Returns 0 if no key distinguishes the rows of a transaction.  The batch then ends after the
 * transaction.
 */
static Datum
last_key(const Table *table, HeapTupleHeader batch, const BatchEnd *end)
{
	Value		key = owner_call("key_at", 5, (Value[]) {
		table->description, value_of(PointerGetDatum(batch), HeapTupleHeaderGetTypeId(batch)), number_value(end->number),
			number_value(end->place), value_of(ObjectIdGetDatum(table->reader), OIDOID)
	});

	return key.null ? (Datum) 0 : key.value;
}

/*
 * Find the first batch of a set of transactions, and the end of this batch, in the active snapshot.  The batch is null
 * if the set has no rows, unless the request accepts a batch without rows.  Return false if the batch cannot be found
 * using the indexes.
 */
static bool
find_batch(const Table *table, Numbers set, const BatchRequest *request, HeapTupleHeader *batch, BatchEnd *end)
{
	ProbeResult	probe = probe_files(table, set);

	if (probe.has_beyond)
		return false;
	if (probe.has_rows || request->passes)
		*batch = batch_of(table, set, 0, (Datum) 0);
	if (!probe.has_rows)
		return true;
	/* Without a limit, only find out whether there is a row. */
	if (!find_end(table, *batch, request->is_limited ? request->max_rows : 0, end))
		return false;
	end->is_all = end->is_all || !request->is_limited;
	if (end->is_all)
		return true;
	/* The indexes show the key only if it is a uuid. */
	if (!request->whole && end->place != 0 && end->last_key == (Datum) 0)
		end->last_key = last_key(table, *batch, end);
	*batch = batch_of(table, up_to(set, end->number), end->number, request->whole ? (Datum) 0 : end->last_key);
	return true;
}

/*
 * Find the batch that follows a position, and the end of this batch; the batch is null if nothing follows.  Return
 * false if the batch cannot be found using the indexes.
 */
bool
find_next_batch(Table *table, const Row *position, const BatchRequest *request, HeapTupleHeader *batch, BatchEnd *end)
{
	int64		pages_before = pages_used();
	bool		is_shown;
	Numbers		read;
	Numbers		set;

	*batch = NULL;
	*end = (BatchEnd) {.is_all = true};
	set = ended_numbers(table->reading.base, true);
	/*
	 * After a costly probe, the full search must follow immediately.  Another
	 * probe might be cheap, because the costly probe has marked dead index
	 * entries.
	 */
	if (pages_in_vain > 0 || !is_between_transactions(position, table, &read))
		return false;
	set = difference(set, read);
	if (set.count == 0)
		return true;
	if (!is_worth_probing(table, position, set))
		return false;
	PushActiveSnapshot(GetTransactionSnapshot());	/* a snapshot that is not older than the locks */
	set = difference(ended_numbers(table->reading.base, true), read);
	is_shown = set.count > 0 && find_batch(table, set, request, batch, end) &&
		(*batch == NULL || position->nulls[POSITION_ORDERING]) && (end->has_row || is_cheap(pages_before));
	PopActiveSnapshot();
	return is_shown;
}

/*
 * next_by_index(t feed_table, p feed_position, max_rows int, whole boolean, passes boolean, caller oid) -> found_batch
 *
 * Null if the batch cannot be found using the indexes.
 */
Datum
next_by_index(PG_FUNCTION_ARGS)
{
	Table		table = table_with_proof(PG_GETARG_DATUM(0), PG_GETARG_OID(5));
	Row			position = position_row(PG_GETARG_HEAPTUPLEHEADER(1));
	BatchRequest request = {!PG_ARGISNULL(2), PG_GETARG_INT32(2), PG_GETARG_BOOL(3), PG_GETARG_BOOL(4)};
	Row			row = empty_row();
	HeapTupleHeader batch;
	BatchEnd	end;

	if (!find_next_batch(&table, &position, &request, &batch, &end))
		PG_RETURN_NULL();
	if (batch != NULL)
	{
		set_column(&row, NEXT_BATCH, PointerGetDatum(batch));
		set_column(&row, NEXT_MEMBERS, table.members.value);
	}
	set_column(&row, NEXT_HAS_ROWS, BoolGetDatum(end.has_row));
	set_column(&row, NEXT_IS_ALL, BoolGetDatum(end.is_all));
	set_column(&row, NEXT_IS_COSTLY, BoolGetDatum(false));
	PG_RETURN_DATUM(result_row(fcinfo, &row, NEXT_COLUMNS));
}

/*
 * pages_read(t feed_table, begins boolean) -> bigint
 *
 * The number of buffers that this process has accessed.  If "begins" is true, the buffers of the costly probe before
 * this search are subtracted.  The difference between the results of this call and of a later call then includes these
 * buffers.
 */
Datum
pages_read(PG_FUNCTION_ARGS)
{
	int64		subtracted = PG_GETARG_BOOL(1) ? pages_in_vain : 0;

	pages_in_vain = 0;
	PG_RETURN_INT64(pages_used() - subtracted);
}
