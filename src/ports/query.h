/*
 * query.h
 *	  Queries over one table, with the rights of the caller.
 */
#ifndef INORDER_QUERY_H
#define INORDER_QUERY_H

#include "ports/state.h"

/* A table as a reader reads it */
typedef struct Table
{
	Oid			oid;
	Oid			reader;			/* whose privileges count; if none is given, those of the current role */
	bool		whole;			/* a batch ends with a transaction, though it then has more rows than are asked for */
	bool		ordered;		/* a btree gives its rows by number; otherwise a BRIN index does not */
	Value		description;	/* inorder_internal.feed_table */
	struct Ground *ground;		/* what reads of it stand on (ground.h) */
	Value		members;		/* feed_member[]: its partitions as they were proved */
} Table;

/* The key of a row, as a position remembers it; null if there was no such row */
typedef struct LastRow
{
	Value		number;
	Value		key;			/* text[] */
} LastRow;

extern uint64 query_rows_until(const Table *table, const char *query, FunctionCallInfo fcinfo, int64 limit, LastRow *last);
extern bool query_row(const Table *table, const char *query, bool stable, int wanted, Value *results);
extern uint64 query_rows(const Table *table, const char *query, FunctionCallInfo fcinfo);
extern int64 query_count(const Table *table, const char *query, bool parallel);
extern void plan_in_order(const Table *table);
extern uint64 query_batch(const Table *table, const char *query, const char *statement);
extern void run_statement(const char *statement);

#endif							/* INORDER_QUERY_H */
