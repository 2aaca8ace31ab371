/*
 * probe.h
 *	  Whether a table has rows of some numbers, by its indexes.
 */
#ifndef INORDER_PROBE_H
#define INORDER_PROBE_H

#include "access/genam.h"
#include "access/relscan.h"
#include "access/sdir.h"
#include "catalog/pg_index.h"
#include "executor/tuptable.h"
#include "utils/rel.h"

#include "ports/numbers.h"
#include "ports/table.h"

/*
 * With fewer ranges a query is made sooner than it is known which of them have
 * rows
 */
#define MANY_RANGES 64

/* Entries of an index that are skipped one by one; a descent takes as long */
#define STEPS_MAX 16

/* The rows that the active snapshot sees */
typedef struct ProbeResult
{
	bool		has_rows;			/* with one of the numbers */
	bool		has_beyond;			/* a row with a number that no transaction of this server has had yet */
} ProbeResult;

/* Where a batch ends that is limited to so many rows: see batch_end in sql/ports/ports.sql */
typedef struct BatchEnd
{
	bool		has_row;
	bool		is_all;			/* there are no more rows */
	int64		number;			/* the transaction of the last row within the limit */
	int64		place;			/* its place among the rows of this, if the next row is of it; else 0 */
	Datum		last_key;		/* text[]: its key then, if it is a uuid */
} BatchEnd;

/* A table that holds rows, and its index on the number */
typedef struct Opened
{
	Relation	table;
	Relation	index;
	TupleTableSlot *slot;
} Opened;

/*
 * The direction in which a scan returns the entries of an index by number: the
 * index may be on (number DESC)
 */
static inline ScanDirection
ascending(IndexScanDesc scan)
{
	return (scan->indexRelation->rd_indoption[0] & INDOPTION_DESC) != 0 ? BackwardScanDirection : ForwardScanDirection;
}

extern Opened open_leaf(const Leaf *leaf);
extern void close_leaf(Opened leaf);
extern ProbeResult probe_table(const Table *table, Value numbers);

/* end.c */
extern bool find_end(const Table *table, HeapTupleHeader batch, int most, BatchEnd *found);

#endif							/* INORDER_PROBE_H */
