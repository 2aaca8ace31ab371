/*
 * feed.h
 *	  What a call reads of a feed.
 */
#ifndef INORDER_FEED_H
#define INORDER_FEED_H

#include "ports/query.h"

/* Rows that a function of the owner's has found */
typedef struct FoundRows
{
	HeapTupleHeader result;		/* of that function */
	Table		table;
} FoundRows;

extern Value owner_argument(FunctionCallInfo fcinfo, int number);
extern Value found_column(const FoundRows *found, const char *name, Oid type);
extern FoundRows look_up_rows(const char *function, int count, const Value *arguments);

#endif							/* INORDER_FEED_H */
