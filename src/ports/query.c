/*
 * query.c
 *	  Queries over one table, with the privileges of the caller.
 *
 * Internal functions (sql/feed/query.sql) and plan.c generate the query strings.  The parse tree of each query is
 * checked before the query is planned.  The query may read only the given table, the second table of a query for
 * changes, and partitions of these tables.  Row security must not have added a condition to the query.  The query may
 * call only immutable functions of the server, concat(), and feed_is_table(), the function of the extension that checks
 * the name of the table.  The caller therefore never executes a view that has replaced the table, nor a user-defined
 * function, operator or cast.  Volatile functions of the server are refused, because some of them can execute any SQL
 * (ts_stat, query_to_xml, table_to_xml).
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type_d.h"
#include "commands/extension.h"
#include "executor/tstoreReceiver.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "tcop/dest.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"
#include "utils/syscache.h"

#include "compat.h"
#include "ports/query.h"
#include "keys/uuid_datum.h"

PG_FUNCTION_INFO_V1(as_caller);
PG_FUNCTION_INFO_V1(count_as_caller);
PG_FUNCTION_INFO_V1(run_statements);
PG_FUNCTION_INFO_V1(feed_is_table);

/* A setting that restricts the planner, or determines how values are written */
typedef struct Setting
{
	const char *name;
	const char *value;
} Setting;

/*
 * Settings for counts.  With outdated statistics, the planner might otherwise use
 * JIT compilation for ten rows.
 */
static const Setting counting[] = {
	{"search_path", "pg_catalog, pg_temp"},
	{"jit", "off"},
	{"enable_memoize", "off"},
	{"enable_seqscan", "on"},		/* become_owner() sets "off" */
	{"constraint_exclusion", "off"},	/* otherwise the owner's CHECK constraints are evaluated */
	{NULL, NULL}
};

/* Settings for reading a batch in the order of the index */
static const Setting planning[] = {
	{"jit", "off"},
	{"enable_memoize", "off"},
	{"constraint_exclusion", "off"},
	{"max_parallel_workers_per_gather", "0"},
	{"enable_seqscan", "off"},
	{"enable_bitmapscan", "off"},
	{NULL, NULL}
};

/*
 * Settings for the output of values.  Each session must read this output as the same value, because a batch stores the
 * key of its last row.
 */
static const Setting reading[] = {
	{"search_path", "pg_catalog, pg_temp"},
	{"datestyle", "ISO"},
	{"timezone", "UTC"},
	{"intervalstyle", "iso_8601"},
	{"extra_float_digits", "1"},
	{"bytea_output", "hex"},
	{NULL, NULL}
};

/*
 * Settings for reading the first rows in the order of an index.  If the planner
 * expects few rows, it might otherwise fetch and sort all rows of the range.
 */
static const Setting walking[] = {{"enable_sort", "off"}, {"enable_incremental_sort", "on"}, {NULL, NULL}};
static const Setting no_settings[] = {{NULL, NULL}};

static const Setting defining[] = {{"search_path", "pg_catalog, pg_temp"}, {"client_min_messages", "warning"}, {NULL, NULL}};

static void
apply_settings(const Setting *settings)
{
	for (const Setting *s = settings; s->name != NULL; s++)
		(void) set_config_option(s->name, s->value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/* Begin a nest level of settings for planning a query whose names do not depend on the search_path */
int
begin_planning(void)
{
	int			nest = NewGUCNestLevel();

	apply_settings(planning);
	return nest;
}

static int
begin_settings(const Table *table, const Setting *settings)
{
	int			nest = NewGUCNestLevel();

	apply_settings(settings);
	if (settings == reading)
		apply_settings(planning);
	return nest;
}

/*
 * Return true if a query over a table may read this relation.  A partition that is being detached no longer has
 * ancestors, but older snapshots still read it; the proof of the table includes this partition.
 */
static bool
belongs_to(Oid relation, const Table *table)
{
	char		kind = get_rel_relkind(relation);
	List	   *ancestors;

	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
		return false;
	if (relation == table->oid || relation == table->joined || (table->proof != NULL && in_tree(table->proof, relation)))
		return true;
	ancestors = get_rel_relispartition(relation) ? get_partition_ancestors(relation) : NIL;
	return list_member_oid(ancestors, table->oid) ||
		(OidIsValid(table->joined) && list_member_oid(ancestors, table->joined));
}

/*
 * Return true for the function feed_is_table() of the extension.  Other roles, even superusers, may have created other
 * functions of this name.
 */
static bool
is_own_function(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Form_pg_proc form;
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_proc) GETSTRUCT(tuple);
	result = strcmp(NameStr(form->proname), "feed_is_table") == 0 && superuser_arg(form->proowner) &&
		getExtensionOfObject(ProcedureRelationId, function) == get_extension_oid("inorder", true);
	ReleaseSysCache(tuple);
	return result;
}

/*
 * Return true if a query must not call this function.  concat() is stable, but depends only on settings that are set
 * here.
 */
static bool
is_foreign_function(Oid function, void *context)
{
	if (function >= FirstNormalObjectId)
		return !is_own_function(function);
	return func_volatile(function) != PROVOLATILE_IMMUTABLE && function != F_CONCAT;
}

/*
 * Return true if a query must not read this range table entry.  The subquery that replaces a view has the view's OID.
 */
static bool
is_foreign_entry(RangeTblEntry *entry, const Table *table)
{
	return (OidIsValid(entry->relid) && !belongs_to(entry->relid, table)) || entry->securityQuals != NIL;
}

/* Return true if the query contains anything that is not allowed */
static bool
has_foreign(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
		return is_foreign_entry((RangeTblEntry *) node, context);
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, has_foreign, context, QTW_EXAMINE_RTES_BEFORE);
	return check_functions_in_node(node, is_foreign_function, NULL) ||
		expression_tree_walker(node, has_foreign, context);
}

void
check_query(Query *query, const Table *table)
{
	if (query->commandType == CMD_SELECT && !has_foreign((Node *) query, (void *) table))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("table with OID %u cannot be read safely", table->oid),
			 errdetail("The name of the table refers to another relation, or a read would run functions or policies "
					   "of other roles.")));
}

CachedPlanSource *
source_of(SPIPlanPtr plan)
{
	return (CachedPlanSource *) linitial(SPI_plan_get_plan_sources(plan));
}

SPIPlanPtr
prepare_text(const char *query, int options)
{
	SPIPlanPtr	plan = SPI_prepare_cursor(query, 0, NULL, options);

	if (plan == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", query, SPI_result_code_string(SPI_result));
	return plan;
}

/* Check and run a query.  The rows go to the destination or, if the destination is null, into SPI_tuptable. */
static void
run(const Table *table, const char *query, bool stable, int options, DestReceiver *destination)
{
	SPIExecuteOptions execution = {0};
	SPIPlanPtr	plan = prepare_text(query, options);
	int			code;

	check_query(linitial_node(Query, source_of(plan)->query_list), table);
	execution.read_only = stable;
	execution.dest = destination;
	code = SPI_execute_plan_extended(plan, &execution);
	if (code != SPI_OK_SELECT)
		elog(ERROR, "could not execute \"%s\": %s", query, SPI_result_code_string(code));
}

/* Send all rows of a query to a destination */
void
query_into(const Table *table, const char *query, DestReceiver *destination)
{
	int			nest;

	SPI_connect();
	nest = begin_settings(table, reading);
	run(table, query, false, 0, destination);
	AtEOXact_GUC(false, nest);
	SPI_finish();
}

/* Get the array of type text[] that a query returns; false if the query returns no row, or null */
static bool
query_texts(const Table *table, const char *query, const Setting *settings, Datum *texts)
{
	bool		is_null = true;
	int			nest;

	SPI_connect();
	nest = begin_settings(table, reading);
	apply_settings(settings);
	run(table, query, true, 0, NULL);
	Assert(SPI_gettypeid(SPI_tuptable->tupdesc, 1) == TEXTARRAYOID);
	if (SPI_processed > 0)
		*texts = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &is_null);
	if (!is_null)
		*texts = SPI_datumTransfer(*texts, false, -1);
	AtEOXact_GUC(false, nest);
	SPI_finish();
	return !is_null;
}

/*
 * as_caller(t feed_table, query text, walks boolean, caller oid) -> text[]
 *
 * The role and the settings are restored after the query, as at the end of a
 * function with SET clauses.
 */
Datum
as_caller(PG_FUNCTION_ARGS)
{
	Table		table = described_table(fcinfo, 3);
	char	   *query = text_to_cstring(PG_GETARG_TEXT_PP(1));
	SavedRole	saved = become_caller(table.reader);
	Datum		texts = (Datum) 0;
	bool		has_row = query_texts(&table, query, PG_GETARG_BOOL(2) ? walking : no_settings, &texts);

	restore_role(saved);
	if (!has_row)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(texts);
}

/* count_as_caller(t feed_table, query text, parallel boolean, caller oid) -> bigint, in the active snapshot */
Datum
count_as_caller(PG_FUNCTION_ARGS)
{
	Table		table = described_table(fcinfo, 3);
	char	   *query = text_to_cstring(PG_GETARG_TEXT_PP(1));
	SavedRole	saved = become_caller(table.reader);
	bool		is_null = true;
	int64		number = 0;
	int			nest;

	SPI_connect();
	nest = begin_settings(&table, counting);
	run(&table, query, true, PG_GETARG_BOOL(2) ? CURSOR_OPT_PARALLEL_OK : 0, NULL);
	if (SPI_processed > 0)
		number = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &is_null));
	if (is_null)
		elog(ERROR, "query \"%s\" returned no number", query);
	AtEOXact_GUC(false, nest);
	SPI_finish();
	restore_role(saved);
	PG_RETURN_INT64(number);
}

/*
 * feed_is_table(row_of anyelement, row_type oid) -> boolean
 *
 * If this function were written in PL/pgSQL, a session would keep a compiled copy of it for each row type.
 */
Datum
feed_is_table(PG_FUNCTION_ARGS)
{
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, 0);
	Value		row_type = value_of(ObjectIdGetDatum(type), REGTYPEOID);

	if (PG_ARGISNULL(1) || PG_GETARG_OID(1) != type)
		owner_error("say_other_table", 1, &row_type);
	PG_RETURN_BOOL(true);
}

static void
run_statement(const char *statement)
{
	int			nest;
	int			code;

	SPI_connect();
	nest = NewGUCNestLevel();
	apply_settings(defining);
	code = SPI_execute(statement, false, 0);
	if (code < 0)
		elog(ERROR, "could not execute \"%s\": %s", statement, SPI_result_code_string(code));
	AtEOXact_GUC(false, nest);
	SPI_finish();
}

/* run_statements(statements text[], caller oid): execute DDL with the privileges of the caller */
Datum
run_statements(PG_FUNCTION_ARGS)
{
	Datum	   *statements;
	int			count;
	SavedRole	saved = become_caller(PG_GETARG_OID(1));

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), TEXTOID, -1, false, TYPALIGN_INT, &statements, NULL, &count);
	for (int i = 0; i < count; i++)
		run_statement(TextDatumGetCString(statements[i]));
	restore_role(saved);
	PG_RETURN_VOID();
}
