/*
 * count.c
 *	  Exact counts: what users call.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

#include "feed/feed.h"
#include "ports/ground.h"
#include "ports/probe.h"

PG_FUNCTION_INFO_V1(exact_count);
PG_FUNCTION_INFO_V1(exact_count_fold);
PG_FUNCTION_INFO_V1(exact_count_start);

static StateCall counted = {
	"SELECT s.t, (s.t).ordered FROM (SELECT inorder_internal.count_of_table($1, $2) AS t OFFSET 0) AS s"
};
static StateCall known_parts = {
	"SELECT k.leaves, k.others, k.stored FROM inorder_internal.known_parts($1) AS k", .stable = true
};
static StateCall count_text = {"SELECT inorder_internal.count_query($1, $2, $3, $4, $5, $6)", .stable = true};
static StateCall steps = {
	"SELECT pg_catalog.array_agg(s ORDER BY s.part), pg_catalog.array_agg(s.query ORDER BY s.part),"
	" pg_catalog.array_agg(s.fewer_gaps ORDER BY s.part)"
	" FROM inorder_internal.fold_steps($1, $2) AS s", .stable = true
};
static StateCall keep_part = {"SELECT inorder_internal.keep_part($1, ($2)[$3], $4)"};
static StateCall forget_parts = {"SELECT inorder_internal.forget_parts($1)"};
static StateCall start = {"SELECT inorder_internal.start_count($1)"};
static StateCall ensure_enabled = {"SELECT inorder_internal.ensure_enabled($1, $2, $3)"};
static StateCall check_owner = {"SELECT inorder_internal.check_owner($1, $2)"};

/* A table that the caller owns */
static Oid
owned_argument(FunctionCallInfo fcinfo, int number)
{
	Value		nothing;

	state_call(&check_owner, 2, (Value[]) {caller_value(), argument_value(fcinfo, number, REGCLASSOID)}, 1, &nothing);
	return PG_GETARG_OID(number);
}

static Table
open_counted(Oid relation)
{
	Table		table = {.oid = relation};
	Value		found[2];

	(void) lock_readable(relation);
	state_call(&counted, 2, (Value[]) {relation_value(relation), caller_value()}, 2, found);
	table.description = found[0];
	table.ordered = DatumGetBool(found[1].value);
	prove_ground(&table);
	return table;
}

/* Of some leaves, those that may have rows of transactions that were not counted: most of many have none */
static Value
wanted_parts(const Table *table, Value leaves, Value others)
{
	Datum	   *oids;
	Datum	   *sets;
	bool	   *unknown;
	int			count;
	int			at = 0;

	deconstruct_array(DatumGetArrayTypeP(leaves.value), OIDOID, sizeof(Oid), true, TYPALIGN_INT, &oids, NULL, &count);
	deconstruct_array(DatumGetArrayTypeP(others.value), INT8MULTIRANGEOID, -1, false, TYPALIGN_DOUBLE, &sets, &unknown, &count);
	for (int i = 0; i < count; i++)
	{
		bool		wanted;

		CHECK_FOR_INTERRUPTS();
		wanted = unknown[i] || !table->ordered || leaf_has(table->ground, DatumGetObjectId(oids[i]), &at, sets[i]);
		oids[i] = BoolGetDatum(wanted);
	}
	return value_of(PointerGetDatum(construct_array(oids, count, BOOLOID, 1, true, TYPALIGN_CHAR)), BOOLARRAYOID);
}

/* The query that counts a table in the active snapshot */
static char *
count_query(const Table *table)
{
	Value		known[3];
	Value		query;

	state_call(&known_parts, 1, &table->description, 3, known);
	state_call(&count_text, 6,
			   (Value[]) {table->description, caller_value(), known[0], known[1], known[2],
			   wanted_parts(table, known[0], known[1])}, 1, &query);
	return text_of(query);
}

/* exact_count(relation regclass) -> bigint; in the snapshot of the calling statement, which may be older than our lock */
Datum
exact_count(PG_FUNCTION_ARGS)
{
	Table		table = open_counted(PG_GETARG_OID(0));
	int64		rows;

	check_files(table.ground, GetActiveSnapshot());
	rows = query_count(&table, count_query(&table), false);
	check_ground(&table);
	PG_RETURN_INT64(rows);
}

/* Count what is new in one part, and store it if it is worth the writing; returns how many rows */
static int64
fold_part(const Table *table, Value all_steps, int number, const char *query, bool fewer_gaps)
{
	int64		rows = query_count(table, query, true);
	Value		nothing;

	if (rows > 0 || fewer_gaps)
		state_call(&keep_part, 4,
				   (Value[]) {relation_value(table->oid), all_steps,
				   value_of(Int32GetDatum(number), INT4OID), number_value(rows)}, 1, &nothing);
	return rows;
}

/* One snapshot for the set and for all rows: what has ended in it is visible in it. */
static int64
fold(Oid relation)
{
	Table		table = open_counted(relation);
	Value		found[3];
	Datum	   *queries;
	Datum	   *fewer_gaps;
	int			amount;
	int64		folded = 0;

	PushActiveSnapshot(GetTransactionSnapshot());
	check_files(table.ground, GetActiveSnapshot());
	state_call(&steps, 2, (Value[]) {table.description, caller_value()}, 3, found);
	if (!found[0].null)
	{
		deconstruct_array(DatumGetArrayTypeP(found[1].value), TEXTOID, -1, false, TYPALIGN_INT, &queries, NULL, &amount);
		deconstruct_array(DatumGetArrayTypeP(found[2].value), BOOLOID, 1, true, TYPALIGN_CHAR, &fewer_gaps, NULL, &amount);
		for (int i = 0; i < amount; i++)
		{
			CHECK_FOR_INTERRUPTS();
			folded += fold_part(&table, found[0], i + 1, TextDatumGetCString(queries[i]), DatumGetBool(fewer_gaps[i]));
		}
	}
	PopActiveSnapshot();
	check_ground(&table);
	return folded;
}

/* Sessions that fold take turns; sessions that count or write do not wait. */
static int64
take_turn(Oid relation)
{
	Value		nothing;

	state_lock("count_part", relation);
	state_call(&forget_parts, 1, (Value[]) {relation_value(relation)}, 1, &nothing);
	return fold(relation);
}

/* exact_count_fold(relation regclass) -> bigint */
Datum
exact_count_fold(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(take_turn(owned_argument(fcinfo, 0)));
}

/* exact_count_start(relation regclass, key_column name) -> bigint */
Datum
exact_count_start(PG_FUNCTION_ARGS)
{
	Oid			relation = owned_argument(fcinfo, 0);
	Value		nothing;

	state_call(&ensure_enabled, 3, (Value[]) {caller_value(), relation_value(relation), argument_value(fcinfo, 1, NAMEOID)}, 1, &nothing);
	state_call(&start, 1, (Value[]) {relation_value(relation)}, 1, &nothing);
	PG_RETURN_INT64(take_turn(relation));
}
