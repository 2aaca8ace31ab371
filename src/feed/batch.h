/*
 * batch.h
 *	  Rows of batches that were made before.
 */
#ifndef INORDER_BATCH_H
#define INORDER_BATCH_H

#include "ports/query.h"

extern char *rows_query(const Table *table, Value batch);
extern void read_batch(const Table *table, Value batch, FunctionCallInfo fcinfo);
extern void check_row_type(const Table *table, FunctionCallInfo fcinfo, int argument);

#endif							/* INORDER_BATCH_H */
