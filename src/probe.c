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

/* About where a query is as fast */
#define PROBES_MAX 4096

/* Numbers from low on, below high unless that is above all */
typedef struct Numbers
{
	uint64		low;
	uint64		high;
} Numbers;

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

static bool
leaf_has(const Leaf *leaf, Numbers numbers)
{
	Relation	table = table_open(leaf->oid, NoLock);
	Relation	index = index_open(leaf->index, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(table, NULL);
	ScanKeyData keys[2];
	int			count = scan_keys(keys, numbers, index->rd_opcintype[0]);
	IndexScanDesc scan = begin_index_scan(table, index, GetActiveSnapshot(), count);
	bool		found;

	index_rescan(scan, keys, count, NULL, 0);
	found = index_getnext_slot(scan, ForwardScanDirection, slot);
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	table_close(table, NoLock);
	return found;
}

static bool
any_leaf_has(const Table *table, Numbers numbers)
{
	for (int i = 0; i < table->ground->leaf_count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (leaf_has(&table->ground->leaves[i], numbers))
			return true;
	}
	return false;
}

/* Only a btree is asked for little. */
bool
can_probe(const Table *table, Value numbers)
{
	uint64		ranges = DatumGetMultirangeTypeP(numbers.value)->rangeCount;

	return table->ordered && (ranges + 1) * table->ground->leaf_count <= PROBES_MAX;
}

/* Whether the snapshot that is active sees a row with one of these numbers */
bool
has_row_of(const Table *table, Value numbers)
{
	TypeCacheEntry *type = lookup_type_cache(INT8MULTIRANGEOID, TYPECACHE_MULTIRANGE_INFO);
	MultirangeType *set = DatumGetMultirangeTypeP(numbers.value);

	for (uint32 i = 0; i < set->rangeCount; i++)
	{
		RangeBound	low;
		RangeBound	high;

		multirange_get_bounds(type->rngtype, set, i, &low, &high);
		if (any_leaf_has(table, (Numbers) {DatumGetInt64(low.val), DatumGetInt64(high.val)}))
			return true;
	}
	return false;
}

/* Or one with a number that no transaction of this server has had yet */
bool
has_row_beyond(const Table *table)
{
	uint64		next = U64FromFullTransactionId(ReadNextFullTransactionId());

	return any_leaf_has(table, (Numbers) {xact_plus_base(next, table->ground->reading.base), PG_UINT64_MAX});
}
