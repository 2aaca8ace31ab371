/*
 * files.c
 *	  Check that a snapshot sees the files and partitions that are read.
 *
 * A snapshot determines which rows are visible, but not which files contain the rows.  After a command that rewrites a
 * table (ALTER TABLE ... TYPE, VACUUM FULL, CLUSTER, REPACK, TRUNCATE), an older snapshot finds no rows, or only some
 * rows, in the new file.  A partition that was detached or dropped since the snapshot was taken is not read at all,
 * although its rows are in the snapshot.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "ports/table.h"

PG_FUNCTION_INFO_V1(lock_tree_in_mode);

/*
 * Return a table and all partitions below it.  The partitions, but not the table, are locked in the given mode, which
 * may be NoLock.  The list is empty if the table was dropped, for example while the caller waited for the lock.  For
 * such a table, find_all_inheritors() would raise an internal error.
 */
List *
tree_of(Oid relation, LOCKMODE mode)
{
	return get_rel_relkind(relation) == '\0' ? NIL : find_all_inheritors(relation, mode, NULL);
}

static LOCKMODE
mode_of(const char *name)
{
	if (strcmp(name, "ACCESS EXCLUSIVE") == 0)
		return AccessExclusiveLock;
	return strcmp(name, "SHARE ROW EXCLUSIVE") == 0 ? ShareRowExclusiveLock : AccessShareLock;
}

/* lock_tree(relation regclass, mode text) */
Datum
lock_tree_in_mode(PG_FUNCTION_ARGS)
{
	Oid			relation = PG_GETARG_OID(0);
	LOCKMODE	mode = mode_of(text_to_cstring(PG_GETARG_TEXT_PP(1)));

	LockRelationOid(relation, mode);
	list_free(tree_of(relation, mode));	/* locks the partitions */
	PG_RETURN_VOID();
}

/* Return true if a relation is the table that was checked, or a partition of it */
bool
in_tree(const TableProof *proof, Oid relation)
{
	return proof->tree_count > 0 &&
		bsearch(&relation, proof->tree, proof->tree_count, sizeof(Oid), oid_cmp) != NULL;
}

/* Set the error code, detail and hint of an error about a snapshot that is too old */
static int
of_old_snapshot(void)
{
	errcode(ERRCODE_T_R_SERIALIZATION_FAILURE);
	errdetail("The snapshot does not see the current files and partitions of the table.");
	errhint("Try again in a new transaction.");
	return 0;
}

/* Return the file of a table in a snapshot; InvalidOid if the snapshot does not see the table */
static Oid
file_in_snapshot(Relation classes, Oid relation, Snapshot snapshot)
{
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			file = InvalidOid;

	ScanKeyInit(&key, Anum_pg_class_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relation));
	scan = systable_beginscan(classes, ClassOidIndexId, true, snapshot, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		file = ((Form_pg_class) GETSTRUCT(tuple))->relfilenode;
	systable_endscan(scan);
	return file;
}

/* Return the file of a table in a snapshot, disregarding changes by this transaction */
static Oid
file_before(Relation classes, Oid relation, Snapshot snapshot)
{
	SnapshotData snapshot_before = *snapshot;

	snapshot_before.curcid = FirstCommandId;
	return file_in_snapshot(classes, relation, &snapshot_before);
}

/*
 * Return true if another transaction has rewritten the table since the snapshot was taken.  file_before() disregards
 * changes by this transaction.
 */
static bool
was_rewritten_by_others(Relation classes, Oid relation, Snapshot snapshot)
{
	Snapshot	newest = RegisterSnapshot(GetCatalogSnapshot(RelationRelationId));
	bool		result = file_before(classes, relation, snapshot) != file_before(classes, relation, newest);

	UnregisterSnapshot(newest);
	return result;
}

/*
 * Return true if a snapshot sees the current file of a table.  If the snapshot sees the current row of pg_class, no
 * further check is needed.
 */
static bool
sees_file(Relation classes, HeapTuple tuple, Oid relation, Snapshot snapshot)
{
	TransactionId writer = HeapTupleHeaderGetXmin(tuple->t_data);
	bool		is_own = TransactionIdIsCurrentTransactionId(writer);

	if (!is_own && (!TransactionIdIsNormal(writer) || !XidInMVCCSnapshot(writer, snapshot)))
		return true;
	return ((Form_pg_class) GETSTRUCT(tuple))->relfilenode == file_in_snapshot(classes, relation, snapshot) &&
		(!is_own || !was_rewritten_by_others(classes, relation, snapshot));
}

static void
check_file(Relation classes, Oid relation, Snapshot snapshot)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
	bool		is_seen;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(of_old_snapshot(),
				 errmsg("table %s was dropped after the snapshot of this transaction was taken",
						relation_name(relation))));
	is_seen = sees_file(classes, tuple, relation, snapshot);
	ReleaseSysCache(tuple);
	if (!is_seen)
		ereport(ERROR,
				(of_old_snapshot(),
				 errmsg("table %s was rewritten after the snapshot of this transaction was taken",
						relation_name(relation))));
}

/* Count the partitions that a table has in a snapshot.  Raise an error if one of these partitions is not read. */
static int
count_children(Relation inherits, const TableProof *proof, Oid parent, Snapshot snapshot)
{
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	int			count = 0;

	ScanKeyInit(&key, Anum_pg_inherits_inhparent, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(parent));
	scan = systable_beginscan(inherits, InheritsParentIndexId, true, snapshot, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_inherits row = (Form_pg_inherits) GETSTRUCT(tuple);

		CHECK_FOR_INTERRUPTS();
		if (row->inhdetachpending)
			continue;
		if (!in_tree(proof, row->inhrelid))
			ereport(ERROR,
					(of_old_snapshot(),
					 errmsg("table %s was detached after the snapshot of this transaction was taken",
							relation_name(row->inhrelid))));
		count++;
	}
	systable_endscan(scan);
	return count;
}

/*
 * Raise an error unless a snapshot sees exactly the partitions that are read.  The snapshot sees fewer partitions if
 * some partitions were attached after the snapshot was taken.  The snapshot may also see more partitions, because new
 * snapshots see a commit before the server sends the invalidations of the commit, and attaching a partition does not
 * wait for readers.  Comparing the numbers of partitions is enough, because each partition has one parent.
 */
void
check_partitions(const TableProof *proof, Snapshot snapshot)
{
	Relation	inherits;
	int			count = 1;

	if (proof->tree_count == 1 && get_rel_relkind(proof->relation) != RELKIND_PARTITIONED_TABLE)
		return;
	snapshot = RegisterSnapshot(snapshot);	/* the transaction snapshot is not always registered */
	inherits = table_open(InheritsRelationId, AccessShareLock);
	for (int i = 0; i < proof->tree_count; i++)
		if (get_rel_relkind(proof->tree[i]) == RELKIND_PARTITIONED_TABLE)
			count += count_children(inherits, proof, proof->tree[i], snapshot);
	table_close(inherits, AccessShareLock);
	UnregisterSnapshot(snapshot);
	if (count != proof->tree_count)
		ereport(ERROR,
				(of_old_snapshot(),
				 errmsg("partitions of %s were attached after the snapshot of this transaction was taken",
						relation_name(proof->relation))));
}

/* Raise an error unless all rows that a snapshot sees in a table are in the files and partitions that are read */
void
check_files(const TableProof *proof, Snapshot snapshot)
{
	Relation	classes = table_open(RelationRelationId, AccessShareLock);

	for (int i = 0; i < proof->tree_count; i++)
		check_file(classes, proof->tree[i], snapshot);
	table_close(classes, AccessShareLock);
	check_partitions(proof, snapshot);
}
