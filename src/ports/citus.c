/*
 * citus.c
 *	  Tables that Citus has distributed, and the shards that it hides.
 *
 * Such a table is a name: its rows are in shards, on other nodes.  The snapshot
 * of this node covers neither their transactions nor a COMMIT PREPARED that
 * another node has still to run, so what has ended here says nothing of them:
 * a reader would pass rows that become visible afterwards.  It is refused.  A
 * shard is a table like any other, on the node that has it.
 *
 * Nothing of Citus is called or linked.  Its catalog is read without running
 * anything, and only if it is what it says: in pg_catalog, where nobody but a
 * superuser makes a table, and a member of the extension citus.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class_d.h"
#include "catalog/pg_namespace_d.h"
#include "catalog/pg_type_d.h"
#include "commands/extension.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "names.h"
#include "ports/citus.h"
#include "ports/files.h"

PG_FUNCTION_INFO_V1(check_local);

#define TABLES "pg_dist_partition"
#define TABLES_INDEX "pg_dist_partition_logical_relid_index"
#define TABLES_KEY 1			/* logicalrelid regclass */

/* The catalog of distributed tables; none where Citus is not, which the cache of names knows */
static Oid
find_catalog(void)
{
	Oid			catalog = get_relname_relid(TABLES, PG_CATALOG_NAMESPACE);
	Oid			owner;

	if (!OidIsValid(catalog))
		return InvalidOid;
	owner = getExtensionOfObject(RelationRelationId, catalog);
	return OidIsValid(owner) && owner == get_extension_oid("citus", true) ? catalog : InvalidOid;
}

/* An index on its first column, if it still has the name that it has today; without it all of the catalog is read */
static Oid
find_catalog_index(Oid catalog)
{
	Oid			index = get_relname_relid(TABLES_INDEX, PG_CATALOG_NAMESPACE);

	return OidIsValid(index) && IndexGetRelation(index, true) == catalog ? index : InvalidOid;
}

static bool
has_row(Relation catalog, Oid relation)
{
	Oid			index = find_catalog_index(RelationGetRelid(catalog));
	ScanKeyData key;
	SysScanDesc scan;
	bool		result;

	ScanKeyInit(&key, TABLES_KEY, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relation));
	scan = systable_beginscan(catalog, index, OidIsValid(index), NULL, 1, &key);
	result = HeapTupleIsValid(systable_getnext(scan));
	systable_endscan(scan);
	return result;
}

/* Whether Citus keeps the rows of a table elsewhere: of any kind of distribution, reference tables and managed local ones too */
static bool
is_distributed(Oid relation)
{
	Oid			oid = find_catalog();
	Relation	catalog;
	Form_pg_attribute key;
	bool		result;

	if (!OidIsValid(oid))
		return false;
	catalog = table_open(oid, AccessShareLock);
	key = TupleDescAttr(RelationGetDescr(catalog), TABLES_KEY - 1);
	if (catalog->rd_rel->relam != HEAP_TABLE_AM_OID || (key->atttypid != REGCLASSOID && key->atttypid != OIDOID))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("this version of Citus is not known: %s has another form", TABLES)));
	result = has_row(catalog, relation);
	table_close(catalog, AccessShareLock);
	return result;
}

/* Error if Citus has distributed a table */
void
refuse_distributed(Oid relation)
{
	if (is_distributed(relation))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table %s is distributed by Citus: its shards can be read, not the table", relation_name(relation)),
				 errdetail("The snapshot of this node does not cover the transactions of other nodes, so that rows would be lost."),
				 errhint("inorder citus makes its shards readable, each on its node; inorder tail --shards and inorder count --shards read all of them.")));
}

/* check_local(relation regclass): error if Citus has distributed a table or a partition of it */
Datum
check_local(PG_FUNCTION_ARGS)
{
	ListCell   *cell;

	foreach(cell, tree_of(PG_GETARG_OID(0), NoLock))
	{
		CHECK_FOR_INTERRUPTS();
		refuse_distributed(lfirst_oid(cell));
	}
	PG_RETURN_VOID();
}
