/*
 * unread.c
 *	  Whether a table has rows that a feed has not read, for whoever may see the feed.
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

#include "ground.h"
#include "probe.h"
#include "wait.h"

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

		if (index_rank(index, key) == BTREE_RANK && ConditionalLockRelationOid(index, AccessShareLock))
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
	if (table->rd_rel->relkind == RELKIND_RELATION && table->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT)
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

/* In the newest snapshot: no older one sees the rows of a table that was rewritten since. */
static bool
probe_unread(FunctionCallInfo fcinfo)
{
	List	   *tree = find_all_inheritors(PG_GETARG_OID(0), NoLock, NULL);
	const char *key = NameStr(*PG_GETARG_NAME(1));
	struct Ground ground = {.leaves = palloc(sizeof(Leaf) * list_length(tree))};
	Table		table = {.oid = PG_GETARG_OID(0), .ordered = true, .ground = &ground};
	Value		numbers = value_of(PG_GETARG_DATUM(2), INT8MULTIRANGEOID);
	ListCell   *cell;
	bool		result;

	fcinfo->isnull = list_length(tree) > TABLES_MAX;
	foreach(cell, tree)
	{
		CHECK_FOR_INTERRUPTS();
		fcinfo->isnull = fcinfo->isnull || !add_leaf(lfirst_oid(cell), key, ground.leaves, &ground.leaf_count);
	}
	if (fcinfo->isnull || !can_count(&table, numbers))
	{
		fcinfo->isnull = true;
		return false;
	}
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
