/*
 * as_made.c
 *	  Use the relation cache to check whether a table is still as feed_enable()
 *	  left it.
 *
 * If the check fails, the queries of prove_table() (sql/ports/proof.sql) report
 * the fault, or find that the table is still readable.  These queries are
 * expensive in a new session.  Compiling the functions and planning queries
 * over ten catalogs accesses hundreds of pages, and a hundred more pages for
 * each partition.
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

#include "keys/uuid_datum.h"
#include "ports/table.h"

/* The guard of a generated number is an AFTER trigger: see guard_definitions() in sql/ports/table.sql. */
#define GENERATED_GUARD_EVENTS (TRIGGER_TYPE_ROW | TRIGGER_TYPE_DELETE | TRIGGER_TYPE_UPDATE)
#define GENERATED_UPDATE_EVENTS (TRIGGER_TYPE_ROW | TRIGGER_TYPE_UPDATE)
#define GUARD_EVENTS (GENERATED_GUARD_EVENTS | TRIGGER_TYPE_BEFORE | TRIGGER_TYPE_INSERT)
#define UPDATE_EVENTS (GENERATED_UPDATE_EVENTS | TRIGGER_TYPE_BEFORE)
#define TRUNCATE_EVENTS (TRIGGER_TYPE_BEFORE | TRIGGER_TYPE_TRUNCATE)

/*
 * The attribute numbers of the columns on which readers depend: the key, and
 * the columns that order the rows of one transaction.  The columns are in the
 * order of known_columns() in sql/ports/table.sql.
 */
typedef struct Columns
{
	int			count;			/* 0 if a column has changed since feed_enable() */
	AttrNumber	numbers[INDEX_MAX_KEYS + 1];
} Columns;

static const Columns no_columns = {0};

/* Return true if a table is permanent, and is either a heap table without children or a partitioned table */
static bool
is_permanent(Form_pg_class class)
{
	if (class->relpersistence != RELPERSISTENCE_PERMANENT)
		return false;
	return class->relkind == RELKIND_PARTITIONED_TABLE ||
		(class->relkind == RELKIND_RELATION && class->relam == HEAP_TABLE_AM_OID && !class->relhassubclass);
}

/* Return the column with this name, or NULL */
static Form_pg_attribute
column_of(Relation table, const char *name)
{
	int			number = SPI_fnumber(RelationGetDescr(table), name);

	return number > 0 ? TupleDescAttr(RelationGetDescr(table), number - 1) : NULL;
}

static bool
is_key(Form_pg_attribute column, const Reading *reading)
{
	return column != NULL && column->atttypid == (reading->is_uuid ? UUIDOID : INT8OID) &&
		column->attgenerated == (reading->is_generated ? ATTRIBUTE_GENERATED_STORED : '\0');
}

/* Return true if the type of a column is one of the common types among order_types() in sql/ports/table.sql */
static bool
orders_rows(Form_pg_attribute column)
{
	static const Oid types[] = {INT2OID, INT4OID, INT8OID, UUIDOID, TEXTOID, VARCHAROID, DATEOID, TIMESTAMPTZOID};

	for (int i = 0; column != NULL && i < lengthof(types); i++)
		if (column->atttypid == types[i])
			return true;
	return false;
}

static Columns
columns_of(Relation table, const Reading *reading)
{
	Form_pg_attribute column = column_of(table, reading->key_column);
	Columns		columns = {0};
	Datum	   *names;
	int			count;

	deconstruct_array(reading->order_columns, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR, &names, NULL, &count);
	if (!is_key(column, reading) || count > INDEX_MAX_KEYS)
		return no_columns;
	columns.numbers[columns.count++] = column->attnum;
	/* In a table with a key of type uuid, the key alone orders the rows. */
	if (reading->is_uuid)
		return count == 1 && strcmp(NameStr(*DatumGetName(names[0])), reading->key_column) == 0 ? columns : no_columns;
	for (int i = 0; i < count; i++)
	{
		column = column_of(table, NameStr(*DatumGetName(names[i])));
		if (!orders_rows(column))
			return no_columns;
		columns.numbers[columns.count++] = column->attnum;
	}
	return columns;
}

/* Return true if a trigger names exactly these columns */
static bool
names_columns(const Trigger *trigger, const Columns *columns)
{
	for (int i = 0; i < trigger->tgnattr && i < columns->count; i++)
		if (trigger->tgattr[i] != columns->numbers[i])
			return false;
	return trigger->tgnattr == columns->count;
}

/*
 * Return the function of the trigger with this name, if the trigger is as feed_enable() creates it; otherwise
 * InvalidOid.  The loop must not rebuild the relation cache, which contains the triggers.
 */
static Oid
guard_by(Relation table, const char *name, int16 events, const Columns *columns, const char *base)
{
	TriggerDesc *trigdesc = table->trigdesc;

	for (int i = 0; trigdesc != NULL && i < trigdesc->numtriggers; i++)
	{
		const Trigger *trigger = &trigdesc->triggers[i];

		if (strcmp(trigger->tgname, name) != 0)
			continue;
		if (trigger->tgtype == events && trigger->tgenabled == TRIGGER_FIRES_ALWAYS && trigger->tgqual == NULL &&
			!OidIsValid(trigger->tgconstraint) && !trigger->tgdeferrable && trigger->tgoldtable == NULL &&
			trigger->tgnewtable == NULL && names_columns(trigger, columns) && trigger->tgnargs == 1 &&
			strcmp(trigger->tgargs[0], base) == 0)
			return trigger->tgfoid;
	}
	return InvalidOid;
}

/* Return true if a table has the triggers of its guard.  A partition inherits only the row triggers. */
static bool
is_guarded(Relation table, const Columns *columns, const Reading *reading, bool is_partition)
{
	char	   *base = psprintf(INT64_FORMAT, reading->base);
	int16		guard_events = reading->is_generated ? GENERATED_GUARD_EVENTS : GUARD_EVENTS;
	int16		update_events = reading->is_generated ? GENERATED_UPDATE_EVENTS : UPDATE_EVENTS;
	Oid			function = guard_by(table, "zz_inorder_guard", guard_events, columns, base);

	return columns->count > 0 && OidIsValid(function) &&
		function == guard_by(table, "zz_inorder_update", update_events, &no_columns, base) &&
		(is_partition || function == guard_by(table, "zz_inorder_truncate", TRUNCATE_EVENTS, &no_columns, base)) &&
		is_guard_function(function);
}

/*
 * Return true if a column is generated by xact_id_generated() with this base: see prove_columns() in
 * sql/ports/table.sql
 */
static bool
is_generated_number(Relation table, AttrNumber key, int64 base)
{
	TupleConstr *constraints = RelationGetDescr(table)->constr;
	FmgrInfo	function;

	for (int i = 0; constraints != NULL && i < constraints->num_defval; i++)
		if (constraints->defval[i].adnum == key)
		{
			int64		present_base;
			Oid			called = base_of_call(constraints->defval[i].adbin, &present_base);

			if (!OidIsValid(called) || present_base != base)
				return false;
			fmgr_info(called, &function);
			return function.fn_addr == xact_id_generated;
		}
	return false;
}

/*
 * Return true for the server's own btree operator class for uuid or bigint.  index_of() in sql/ports/table.sql also
 * accepts the classes for integer and smallint.
 */
static bool
is_of_server(Oid class, bool is_uuid)
{
	HeapTuple	tuple = class < FirstNormalObjectId ? SearchSysCache1(CLAOID, ObjectIdGetDatum(class)) : NULL;
	Form_pg_opclass form;
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_opclass) GETSTRUCT(tuple);
	result = form->opcintype == (is_uuid ? UUIDOID : INT8OID) && form->opcmethod == BTREE_AM_OID;
	ReleaseSysCache(tuple);
	return result;
}

/* Return true if an index contains all rows or, if is_partial is true, all rows with a number other than 0 */
static bool
has_rows(HeapTuple index, AttrNumber key, bool is_partial)
{
	bool		is_null;
	Datum		predicate = SysCacheGetAttr(INDEXRELID, index, Anum_pg_index_indpred, &is_null);

	return is_null || (is_partial && leaves_out_old(TextDatumGetCString(predicate), key));
}

/* Return true if an index can find the rows of a table by their key */
static bool
finds_rows(HeapTuple index, AttrNumber key, const Reading *reading)
{
	Form_pg_index form = (Form_pg_index) GETSTRUCT(index);
	bool		is_null;
	Datum		classes = SysCacheGetAttr(INDEXRELID, index, Anum_pg_index_indclass, &is_null);

	return form->indisvalid && form->indkey.values[0] == key && has_rows(index, key, reading->is_partial) &&
		is_of_server(((oidvector *) DatumGetPointer(classes))->values[0], reading->is_uuid);
}

/*
 * Return true for a primary key that consists of the columns that order the rows, in this order.  The column of the
 * number, which is the first given column, may be anywhere in the key, or may be missing.
 */
static bool
is_primary_key(HeapTuple index, const Columns *columns)
{
	Form_pg_index form = (Form_pg_index) GETSTRUCT(index);
	int			matched_columns = 1;

	if (!form->indisprimary || !form->indisvalid)
		return false;
	for (int i = 0; i < form->indnkeyatts; i++)
		if (form->indkey.values[i] != columns->numbers[0] &&
			(matched_columns == columns->count || form->indkey.values[i] != columns->numbers[matched_columns++]))
			return false;
	return matched_columns == columns->count;
}

/*
 * Return the first index that can find the rows of a table by their key, or InvalidOid.  Sets is_ordered to true if the
 * columns after the key are the columns of the primary key, or if no column follows the key: see prove_order() in
 * sql/ports/table.sql.
 */
static Oid
index_of(Relation table, const Columns *columns, const Reading *reading, bool *is_ordered)
{
	Oid			result = InvalidOid;
	ListCell   *cell;

	*is_ordered = columns->count == 1;
	foreach(cell, RelationGetIndexList(table))
	{
		HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(lfirst_oid(cell)));

		if (!HeapTupleIsValid(tuple))
			continue;
		if (!OidIsValid(result) && finds_rows(tuple, columns->numbers[0], reading))
			result = lfirst_oid(cell);
		*is_ordered = *is_ordered || is_primary_key(tuple, columns);
		ReleaseSysCache(tuple);
	}
	return result;
}

/*
 * Store a table that holds rows, with its index.  Return true if the index exists, and the expression of a generated
 * number is unchanged.
 */
static bool
is_leaf_as_made(Relation table, AttrNumber key, Oid index, TableProof *proof)
{
	Leaf		leaf = {RelationGetRelid(table), index};

	proof->leaves[proof->leaf_count++] = leaf;
	return OidIsValid(index) &&
		(!proof->reading.is_generated || is_generated_number(table, key, proof->reading.base));
}

static bool
is_member_as_made(Oid member, TableProof *proof)
{
	Relation	table = table_open(member, NoLock);
	bool		is_partition = member != proof->relation;
	Columns		columns = columns_of(table, &proof->reading);
	bool		result = is_permanent(table->rd_rel) && is_guarded(table, &columns, &proof->reading, is_partition);

	if (result)
	{
		bool		is_ordered;
		Oid			index = index_of(table, &columns, &proof->reading, &is_ordered);

		result = (is_ordered || is_partition) &&
			(table->rd_rel->relkind != RELKIND_RELATION || is_leaf_as_made(table, columns.numbers[0], index, proof));
	}
	table_close(table, NoLock);
	return result;
}

/*
 * Return true if a table and its partitions, all of which are locked, have their guard and indexes.  The leaves are
 * stored in the order of their OIDs.
 */
bool
is_as_made(TableProof *proof)
{
	/* In parallel mode invalidations must not be processed. */
	if (IsInParallelMode())
		return false;
	/* The locks may have been taken before this call.  Process the invalidations that have arrived since then. */
	AcceptInvalidationMessages();
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
