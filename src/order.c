/*
 * order.c
 *	  Delivery in the order of a column: the pieces of a frozen set.
 *
 * Why the order is right is said in sql/order.sql.  Here the column is checked,
 * and the next piece is found: the rows of the set from one value on, at most so
 * many.  There are two ways.  The index of the column may be walked from the
 * first value on, leaving out the rows of other transactions: good where the
 * set is most of what is there, as in a backlog.  Or the rows of the set are
 * fetched by number and sorted: good where they are few.  Neither the planner
 * nor statistics know which is better, so each in turn is given a budget of
 * rows, which grows until one of them suffices: the search costs a small
 * multiple of the better one.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/pg_sequence.h"
#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "column.h"
#include "ground.h"
#include "order.h"
#include "probe.h"

static StateCall order_state = {
	"SELECT s.column_name, s.attnum FROM inorder_internal.order_state($1) AS s"
};
static StateCall check_column = {"SELECT inorder_internal.check_order_column($1, $2)"};
static StateCall first_rows_text = {"SELECT inorder_internal.first_rows_query($1, $2, $3, $4, $5, $6)"};
static StateCall exhausted_text = {"SELECT inorder_internal.exhausted_query($1, $2, $3, $4, $5)"};
static StateCall set_size_text = {"SELECT inorder_internal.set_size_query($1, $2, $3)"};
static StateCall lowest_text = {"SELECT inorder_internal.lowest_query($1, $2, $3, $4)"};
static StateCall highest_text = {"SELECT inorder_internal.highest_query($1, $2)"};
static StateCall cut = {"SELECT inorder_internal.cut_ordered($1, $2, $3, $4)"};

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

/* Of a new position */
void
prove_new_order(const Table *table, const char *column)
{
	AttrNumber	number = existing_column(table, column);

	prove_column_order(table, value_of(CStringGetTextDatum(column), TEXTOID), number);
}

/* Of a position; error if the column is not what it was, or can no longer give an order */
void
prove_order_column(const Table *table, const Order *order)
{
	AttrNumber	number = DatumGetInt16(order->number.value);

	if (number <= 0 || get_attnum(table->oid, text_of(order->column)) != number)
		refuse_column(text_of(order->column), table->oid, "is not the one by which its feed is ordered", USE,
					  "It was renamed, dropped or made anew: give the table that column back. Or go on by feed_seek(), which takes the column that has the name now.");
	prove_column_order(table, order->column, number);
}

/* Of a batch that was made before */
void
prove_batch_order(const Table *table, Value batch)
{
	Value		found[2];

	state_call(&order_state, 1, &batch, 2, found);
	prove_order_column(table, &(Order) {.column = found[0], .number = found[1]});
}

/* The search for a piece */
typedef struct Search
{
	const Table *table;
	Value		batch;			/* all that is left of the set */
	Value		numbers;		/* its transactions */
	Value		column;
	Value		from;			/* where the index is walked from; null to find rows by number */
	Value		up_to;			/* where it ends */
	int64		max_rows;
} Search;

/* The first rows of what is left */
typedef struct First
{
	int64		count;			/* at most one more than are wanted */
	Value		lowest;
	Value		highest;
} First;

static Value
no_number(void)
{
	return null_of(INT8OID);
}

/* A number that a query finds; null if it has no row */
static Value
find_number(const Search *search, StateCall *text, int count, const Value *arguments)
{
	Value		query;
	Value		number;

	state_call(text, count, arguments, 1, &query);
	return query_row_in_order(search->table, text_of(query), 1, &number) ? number : no_number();
}

/* No row of transactions that have ended is above this value, now and later */
static Value
highest_value(const Search *search)
{
	return find_number(search, &highest_text, 2, (Value[]) {search->table->description, search->column});
}

static Value
lowest_value(const Search *search, int64 least)
{
	return find_number(search, &lowest_text, 4,
					   (Value[]) {search->table->description, search->batch, search->column, number_value(least)});
}

static First
first_rows(const Search *search, Value budget)
{
	Value		query;
	Value		found[3];

	state_call(&first_rows_text, 6,
			   (Value[]) {search->table->description, search->batch, search->from, search->up_to, budget,
			   number_value(search->max_rows + 1)}, 1, &query);
	if (!query_row_in_order(search->table, text_of(query), 3, found))
		elog(ERROR, "the set has no first rows");
	return (First) {DatumGetInt64(found[0].value), found[1], found[2]};
}

/* Whether there is more to walk than the budget */
static bool
is_exhausted(const Search *search, int64 budget)
{
	return !find_number(search, &exhausted_text, 5,
						(Value[]) {search->table->description, search->column, search->from, search->up_to,
						number_value(budget)}).null;
}

/* The number of rows of the whole set, at most the budget */
static int64
set_size(const Search *search, int64 budget)
{
	if (can_count(search->table, search->numbers))
		return probe_count(search->table, search->numbers, budget);
	return DatumGetInt64(find_number(search, &set_size_text, 3,
									 (Value[]) {search->table->description, search->batch, number_value(budget)}).value);
}

/* To walk too far costs less than to begin anew: where the set is most of what is there, a walk ends before. */
static int64
first_budget(const Search *search)
{
	return 100 + 16 * search->max_rows;
}

/* Walk the index, or fetch the set by number, whichever ends first; search->from says which did */
static First
first_by_either(Search *search)
{
	for (int64 budget = first_budget(search);; budget *= 4)
	{
		First		first = first_rows(search, number_value(budget));

		CHECK_FOR_INTERRUPTS();
		if (first.count > search->max_rows || !is_exhausted(search, budget))
			return first;
		if (set_size(search, budget) < budget)
			break;
	}
	search->from = no_number();
	return first_rows(search, no_number());
}

/* Where a set begins is known if there is nothing else; otherwise few rows are fetched by number, and for many it is found out */
static First
first_of_set(Search *search, bool nothing_read)
{
	if (nothing_read)
		search->from = number_value(PG_INT64_MIN);
	else if (set_size(search, first_budget(search)) < first_budget(search))
		return first_rows(search, no_number());
	else
		search->from = lowest_value(search, PG_INT64_MIN);
	search->up_to = highest_value(search);
	if (search->from.null || search->up_to.null)
		return (First) {0};
	return first_by_either(search);
}

/* The value at which the next piece begins; null if this one has all that is left.  Rows of one value are not split. */
static Value
next_value(const Search *search, First first)
{
	if (first.count <= search->max_rows)
		return no_number();
	if (DatumGetInt64(first.highest.value) > DatumGetInt64(first.lowest.value))
		return first.highest;
	if (DatumGetInt64(first.highest.value) == PG_INT64_MAX)
		return no_number();
	return lowest_value(search, DatumGetInt64(first.highest.value) + 1);
}

/* Limit an ordered batch to so many rows; returns whether it has any */
static bool
cut_at(Search *search, const Order *order, bool nothing_read, Value *next)
{
	First		first;

	if (order->resumed_from.null)
		first = first_of_set(search, nothing_read);
	else
		first = first_by_either(search);
	*next = next_value(search, first);
	if (!next->null && search->up_to.null)
		search->up_to = highest_value(search);
	return first.count > 0;
}

/*
 * Limit an ordered batch to so many rows, if any, and choose how its rows are
 * found; returns whether it has rows, or may have where there is no limit.
 */
bool
cut_ordered(const Table *table, Value *batch, Value numbers, const Order *order, Value max_rows, bool nothing_read)
{
	Search		search = {table, *batch, numbers, order->column, order->resumed_from, order->up_to, 0};
	Value		next = no_number();
	bool		has_rows = true;

	if (!max_rows.null)
	{
		search.max_rows = DatumGetInt32(max_rows.value);
		has_rows = cut_at(&search, order, nothing_read, &next);
	}
	else if (nothing_read && search.from.null)
		search.from = number_value(PG_INT64_MIN);
	state_call(&cut, 4, (Value[]) {search.batch, search.from, search.up_to, next}, 1, batch);
	return has_rows;
}
