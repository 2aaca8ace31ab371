/*
 * order.c
 *	  Whether rows have an order by a column: why it is right is said in sql/feed/order.sql.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/pg_sequence.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "ports/column.h"
#include "ports/ground.h"

PG_FUNCTION_INFO_V1(prove_order_column);

static StateCall check_column = {"SELECT inorder_internal.check_order_column($1, $2)"};

#define USE "Its feed delivers rows in the order of that column."

static bool
has_btree(Relation leaf, AttrNumber column)
{
	ListCell   *cell;

	foreach(cell, RelationGetIndexList(leaf))
		if (index_rank(lfirst_oid(cell), column) == BTREE_RANK)
			return true;
	return false;
}

/* What must hold for the column of the table and of each partition: then all rows have a place in its order */
static void
prove_column(Relation relation, AttrNumber number, const char *column, Oid root)
{
	Form_pg_attribute attribute = TupleDescAttr(RelationGetDescr(relation), number - 1);
	Oid			oid = RelationGetRelid(relation);

	if (attribute->atttypid != INT8OID && attribute->atttypid != INT4OID && attribute->atttypid != INT2OID)
		refuse_column(column, oid, "is not a smallint, integer or bigint", USE,
					  "Choose another column, or give it such a type.");
	if (attribute->attgenerated != '\0')
		refuse_column(column, oid, "is generated", USE, "Choose a column whose values are drawn from a sequence.");
	prove_not_null(relation, number, column, root, USE);
	if (relation->rd_rel->relkind == RELKIND_RELATION && !has_btree(relation, number))
		refuse_column(column, oid, "is not the first one of a valid btree index", USE,
					  psprintf("CREATE INDEX ON %s (%s)", relation_name(root), quote_identifier(column)));
}

/* Whether a sequence still gives values in the order in which they are drawn; there may be none */
static bool
is_right_sequence(Oid sequence)
{
	HeapTuple	tuple = OidIsValid(sequence) ? SearchSysCache1(SEQRELID, ObjectIdGetDatum(sequence)) : NULL;
	bool		result = !OidIsValid(sequence);

	if (HeapTupleIsValid(tuple))
	{
		Form_pg_sequence form = (Form_pg_sequence) GETSTRUCT(tuple);

		result = form->seqcache == 1 && form->seqincrement > 0 && !form->seqcycle;
		ReleaseSysCache(tuple);
	}
	return result;
}

/*
 * Error unless rows have an order by the column.  What is proved is kept with
 * the ground: the server invalidates the table and its indexes, and the
 * sequence is looked at each time.
 */
static void
prove_column_order(const Table *table, Value column, AttrNumber number)
{
	struct Ground *ground = table->ground;
	Value		sequence;

	if (ground->stands && ground->order_column == number && is_right_sequence(ground->order_sequence))
		return;
	prove_in_tree(table, text_of(column), prove_column);
	state_call(&check_column, 2, (Value[]) {table->description, column}, 1, &sequence);
	ground->order_column = number;
	ground->order_sequence = sequence.null ? InvalidOid : DatumGetObjectId(sequence.value);
}

/* prove_order_column(t feed_table, column_name name, caller oid) */
Datum
prove_order_column(PG_FUNCTION_ARGS)
{
	Table		table = described_table(fcinfo, 2);

	const char *column = NameStr(*PG_GETARG_NAME(1));

	prove_column_order(&table, value_of(CStringGetTextDatum(column), TEXTOID), existing_column(&table, column));
	PG_RETURN_VOID();
}
