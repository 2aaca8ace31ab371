/*
 * counted.c
 *	  Exact counts that this session has made, and that hold again.
 *
 * A number of rows is that of some transactions.  It is the number of rows in a
 * snapshot in which all of these have ended, if the table is as it was then, and
 * has no row of another transaction that the snapshot sees (next.c).  A partition
 * that was made after the guard can be truncated, by which it gets another file.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "ports/table.h"

PG_FUNCTION_INFO_V1(known_count);
PG_FUNCTION_INFO_V1(keep_count);

#define KEPT_COUNTS 16

typedef struct Count
{
	MemoryContext memory;		/* holds the position; null if there is none */
	Oid			relation;
	Oid			leaf;			/* the table itself, or its only partition */
	Oid			file;			/* file of that */
	Datum		position;		/* feed_position: the transactions, and the table as it was */
	int64		amount;
} Count;

static Count counts[KEPT_COUNTS];	/* each at the place of its table */

static Count *
count_of(Oid relation)
{
	return &counts[relation % KEPT_COUNTS];
}

/* The present file of a table; none if the table is gone */
static Oid
file_of(Oid table)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(table));
	Oid			file = HeapTupleIsValid(tuple) ? ((Form_pg_class) GETSTRUCT(tuple))->relfilenode : InvalidOid;

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return file;
}

/* known_count(t feed_table, caller oid) -> bigint: of a table that is locked; null if no count is known that holds */
Datum
known_count(PG_FUNCTION_ARGS)
{
	Table		table = described_table(fcinfo, 1);
	Count	   *count = count_of(table.oid);

	if (count->relation != table.oid || IsInParallelMode())
		PG_RETURN_NULL();
	AcceptInvalidationMessages();	/* the lock may be an older one */
	if (file_of(count->leaf) != count->file || !has_no_other(&table, DatumGetHeapTupleHeader(count->position)))
		PG_RETURN_NULL();
	PG_RETURN_INT64(count->amount);
}

/*
 * keep_count(relation oid, leaf oid, counted feed_position, amount bigint) -> void
 *
 * A transaction that may have written rows keeps nothing, since these may be rolled back.
 */
Datum
keep_count(PG_FUNCTION_ARGS)
{
	Oid			relation = PG_GETARG_OID(0);
	Count	   *count = count_of(relation);
	MemoryContext old;

	if (IsInParallelMode() || TransactionIdIsValid(GetTopTransactionIdIfAny()))
		PG_RETURN_VOID();
	if (count->memory == NULL)
		count->memory = AllocSetContextCreate(TopMemoryContext, "inorder: an exact count", ALLOCSET_SMALL_SIZES);
	MemoryContextReset(count->memory);
	count->relation = InvalidOid;
	old = MemoryContextSwitchTo(count->memory);
	count->position = PointerGetDatum(PG_DETOAST_DATUM_COPY(PG_GETARG_DATUM(2)));
	MemoryContextSwitchTo(old);
	count->leaf = PG_GETARG_OID(1);
	count->file = file_of(count->leaf);
	count->amount = PG_GETARG_INT64(3);
	count->relation = relation;
	PG_RETURN_VOID();
}
