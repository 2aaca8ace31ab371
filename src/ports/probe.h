/*
 * probe.h
 *	  Whether a table has rows of some numbers, by its indexes.
 */
#ifndef INORDER_PROBE_H
#define INORDER_PROBE_H

#include "access/genam.h"
#include "executor/tuptable.h"
#include "utils/relcache.h"

#include "ports/ground.h"
#include "ports/numbers.h"
#include "ports/query.h"

/* What the snapshot that is active sees */
typedef struct Found
{
	bool		rows;			/* with one of the numbers */
	bool		beyond;			/* a row with a number that no transaction of this server has had yet */
} Found;

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
extern int64 entry_number(IndexScanDesc scan);

extern bool leaf_has(const struct Ground *ground, Oid oid, int *at, Datum numbers);
extern bool *leaves_with(const Table *table, Value numbers);
extern bool can_count(const Table *table, Value numbers);
extern Found probe(const Table *table, Value numbers);

#endif							/* INORDER_PROBE_H */
