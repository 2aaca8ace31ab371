/*
 * ground.h
 *	  What a read stands on: proved before it, looked at again after it.
 */
#ifndef INORDER_GROUND_H
#define INORDER_GROUND_H

#include "utils/snapshot.h"

#include "ports/guard.h"
#include "ports/query.h"

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

/* And what goes with it */
typedef struct Facts
{
	ArrayType  *columns;		/* name[]: the key column and those for the order */
	Oid			guard;			/* feed_guard() */
	Oid			generator;		/* xact_id_generated() */
} Facts;

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
	Oid			order_sequence; /* from which it is drawn, if any */
	AttrNumber	share_column;	/* by which rows were proved to be in shares; 0 for none */
	Parts		parts;
} Ground;

extern bool lock_readable(Oid relation);
extern Table described_table(FunctionCallInfo fcinfo, int reader);
extern void prove_ground(Table *table);
extern void stand_on(Table *table, Value members);
extern void check_ground(const Table *table);
extern bool in_tree(const Ground *ground, Oid relation);
extern char *relation_name(Oid relation);
extern void check_files(const Ground *ground, Snapshot snapshot);
extern void check_names(const Ground *ground, Snapshot snapshot);
extern void check_partitions(const Ground *ground, Snapshot snapshot);

extern bool tree_is_guarded(const Table *table);
extern Guard guard_of(const Reading *reading, const Facts *facts);
extern void prove_guard(Relation table, const Reading *reading, const Facts *facts, Oid root);
#define BTREE_RANK 2			/* of an index that gives rows in the order of its first column */
extern int	index_rank(Oid index, AttrNumber column);
extern Oid	prove_leaf(Relation leaf, const Reading *reading, const Facts *facts, Oid root);
extern void prove_order(Relation root, const Reading *reading);

#endif							/* INORDER_GROUND_H */
