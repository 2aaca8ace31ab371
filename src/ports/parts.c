/*
 * parts.c
 *	  Restrict queries to the partitions that have rows.
 *
 * Planning a query over 1,000 partitions takes 45 ms, even if few of them have
 * rows of a batch.  A search in an index takes a few microseconds to find out
 * whether its partition has such rows.  The query names the table and not the
 * partitions, because a reader need not have privileges on partitions.  The
 * query therefore gets a condition on the partition key: a condition that is
 * true in all partitions that have rows of the batch.  The planner prunes
 * partitions in which the condition cannot be true.
 *
 * The condition is made from the bounds of range and list partitions, and
 * compares the first column of each partition key.  The condition need not be
 * exact: rows of other partitions may also satisfy it.
 *
 * The bounds are constants of the server's types, and are read from the catalog.
 * The relation cache and pg_get_partition_constraintdef() would simplify the
 * expressions in the partition keys of all parents, and thereby run functions of
 * the owner of the table.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/partition.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "catalog/pg_partitioned_table.h"
#include "catalog/pg_type_d.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/multirangetypes.h"
#include "utils/syscache.h"

#include "ports/table.h"

PG_FUNCTION_INFO_V1(partition_bounds);

/*
 * All partitions are read if more than PARTS_MAX of them, or more than a quarter
 * of them, have rows, or if a list has more than VALUES_MAX values.
 */
#define PARTS_MAX 64
#define VALUES_MAX 64

/*
 * Types of partition keys whose values can be written as literals.  With the settings below, a literal represents the
 * same value in every session.
 */
static const struct
{
	Oid			type;
	const char *name;
}			types[] = {
	{INT2OID, "int2"}, {INT4OID, "int4"}, {INT8OID, "int8"}, {NUMERICOID, "numeric"}, {OIDOID, "oid"}, {BOOLOID, "bool"},
	{UUIDOID, "uuid"}, {DATEOID, "date"}, {TIMESTAMPOID, "timestamp"}, {TIMESTAMPTZOID, "timestamptz"},
	{TEXTOID, "text"}, {VARCHAROID, "varchar"}, {BPCHAROID, "bpchar"}
};
static const char *const text_settings[][2] = {{"datestyle", "ISO"}, {"timezone", "UTC"}};

static const char *
type_name(Oid type)
{
	for (int i = 0; i < lengthof(types); i++)
		if (types[i].type == type)
			return types[i].name;
	return NULL;
}

static Oid
first_of(HeapTuple key, AttrNumber attribute)
{
	bool		is_null;

	return ((oidvector *) DatumGetPointer(SysCacheGetAttr(PARTRELID, key, attribute, &is_null)))->values[0];
}

/*
 * Return the first column of the partition key of a table; NULL unless the key and a query compare values of this
 * column in the same way.  The key is read from the catalog, because the relation cache would evaluate the owner's
 * expressions in the key.
 */
static const char *
key_column(Oid table)
{
	HeapTuple	key = SearchSysCache1(PARTRELID, ObjectIdGetDatum(table));
	Form_pg_partitioned_table form;
	const char *result = NULL;
	AttrNumber	column;
	Oid			type;
	Oid			collation;
	int32		modifier;

	if (!HeapTupleIsValid(key))
		return NULL;
	form = (Form_pg_partitioned_table) GETSTRUCT(key);
	column = form->partattrs.values[0];
	if (form->partstrat != PARTITION_STRATEGY_HASH && column != 0)
	{
		get_atttypetypmodcoll(table, column, &type, &modifier, &collation);
		if (type_name(type) != NULL && first_of(key, Anum_pg_partitioned_table_partcollation) == collation &&
			get_opclass_family(first_of(key, Anum_pg_partitioned_table_partclass)) ==
			get_opclass_family(GetDefaultOpClass(type, BTREE_AM_OID)))
			result = quote_identifier(get_attname(table, column, false));
	}
	ReleaseSysCache(key);
	return result;
}

static PartitionBoundSpec *
bound_of(Oid partition)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(partition));
	PartitionBoundSpec *bound = NULL;
	bool		null = true;
	Datum		stored;

	if (!HeapTupleIsValid(tuple))
		return NULL;
	stored = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_relpartbound, &null);
	if (!null)
		bound = stringToNode(TextDatumGetCString(stored));
	ReleaseSysCache(tuple);
	return bound == NULL || bound->is_default ? NULL : bound;
}

/* Append a comparison of the column with a value; false if the value cannot be written as a literal */
static bool
compare(StringInfo to, const char *column, const char *operator, const Const *value)
{
	const char *type = type_name(value->consttype);
	Oid			output;
	bool		is_varlena;

	if (type == NULL || value->constisnull)
		return false;
	getTypeOutputInfo(value->consttype, &output, &is_varlena);
	appendStringInfo(to, "e.%s OPERATOR(pg_catalog.%s) %s::pg_catalog.%s", column, operator,
					 quote_literal_cstr(OidOutputFunctionCall(output, value->constvalue)), type);
	return true;
}

static bool
compare_bound(StringInfo to, const char *column, const char *operator, List *bounds)
{
	PartitionRangeDatum *first = linitial(bounds);

	if (first->kind != PARTITION_RANGE_DATUM_VALUE)
		return false;
	return compare(to, column, operator, castNode(Const, first->value));
}

static bool
compare_values(StringInfo to, const char *column, List *values)
{
	ListCell   *cell;

	if (list_length(values) > VALUES_MAX)
		return false;
	foreach(cell, values)
	{
		Const	   *value = castNode(Const, lfirst(cell));

		if (cell != list_head(values))
			appendStringInfoString(to, " OR ");
		if (value->constisnull)
			appendStringInfo(to, "e.%s IS NULL", column);
		else if (!compare(to, column, "=", value))
			return false;
	}
	return true;
}

/*
 * Return a condition that the rows of a partition satisfy because of the partition's bound; NULL if no condition is
 * known
 */
static char *
bound_condition(Oid partition, Oid parent)
{
	const char *column = key_column(parent);
	PartitionBoundSpec *bound = column == NULL ? NULL : bound_of(partition);
	StringInfoData low;
	StringInfoData high;
	bool		is_known = false;

	initStringInfo(&low);
	initStringInfo(&high);
	if (bound != NULL && bound->strategy == PARTITION_STRATEGY_LIST)
		is_known = compare_values(&low, column, bound->listdatums);
	else if (bound != NULL)
	{
		bool		has_low = compare_bound(&low, column, ">=", bound->lowerdatums);
		bool		has_high = compare_bound(&high, column, list_length(bound->upperdatums) == 1 ? "<" : "<=", bound->upperdatums);

		is_known = has_low || has_high;
		if (has_high)
			appendStringInfo(&low, "%s%s", has_low ? " AND " : "", high.data);
	}
	return is_known ? psprintf("(%s)", low.data) : NULL;
}

/*
 * Return a condition that the rows of a leaf satisfy because of the bounds of the leaf and of the partitions above it;
 * NULL if no condition is known
 */
static char *
leaf_condition(Oid leaf, Oid root)
{
	char	   *result = NULL;

	for (Oid partition = leaf; partition != root;)
	{
		Oid			parent = get_rel_relispartition(partition) ? get_partition_parent(partition, true) : InvalidOid;
		char	   *condition;

		if (!OidIsValid(parent))
			return NULL;
		condition = bound_condition(partition, parent);
		if (condition != NULL)
			result = result == NULL ? condition : psprintf("%s AND %s", condition, result);
		partition = parent;
	}
	return result;
}

/*
 * Return a condition that all rows of the chosen leaves satisfy; NULL if there are too many leaves, or if no condition
 * is known for a leaf
 */
static char *
condition_of(const TableProof *proof, const bool *has_rows)
{
	StringInfoData text;
	int			count = 0;

	initStringInfo(&text);
	for (int i = 0; i < proof->leaf_count; i++)
	{
		char	   *condition;

		CHECK_FOR_INTERRUPTS();
		if (!has_rows[i])
			continue;
		condition = ++count > PARTS_MAX || count > proof->leaf_count / 4 ? NULL :
			leaf_condition(proof->leaves[i].oid, proof->relation);
		if (condition == NULL)
			return NULL;
		appendStringInfo(&text, "%s(%s)", count > 1 ? " OR " : "", condition);
	}
	return count == 0 ? "false" : text.data;
}

static int
begin_writing(void)
{
	int			nest = NewGUCNestLevel();

	for (int i = 0; i < lengthof(text_settings); i++)
		(void) set_config_option(text_settings[i][0], text_settings[i][1], PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
								 true, 0, false);
	return nest;
}

/* partition_bounds(relation regclass, member regclass) -> text: a condition for a leaf; "true" if none is known */
Datum
partition_bounds(PG_FUNCTION_ARGS)
{
	int			nest = begin_writing();
	char	   *condition = leaf_condition(PG_GETARG_OID(1), PG_GETARG_OID(0));

	AtEOXact_GUC(false, nest);
	PG_RETURN_TEXT_P(cstring_to_text(condition == NULL ? "true" : condition));
}

/*
 * Store the condition of the leaves that have rows of these transactions, for
 * the duration of this call.  No other leaf gets such rows during the call,
 * because the transactions have ended.
 */
void
keep_parts(const Table *table, Value numbers, const bool *has_rows)
{
	TableProof *proof = table->proof;
	int			nest = begin_writing();
	char	   *condition = condition_of(proof, has_rows);
	MemoryContext old;

	AtEOXact_GUC(false, nest);
	forget_parts_of(proof);
	proof->parts.memory = AllocSetContextCreate(proof->memory, "inorder: partitions that have rows", ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(proof->parts.memory);
	proof->parts.numbers = datumCopy(numbers.value, false, -1);
	proof->parts.condition = condition == NULL ? NULL : pstrdup(condition);
	MemoryContextSwitchTo(old);
}

/* Forget the condition, because the next call may read other transactions. */
void
forget_parts_of(TableProof *proof)
{
	if (proof->parts.memory != NULL)
		MemoryContextDelete(proof->parts.memory);
	proof->parts = (Parts) {NULL};
}

bool
parts_are_known(const Parts *parts, Numbers set)
{
	return parts->memory != NULL && difference(set, numbers_of(DatumGetMultirangeTypeP(parts->numbers))).count == 0;
}
