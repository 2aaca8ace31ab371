/*
 * plan.c
 *	  Read the rows of a batch with a cached plan.
 *
 * Parsing and planning a query takes longer than reading a few hundred rows.  A batch that consists of ranges of keys
 * (bounds.c) is read by one of two queries, one for a single range, the other for several ranges.  The bounds are
 * parameters.  The session caches both plans, as it caches plans of foreign keys.  The plan cache notices changes of
 * the objects in the plan.  The executor checks the privileges of the caller, who may have lost them since the plan was
 * made.
 *
 * An invalid plan is created again from its query string.  The names in the string may then refer to other objects.
 * The query is therefore checked again (query.c), before and after it is planned.  As long as the proof of the table is
 * valid, these names refer to the table.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "nodes/params.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "ports/plan.h"
#include "ports/query.h"

/* Maximum number of plans that a session caches.  If it needs more, the least recently used plan is dropped. */
#define PLAN_SLOTS 64

typedef struct PlanSlot
{
	Oid			relation;
	bool		is_many;		/* for several ranges */
	char	   *text;			/* null if the slot is free */
	SPIPlanPtr	plan;
	/* number of the table's proof when the query string was built */
	uint64		proof_number;
	int			generation;		/* generation of the plan that was checked */
	uint64		used;			/* value of "uses" at the last use */
} PlanSlot;

static PlanSlot plan_slots[PLAN_SLOTS];
static uint64 uses = 0;

/* Return true if a cached plan can read the rows of a batch.  Sets "bounds" to the ranges of keys of the batch. */
bool
is_planned(const Table *table, HeapTupleHeader batch, Bounds *bounds)
{
	/*
	 * A query for many partitions has a condition for the partitions that have rows, and a query for a share has a
	 * condition for the share.  Such a query therefore differs from batch to batch.
	 */
	if (table->proof->leaf_count >= MANY_LEAVES || table->is_share || !bounds_of(table, batch, bounds))
		return false;
	/* Most rows of a table may have number 0.  Those rows are read using the primary key, without a cached plan. */
	return table->proof->reading.is_uuid || bounds->count == 0 || number_of_key(bounds->ranges[0].low, false) > 0;
}

static void
forget_plan(PlanSlot *slot)
{
	if (slot->text == NULL)
		return;
	pfree(slot->text);
	slot->text = NULL;
	(void) SPI_freeplan(slot->plan);	/* a running execution keeps the plan until it ends */
}

/* Find the slot of a plan.  For a new plan, return a free slot, or the slot of the least recently used plan. */
static PlanSlot *
slot_of(Oid relation, bool is_many)
{
	PlanSlot   *oldest = &plan_slots[0];

	for (int i = 0; i < PLAN_SLOTS; i++)
	{
		PlanSlot   *slot = &plan_slots[i];

		if (slot->text != NULL && slot->relation == relation && slot->is_many == is_many)
			return slot;
		if (oldest->text != NULL && (slot->text == NULL || slot->used < oldest->used))
			oldest = slot;
	}
	return oldest;
}

/* Build the list for ORDER BY: see known_columns() in sql/ports/table.sql */
static char *
order_of(const Reading *reading)
{
	StringInfoData list;
	Datum	   *columns;
	int			count;

	initStringInfo(&list);
	if (!reading->is_uuid)
		appendStringInfo(&list, "e.%s", quote_identifier(reading->key_column));
	deconstruct_array(reading->order_columns, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR, &columns, NULL, &count);
	for (int i = 0; i < count; i++)
		appendStringInfo(&list, "%se.%s", list.len > 0 ? ", " : "", quote_identifier(NameStr(*DatumGetName(columns[i]))));
	return list.data;
}

/*
 * Return the query for rows in ranges of keys.  Its two parameters are the bounds of one range, or arrays of the lower
 * and upper bounds of several ranges.  The comments of from_ranges() and between_keys() in sql/feed/query.sql explain
 * OFFSET 0 and the condition of a partial index.  Unlike other queries, this query does not name the row type of the
 * table, because the names in the query are checked each time before it is planned.
 */
static char *
text_for(const Table *table, bool is_many)
{
	const Reading *reading = &table->reading;
	const char *key = quote_identifier(reading->key_column);
	const char *low = is_many ? "b.low" : "$1";
	const char *high = is_many ? "b.high" : "$2";
	char	   *rows = psprintf("SELECT e.* FROM %s AS e WHERE e.%s OPERATOR(pg_catalog.>=) %s "
								"AND e.%s OPERATOR(pg_catalog.<) %s", relation_name(table->oid), key, low, key, high);

	if (reading->is_partial && !reading->is_uuid)
		rows = psprintf("%s AND e.%s OPERATOR(pg_catalog.>) '0'::pg_catalog.int8", rows, key);
	rows = psprintf("%s ORDER BY %s", rows, order_of(reading));
	if (!is_many)
		return rows;
	return psprintf("SELECT e.* FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2)) AS b(low, high) "
					"CROSS JOIN LATERAL (%s OFFSET 0) AS e", rows);
}

static Oid
type_of_bounds(const Table *table, bool is_many)
{
	if (table->proof->reading.is_uuid)
		return is_many ? UUIDARRAYOID : UUIDOID;
	return is_many ? INT8ARRAYOID : INT8OID;
}

static void
keep_plan(PlanSlot *slot, const Table *table, bool is_many, const char *text)
{
	Oid			type = type_of_bounds(table, is_many);
	SPIPlanPtr	plan = SPI_prepare_cursor(text, 2, (Oid[]) {type, type}, CURSOR_OPT_GENERIC_PLAN);
	char	   *copy;

	if (plan == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", text, SPI_result_code_string(SPI_result));
	forget_plan(slot);
	copy = MemoryContextStrdup(TopMemoryContext, text);
	(void) SPI_keepplan(plan);
	*slot = (PlanSlot) {table->oid, is_many, copy, plan};
}

static PlanSlot *
kept_plan(const Table *table, bool is_many)
{
	PlanSlot   *slot = slot_of(table->oid, is_many);
	bool		is_kept = slot->text != NULL && slot->relation == table->oid && slot->is_many == is_many;

	if (!is_kept || !table->proof->is_valid || slot->proof_number != table->proof->number)
	{
		uint64		number = table->proof->is_valid ? table->proof->number : 0;
		char	   *text = text_for(table, is_many);

		if (!is_kept || strcmp(slot->text, text) != 0)
			keep_plan(slot, table, is_many, text);
		slot->proof_number = number;
	}
	slot->used = ++uses;
	return slot;
}

/* Return the cached plan, or NULL if it is no longer valid.  The caller has locked the table with all partitions. */
static CachedPlan *
valid_plan(const PlanSlot *slot)
{
	CachedPlanSource *source = source_of(slot->plan);

	/*
	 * A plan that depends on the role, or on the transactions that were in
	 * progress when it was made, is not used again.
	 */
	if (source->gplan == NULL || source->generation != slot->generation || source->dependsOnRLS ||
		TransactionIdIsValid(source->gplan->saved_xmin) ||
		!CachedPlanIsSimplyValid(source, source->gplan, CurrentResourceOwner))
		return NULL;
	return source->gplan;
}

static CachedPlan *
made_plan(PlanSlot *slot, const Table *table)
{
	CachedPlanSource *source = source_of(slot->plan);
	int			nest = begin_planning();
	CachedPlan *plan;

	(void) CachedPlanGetTargetList(source, NULL);	/* parses the text again if necessary */
	check_query(linitial_node(Query, source->query_list), table);
	plan = SPI_plan_get_cached_plan(slot->plan);
	check_query(linitial_node(Query, source->query_list), table);
	slot->generation = plan->generation;
	AtEOXact_GUC(false, nest);
	return plan;
}

static Datum
bounds_array(const Bounds *bounds, bool is_uuid, bool high)
{
	Datum	   *keys = palloc(sizeof(Datum) * bounds->count);

	for (int i = 0; i < bounds->count; i++)
		keys[i] = key_datum(high ? bounds->ranges[i].high : bounds->ranges[i].low, is_uuid);
	return PointerGetDatum(is_uuid ? construct_array(keys, bounds->count, UUIDOID, UUID_LEN, false, TYPALIGN_CHAR) :
						   construct_array(keys, bounds->count, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

static ParamListInfo
parameters_of(const Table *table, const Bounds *bounds, bool is_many)
{
	ParamListInfo parameters = makeParamList(2);
	bool		is_uuid = table->proof->reading.is_uuid;

	for (int i = 0; i < 2; i++)
	{
		parameters->params[i] = (ParamExternData) {.ptype = type_of_bounds(table, is_many), .pflags = PARAM_FLAG_CONST};
		if (is_many)
			parameters->params[i].value = bounds_array(bounds, is_uuid, i == 1);
		else if (bounds->count == 1)
			parameters->params[i].value = key_datum(i == 0 ? bounds->ranges[0].low : bounds->ranges[0].high, is_uuid);
		else
			parameters->params[i].isnull = true;	/* no rows */
	}
	return parameters;
}

/* Execute a plan in the newest snapshot that the transaction can have */
static void
execute(CachedPlan *plan, const char *text, ParamListInfo parameters, DestReceiver *rows)
{
	QueryDesc  *query;

	CommandCounterIncrement();
	PushActiveSnapshot(GetTransactionSnapshot());
	query = CreateQueryDesc(linitial_node(PlannedStmt, plan->stmt_list), text, GetActiveSnapshot(), InvalidSnapshot,
							rows, parameters, NULL, 0);
	ExecutorStart(query, 0);
	run_executor(query);
	ExecutorFinish(query);
	ExecutorEnd(query);
	FreeQueryDesc(query);
	PopActiveSnapshot();
}

/* Send the rows in these ranges of keys to a destination */
void
run_planned(const Table *table, const Bounds *bounds, DestReceiver *rows)
{
	bool		is_many = bounds->count > 1;
	PlanSlot   *slot;
	CachedPlan *plan;
	char	   *text;

	SPI_connect();
	slot = kept_plan(table, is_many);
	plan = valid_plan(slot);
	if (plan == NULL)
		plan = made_plan(slot, table);
	/* Functions that the query calls may replace all cached plans. */
	text = pstrdup(slot->text);
	execute(plan, text, parameters_of(table, bounds, is_many), rows);
	ReleaseCachedPlan(plan, CurrentResourceOwner);
	SPI_finish();
}
