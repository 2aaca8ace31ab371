/*
 * counted.c
 *	  Exact counts that a session caches, so that later counts only add the new rows.
 *
 * A count is the number of rows of some transactions.  The count is valid in each snapshot that sees all of these
 * transactions as ended, if the table is unchanged (next.c).  The file of the table must also be unchanged, because the
 * guard does not refuse TRUNCATE of a partition that was created after the guard, and TRUNCATE creates a new file.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "ports/probe.h"

PG_FUNCTION_INFO_V1(known_count);
PG_FUNCTION_INFO_V1(keep_count);
PG_FUNCTION_INFO_V1(may_fold);

#define KEPT_COUNTS 16
#define MOST_ROWS 500			/* if there are at least this many new rows, a query counts them */

/* Columns of the type known_count, in the order of the type; the last constant is the number of columns. */
enum
{
	KNOWN_AMOUNT, KNOWN_FOLDED, KNOWN_COUNTED, KNOWN_OTHERS, KNOWN_MORE, KNOWN_COLUMNS
};

typedef struct Count
{
	MemoryContext memory;		/* holds the position; null if there is no position */
	Oid			relation;
	Oid			leaf;			/* the table itself, or its only partition */
	Oid			file;			/* file of this leaf */
	Datum		position;		/* feed_position: the transactions, and the partitions at the time of the count */
	int64		amount;
	int64		folded;			/* the count when may_fold() last returned true */
} Count;

static Count counts[KEPT_COUNTS];	/* count_of() returns the element for a table */

static Count *
count_of(Oid relation)
{
	return &counts[relation % KEPT_COUNTS];
}

/* Return the current file of a table; InvalidOid if the table was dropped */
static Oid
file_of(Oid table)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(table));
	Oid			file = HeapTupleIsValid(tuple) ? ((Form_pg_class) GETSTRUCT(tuple))->relfilenode : InvalidOid;

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return file;
}

/*
 * known_count(t feed_table, caller oid) -> known_count
 *
 * Return the count that this session has cached for a locked table; null if there is no valid count.  The count of a
 * table with partitions is valid only as long as there are no rows to add.
 */
Datum
known_count(PG_FUNCTION_ARGS)
{
	Table		table = described_table(fcinfo, 1);
	Count	   *count = count_of(table.oid);
	Numbers		uncounted;
	int64		rows;
	Datum		values[KNOWN_COLUMNS];
	bool		nulls[KNOWN_COLUMNS] = {false};
	TupleDesc	columns;

	if (count->relation != table.oid || IsInParallelMode())
		PG_RETURN_NULL();
	/* The lock may have been taken before this call.  Process the invalidations that have arrived since then. */
	AcceptInvalidationMessages();
	if (file_of(count->leaf) != count->file ||
		!holds_again(&table, DatumGetHeapTupleHeader(count->position), &uncounted) ||
		(uncounted.count > 0 && count->leaf != table.oid) ||
		get_call_result_type(fcinfo, NULL, &columns) != TYPEFUNC_COMPOSITE)
		PG_RETURN_NULL();
	expect_columns(columns, KNOWN_COLUMNS, "a known count");
	values[KNOWN_AMOUNT] = Int64GetDatum(count->amount);
	values[KNOWN_FOLDED] = Int64GetDatum(count->folded);
	values[KNOWN_COUNTED] = count->position;
	values[KNOWN_OTHERS] = numbers_datum(uncounted);
	rows = count_seen(&table, uncounted, MOST_ROWS);
	values[KNOWN_MORE] = Int64GetDatum(rows);
	nulls[KNOWN_MORE] = rows == MOST_ROWS;
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(columns), values, nulls)));
}

/*
 * keep_count(relation oid, leaf oid, counted feed_position, amount bigint, folded bigint) -> void
 *
 * A transaction that may have written rows stores no count, since these rows may be
 * rolled back.
 */
Datum
keep_count(PG_FUNCTION_ARGS)
{
	Oid			relation = PG_GETARG_OID(0);
	Count	   *count = count_of(relation);
	MemoryContext old_memory = count->memory;
	MemoryContext caller_memory;

	if (IsInParallelMode() || TransactionIdIsValid(GetTopTransactionIdIfAny()))
		PG_RETURN_VOID();
	count->relation = InvalidOid;
	count->memory = AllocSetContextCreate(TopMemoryContext, "inorder: an exact count", ALLOCSET_SMALL_SIZES);
	caller_memory = MemoryContextSwitchTo(count->memory);
	count->position = PointerGetDatum(PG_DETOAST_DATUM_COPY(PG_GETARG_DATUM(2)));
	MemoryContextSwitchTo(caller_memory);
	if (old_memory != NULL)
		MemoryContextDelete(old_memory);
	count->leaf = PG_GETARG_OID(1);
	count->file = file_of(count->leaf);
	count->amount = PG_GETARG_INT64(3);
	count->folded = PG_GETARG_INT64(4);
	count->relation = relation;
	PG_RETURN_VOID();
}

/*
 * may_fold(relation oid, amount bigint) -> boolean
 *
 * True if this query may write, and its snapshot is newer than its locks.  If the session keeps a count of the table,
 * and the result is true, "folded" of that count is set to "amount".
 */
Datum
may_fold(PG_FUNCTION_ARGS)
{
	Count	   *count = count_of(PG_GETARG_OID(0));

	if (XactReadOnly || IsInParallelMode() || IsolationUsesXactSnapshot())
		PG_RETURN_BOOL(false);
	if (count->relation == PG_GETARG_OID(0))
		count->folded = PG_GETARG_INT64(1);
	PG_RETURN_BOOL(true);
}
