/*
 * sample.h
 *	  How the rows of a table are distributed over transactions.
 */
#ifndef INORDER_SAMPLE_H
#define INORDER_SAMPLE_H

#include "ports/query.h"

/* About so many rows are of this transaction, or of it and those before it */
typedef struct Share
{
	uint64		number;
	int64		rows;
} Share;

typedef struct Sample
{
	Share	   *shares;			/* ascending, each number once */
	int			count;
} Sample;

extern Sample sample_by_index(const Table *table, Value numbers);
extern Sample sample_of(const int64 *numbers, int count, int64 rows_each);

#endif							/* INORDER_SAMPLE_H */
