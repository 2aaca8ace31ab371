/*
 * versions.c
 *	  The version of the guard of a table, and a table as a position stores it.
 *
 * If a trigger is disabled and enabled again, or if an expression is changed and
 * restored, the only trace is a new version of a catalog row.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_collation_d.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "ports/table.h"

PG_FUNCTION_INFO_V1(guard_versions);

/* Three triggers of the C edition, or four of the SQL edition, and one expression */
#define VERSIONS_MAX 5

typedef struct Versions
{
	int			count;
	Datum		numbers[VERSIONS_MAX];
	bool		is_placed;		/* each version includes the ctid of its row */
	bool		is_own;			/* the guard is not inherited */
} Versions;

/* Append the version of a catalog row, which is computed as in version() in sql/ports/table.sql */
static void
note_version(Versions *versions, HeapTuple tuple, Relation catalog)
{
	TransactionId writer = HeapTupleHeaderGetRawXmin(tuple->t_data);
	int64		version = writer;

	if (versions->is_placed || TransactionIdIsCurrentTransactionId(writer))
	{
		char	   *place = psprintf("(%u,%u)%u", ItemPointerGetBlockNumberNoCheck(&tuple->t_self),
									 ItemPointerGetOffsetNumberNoCheck(&tuple->t_self), catalog->rd_rel->relfilenode);
		int32		hash = DatumGetInt32(DirectFunctionCall1Coll(hashtext, DEFAULT_COLLATION_OID, CStringGetTextDatum(place)));

		version |= (int64) ((hash & 1048575) + 1048576) << 32;
	}
	versions->numbers[versions->count++] = Int64GetDatum(version);
}

/* Append the version of the expression of a generated column */
static void
note_expression(Versions *versions, Oid relation, AttrNumber column)
{
	Relation	catalog = table_open(AttrDefaultRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_pg_attrdef_adrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relation));
	ScanKeyInit(&keys[1], Anum_pg_attrdef_adnum, BTEqualStrategyNumber, F_INT2EQ, Int16GetDatum(column));
	scan = systable_beginscan(catalog, AttrDefaultIndexId, true, GetActiveSnapshot(), 2, keys);
	if (HeapTupleIsValid(tuple = systable_getnext(scan)))
		note_version(versions, tuple, catalog);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

/*
 * Return true if a column is generated; false if its table was dropped, although an older snapshot may still see the
 * table
 */
static bool
is_generated(Oid relation, AttrNumber column)
{
	HeapTuple	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(relation), Int16GetDatum(column));
	bool		result = false;

	if (HeapTupleIsValid(tuple))
	{
		result = ((Form_pg_attribute) GETSTRUCT(tuple))->attgenerated == ATTRIBUTE_GENERATED_STORED;
		ReleaseSysCache(tuple);
	}
	return result;
}

/*
 * Append the version of a trigger, if the trigger belongs to the guard.  Triggers are passed in the order of their
 * names.  The first trigger of the guard names the column with the number.  If this column is generated, its attribute
 * number is stored in *column.  The trigger for TRUNCATE is left out if the guard is inherited, because a partition
 * has such a trigger only if it was attached when feed_enable() was called.
 */
static void
note_trigger(Versions *versions, HeapTuple tuple, Relation catalog, AttrNumber *column)
{
	Form_pg_trigger trigger = (Form_pg_trigger) GETSTRUCT(tuple);
	const char *name = NameStr(trigger->tgname);
	bool		is_first = strcmp(name, "zz_inorder_guard") == 0;

	if (is_first)
		versions->is_own = !OidIsValid(trigger->tgparentid);
	if (!is_first && strcmp(name, "zz_inorder_update") != 0 && strcmp(name, "zz_inorder_delete") != 0 &&
		!(versions->is_own && strcmp(name, "zz_inorder_truncate") == 0))
		return;
	note_version(versions, tuple, catalog);
	if (is_first && trigger->tgattr.dim1 > 0 && is_generated(trigger->tgrelid, trigger->tgattr.values[0]))
		*column = trigger->tgattr.values[0];
}

/*
 * Return the versions of the guard's triggers in the order of their names, then the version of the expression; 0 if
 * there is no guard
 */
static Datum
versions_of(Oid relation, bool is_placed)
{
	Relation	catalog = table_open(TriggerRelationId, AccessShareLock);
	Versions	versions = {.is_placed = is_placed};
	AttrNumber	column = 0;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_trigger_tgrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relation));
	scan = systable_beginscan(catalog, TriggerRelidNameIndexId, true, GetActiveSnapshot(), 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)) && versions.count < VERSIONS_MAX - 1)
		note_trigger(&versions, tuple, catalog, &column);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	if (column != 0)
		note_expression(&versions, relation, column);
	if (versions.count == 0)
		return (Datum) 0;
	return PointerGetDatum(construct_array(versions.numbers, versions.count, INT8OID, sizeof(int64), FLOAT8PASSBYVAL,
										   TYPALIGN_DOUBLE));
}

/* guarded(relation regclass, is_placed boolean) -> bigint[] */
Datum
guard_versions(PG_FUNCTION_ARGS)
{
	Datum		versions = versions_of(PG_GETARG_OID(0), PG_GETARG_BOOL(1));

	if (versions == (Datum) 0)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(versions);
}

/* Return the name and the type of a column, as a string; 0 if the column has a collation, or does not exist */
static Datum
column_definition(Oid relation, const char *name)
{
	AttrNumber	number = get_attnum(relation, name);
	Oid			type;
	int32		modifier;
	Oid			collation;

	if (number == InvalidAttrNumber)
		return (Datum) 0;
	get_atttypetypmodcoll(relation, number, &type, &modifier, &collation);
	if (OidIsValid(collation))
		return (Datum) 0;
	return CStringGetTextDatum(psprintf("%s %s", quote_identifier(name), format_type_with_typemod(type, modifier)));
}

/*
 * Set the columns that distinguish the rows of one transaction, in the format of order_definition() in
 * sql/ports/table.sql.  Return false if only order_definition() can do this, because a column has a collation, or
 * because an older snapshot may see other columns.
 */
static bool
define_order(const Table *table, Row *member)
{
	Datum	   *columns;
	int			count;

	deconstruct_array(table->reading.order_columns, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR, &columns, NULL, &count);
	for (int i = 0; i < count; i++)
	{
		const char *name = NameStr(*DatumGetName(columns[i]));

		if (table->reading.is_uuid)
			columns[i] = CStringGetTextDatum(psprintf("%s uuid", quote_identifier(name)));
		else
			columns[i] = IsolationUsesXactSnapshot() ? (Datum) 0 : column_definition(table->oid, name);
		if (columns[i] == (Datum) 0)
			return false;
	}
	if (count > 0)
		set_column(member, MEMBER_ORDERED_BY, PointerGetDatum(construct_array(columns, count, TEXTOID, -1, false, TYPALIGN_INT)));
	return true;
}

/*
 * Return the members of a table that has no partitions, in the active snapshot.  members() in sql/ports/table.sql
 * returns the same value. Return 0 if only members() can do this.
 */
Datum
plain_members(const Table *table)
{
	Oid			type = get_element_type(attribute_type("found_batch", "members"));
	SavedRole	saved = become_owner(); /* the settings of become_owner() determine how names are written */
	Datum		guarded = versions_of(table->oid, false);
	Row			row = empty_row();
	bool		is_defined = define_order(table, &row);
	Datum		member;

	set_column(&row, MEMBER_RELATION, ObjectIdGetDatum(table->oid));
	set_column(&row, MEMBER_NAME, CStringGetTextDatum(relation_name(table->oid)));
	set_column(&row, MEMBER_SYSTEM, CStringGetTextDatum(system_of_server()));
	set_column(&row, MEMBER_ATTACHED, PointerGetDatum(construct_empty_array(INT8OID)));
	if (guarded != (Datum) 0)
		set_column(&row, MEMBER_GUARDED, guarded);
	restore_role(saved);
	if (!is_defined)
		return (Datum) 0;
	member = row_datum(&row, MEMBER_COLUMNS, type);
	return PointerGetDatum(construct_array(&member, 1, type, -1, false, TYPALIGN_DOUBLE));
}
