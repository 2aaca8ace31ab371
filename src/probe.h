/*
 * probe.h
 *	  Whether a table has rows of some numbers, by its indexes.
 */
#ifndef INORDER_PROBE_H
#define INORDER_PROBE_H

#include "access/genam.h"
#include "executor/tuptable.h"
#include "utils/multirangetypes.h"
#include "utils/relcache.h"

#include "ground.h"
#include "query.h"

/* What the snapshot that is active sees */
typedef struct Found
{
	bool		rows;			/* with one of the numbers */
	bool		beyond;			/* a row with a number that no transaction of this server has had yet */
} Found;

/* Numbers from low on, below high unless that is above all */
typedef struct Numbers
{
	uint64		low;
	uint64		high;
} Numbers;

/* A table that holds rows, and its index on the number */
typedef struct Opened
{
	Relation	table;
	Relation	index;
	TupleTableSlot *slot;
} Opened;

extern Numbers *ranges_of(MultirangeType *set);
extern Opened open_leaf(const Leaf *leaf);
extern void close_leaf(Opened leaf);
extern IndexScanDesc scan_numbers(Opened leaf, Numbers numbers, bool keys_only);

extern bool can_probe(const Table *table, Value numbers);
extern Found probe(const Table *table, Value numbers);
extern int64 probe_count(const Table *table, Value numbers, int64 most);

#endif							/* INORDER_PROBE_H */
