/*
 * next_batch.h
 *	  What follows a position in a table.
 */
#ifndef INORDER_NEXT_BATCH_H
#define INORDER_NEXT_BATCH_H

#include "query.h"

typedef enum Next
{
	NO_BATCH,					/* nothing has ended since */
	EMPTY_BATCH,				/* transactions that left no rows */
	REST_OF_SET,				/* the rest of an ordered set, whose rows went with a partition: to be passed */
	BATCH_OF_ROWS,				/* unless these are none after all */
	LAST_BATCH					/* the same, of all transactions that have ended */
} Next;

extern Next next_batch(const Table *table, Value position, Value max_rows, Value *batch);
extern void check_readable(const Table *table, Value batch);
extern char *rows_query(const Table *table, Value batch);
extern void read_batch(const Table *table, Value batch, FunctionCallInfo fcinfo);
extern char *batch_query(const Table *table, Value batch, const char *columns, bool in_order);
extern bool has_rows(const Table *table, Value batch);
extern void refuse_whole(bool whole);
extern Value position_after(Value position, Value batch);
extern bool has_next(const Table *table, Value position);
extern void check_row_type(const Table *table, FunctionCallInfo fcinfo, int argument);
extern void probe_table(const Table *table, const char *probe, bool stable);

#endif							/* INORDER_NEXT_BATCH_H */
