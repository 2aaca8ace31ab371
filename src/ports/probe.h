/*
 * probe.h
 *	  Use the indexes of a table to find out whether it has rows of some
 *	  transactions.
 */
#ifndef INORDER_PROBE_H
#define INORDER_PROBE_H

#include "ports/numbers.h"
#include "ports/table.h"

/* The result of a probe in the active snapshot */
typedef struct ProbeResult
{
	bool		has_rows;		/* there are rows of the given transactions */
	bool		has_beyond;		/* there is a row with a number that no transaction of this server has had yet */
} ProbeResult;

/* The end of a batch that is limited to a number of rows: see batch_end in sql/ports/ports.sql */
typedef struct BatchEnd
{
	bool		has_row;
	bool		is_all;			/* there are no more rows */
	int64		number;			/* the transaction of the last row within the limit */
	int64		place;			/* place of that row in its transaction; 0 for the last row of the transaction */
	Datum		last_key;		/* text[]: the key of that row, if it is a uuid */
} BatchEnd;

extern ProbeResult probe_table(const Table *table, Value numbers);
extern int64 count_seen(const Table *table, Numbers set, int64 most);

/* end.c */
extern bool find_end(const Table *table, HeapTupleHeader batch, int most, BatchEnd *result);

#endif							/* INORDER_PROBE_H */
