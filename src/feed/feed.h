/*
 * feed.h
 *	  The rows of a feed that a call reads.
 */
#ifndef INORDER_FEED_H
#define INORDER_FEED_H

#include "ports/query.h"

/* The rows that a call reads */
typedef struct FoundRows
{
	Table		table;
	HeapTupleHeader batch;		/* null if there are no rows */
} FoundRows;

extern Value owner_argument(FunctionCallInfo fcinfo, int number);
extern Value found_column(HeapTupleHeader result, const char *name, Oid type);
extern HeapTupleHeader look_up_rows(FoundRows *found, const char *function, int count, const Value *arguments);

#endif							/* INORDER_FEED_H */
