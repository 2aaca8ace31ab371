/*
 * feed.h
 *	  The rows of a feed that a call reads.
 */
#ifndef INORDER_FEED_H
#define INORDER_FEED_H

#include "ports/query.h"

/* The table and the batch whose rows a call reads */
typedef struct RowSource
{
	Table		table;
	HeapTupleHeader batch;		/* null if there are no rows */
} RowSource;

extern Value result_column(HeapTupleHeader result, const char *name, Oid type);
extern HeapTupleHeader look_up_rows(RowSource *source, const char *function, int count, const Value *arguments);

#endif							/* INORDER_FEED_H */
