/*
 * end.c
 *	  Where a batch ends: the last row within a limit, by the indexes.
 *
 * The entries of the indexes are passed in the order of the batch, up to one more than the limit.  If there
 * are no more of them, the batch has no more rows.  If there are, they are passed again, and those are left out
 * whose rows the active snapshot does not see: of dead ones there may be any number.  Of a page that all
 * snapshots see, the row is not looked at, as in a scan of the index alone.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
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

/* The rows passed so far */
typedef struct End
{
	int64		most;
	bool		has_row;		/* visible */
	int64		rows;			/* counts at most one more than these */
	UuidWords	key;			/* key of the last row within the limit */
	int64		number;			/* its transaction */
	int64		place;			/* its place among the rows of this */
	bool		is_inside;		/* the row that follows is of the same one */
} End;

/* Ranges in ascending order */
typedef struct Stretch
{
	const KeyRange *ranges;
	int			count;
} Stretch;

/* An index that is walked through ranges of keys */
typedef struct Cursor
{
	Opened		leaf;
	IndexScanDesc scan;
	bool		is_uuid;
	const KeyRange *ranges;
	int			count;			/* number of ranges that are left */
	int			steps;			/* since the last entry that was in a range */
	ItemPointer place;			/* place of the row of an entry; null after the last one */
	UuidWords	entry;			/* its key */
	Buffer		map;
	UuidWords	keys[MaxHeapTuplesPerPage]; /* keys of visible rows in one page of the table */
	int			seen;			/* how many there are */
	int			passed;			/* the cursor is at the row of the last one of these */
} Cursor;

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

/* Move to the next entry within a range. */
static void
next_entry(Cursor *cursor)
{
	IndexScanDesc scan = cursor->scan;
	bool		is_null;

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (cursor->steps == STEPS_MAX)
			descend_to(cursor);
		cursor->place = index_getnext_tid(scan, ascending(scan));
		if (cursor->place == NULL || !scan->xs_want_itup)
			return;				/* the scan has the bounds of a single range */
		cursor->entry = key_of_datum(index_getattr(scan->xs_itup, 1, scan->xs_itupdesc, &is_null), cursor->is_uuid);
		/* The scan ends at the last range. */
		while (compare_keys(cursor->ranges[0].high, cursor->entry) <= 0)
		{
			cursor->ranges++;
			cursor->count--;
		}
		if (compare_keys(cursor->entry, cursor->ranges[0].low) >= 0)
			break;
		cursor->steps++;
	}
	cursor->steps = 0;
}

static bool
is_visible_to_all(Cursor *cursor)
{
	BlockNumber block = ItemPointerGetBlockNumber(cursor->place);

	if (!VM_ALL_VISIBLE(cursor->leaf.table, block, &cursor->map))
		return false;
	PredicateLockPage(cursor->leaf.table, block, cursor->scan->xs_snapshot);
	return true;
}

/*
 * The visible rows of one page from an entry on, examined under one lock on
 * the page.  The lock is not held while the index is read: a session that
 * checks a key there has a lock on the index, and waits for the page.
 */
static void
look_at_page(Cursor *cursor)
{
	BlockNumber block = ItemPointerGetBlockNumber(cursor->place);
	bool		all_seen = is_visible_to_all(cursor);
	ItemPointerData places[MaxHeapTuplesPerPage];
	HeapTupleData row;
	int			count = 0;
	Buffer		buffer;

	while (cursor->place != NULL && ItemPointerGetBlockNumber(cursor->place) == block && count < MaxHeapTuplesPerPage)
	{
		places[count] = *cursor->place;
		cursor->keys[count++] = cursor->entry;
		next_entry(cursor);
	}
	cursor->passed = 0;
	cursor->seen = all_seen ? count : 0;
	if (all_seen)
		return;
	buffer = ReadBuffer(cursor->leaf.table, block);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	for (int i = 0; i < count; i++)
		if (heap_hot_search_buffer(&places[i], cursor->leaf.table, buffer, cursor->scan->xs_snapshot, &row, NULL, true))
			cursor->keys[cursor->seen++] = cursor->keys[i];
	UnlockReleaseBuffer(buffer);
}

/* Move to the next row; false if there is none. */
static bool
next_row(Cursor *cursor)
{
	while (cursor->passed == cursor->seen)
	{
		if (cursor->place == NULL)
			return false;
		look_at_page(cursor);
	}
	cursor->passed++;
	return true;
}

static UuidWords
key_of_row(const Cursor *cursor)
{
	return cursor->keys[cursor->passed - 1];
}

static void
close_cursor(Cursor *cursor)
{
	index_endscan(cursor->scan);
	if (BufferIsValid(cursor->map))
		ReleaseBuffer(cursor->map);
	close_leaf(cursor->leaf);
	pfree(cursor);
}

/*
 * Open an index at its first entry, if it has one; with the keys of entries
 * or, if all are in one range, possibly without
 */
static Cursor *
open_cursor(const TableProof *proof, int leaf, const Stretch *stretch, bool with_keys)
{
	Cursor	   *cursor = palloc0(sizeof(Cursor));

	cursor->leaf = open_leaf(&proof->leaves[leaf]);
	cursor->is_uuid = proof->reading.is_uuid;
	cursor->ranges = stretch->ranges;
	cursor->count = stretch->count;
	cursor->scan = begin_index_scan(cursor->leaf.table, cursor->leaf.index, GetActiveSnapshot(), 2);
	cursor->scan->xs_want_itup = with_keys || stretch->count > 1;
	descend_to(cursor);
	next_entry(cursor);
	return cursor;
}

/*
 * Pass the entries of all indexes; the first visible row among them is
 * searched for.
 */
static void
count_entries(End *end, const TableProof *proof, const Stretch *stretch)
{
	for (int i = 0; i < proof->leaf_count && end->rows <= end->most; i++)
	{
		Cursor	   *cursor = open_cursor(proof, i, stretch, false);

		while (cursor->place != NULL && end->rows <= end->most)
		{
			if (!end->has_row)
				end->has_row = is_visible_to_all(cursor) || index_fetch_heap(cursor->scan, cursor->leaf.slot);
			end->rows++;
			next_entry(cursor);
		}
		close_cursor(cursor);
	}
}

/* False if enough rows were found */
static bool
pass_row(End *end, const Cursor *cursor)
{
	UuidWords	key = key_of_row(cursor);
	int64		number = number_of_key(key, cursor->is_uuid);

	end->has_row = true;
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

/* In a heap the largest element comes first. */
static int
compare_cursors(Datum a, Datum b, void *unused)
{
	return compare_keys(key_of_row((Cursor *) DatumGetPointer(b)), key_of_row((Cursor *) DatumGetPointer(a)));
}

/* The rows of all partitions, merged by their keys */
static void
pass_rows(End *end, const TableProof *proof, const Stretch *stretch)
{
	binaryheap *heap = binaryheap_allocate(proof->leaf_count, compare_cursors, NULL);
	Cursor	   *cursor;

	for (int i = 0; i < proof->leaf_count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		cursor = open_cursor(proof, i, stretch, true);
		if (next_row(cursor))
			binaryheap_add_unordered(heap, PointerGetDatum(cursor));
		else
			close_cursor(cursor);
	}
	binaryheap_build(heap);
	while (!binaryheap_empty(heap) && pass_row(end, (Cursor *) DatumGetPointer(binaryheap_first(heap))))
	{
		cursor = (Cursor *) DatumGetPointer(binaryheap_first(heap));
		if (next_row(cursor))
			binaryheap_replace_first(heap, PointerGetDatum(cursor));
		else
			close_cursor((Cursor *) DatumGetPointer(binaryheap_remove_first(heap)));
	}
	while (!binaryheap_empty(heap))
		close_cursor((Cursor *) DatumGetPointer(binaryheap_remove_first(heap)));
	binaryheap_free(heap);
}

/* Process in order: the rest of a transaction, then whole ones */
static void
pass_bounds(End *end, const TableProof *proof, const Bounds *bounds, void (*pass) (End *, const TableProof *, const Stretch *))
{
	int			first = bounds->rest_first ? Min(bounds->count, 1) : 0;

	if (first > 0)
		pass(end, proof, &(Stretch) {bounds->ranges, first});
	if (end->rows <= end->most && first < bounds->count)
		pass(end, proof, &(Stretch) {bounds->ranges + first, bounds->count - first});
}

static Datum
key_text(UuidWords key)
{
	Datum		text = CStringGetTextDatum(DatumGetCString(DirectFunctionCall1(uuid_out, key_datum(key, true))));

	return PointerGetDatum(construct_array(&text, 1, TEXTOID, -1, false, TYPALIGN_INT));
}

/*
 * Where a batch ends that is limited to so many rows; false if its rows are not ranges of the index.  The table is
 * locked and proved.
 */
bool
find_end(const Table *table, HeapTupleHeader batch, int most, BatchEnd *found)
{
	End			end = {.most = most};
	Bounds		bounds;

	if (!bounds_of(table, batch, &bounds))
		return false;
	pass_bounds(&end, table->proof, &bounds, count_entries);
	if (end.rows > end.most)
	{
		end = (End) {.most = most};
		pass_bounds(&end, table->proof, &bounds, pass_rows);
	}
	*found = (BatchEnd) {.has_row = end.has_row, .is_all = end.rows <= end.most, .number = end.number};
	if (!found->is_all && end.is_inside)
	{
		found->place = end.place;
		found->last_key = table->proof->reading.is_uuid ? key_text(end.key) : (Datum) 0;
	}
	return true;
}

/* end_by_index(t feed_table, b feed_batch, max_rows integer) -> batch_end, or null */
Datum
end_by_index(PG_FUNCTION_ARGS)
{
	Table		table = described_table(fcinfo, -1);
	BatchEnd	end;
	TupleDesc	columns;
	Datum		values[4];
	bool		nulls[4] = {false};

	if (!find_end(&table, PG_GETARG_HEAPTUPLEHEADER(1), PG_GETARG_INT32(2), &end))
		PG_RETURN_NULL();
	if (get_call_result_type(fcinfo, NULL, &columns) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "end_by_index() must return a row");
	nulls[1] = end.is_all;
	nulls[2] = end.place == 0;
	nulls[3] = end.last_key == (Datum) 0;
	values[0] = BoolGetDatum(end.has_row);
	values[1] = Int64GetDatum(end.number);
	values[2] = Int64GetDatum(end.place);
	values[3] = end.last_key;
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(columns), values, nulls)));
}
