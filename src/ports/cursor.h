/*
 * cursor.h
 *	  A walk along the index of a table, through ranges of keys.
 */
#ifndef INORDER_CURSOR_H
#define INORDER_CURSOR_H

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/sdir.h"
#include "catalog/pg_index.h"
#include "executor/tuptable.h"
#include "storage/buf.h"
#include "utils/rel.h"

#include "ports/bounds.h"

/* A table that holds rows, and its index on the number */
typedef struct OpenLeaf
{
	Relation	table;
	Relation	index;
	TupleTableSlot *slot;
} OpenLeaf;

/* Ranges in ascending order.  If the last range ends with LAST_KEY, it has no upper bound. */
typedef struct Stretch
{
	const KeyRange *ranges;
	int			count;
} Stretch;

typedef struct Cursor
{
	OpenLeaf	leaf;
	IndexScanDesc scan;
	bool		is_uuid;
	const KeyRange *ranges;		/* the ranges that remain */
	int			range_count;
	int			steps;			/* entries skipped since the last entry in a range */
	ItemPointer place;			/* TID of the row of the current entry; null after the last entry */
	UuidWords	entry;			/* key of the current entry */
	Buffer		map;
	UuidWords	keys[MaxHeapTuplesPerPage]; /* keys of visible rows in one page of the table */
	int			key_count;
	int			keys_passed;	/* number of keys up to the key of the current row */
} Cursor;

/* Return the direction in which a scan returns ascending numbers.  The index may be on (number DESC). */
static inline ScanDirection
ascending(IndexScanDesc scan)
{
	return (scan->indexRelation->rd_indoption[0] & INDOPTION_DESC) != 0 ? BackwardScanDirection : ForwardScanDirection;
}

extern OpenLeaf open_leaf(const Leaf *leaf);
extern void close_leaf(OpenLeaf leaf);
extern Cursor *open_cursor(const TableProof *proof, int leaf, const Stretch *stretch, bool with_keys);
extern void next_entry(Cursor *cursor);
extern bool is_visible(Cursor *cursor);
extern bool find_visible(Cursor *cursor);
extern void skip_ranges(Cursor *cursor, int count);
extern bool next_row(Cursor *cursor);
extern UuidWords key_of_row(const Cursor *cursor);
extern void close_cursor(Cursor *cursor);

#endif							/* INORDER_CURSOR_H */
