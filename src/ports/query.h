/*
 * query.h
 *	  Queries over one table, with the privileges of the caller.
 */
#ifndef INORDER_QUERY_H
#define INORDER_QUERY_H

#include "utils/plancache.h"

#include "ports/table.h"

extern void query_into(const Table *table, const char *query, DestReceiver *destination);
extern int	begin_planning(void);
extern void check_query(Query *query, const Table *table);
extern SPIPlanPtr prepare_text(const char *query, int options);
extern CachedPlanSource *source_of(SPIPlanPtr plan);

#endif							/* INORDER_QUERY_H */
