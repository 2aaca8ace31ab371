/*
 * caller.h
 *	  Who takes the rows of feed_read, and whether all of them.
 */
#ifndef INORDER_CALLER_H
#define INORDER_CALLER_H

#include "ports/state.h"

/* As PG_FUNCTION_INFO_V1, which a session calls before it runs the first query with the function */
#define WATCHING_FUNCTION_INFO_V1(function) \
extern PGDLLEXPORT Datum function(PG_FUNCTION_ARGS); \
extern PGDLLEXPORT const Pg_finfo_record *pg_finfo_##function(void); \
const Pg_finfo_record * \
pg_finfo_##function(void) \
{ \
	static const Pg_finfo_record info = {1}; \
\
	watch_runs(); \
	return &info; \
} \
extern int no_such_variable

extern void watch_runs(void);
extern uint64 rows_taken(FunctionCallInfo fcinfo, Value max_rows);
extern void check_taken(FunctionCallInfo fcinfo, uint64 found, uint64 taken);

#endif							/* INORDER_CALLER_H */
