/*
 * as_made.c
 *	  Check, by the relation cache, whether a table is still as feed_enable() left it.
 *
 * If the check does not succeed, the queries of prove_table()
 * (sql/ports/proof.sql) report the fault, or find that the table is readable
 * nevertheless.  These queries are expensive in a new session.  Compiling the
 * functions and planning queries over ten catalogs accesses hundreds of pages, and
 * a hundred more pages for each partition.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type_d.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "ports/table.h"

#define GUARD_EVENTS (TRIGGER_TYPE_ROW | TRIGGER_TYPE_BEFORE | TRIGGER_TYPE_INSERT | TRIGGER_TYPE_DELETE | TRIGGER_TYPE_UPDATE)
#define UPDATE_EVENTS (TRIGGER_TYPE_ROW | TRIGGER_TYPE_BEFORE | TRIGGER_TYPE_UPDATE)
#define TRUNCATE_EVENTS (TRIGGER_TYPE_BEFORE | TRIGGER_TYPE_TRUNCATE)

/*
 * True if the transaction number is in a uuid column that is not generated, and
 * this column alone orders the rows.  In other tables the primary key, or the
 * expression of the generated number, must be examined, too.
 */
static bool
has_simple_key(const Reading *reading)
{
	Datum	   *columns;
	int			count;

	if (!reading->is_uuid || reading->is_generated)
		return false;
	deconstruct_array(reading->order_columns, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR, &columns, NULL, &count);
	return count == 1 && strcmp(NameStr(*DatumGetName(columns[0])), reading->key_column) == 0;
}

/*
 * True if a table is permanent, and is either a heap table without children or a
 * partitioned table
 */
static bool
is_permanent(Form_pg_class class)
{
	if (class->relpersistence != RELPERSISTENCE_PERMANENT)
		return false;
	return class->relkind == RELKIND_PARTITIONED_TABLE ||
		(class->relkind == RELKIND_RELATION && class->relam == HEAP_TABLE_AM_OID && !class->relhassubclass);
}

/* The attribute number of the key column; 0 if the column has been changed since feed_enable() was called */
static AttrNumber
key_of(Relation table, const Reading *reading)
{
	int			number = SPI_fnumber(RelationGetDescr(table), reading->key_column);
	Form_pg_attribute column = number > 0 ? TupleDescAttr(RelationGetDescr(table), number - 1) : NULL;

	return column != NULL && column->atttypid == UUIDOID && column->attgenerated == '\0' ? number : 0;
}

/*
 * The function of the trigger with this name, if the trigger is as feed_enable()
 * creates it (without a column list if the key is 0); otherwise InvalidOid.  The
 * loop must not rebuild the relation cache, which contains the triggers.
 */
static Oid
guard_by(Relation table, const char *name, int16 events, AttrNumber key, const char *base)
{
	TriggerDesc *trigdesc = table->trigdesc;

	for (int i = 0; trigdesc != NULL && i < trigdesc->numtriggers; i++)
	{
		const Trigger *trigger = &trigdesc->triggers[i];

		if (strcmp(trigger->tgname, name) != 0)
			continue;
		if (trigger->tgtype == events && trigger->tgenabled == TRIGGER_FIRES_ALWAYS && trigger->tgqual == NULL &&
			!OidIsValid(trigger->tgconstraint) && !trigger->tgdeferrable && trigger->tgoldtable == NULL &&
			trigger->tgnewtable == NULL && trigger->tgnattr == (key != 0) &&
			(key == 0 || trigger->tgattr[0] == key) && trigger->tgnargs == 1 && strcmp(trigger->tgargs[0], base) == 0)
			return trigger->tgfoid;
	}
	return InvalidOid;
}

/* True if a table has the triggers of its guard.  A partition inherits only the row triggers. */
static bool
is_guarded(Relation table, const Reading *reading, bool is_partition)
{
	AttrNumber	key = key_of(table, reading);
	char	   *base = psprintf(INT64_FORMAT, reading->base);
	Oid			function = key == 0 ? InvalidOid : guard_by(table, "zz_inorder_guard", GUARD_EVENTS, key, base);

	return OidIsValid(function) && function == guard_by(table, "zz_inorder_update", UPDATE_EVENTS, 0, base) &&
		(is_partition || function == guard_by(table, "zz_inorder_truncate", TRUNCATE_EVENTS, 0, base)) &&
		is_guard_function(function);
}

/*
 * True for the server's own btree operator classes for uuid.  index_of() in
 * sql/ports/table.sql makes the same check.
 */
static bool
is_of_server(Oid class)
{
	HeapTuple	tuple = class < FirstNormalObjectId ? SearchSysCache1(CLAOID, ObjectIdGetDatum(class)) : NULL;
	Form_pg_opclass form;
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_opclass) GETSTRUCT(tuple);
	result = form->opcintype == UUIDOID && form->opcmethod == BTREE_AM_OID;
	ReleaseSysCache(tuple);
	return result;
}

/* True if an index can find the rows of a table by their key */
static bool
finds_rows(Oid index, AttrNumber key)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	Form_pg_index form;
	bool		is_null;
	Datum		classes;
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_index) GETSTRUCT(tuple);
	classes = SysCacheGetAttr(INDEXRELID, tuple, Anum_pg_index_indclass, &is_null);
	result = form->indisvalid && form->indkey.values[0] == key && heap_attisnull(tuple, Anum_pg_index_indpred, NULL) &&
		is_of_server(((oidvector *) DatumGetPointer(classes))->values[0]);
	ReleaseSysCache(tuple);
	return result;
}

/* The first index that can find the rows of a table by their key, or InvalidOid */
static Oid
index_of(Relation table, const Reading *reading)
{
	AttrNumber	key = key_of(table, reading);
	ListCell   *cell;

	foreach(cell, RelationGetIndexList(table))
		if (finds_rows(lfirst_oid(cell), key))
			return lfirst_oid(cell);
	return InvalidOid;
}

static bool
is_member_as_made(Oid member, TableProof *proof)
{
	Relation	table = table_open(member, NoLock);
	bool		result = is_permanent(table->rd_rel) && is_guarded(table, &proof->reading, member != proof->relation);

	if (result && table->rd_rel->relkind == RELKIND_RELATION)
	{
		Leaf		leaf = {member, index_of(table, &proof->reading)};

		proof->leaves[proof->leaf_count++] = leaf;
		result = OidIsValid(leaf.index);
	}
	table_close(table, NoLock);
	return result;
}

/*
 * True if a table and its partitions, all of which are locked, have their guard
 * and indexes.  The leaves are stored in the order of their OIDs.
 */
bool
is_as_made(TableProof *proof)
{
	/* In parallel mode invalidations must not be processed. */
	if (IsInParallelMode() || !has_simple_key(&proof->reading))
		return false;
	AcceptInvalidationMessages();	/* the locks, which process invalidations, may be older than this call */
	proof->leaves = palloc(sizeof(Leaf) * proof->tree_count);
	proof->leaf_count = 0;
	for (int i = 0; i < proof->tree_count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!is_member_as_made(proof->tree[i], proof))
			return false;
	}
	return true;
}
