/*
 * unread.c
 *	  Whether a table has rows that a feed has not read, for roles that may see the feed.
 *
 * The view feeds shows it also to roles that may not read the table, and must
 * neither wait for its owner nor make him wait.  So locks are taken only where
 * that is possible at once, and released before the next feed is looked at, and
 * nothing is planned: only an index says whether there are rows (probe.c).  Where
 * it cannot be known in this way, the answer is null.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_class_d.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "ports/citus.h"
#include "ports/ground.h"
#include "ports/probe.h"
#include "feed/without_locks.h"

/* With their indexes they are locked at once: a share of max_locks_per_transaction that leaves room for others */
#define TABLES_MAX 1000

PG_FUNCTION_INFO_V1(has_unread);

/* Whether keys are what an index of numbers has; nothing was proved of this table, and its owner may have changed the type */
static bool
has_numbers(Oid relation, AttrNumber key)
{
	Oid			type = key == InvalidAttrNumber ? InvalidOid : get_atttype(relation, key);

	return type == INT8OID || type == UUIDOID;
}

/* A btree that begins with the column, locked; none if there is none, or somebody changes it */
static Oid
lock_index(Relation leaf, AttrNumber key)
{
	ListCell   *cell;

	foreach(cell, RelationGetIndexList(leaf))
	{
		Oid			index = lfirst_oid(cell);

		/* Locked first: DROP INDEX CONCURRENTLY waits for that, but not for a lock on the table. */
		if (ConditionalLockRelationOid(index, AccessShareLock) && index_rank(index, key) == BTREE_RANK)
			return index;
	}
	return InvalidOid;
}

/*
 * Lock a table of the tree, and add it to the leaves if it holds rows; false if
 * that is not possible at once.  A table that inherits may be temporary, of
 * another session; a standby has no files of one that is not logged.
 */
static bool
add_leaf(Oid oid, const char *key, Leaf *leaves, int *count)
{
	Relation	table = ConditionalLockRelationOid(oid, AccessShareLock) ? try_relation_open(oid, NoLock) : NULL;
	bool		result = table != NULL;

	if (table == NULL)
		return false;
	if (is_distributed(oid))
		result = false;
	else if (table->rd_rel->relkind == RELKIND_RELATION && table->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT)
	{
		AttrNumber	column = get_attnum(oid, key);

		leaves[*count] = (Leaf) {.oid = oid, .index = has_numbers(oid, column) ? lock_index(table, column) : InvalidOid};
		result = OidIsValid(leaves[(*count)++].index);
	}
	else
		result = table->rd_rel->relkind == RELKIND_PARTITIONED_TABLE;
	relation_close(table, NoLock);
	return result;
}

/*
 * The tables that hold rows; false if that is not known.  Each is locked before
 * what is below it is looked up: of one that is gone that would be an error.
 */
static bool
find_leaves(Oid relation, const char *key, struct Ground *ground)
{
	List	   *tree = list_make1_oid(relation);
	ListCell   *cell;

	ground->leaves = palloc(sizeof(Leaf) * TABLES_MAX);
	foreach(cell, tree)
	{
		CHECK_FOR_INTERRUPTS();
		if (list_length(tree) > TABLES_MAX || !add_leaf(lfirst_oid(cell), key, ground->leaves, &ground->leaf_count))
			return false;
		tree = list_concat(tree, find_inheritance_children(lfirst_oid(cell), NoLock));
	}
	return true;
}

/* In the newest snapshot: no older one sees the rows of a table that was rewritten since. */
static bool
probe_unread(FunctionCallInfo fcinfo)
{
	struct Ground ground = {0};
	Table		table = {.oid = PG_GETARG_OID(0), .ordered = true, .ground = &ground};
	Value		numbers = value_of(PG_GETARG_DATUM(2), INT8MULTIRANGEOID);
	bool		result;

	fcinfo->isnull = !find_leaves(table.oid, NameStr(*PG_GETARG_NAME(1)), &ground) || !can_count(&table, numbers);
	if (fcinfo->isnull)
		return false;
	PushActiveSnapshot(GetLatestSnapshot());
	result = probe(&table, numbers).rows;
	PopActiveSnapshot();
	return result;
}

/* has_unread(relation regclass, key_column name, numbers int8multirange) -> boolean */
Datum
has_unread(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(without_locks(probe_unread, fcinfo));
}
