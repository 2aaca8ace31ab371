/*
 * parts.h
 *	  Which partitions a query has to read.
 */
#ifndef INORDER_PARTS_H
#define INORDER_PARTS_H

#include "query.h"

/* Below it a plan over all of them takes little */
#define MANY_LEAVES 8

/* What is known of the partitions that have rows of some transactions, for one call */
typedef struct Parts
{
	Value		numbers;		/* the transactions; null while nothing is known */
	Value		condition;		/* text: what their rows satisfy; null if all partitions are to be read */
} Parts;

extern Value parts_of(const Table *table, Value numbers);
extern void note_parts(const Table *table, Value numbers, const bool *has);

#endif							/* INORDER_PARTS_H */
