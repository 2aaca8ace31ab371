/*
 * partitions.c
 *	  Check the partitions of a log, before rows are written into them.
 *
 * All partitions must be tables of the owner of the log.  A partition of another
 * owner could have triggers, which would run that owner's code with the privileges
 * of each role that changes the logged table.  The trigger cannot write into a
 * foreign table, which would require a plan.
 *
 * Rows are routed to the partitions in the partition directory.  Examining a thousand partitions for every statement
 * would cost more than the statement.  The session therefore caches the result of the check until the server
 * invalidates the log or a partition (ports/table_proof.c).
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "partitioning/partdesc.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "changes/partitions.h"
#include "ports/state.h"
#include "ports/table.h"

/*
 * Maximum number of logs for which a session caches the result.  If there are more logs, all cached results are
 * discarded.
 */
#define MOST_LOGS 256

/* The cached result of a check: rows may be written into the partitions of a log */
typedef struct ProvedLog
{
	Oid			log;			/* key of the cache */
	uint64		since;			/* number of invalidations when the log was checked */
	TableProof	tree;
} ProvedLog;

static HTAB *proved_logs = NULL;
static MemoryContext memory = NULL; /* for the cached results */

static void
check_partition(Oid partition, Oid owner)
{
	char		kind = get_rel_relkind(partition);

	if ((kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE) || owner_of_table(partition) != owner)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("partition %s of a log is not a table, or does not belong to the owner of the log",
						relation_name(partition))));
}

/*
 * Count a table and the partitions below it in the directory, and append their OIDs to the list unless the list is
 * null.  The lookup of partitions evaluates constants of the partition key.  The owner of each table is therefore
 * checked first.
 */
static int
look_up_partitions(PartitionDirectory directory, Relation parent, List **tree)
{
	PartitionDesc partitions = PartitionDirectoryLookup(directory, parent);
	int			count = 1 + partitions->nparts;

	CHECK_FOR_INTERRUPTS();
	if (tree != NULL)
		*tree = lappend_oid(*tree, RelationGetRelid(parent));
	for (int i = 0; i < partitions->nparts; i++)
	{
		if (!partitions->is_leaf[i])
		{
			Relation	partition = table_open(partitions->oids[i], AccessShareLock);

			check_partition(partitions->oids[i], parent->rd_rel->relowner);
			count += look_up_partitions(directory, partition, tree) - 1;
			table_close(partition, NoLock);
		}
		else if (tree != NULL)
			*tree = lappend_oid(*tree, partitions->oids[i]);
	}
	return count;
}

static ProvedLog *
find_proof(Oid log)
{
	return memory != NULL ? hash_search(proved_logs, &log, HASH_FIND, NULL) : NULL;
}

static void
make_cache(void)
{
	HASHCTL		control = {.keysize = sizeof(Oid), .entrysize = sizeof(ProvedLog)};

	control.hcxt = AllocSetContextCreate(TopMemoryContext, "inorder: checked logs", ALLOCSET_DEFAULT_SIZES);
	proved_logs = hash_create("inorder: checked logs", 16, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	memory = control.hcxt;
}

static void
keep_proof(Oid log, uint64 since, const List *tree)
{
	ProvedLog  *entry = find_proof(log);
	TableProof	proof = {.relation = log};
	ListCell   *cell;

	if (entry == NULL && memory != NULL && hash_get_num_entries(proved_logs) == MOST_LOGS)
	{
		MemoryContextDelete(memory);
		memory = NULL;
	}
	if (memory == NULL)
		make_cache();
	proof.tree = MemoryContextAlloc(memory, sizeof(Oid) * list_length(tree));
	foreach(cell, tree)
		proof.tree[proof.tree_count++] = lfirst_oid(cell);
	qsort(proof.tree, proof.tree_count, sizeof(Oid), oid_cmp);
	if (entry != NULL)
		pfree(entry->tree.tree);
	else
		entry = hash_search(proved_logs, &log, HASH_ENTER, NULL);
	entry->since = since;
	entry->tree = proof;
}

/*
 * Raise an error unless all partitions of a log are tables of its owner.  The partition directory is created with the
 * arguments that the server uses.  All partitions are looked up in the directory before a cached result is used.  The
 * statement therefore inserts no rows into a partition that is attached later.  An older snapshot includes partitions
 * that are being detached; the number of partitions then differs from the cached number.
 */
void
check_partitions_of_log(EState *estate, Relation log)
{
	uint64		invalidations_before = invalidations_noticed();
	ProvedLog  *entry = find_proof(RelationGetRelid(log));
	List	   *tree = NIL;
	ListCell   *cell;
	int			count;

	estate->es_partition_directory = CreatePartitionDirectory(estate->es_query_cxt, !IsolationUsesXactSnapshot());
	count = look_up_partitions(estate->es_partition_directory, log, NULL);
	if (entry != NULL && entry->tree.tree_count == count && is_untouched(&entry->tree, entry->since))
	{
		entry->since = invalidations_noticed();
		return;
	}
	(void) look_up_partitions(estate->es_partition_directory, log, &tree);
	elog(DEBUG1, "looking at %d tables of log \"%s\"", count, RelationGetRelationName(log));
	foreach(cell, tree)
	{
		CHECK_FOR_INTERRUPTS();
		check_partition(lfirst_oid(cell), log->rd_rel->relowner);
	}
	keep_proof(RelationGetRelid(log), invalidations_before, tree);
}
