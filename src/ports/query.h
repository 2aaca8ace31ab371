/*
 * query.h
 *	  Queries over one table, with the rights of the caller.
 */
#ifndef INORDER_QUERY_H
#define INORDER_QUERY_H

#include "utils/plancache.h"

#include "ports/table.h"

/* The key of a row, as a position remembers it; null if there was no such row */
typedef struct LastRow
{
	Value		number;
	Value		key;			/* text[] */
} LastRow;

extern uint64 return_found(const Table *table, const char *query, HeapTupleHeader batch, FunctionCallInfo fcinfo, int64 limit, LastRow *last);
extern uint64 query_into(const Table *table, const char *query, DestReceiver *destination);
extern void check_query(Query *query, const Table *table);
extern SPIPlanPtr prepare_text(const char *query, int options);
extern CachedPlanSource *source_of(SPIPlanPtr plan);

#endif							/* INORDER_QUERY_H */
