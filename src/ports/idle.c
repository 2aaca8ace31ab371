/*
 * idle.c
 *	  Whether it is known at once that nothing follows a position.
 *
 * No transaction has ended since; or none that has rows in the table, which its
 * indexes show (probe.c), and which is what the position remembers.
 */
#include "postgres.h"

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
#include "ports/probe.h"
#include "ports/table.h"

PG_FUNCTION_INFO_V1(nothing_follows);
PG_FUNCTION_INFO_V1(pages_read);

/*
 * What a probe may read before its answer is not "at once": index entries of a load
 * that was rolled back are read at each probe, until VACUUM removes them.  The look
 * that is made instead may pass these transactions: see find_next().
 */
#define COSTLY_PAGES 1000

static int64 pages_in_vain;		/* of such a probe, before the look that is made instead */

/* Whether a position is between two batches: all of what it has read is transactions, which this server has had */
static bool
is_between(HeapTupleHeader position, const Table *table, Numbers *read)
{
	Datum		transactions = attribute_of(position, "transactions");
	Datum		ordering = attribute_of(position, "ordering");
	uint64		next = U64FromFullTransactionId(ReadNextFullTransactionId());
	bool		is_null;

	(void) GetAttributeByName(position, "partial", &is_null);
	if (!is_null || transactions == 0 || !is_bounded(DatumGetMultirangeTypeP(transactions)))
		return false;
	if (ordering != 0 && attribute_of(DatumGetHeapTupleHeader(ordering), "frozen") != 0)
		return false;
	*read = numbers_of(DatumGetMultirangeTypeP(transactions));
	return read->count == 0 || read->ranges[read->count - 1].high <= (int64) xact_plus_base(next, table_base(table));
}

/* Whether a table that was proved is as a position remembers it, and so is the column that orders its rows, if one does */
static bool
is_remembered(const Table *table, HeapTupleHeader position)
{
	Datum		members = attribute_of(position, "members");
	Datum		ordering = attribute_of(position, "ordering");

	if (ordering != 0 &&
		DatumGetInt16(attribute_of(DatumGetHeapTupleHeader(ordering), "attnum")) != table->ground->order_column)
		return false;
	return members != 0 && datumIsEqual(PointerGetDatum(DatumGetArrayTypeP(members)), table->members.value, false, -1);
}

/* Whether it is known by few probes that a table has no rows of a set, and none beyond all; in a snapshot, or now */
static bool
has_none(Table *table, HeapTupleHeader position, Numbers set, Snapshot snapshot)
{
	Found		found;

	if (table->ground->leaf_count >= MANY_LEAVES || set.count >= MANY_RANGES)
		return false;
	prove_ground(table);
	if (table->ground->leaf_count >= MANY_LEAVES || !is_remembered(table, position))
		return false;
	PushActiveSnapshot(snapshot != NULL ? snapshot : GetTransactionSnapshot());	/* that is not older than the locks */
	check_files(table->ground, GetActiveSnapshot());
	found = probe_table(table, value_of(numbers_datum(set), INT8MULTIRANGEOID));
	PopActiveSnapshot();
	return !found.rows && !found.beyond;
}

/* Pages of tables and indexes that this process has looked at in the buffers */
static int64
pages_used(void)
{
	return pgBufferUsage.shared_blks_hit + pgBufferUsage.shared_blks_read;
}

/* Whether it is known at once that nothing follows a position, for a reader if there is one */
static bool
is_idle(Table *table, HeapTupleHeader position)
{
	Numbers		set = ended_numbers(table_base(table), true);
	int64		pages = pages_used();
	Numbers		read;

	if (!is_between(position, table, &read))
		return false;
	set = without(set, read);
	if (set.count == 0)
		return true;
	if (!OidIsValid(table->reader) || !has_none(table, position, set, NULL))
		return false;
	pages = pages_used() - pages;
	if (pages <= COSTLY_PAGES || XactReadOnly)
		return true;
	pages_in_vain = pages;
	return false;
}

/* Whether it is known that the active snapshot sees all rows of a position, and no others, whatever their numbers are */
bool
has_no_other(Table *table, HeapTupleHeader position)
{
	Range		all = {0, XACT_NUMBER_MAX};
	Numbers		read;

	return is_between(position, table, &read) && without(read, ended_numbers(table_base(table), false)).count == 0 &&
		has_none(table, position, without((Numbers) {1, &all}, read), GetActiveSnapshot());
}

/* is_idle(t feed_table, p feed_position, caller oid) -> boolean */
Datum
nothing_follows(PG_FUNCTION_ARGS)
{
	Table		table = described_table(fcinfo, 2);

	PG_RETURN_BOOL(is_idle(&table, PG_GETARG_HEAPTUPLEHEADER(1)));
}

/* pages_read(t feed_table, begins boolean) -> bigint */
Datum
pages_read(PG_FUNCTION_ARGS)
{
	int64		before = PG_GETARG_BOOL(1) ? pages_in_vain : 0;

	pages_in_vain = 0;
	PG_RETURN_INT64(pages_used() - before);
}
