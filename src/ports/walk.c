/*
 * walk.c
 *	  Rows of a batch by the index of their keys, without a query.
 *
 * To parse and plan a query takes longer than to read some hundred rows.  Where
 * the key is a uuid of ours, the index that was proved gives the rows of a
 * batch in its order.  No other code than the server's is run: the key is
 * compared as the server does (index_of()), and rows are passed on as they are
 * stored.  So a table with partitions, whose indexes would have to be merged, or
 * whose rows are not stored as they are read, is read by a query.  The last row
 * within a limit is found likewise, of the index alone where the visibility map
 * allows it.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/visibilitymap.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/nodes.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/multirangetypes.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/uuid.h"

#include "compat.h"
#include "keys/uuid_datum.h"
#include "ports/probe.h"
#include "ports/table.h"

PG_FUNCTION_INFO_V1(is_walked);
PG_FUNCTION_INFO_V1(walked_cut);

/* Where rows go to, if they are read, and how many more; else the key of the last one */
typedef struct Passing
{
	Opened		leaf;
	DestReceiver *rows;
	uint64		left;
	Buffer		map;
	pg_uuid_t	last;
} Passing;

static bool
is_stored_as_read(Oid relation)
{
	Relation	table = table_open(relation, NoLock);
	bool		result = !has_computed_columns(RelationGetDescr(table));

	for (int i = 0; i < RelationGetDescr(table)->natts && result; i++)
		result = !TupleDescAttr(RelationGetDescr(table), i)->attisdropped &&
			!TupleDescAttr(RelationGetDescr(table), i)->atthasmissing;
	table_close(table, NoLock);
	return result;
}

static bool
is_walkable_table(const Table *table)
{
	const Ground *ground = table->ground;

	return ground->reading.is_uuid && ground->tree_count == 1 && ground->leaf_count == 1 &&
		attribute_of(DatumGetHeapTupleHeader(table->description.value), "share_condition") == (Datum) 0 &&
		is_stored_as_read(table->oid);
}

/* The key after which a batch begins within a transaction; null if that is no key of one column */
static char *
resumed_key(HeapTupleHeader batch)
{
	Datum		after = attribute_of(batch, "resumed_after");
	Datum	   *keys;
	bool	   *is_null;
	int			count;

	if (after == (Datum) 0)
		return NULL;
	deconstruct_array(DatumGetArrayTypeP(after), TEXTOID, -1, false, TYPALIGN_INT, &keys, &is_null, &count);
	return count == 1 && !is_null[0] ? TextDatumGetCString(keys[0]) : NULL;
}

static bool
is_walkable_batch(HeapTupleHeader batch)
{
	MultirangeType *numbers = DatumGetMultirangeTypeP(attribute_of(batch, "transactions"));
	Datum		ordering = attribute_of(batch, "ordering");

	if (ordering != (Datum) 0 && attribute_of(DatumGetHeapTupleHeader(ordering), "column_name") != (Datum) 0)
		return false;
	return is_bounded(numbers) && numbers->rangeCount < MANY_RANGES && attribute_of(batch, "cut") == (Datum) 0 &&
		(attribute_of(batch, "resumed") == (Datum) 0 || resumed_key(batch) != NULL);
}

/* is_walked(t feed_table, b feed_batch) -> boolean: of a table that was proved, a batch that is not cut */
Datum
is_walked(PG_FUNCTION_ARGS)
{
	Table		table = described_table(fcinfo, -1);

	PG_RETURN_BOOL(is_walkable_table(&table) && is_walkable_batch(PG_GETARG_HEAPTUPLEHEADER(1)));
}

/*
 * Rows of one page from an entry on, read under one lock of it, as a scan of the
 * table reads them; the entry that follows.  The lock is not held while the index
 * is read: who checks a key there has a lock on the index, and waits for the page.
 */
static ItemPointer
pass_page(Passing *passing, IndexScanDesc scan, ItemPointer place)
{
	BlockNumber block = ItemPointerGetBlockNumber(place);
	Buffer		page = ReadBuffer(passing->leaf.table, block);
	ItemPointerData places[MaxHeapTuplesPerPage];
	HeapTupleData rows[MaxHeapTuplesPerPage];
	int			count = 0;
	int			seen = 0;

	while (place != NULL && ItemPointerGetBlockNumber(place) == block && count < Min(passing->left, lengthof(places)))
	{
		places[count++] = *place;
		place = index_getnext_tid(scan, ascending(scan));
	}
	LockBuffer(page, BUFFER_LOCK_SHARE);
	for (int i = 0; i < count; i++)
		seen += heap_hot_search_buffer(&places[i], passing->leaf.table, page, scan->xs_snapshot, &rows[seen], NULL, true);
	LockBuffer(page, BUFFER_LOCK_UNLOCK);
	for (int i = 0; i < seen; i++)
	{
		pgstat_count_heap_fetch(scan->indexRelation);
		(void) passing->rows->receiveSlot(ExecStoreBufferHeapTuple(&rows[i], passing->leaf.slot, page), passing->rows);
	}
	ReleaseBuffer(page);
	passing->left -= seen;
	return place;
}

/* The next entry is read with those before it, so also the one after the last row. */
static void
pass_pages(Passing *passing, IndexScanDesc scan)
{
	ItemPointer place = index_getnext_tid(scan, ascending(scan));

	while (passing->left > 0 && place != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		place = pass_page(passing, scan, place);
	}
}

/* Whether the active snapshot sees the row of an entry, as a scan of the index alone finds out */
static bool
is_seen(Passing *passing, IndexScanDesc scan, ItemPointer place)
{
	BlockNumber block = ItemPointerGetBlockNumber(place);

	if (!VM_ALL_VISIBLE(passing->leaf.table, block, &passing->map))
		return index_fetch_heap(scan, passing->leaf.slot);
	PredicateLockPage(passing->leaf.table, block, scan->xs_snapshot);
	return true;
}

static bool
pass_entry(Passing *passing, IndexScanDesc scan)
{
	ItemPointer place;
	bool		is_null;

	while ((place = index_getnext_tid(scan, ascending(scan))) != NULL && !is_seen(passing, scan, place))
		CHECK_FOR_INTERRUPTS();
	if (place != NULL && passing->left == 1)
		passing->last = *DatumGetUUIDP(index_getattr(scan->xs_itup, 1, scan->xs_itupdesc, &is_null));
	return place != NULL;
}

static void
pass_rows(Passing *passing, IndexScanDesc scan)
{
	if (passing->rows != NULL)
		pass_pages(passing, scan);
	else
		while (passing->left > 0 && pass_entry(passing, scan))
		{
			CHECK_FOR_INTERRUPTS();
			passing->left--;
		}
	index_endscan(scan);
}

static void
pass_range(Passing *passing, Range numbers)
{
	if (numbers.low < numbers.high)
		pass_rows(passing, scan_numbers(passing->leaf, numbers, passing->rows == NULL));
}

/* First what is left of a transaction, then whole ones, by number: as batch_query() has it */
static void
pass_batch(Passing *passing, HeapTupleHeader batch)
{
	Numbers		numbers = numbers_of(DatumGetMultirangeTypeP(attribute_of(batch, "transactions")));
	char	   *after = resumed_key(batch);
	int64		rest = after == NULL ? -1 : DatumGetInt64(attribute_of(batch, "resumed"));

	if (after != NULL)
		pass_rows(passing, scan_rest(passing->leaf, rest, DirectFunctionCall1(uuid_in, CStringGetDatum(after)),
									 passing->rows == NULL));
	for (int i = 0; i < numbers.count; i++)
	{
		Range		all = numbers.ranges[i];

		if (rest < all.low || rest >= all.high)
			pass_range(passing, all);
		else
		{
			pass_range(passing, (Range) {all.low, rest});
			pass_range(passing, (Range) {rest + 1, all.high});
		}
	}
}

/* So many rows at most, to a destination; how many there were */
uint64
walk_batch(const Table *table, HeapTupleHeader batch, uint64 most, DestReceiver *rows)
{
	Passing		passing = {open_leaf(&table->ground->leaves[0]), rows, most, InvalidBuffer};

	PushActiveSnapshot(GetTransactionSnapshot());
	rows->rStartup(rows, CMD_SELECT, RelationGetDescr(passing.leaf.table));
	pass_batch(&passing, batch);
	rows->rShutdown(rows);
	PopActiveSnapshot();
	close_leaf(passing.leaf);
	return most - passing.left;
}

/*
 * walked_cut(t feed_table, b feed_batch, max_rows integer) -> text[]: transaction
 * and key of the last row within the limit; null if there are fewer
 */
Datum
walked_cut(PG_FUNCTION_ARGS)
{
	Table		table = described_table(fcinfo, -1);
	Passing		passing = {open_leaf(&table.ground->leaves[0]), NULL, PG_GETARG_INT32(2), InvalidBuffer};
	Datum		cut[2];

	pass_batch(&passing, PG_GETARG_HEAPTUPLEHEADER(1));
	if (BufferIsValid(passing.map))
		ReleaseBuffer(passing.map);
	close_leaf(passing.leaf);
	if (passing.left > 0)
		PG_RETURN_NULL();
	cut[0] = CStringGetTextDatum(psprintf(INT64_FORMAT, (int64) xact_key_number(uuid_load(&passing.last))));
	cut[1] = CStringGetTextDatum(DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(&passing.last))));
	PG_RETURN_ARRAYTYPE_P(construct_array(cut, 2, TEXTOID, -1, false, TYPALIGN_INT));
}
