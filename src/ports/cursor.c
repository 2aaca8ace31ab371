/*
 * cursor.c
 *	  A walk along the index of a table, through ranges of keys.
 *
 * Entries between two ranges are skipped one by one or, if there are many, by another descent in the index.  No code of
 * the table's owner runs.  The first column of the index is a uuid or a bigint with the server's own comparison
 * (index_of() in sql/ports/table.sql), and rows are only checked for visibility.  As in an index-only scan, this check
 * is not necessary in an all-visible page.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/visibilitymap.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "ports/cursor.h"

/* Number of index entries that can be skipped in the time that a descent takes */
#define STEPS_MAX 16

/* Open a table that holds rows, and its index.  The table is locked already: see lock_tree() in table_proof.c. */
OpenLeaf
open_leaf(const Leaf *leaf)
{
	Relation	table = table_open(leaf->oid, NoLock);

	return (OpenLeaf) {table, index_open(leaf->index, AccessShareLock), table_slot_create(table, NULL)};
}

void
close_leaf(OpenLeaf leaf)
{
	ExecDropSingleTupleTableSlot(leaf.slot);
	index_close(leaf.index, NoLock);
	table_close(leaf.table, NoLock);
}

/* Restart the index scan at the first of the remaining ranges. */
static void
descend_to(Cursor *cursor)
{
	ScanKeyData keys[2];
	bool		is_uuid = cursor->is_uuid;

	ScanKeyInit(&keys[0], 1, BTGreaterEqualStrategyNumber, is_uuid ? F_UUID_GE : F_INT8GE,
				key_datum(cursor->ranges[0].low, is_uuid));
	ScanKeyInit(&keys[1], 1, BTLessStrategyNumber, is_uuid ? F_UUID_LT : F_INT8LT,
				key_datum(cursor->ranges[cursor->range_count - 1].high, is_uuid));
	index_rescan(cursor->scan, keys, cursor->scan->numberOfKeys, NULL, 0);
	cursor->steps = 0;
}

/* Move to the next index entry whose key is in a range. */
void
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
			return;				/* with a single range, the scan keys are the bounds of the range */
		cursor->entry = key_of_datum(index_getattr(scan->xs_itup, 1, scan->xs_itupdesc, &is_null), cursor->is_uuid);
		/* The scan keys end the scan after the last range. */
		while (cursor->range_count > 1 && compare_keys(cursor->ranges[0].high, cursor->entry) <= 0)
		{
			cursor->ranges++;
			cursor->range_count--;
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

/* Return true if the row of an entry is visible */
bool
is_visible(Cursor *cursor)
{
	return is_visible_to_all(cursor) || index_fetch_heap(cursor->scan, cursor->leaf.slot);
}

/* Move to the next entry whose row is visible, beginning with the current entry; false if there is no such entry. */
bool
find_visible(Cursor *cursor)
{
	while (cursor->place != NULL && !is_visible(cursor))
		next_entry(cursor);
	return cursor->place != NULL;
}

/* Skip a number of ranges, and move to the first entry after them.  The cursor must have been opened with keys. */
void
skip_ranges(Cursor *cursor, int count)
{
	cursor->ranges += count;
	cursor->range_count -= count;
	if (cursor->range_count > 0)
		next_entry(cursor);
	else
		cursor->place = NULL;
}

/*
 * Find the visible rows of one page, from the current entry on, under one lock
 * on the page.  The lock is not held while the index is read, because a session
 * that checks a key for uniqueness locks a page of the index, and then waits for
 * the page of the table.
 */
static void
read_page(Cursor *cursor)
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
	cursor->keys_passed = 0;
	cursor->key_count = all_seen ? count : 0;
	if (all_seen)
		return;
	buffer = ReadBuffer(cursor->leaf.table, block);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	for (int i = 0; i < count; i++)
		if (heap_hot_search_buffer(&places[i], cursor->leaf.table, buffer, cursor->scan->xs_snapshot, &row, NULL, true))
			cursor->keys[cursor->key_count++] = cursor->keys[i];
	UnlockReleaseBuffer(buffer);
}

/* Move to the next visible row; false if there are no more rows. */
bool
next_row(Cursor *cursor)
{
	while (cursor->keys_passed == cursor->key_count)
	{
		if (cursor->place == NULL)
			return false;
		read_page(cursor);
	}
	cursor->keys_passed++;
	return true;
}

UuidWords
key_of_row(const Cursor *cursor)
{
	return cursor->keys[cursor->keys_passed - 1];
}

void
close_cursor(Cursor *cursor)
{
	index_endscan(cursor->scan);
	if (BufferIsValid(cursor->map))
		ReleaseBuffer(cursor->map);
	close_leaf(cursor->leaf);
	pfree(cursor);
}

/*
 * Open the index of a leaf, and move to the first entry in the ranges, if any.
 * The keys of entries are read if with_keys is true, or if there are several
 * ranges.
 */
Cursor *
open_cursor(const TableProof *proof, int leaf, const Stretch *stretch, bool with_keys)
{
	Cursor	   *cursor = palloc0(sizeof(Cursor));
	bool		has_end = compare_keys(stretch->ranges[stretch->count - 1].high, LAST_KEY) < 0;

	cursor->leaf = open_leaf(&proof->leaves[leaf]);
	cursor->is_uuid = proof->reading.is_uuid;
	cursor->ranges = stretch->ranges;
	cursor->range_count = stretch->count;
	cursor->scan = begin_index_scan(cursor->leaf.table, cursor->leaf.index, GetActiveSnapshot(), has_end ? 2 : 1);
	cursor->scan->xs_want_itup = with_keys || stretch->count > 1;
	descend_to(cursor);
	next_entry(cursor);
	return cursor;
}
