/*
 * table.h
 *	  A table that is read, the proof of the table, and functions that examine
 *	  tables.
 */
#ifndef INORDER_TABLE_H
#define INORDER_TABLE_H

#include "storage/lockdefs.h"
#include "tcop/dest.h"
#include "utils/array.h"
#include "utils/rel.h"
#include "utils/reltrigger.h"
#include "utils/snapshot.h"

#include "ports/numbers.h"
#include "ports/state.h"

/*
 * How the rows of a table are found, according to the state that feed_enable()
 * stored (inorder_internal.feed_table)
 */
typedef struct Reading
{
	char	   *key_column;
	bool		is_uuid;
	bool		is_generated;
	bool		is_partial;
	int64		base;
	ArrayType  *order_columns;	/* name[] */
} Reading;

/* Columns of feed_table, in the order of sql/ports/state.sql; the last constant is the number of columns. */
enum
{
	TABLE_RELATION, TABLE_KEY_COLUMN, TABLE_IS_UUID, TABLE_IS_GENERATED, TABLE_ORDER_COLUMNS, TABLE_BASE, TABLE_IS_PARTIAL,
	TABLE_SHARE_CONDITION, TABLE_WRITTEN_HERE, TABLE_KNOWN_AS, TABLE_COLUMNS
};

/* A table that holds rows */
typedef struct Leaf
{
	Oid			oid;
	Oid			index;			/* index that begins with the number */
} Leaf;

/*
 * The partitions that have rows of some transactions, which were found during
 * one call (parts.c)
 */
typedef struct Parts
{
	MemoryContext memory;		/* null while nothing is known */
	Datum		numbers;		/* int8multirange: the transactions */
	char	   *condition;		/* condition that all rows of these partitions satisfy; null to read all partitions */
} Parts;

/* The proof of a table: the table and its partitions, as they were when they were checked (table_proof.c) */
typedef struct TableProof
{
	Oid			relation;		/* key of the cache */
	bool		is_valid;		/* no later invalidation has affected the proof */
	uint64		number;			/* unique number of the proof */
	MemoryContext memory;		/* for the following members */
	Reading		reading;
	int			tree_count;
	Oid		   *tree;			/* the table and all partitions, sorted by OID */
	/* the same tables in the order in which all sessions lock them: each table after its parent */
	Oid		   *lock_order;
	int			leaf_count;
	Leaf	   *leaves;
	Value		members;		/* feed_member[]: the tables as a position stores them */
	/* the next transaction id when the proof was made; the proof includes only changes by older transactions */
	TransactionId next_id;
	AttrNumber	order_column;	/* column that was checked for ordering rows; 0 if there is none */
	AttrNumber	share_column;	/* column that was checked for dividing rows into shares; 0 if there is none */
	Parts		parts;
} TableProof;

typedef struct Table
{
	Oid			oid;
	/* role whose privileges are checked; InvalidOid for the current role */
	Oid			reader;
	Reading		reading;
	bool		is_share;		/* only one share of the rows of the table is read */
	ArrayType  *known_as;		/* name[]: schema and name of the table when it was enabled; null if not known */
	Value		description;	/* inorder_internal.feed_table */
	TableProof *proof;			/* see table_proof.c */
	Value		members;		/* feed_member[]: the partitions at the time of the proof */
	Oid			joined;			/* second table of the query; only for changes */
} Table;

/* rights.c */
extern bool role_may_read(Oid role, Oid relation);
extern bool role_may_move(Oid caller, const Row *feed);
extern bool lock_readable(Oid caller, Oid relation);
extern bool hidden_from(Oid role, Oid relation);
extern bool is_plain_table(Oid relation);

/* key_base.c */
extern Oid	base_of_call(char *expression, int64 *base);
extern bool leaves_out_old(char *predicate, AttrNumber column);

/* versions.c */
extern Datum plain_members(const Table *table);

/* restored.c */
extern bool is_receiving(Relation table, const Trigger *guard);
extern void refuse_restored(Oid table, const Trigger *guard, uint64 transaction);

/* guard.c */
extern bool is_guard_function(Oid function);
extern int64 guard_base(Relation table);
extern void refuse_later_triggers(Oid table);

/* files.c */
extern List *tree_of(Oid relation, LOCKMODE mode);
extern bool in_tree(const TableProof *proof, Oid relation);
extern void check_files(const TableProof *proof, Snapshot snapshot);
extern void check_partitions(const TableProof *proof, Snapshot snapshot);

/* as_made.c */
extern bool is_as_made(TableProof *proof);

/* table_proof.c */
extern uint64 invalidations_noticed(void);
extern bool is_untouched(const TableProof *proof, uint64 since);
extern Table table_of(Datum description);
extern Table table_with_proof(Datum description, Oid reader);
extern Table described_table(FunctionCallInfo fcinfo, int reader);
extern void prove_table(Table *table);
extern void use_proof(Table *table, Value members);
extern void check_proof(const Table *table);

/* parts.c */
#define MANY_LEAVES 8			/* with fewer leaves, planning a query over all leaves costs little */
extern void forget_parts_of(TableProof *proof);
extern bool parts_are_known(const Parts *parts, Numbers set);
extern void keep_parts(const Table *table, Value numbers, const bool *has_rows);

/* table_ref.c */
extern bool is_swapped(const Table *table);

/* next.c */
extern bool holds_again(Table *table, HeapTupleHeader position, Numbers *outside);

#endif							/* INORDER_TABLE_H */
