/*
 * probe.c
 *	  Whether a table has rows of some numbers, by its indexes.
 *
 * Most polls find nothing.  A query that finds nothing has to be planned
 * all the same, over all partitions, which takes 75 ms where there are 1,000:
 * a descent in each index takes a few microseconds.  It runs no code of the
 * owner's: the first column of the index is a uuid or a bigint, compared as
 * the server does (leaf.c), and of the row only its visibility is looked at.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/skey.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/multirangetypes.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/typcache.h"

#include "compat.h"
#include "ground.h"
#include "probe.h"
#include "uuid_datum.h"
#include "uuid_layout.h"
#include "xact.h"

/* In all indexes; about where a query is as fast */
#define PROBES_MAX 4096

static Datum
smallest_key(uint64 number, Oid type)
{
	return type == UUIDOID ? uuid_datum(xact_key(number, (XactTail) {0, 0})) : Int64GetDatum((int64) number);
}

static int
scan_keys(ScanKey keys, Numbers numbers, Oid type)
{
	bool		is_uuid = type == UUIDOID;

	ScanKeyInit(&keys[0], 1, BTGreaterEqualStrategyNumber, is_uuid ? F_UUID_GE : F_INT8GE,
				smallest_key(numbers.low, type));
	if (numbers.high > XACT_NUMBER_MAX)
		return 1;
	ScanKeyInit(&keys[1], 1, BTLessStrategyNumber, is_uuid ? F_UUID_LT : F_INT8LT, smallest_key(numbers.high, type));
	return 2;
}

/* The table is locked: see lock_tree() in ground.c. */
Opened
open_leaf(const Leaf *leaf)
{
	Relation	table = table_open(leaf->oid, NoLock);

	return (Opened) {table, index_open(leaf->index, AccessShareLock), table_slot_create(table, NULL)};
}

void
close_leaf(Opened leaf)
{
	ExecDropSingleTupleTableSlot(leaf.slot);
	index_close(leaf.index, NoLock);
	table_close(leaf.table, NoLock);
}

/* A scan of the index for these numbers, of rows that the active snapshot sees or, with keys only, of all entries */
IndexScanDesc
scan_numbers(Opened leaf, Numbers numbers, bool keys_only)
{
	ScanKeyData keys[2];
	int			count = scan_keys(keys, numbers, leaf.index->rd_opcintype[0]);
	IndexScanDesc scan = begin_index_scan(leaf.table, leaf.index, GetActiveSnapshot(), count);

	scan->xs_want_itup = keys_only;
	index_rescan(scan, keys, count, NULL, 0);
	return scan;
}

/* The number of rows of these numbers, at most so many */
static int64
index_count(Opened leaf, Numbers numbers, int64 most)
{
	IndexScanDesc scan = scan_numbers(leaf, numbers, false);
	int64		found = 0;

	while (found < most && index_getnext_slot(scan, ForwardScanDirection, leaf.slot))
	{
		CHECK_FOR_INTERRUPTS();
		found++;
	}
	index_endscan(scan);
	return found;
}

/* The number of rows of one more table */
static int64
count_leaf(Opened leaf, const Numbers *ranges, int count, int64 most)
{
	int64		found = 0;

	for (int i = 0; i < count && found < most; i++)
	{
		CHECK_FOR_INTERRUPTS();
		found += index_count(leaf, ranges[i], most - found);
	}
	return found;
}

/* One row is enough of each kind. */
static void
probe_leaf(Opened leaf, const Numbers *ranges, int count, Numbers beyond, Found *found)
{
	found->rows = found->rows || count_leaf(leaf, ranges, count, 1) > 0;
	found->beyond = found->beyond || index_count(leaf, beyond, 1) > 0;
}

/* Only a btree is asked for little. */
bool
can_probe(const Table *table, Value numbers)
{
	uint64		ranges = DatumGetMultirangeTypeP(numbers.value)->rangeCount;

	return table->ordered && (ranges + 1) * table->ground->leaf_count <= PROBES_MAX;
}

Numbers *
ranges_of(MultirangeType *set)
{
	TypeCacheEntry *type = lookup_type_cache(INT8MULTIRANGEOID, TYPECACHE_MULTIRANGE_INFO);
	Numbers    *ranges = palloc(sizeof(Numbers) * (set->rangeCount + 1));

	for (uint32 i = 0; i < set->rangeCount; i++)
	{
		RangeBound	low;
		RangeBound	high;

		multirange_get_bounds(type->rngtype, set, i, &low, &high);
		ranges[i] = (Numbers) {DatumGetInt64(low.val), DatumGetInt64(high.val)};
	}
	return ranges;
}

/* Whether there are rows of these transactions, and rows beyond all */
Found
probe(const Table *table, Value numbers)
{
	MultirangeType *set = DatumGetMultirangeTypeP(numbers.value);
	Numbers    *ranges = ranges_of(set);
	uint64		next = U64FromFullTransactionId(ReadNextFullTransactionId());
	Numbers		beyond = {xact_plus_base(next, table->ground->reading.base), PG_UINT64_MAX};
	Found		found = {false, false};

	for (int i = 0; i < table->ground->leaf_count; i++)
	{
		Opened		leaf = open_leaf(&table->ground->leaves[i]);

		CHECK_FOR_INTERRUPTS();
		probe_leaf(leaf, ranges, set->rangeCount, beyond, &found);
		close_leaf(leaf);
	}
	return found;
}

/* The number of rows of these transactions, at most so many */
int64
probe_count(const Table *table, Value numbers, int64 most)
{
	MultirangeType *set = DatumGetMultirangeTypeP(numbers.value);
	Numbers    *ranges = ranges_of(set);
	int64		found = 0;

	PushActiveSnapshot(GetTransactionSnapshot());
	for (int i = 0; i < table->ground->leaf_count && found < most; i++)
	{
		Opened		leaf = open_leaf(&table->ground->leaves[i]);

		found += count_leaf(leaf, ranges, set->rangeCount, most - found);
		close_leaf(leaf);
	}
	PopActiveSnapshot();
	return found;
}
