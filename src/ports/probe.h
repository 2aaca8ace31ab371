/*
 * probe.h
 *	  Find out by the indexes of a table if it has rows of some numbers.
 */
#ifndef INORDER_PROBE_H
#define INORDER_PROBE_H

#include "ports/numbers.h"
#include "ports/table.h"

/*
 * With fewer ranges, making a query is faster than finding out which of them
 * have rows
 */
#define MANY_RANGES 64

/* The rows that the active snapshot sees */
typedef struct ProbeResult
{
	bool		has_rows;		/* with one of the numbers */
	bool		has_beyond;		/* a row with a number that no transaction of this server has had yet */
} ProbeResult;

/* The end of a batch that is limited to a number of rows: see batch_end in sql/ports/ports.sql */
typedef struct BatchEnd
{
	bool		has_row;
	bool		is_all;			/* there are no more rows */
	int64		number;			/* the transaction of the last row within the limit */
	int64		place;			/* its place in that transaction, if the next row is of it, too; else 0 */
	Datum		last_key;		/* text[]: the key of that row, if it is a uuid */
} BatchEnd;

extern ProbeResult probe_table(const Table *table, Value numbers);

/* end.c */
extern bool find_end(const Table *table, HeapTupleHeader batch, int most, BatchEnd *result);

#endif							/* INORDER_PROBE_H */
