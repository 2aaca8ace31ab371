/*
 * leaf.c
 *	  What is proved of a table that holds rows, as the relation cache has it.
 *
 * Each has triggers and indexes of its own: that the table above it is as it
 * should be says nothing.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/transam.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class_d.h"
#include "catalog/pg_index.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type_d.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "names.h"
#include "ports/leaf.h"

/* What to do about it is the same for all of these. */
static void
refuse(Oid root, Relation leaf, const char *fault, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("table %s %s", relation_name(RelationGetRelid(leaf)), fault),
			 errdetail("%s", detail),
			 errhint("Let the owner call feed_enable(%s).", quote_literal_cstr(relation_name(root)))));
}

static const char *
column_text(const char *format, const char *column)
{
	return psprintf(format, quote_identifier(column));
}

Guard
guard_of(const Reading *reading, const Facts *facts)
{
	return (Guard) {
		.columns = facts->columns, .is_uuid = reading->is_uuid, .is_generated = reading->is_generated,
		.base = reading->base, .function = facts->guard
	};
}

/* A generated column has its value after all triggers. */
static void
prove_last(Relation leaf, const Reading *reading, const Facts *facts)
{
	if (reading->is_generated)
		return;
	refuse_later_trigger(leaf, "zz_inorder_guard", facts->guard, TRIGGER_TYPE_INSERT);
	refuse_later_trigger(leaf, "zz_inorder_update", facts->guard, TRIGGER_TYPE_UPDATE);
}

/* Error unless a table, or a partition of root, has the guard */
void
prove_guard(Relation leaf, const Reading *reading, const Facts *facts, Oid root)
{
	Guard		guard = guard_of(reading, facts);

	prove_last(leaf, reading, facts);
	if (!guard_stands(leaf, &guard))
		refuse(root, leaf, column_text("has lost the guard of column %s", reading->key_column),
			   "Its triggers were disabled, dropped or changed. Rows that came meanwhile may have numbers that readers have passed.");
}

static Oid
method_of(Oid operator_class)
{
	HeapTuple	tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(operator_class));
	Oid			method = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		method = ((Form_pg_opclass) GETSTRUCT(tuple))->opcmethod;
		ReleaseSysCache(tuple);
	}
	return method;
}

/* Btree and BRIN call >= number 4; a bloom filter knows equality only. */
static bool
finds_ranges(Oid operator_class)
{
	Oid			type = get_opclass_input_type(operator_class);

	return OidIsValid(get_opfamily_member(get_opclass_family(operator_class), type, type, BTGreaterEqualStrategyNumber));
}

/* How well an index finds rows by a column: 2 for a btree, 1 for BRIN, 0 not at all */
static int
rank_of(HeapTuple tuple, AttrNumber column)
{
	Form_pg_index index = (Form_pg_index) GETSTRUCT(tuple);
	bool		is_null;
	Datum		classes = SysCacheGetAttr(INDEXRELID, tuple, Anum_pg_index_indclass, &is_null);
	Oid			first = ((oidvector *) DatumGetPointer(classes))->values[0];

	/* Of all rows, and compared as the server does */
	if (!index->indisvalid || index->indkey.values[0] != column || first >= FirstNormalObjectId ||
		!heap_attisnull(tuple, Anum_pg_index_indpred, NULL))
		return 0;
	if (!finds_ranges(first))
		return 0;
	return method_of(first) == BTREE_AM_OID ? 2 : method_of(first) == BRIN_AM_OID ? 1 : 0;
}

static int
index_rank(Oid index, AttrNumber column)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	int			result;

	if (!HeapTupleIsValid(tuple))
		return 0;
	result = rank_of(tuple, column);
	ReleaseSysCache(tuple);
	return result;
}

/* The index by which the rows of a table, or of a partition of root, are found; error if there is none */
Oid
prove_leaf(Relation leaf, const Reading *reading, Oid root)
{
	AttrNumber	key = get_attnum(RelationGetRelid(leaf), reading->key_column);
	Oid			best = InvalidOid;
	int			best_rank = reading->ordered ? 1 : 0;
	ListCell   *cell;

	foreach(cell, RelationGetIndexList(leaf))
	{
		int			this_rank = index_rank(lfirst_oid(cell), key);

		if (this_rank > best_rank)
		{
			best = lfirst_oid(cell);
			best_rank = this_rank;
		}
	}
	if (!OidIsValid(best))
		refuse(root, leaf,
			   column_text(reading->ordered ? "has no valid btree index any more that begins with column %s" :
						   "has no valid index any more that begins with column %s", reading->key_column),
			   "Each read would look at all of its rows.");
	return best;
}
