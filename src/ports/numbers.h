/*
 * numbers.h
 *	  Sets of numbers, as arrays of their ranges.
 */
#ifndef INORDER_NUMBERS_H
#define INORDER_NUMBERS_H

#include "utils/multirangetypes.h"

/* From low on, below high */
typedef struct Range
{
	int64		low;
	int64		high;
} Range;

/* Ranges in order, with numbers between any two of them that are not in the set */
typedef struct Numbers
{
	int			count;
	Range	   *ranges;
} Numbers;

extern bool is_bounded(const MultirangeType *set);
extern Numbers numbers_of(const MultirangeType *set);
extern Datum numbers_datum(Numbers set);
extern Numbers without(Numbers set, Numbers other);

/* snapshot.c */
extern Numbers ended_numbers(int64 base, bool everywhere);

#endif							/* INORDER_NUMBERS_H */
