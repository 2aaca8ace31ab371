/*
 * end.c
 *	  Where a batch ends: the last row within a limit, by the indexes.
 *
 * The entries of the indexes are passed in the order of the batch, and those whose rows the active
 * snapshot sees are counted, up to one more than the limit: dead ones are not, of which there may be any
 * number.  Of a page that all snapshots see, the row is not looked at, as in a scan of the index alone.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "access/visibilitymap.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/binaryheap.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "keys/uuid_datum.h"
#include "ports/bounds.h"
#include "ports/probe.h"

PG_FUNCTION_INFO_V1(end_by_index);

/* An index on the way through ranges of keys, at an entry whose row is seen */
typedef struct Cursor
{
	Opened		leaf;
	IndexScanDesc scan;
	bool		is_uuid;
	const KeyRange *ranges;
	int			count;			/* of those that are left */
	int			steps;			/* since the last entry that was within one */
	Buffer		map;
	UuidWords	key;
} Cursor;

/* What was passed so far */
typedef struct End
{
	int64		most;
	int64		rows;			/* at most one more */
	UuidWords	key;			/* of the last row within the limit */
	int64		number;			/* its transaction */
	int64		place;			/* its place among the rows of this */
	bool		is_inside;		/* the row that follows is of the same one */
} End;

/* Begin at the first range that is left. */
static void
descend_to(Cursor *cursor)
{
	ScanKeyData keys[2];
	bool		is_uuid = cursor->is_uuid;

	ScanKeyInit(&keys[0], 1, BTGreaterEqualStrategyNumber, is_uuid ? F_UUID_GE : F_INT8GE,
				key_datum(cursor->ranges[0].low, is_uuid));
	ScanKeyInit(&keys[1], 1, BTLessStrategyNumber, is_uuid ? F_UUID_LT : F_INT8LT,
				key_datum(cursor->ranges[cursor->count - 1].high, is_uuid));
	index_rescan(cursor->scan, keys, 2, NULL, 0);
	cursor->steps = 0;
}

static bool
is_seen(Cursor *cursor, ItemPointer place)
{
	BlockNumber block = ItemPointerGetBlockNumber(place);

	if (!VM_ALL_VISIBLE(cursor->leaf.table, block, &cursor->map))
		return index_fetch_heap(cursor->scan, cursor->leaf.slot);
	PredicateLockPage(cursor->leaf.table, block, cursor->scan->xs_snapshot);
	return true;
}

/* Go on to the next row; false if there is none. */
static bool
advance(Cursor *cursor)
{
	ItemPointer place;
	bool		is_null;

	while (cursor->count > 0)
	{
		CHECK_FOR_INTERRUPTS();
		if (cursor->steps == STEPS_MAX)
			descend_to(cursor);
		place = index_getnext_tid(cursor->scan, ascending(cursor->scan));
		if (place == NULL)
			return false;
		cursor->key = key_of_datum(index_getattr(cursor->scan->xs_itup, 1, cursor->scan->xs_itupdesc, &is_null), cursor->is_uuid);
		while (cursor->count > 0 && compare_keys(cursor->ranges[0].high, cursor->key) <= 0)
		{
			cursor->ranges++;
			cursor->count--;
		}
		if (cursor->count == 0)
			return false;
		if (compare_keys(cursor->key, cursor->ranges[0].low) < 0)
		{
			cursor->steps++;
			continue;
		}
		cursor->steps = 0;
		if (is_seen(cursor, place))
			return true;
	}
	return false;
}

static void
close_cursor(Cursor *cursor)
{
	index_endscan(cursor->scan);
	if (BufferIsValid(cursor->map))
		ReleaseBuffer(cursor->map);
	close_leaf(cursor->leaf);
}

/* At its first row; false if there is none */
static bool
open_cursor(Cursor *cursor, const Leaf *leaf, bool is_uuid, const KeyRange *ranges, int count)
{
	*cursor = (Cursor) {.leaf = open_leaf(leaf), .is_uuid = is_uuid, .ranges = ranges, .count = count, .map = InvalidBuffer};
	cursor->scan = begin_index_scan(cursor->leaf.table, cursor->leaf.index, GetActiveSnapshot(), 2);
	cursor->scan->xs_want_itup = true;
	descend_to(cursor);
	if (advance(cursor))
		return true;
	close_cursor(cursor);
	return false;
}

/* False if that was enough */
static bool
pass_key(End *end, UuidWords key, bool is_uuid)
{
	int64		number = number_of_key(key, is_uuid);

	if (++end->rows > end->most)
	{
		end->is_inside = end->most > 0 && number == end->number;
		return false;
	}
	end->place = end->rows > 1 && number == end->number ? end->place + 1 : 1;
	end->number = number;
	end->key = key;
	return true;
}

/* A heap has the largest one first. */
static int
compare_cursors(Datum a, Datum b, void *unused)
{
	return compare_keys(((Cursor *) DatumGetPointer(b))->key, ((Cursor *) DatumGetPointer(a))->key);
}

/* The indexes of all partitions, merged */
static void
pass_ranges(End *end, const Ground *ground, const KeyRange *ranges, int count)
{
	binaryheap *heap = binaryheap_allocate(ground->leaf_count, compare_cursors, NULL);
	bool		is_uuid = ground->reading.is_uuid;

	for (int i = 0; i < ground->leaf_count; i++)
	{
		Cursor	   *cursor = palloc(sizeof(Cursor));

		CHECK_FOR_INTERRUPTS();
		if (open_cursor(cursor, &ground->leaves[i], is_uuid, ranges, count))
			binaryheap_add_unordered(heap, PointerGetDatum(cursor));
	}
	binaryheap_build(heap);
	while (!binaryheap_empty(heap))
	{
		Cursor	   *cursor = (Cursor *) DatumGetPointer(binaryheap_first(heap));

		if (!pass_key(end, cursor->key, is_uuid))
			break;
		if (advance(cursor))
			binaryheap_replace_first(heap, PointerGetDatum(cursor));
		else
		{
			(void) binaryheap_remove_first(heap);
			close_cursor(cursor);
		}
	}
	while (!binaryheap_empty(heap))
		close_cursor((Cursor *) DatumGetPointer(binaryheap_remove_first(heap)));
	binaryheap_free(heap);
}

static Datum
key_text(UuidWords key)
{
	Datum		text = CStringGetTextDatum(DatumGetCString(DirectFunctionCall1(uuid_out, key_datum(key, true))));

	return PointerGetDatum(construct_array(&text, 1, TEXTOID, -1, false, TYPALIGN_INT));
}

/*
 * end_by_index(t feed_table, b feed_batch, max_rows integer) -> batch_end
 *
 * Of a table that is locked and proved; null if the rows of the batch are not ranges of its index.
 */
Datum
end_by_index(PG_FUNCTION_ARGS)
{
	Table		table = described_table(fcinfo, -1);
	bool		is_uuid = table.ground->reading.is_uuid;
	End			end = {.most = PG_GETARG_INT32(2)};
	Bounds		bounds;
	TupleDesc	columns;
	Datum		values[4];
	bool		nulls[4] = {false};
	int			first;

	if (!bounds_of(&table, PG_GETARG_HEAPTUPLEHEADER(1), &bounds))
		PG_RETURN_NULL();
	first = bounds.rest_first ? Min(bounds.count, 1) : 0;
	if (first > 0)
		pass_ranges(&end, table.ground, bounds.ranges, first);
	if (end.rows <= end.most && first < bounds.count)
		pass_ranges(&end, table.ground, bounds.ranges + first, bounds.count - first);

	if (get_call_result_type(fcinfo, NULL, &columns) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "end_by_index() must return a row");
	nulls[1] = end.rows <= end.most;
	nulls[2] = nulls[1] || !end.is_inside;
	nulls[3] = nulls[2] || !is_uuid;
	values[0] = Int64GetDatum(end.rows);
	values[1] = Int64GetDatum(end.number);
	values[2] = Int64GetDatum(end.place);
	values[3] = nulls[3] ? (Datum) 0 : key_text(end.key);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(columns), values, nulls)));
}
