/*
 * table.h
 *	  A table as a reader reads it, and what was proved of it.
 */
#ifndef INORDER_TABLE_H
#define INORDER_TABLE_H

#include "utils/array.h"

#include "ports/state.h"

/* How the rows of a table are found, as feed_enable() kept it (inorder_internal.feed_table) */
typedef struct Reading
{
	char	   *key_column;
	bool		is_uuid;
	bool		is_generated;
	bool		ordered;
	int64		base;
	ArrayType  *order_columns;	/* name[] */
} Reading;

/* A table that holds rows */
typedef struct Leaf
{
	Oid			oid;
	Oid			index;			/* one that begins with the number */
} Leaf;

/* What one call knows of the partitions that have rows of some transactions (parts.c) */
typedef struct Parts
{
	MemoryContext memory;		/* null while nothing is known */
	Datum		numbers;		/* int8multirange: the transactions */
	char	   *condition;		/* what their rows satisfy; null if all partitions are to be read */
} Parts;

/* A table with its partitions, as it was proved */
typedef struct Ground
{
	Oid			relation;		/* key of the cache */
	bool		stands;			/* nothing was invalidated since that would change it */
	MemoryContext memory;		/* of what follows */
	Reading		reading;
	int			tree_count;
	Oid		   *tree;			/* the table and all partitions, by oid */
	Oid		   *lock_order;		/* the same, each after the one above it, as all others lock them */
	int			leaf_count;
	Leaf	   *leaves;
	Value		members;		/* feed_member[]: what a position remembers of them */
	TransactionId next;			/* was the next one then: the transactions that made it are older */
	AttrNumber	order_column;	/* by which rows were proved to have an order; 0 for none */
	AttrNumber	share_column;	/* by which rows were proved to be in shares; 0 for none */
	Parts		parts;
} Ground;

typedef struct Table
{
	Oid			oid;
	Oid			reader;			/* whose privileges count; if none is given, those of the current role */
	bool		ordered;		/* a btree gives its rows by number; otherwise a BRIN index does not */
	Value		description;	/* inorder_internal.feed_table */
	Ground	   *ground;			/* what reads of it stand on (ground.c) */
	Value		members;		/* feed_member[]: its partitions as they were proved */
	Oid			joined;			/* a table that is read with it; none but for changes */
} Table;

#endif							/* INORDER_TABLE_H */
