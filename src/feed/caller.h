/*
 * caller.h
 *	  Who takes the rows of feed_read, and whether all of them.
 */
#ifndef INORDER_CALLER_H
#define INORDER_CALLER_H

#include "ports/state.h"

extern void watch_runs(void);
extern uint64 rows_taken(FunctionCallInfo fcinfo, Value max_rows);
extern void check_taken(FunctionCallInfo fcinfo, uint64 found, uint64 taken);

#endif							/* INORDER_CALLER_H */
