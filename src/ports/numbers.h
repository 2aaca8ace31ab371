/*
 * numbers.h
 *	  Sets of transaction numbers, as arrays of ranges; the set of transactions that have ended; the
 *	  identification of the server.
 */
#ifndef INORDER_NUMBERS_H
#define INORDER_NUMBERS_H

#include "access/xlogdefs.h"
#include "utils/multirangetypes.h"

/* Numbers that are at least low and less than high */
typedef struct Range
{
	int64		low;
	int64		high;
} Range;

/* Ranges in ascending order, which neither overlap nor touch */
typedef struct Numbers
{
	int			count;
	Range	   *ranges;
} Numbers;

extern bool is_bounded(const MultirangeType *set);
extern Numbers numbers_of(const MultirangeType *set);
extern Datum numbers_datum(Numbers set);
extern Numbers difference(Numbers set, Numbers other);
extern Numbers united(Numbers set, Numbers other);
extern bool are_numbers(Numbers set);

/* wait.c */
extern uint64 ended_count(void);

/* snapshot.c */
extern Numbers ended_numbers(int64 base, bool everywhere);
extern void make_seen_durable(void);
extern bool make_commit_durable(void);

/* origin.c */
extern char *system_of_server(void);
extern Datum origin_of_server(void);
extern TimeLineID timeline_here(void);
extern void expect_timeline(TimeLineID timeline);

#endif							/* INORDER_NUMBERS_H */
