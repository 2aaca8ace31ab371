/*
 * probe.h
 *	  Whether a table has rows of some numbers, by its indexes.
 */
#ifndef INORDER_PROBE_H
#define INORDER_PROBE_H

#include "access/genam.h"
#include "executor/tuptable.h"
#include "utils/relcache.h"

#include "ports/numbers.h"
#include "ports/table.h"

/* A table that holds rows, and its index on the number */
typedef struct Opened
{
	Relation	table;
	Relation	index;
	TupleTableSlot *slot;
} Opened;

extern Opened open_leaf(const Leaf *leaf);
extern void close_leaf(Opened leaf);
extern IndexScanDesc scan_numbers(Opened leaf, Range numbers, bool keys_only);
extern IndexScanDesc scan_rest(Opened leaf, int64 number, Datum after);
extern int64 entry_number(IndexScanDesc scan);
extern bool is_idle_table(Datum description, Datum position, Oid reader);

#endif							/* INORDER_PROBE_H */
