/*
 * caller.c
 *	  Who takes the rows of feed_read and changes_read, and whether all of them.
 *
 * These move the position over all rows that they return, before the first one
 * is taken: those that are never taken would be lost.  So a caller that
 * may stop early is refused, before anything is locked or moved: LIMIT or
 * EXISTS above the call, a cursor, and a caller that runs its query for so many
 * rows, as SELECT INTO of PL/pgSQL does.  A caller that takes all rows and
 * leaves some out (WHERE, a join, an aggregate) has said so.
 *
 * How many rows a query is run for (a fetch size, SELECT INTO) is an argument of
 * ExecutorRun, and kept nowhere: only its hook sees it.  It is set when a session
 * looks up one of them, so no other session has it; it notes the run, and calls
 * what was there.  Which call of a plan this one is, is known by its expression, which
 * the executor does not copy.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"
#include "tcop/pquery.h"
#include "utils/lsyscache.h"
#include "utils/portal.h"

#include "compat.h"
#include "feed/caller.h"

#define WHAT_IS_LOST "The position moves over all rows that %s returns, also over those that are not fetched."

/* A query being run, in one that runs it */
typedef struct Run
{
	QueryDesc  *query;
	uint64		count;			/* rows that are taken; 0 for all */
	struct Run *outer;
} Run;

/* How the rows of a call are taken; where they have several readers, the last of these holds */
typedef enum Taken
{
	NOT_CALLED,
	CUT_BY_EXISTS,
	CUT_BY_LIMIT,
	BY_CALLER,					/* as far as who runs the query takes its rows */
	ALL_TAKEN
} Taken;

/* A look for a call among the children of a node */
typedef struct Search
{
	Node	   *call;
	PlanState  *parent;
	Taken		taken;
} Search;

static Run *innermost = NULL;
static ExecutorRun_hook_type next_run = NULL;

static void
note_run(RUN_PARAMETERS)
{
	Run			run = {query, count, innermost};

	innermost = &run;
	PG_TRY();
	{
		if (next_run != NULL)
			next_run(RUN_ARGUMENTS);
		else
			standard_ExecutorRun(RUN_ARGUMENTS);
	}
	PG_FINALLY();
	{
		innermost = run.outer;
	}
	PG_END_TRY();
}

/* Once for each process: the server looks feed_read up again after any change of it, below the hooks of others by then */
void
watch_runs(void)
{
	static bool watching = false;

	if (watching)
		return;
	watching = true;
	next_run = ExecutorRun_hook;
	ExecutorRun_hook = note_run;
}

/* A row that is tested again after a concurrent update has a state of its own, and the same plan. */
static Run *
run_of(const EState *state)
{
	Run		   *run = innermost;

	while (run != NULL && run->query->plannedstmt != state->es_plannedstmt)
		run = run->outer;
	return run;
}

static bool
makes_call(const Plan *plan, const Node *call)
{
	ListCell   *cell;

	if (IsA(plan, FunctionScan))
		foreach(cell, ((const FunctionScan *) plan)->functions)
			if (lfirst_node(RangeTblFunction, cell)->funcexpr == call)
				return true;
	if (IsA(plan, ProjectSet))
		foreach(cell, plan->targetlist)
			if ((Node *) lfirst_node(TargetEntry, cell)->expr == call)
				return true;
	return false;
}

/* What passes through a node */
static Taken
through(const Plan *plan, Taken taken)
{
	if (taken != BY_CALLER)
		return taken;
	if (IsA(plan, Limit))
		return CUT_BY_LIMIT;
	/* A statement that writes ends only with its last row, one number of all rows only after it. */
	if (IsA(plan, ModifyTable) || (IsA(plan, Agg) && ((const Agg *) plan)->aggstrategy == AGG_PLAIN))
		return ALL_TAKEN;
	return BY_CALLER;
}

static SubPlan *
find_link(List *links, const PlanState *child)
{
	ListCell   *cell;

	foreach(cell, links)
	{
		SubPlanState *link = lfirst_node(SubPlanState, cell);

		if (link->planstate == child)
			return link->subplan;
	}
	return NULL;
}

static bool
has_parameter(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param))
		return ((Param *) node)->paramkind == PARAM_EXEC && list_member_int((List *) context, ((Param *) node)->paramid);
	return expression_tree_walker(node, has_parameter, context);
}

/* A row is looked for among those of one call, which are kept: a join. */
static bool
is_join(const SubPlan *link, Node *call)
{
	return link->parParam != NIL && !has_parameter(call, link->parParam);
}

/* What passes from a subquery in an expression or in WITH to the node that it belongs to */
static Taken
over(const SubPlan *link, Node *call, Taken taken)
{
	if (link == NULL || taken != BY_CALLER)
		return taken;
	if (link->subLinkType == CTE_SUBLINK)
		return NOT_CALLED;		/* but by those who scan it */
	if (link->subLinkType == EXISTS_SUBLINK && !is_join(link, call))
		return CUT_BY_EXISTS;
	return ALL_TAKEN;			/* or a second row is an error */
}

/* The tree of a plan is bounded by the stack; a WITH may be scanned any number of times. */
static bool
search_below(PlanState *state, void *context)
{
	Search	   *search = (Search *) context;
	Search		below = {search->call, state, NOT_CALLED};
	SubPlan    *link = search->parent == NULL ? NULL : find_link(search->parent->initPlan, state);

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	if (link == NULL && search->parent != NULL)
		link = find_link(search->parent->subPlan, state);
	if (makes_call(state->plan, search->call))
		below.taken = BY_CALLER;
	else
		(void) planstate_tree_walker(state, search_below, &below);
	if (IsA(state, CteScanState))
		(void) search_below(((CteScanState *) state)->cteplanstate, &below);
	search->taken = Max(search->taken, over(link, search->call, through(state->plan, below.taken)));
	return search->taken == ALL_TAKEN;
}

static Taken
how_taken(PlanState *state, Node *call)
{
	Search		search = {call, NULL, NOT_CALLED};

	(void) search_below(state, &search);
	return search.taken;
}

/* A call in a statement of WITH that writes, which is run to its end, perhaps after all runs of the query */
static Taken
how_written(EState *state, Node *call)
{
	Taken		taken = NOT_CALLED;
	ListCell   *cell;

	foreach(cell, state->es_auxmodifytables)
		taken = Max(taken, how_taken((PlanState *) lfirst(cell), call));
	return taken;
}

static bool
is_run_by_portal(const QueryDesc *query)
{
	return ActivePortal != NULL && ActivePortal->queryDesc == query;
}

/* EXECUTE makes a portal that no one sees, and the loops of procedural languages pin theirs. */
static bool
is_cursor(const QueryDesc *query)
{
	return is_run_by_portal(query) && ActivePortal->name[0] != '\0' && ActivePortal->visible && !ActivePortal->portalPinned;
}

static bool
is_loop(const QueryDesc *query)
{
	return is_run_by_portal(query) && ActivePortal->portalPinned;
}

static void
refuse(const char *reader, const char *where)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("%s cannot be called %s", reader, where),
			 errdetail(WHAT_IS_LOST, reader),
			 errhint("Limit the rows by max_rows, as in %s(name, row_type, 10). To look at rows without moving the position, call feed_peek.", reader)));
}

static void
refuse_count(const char *reader, uint64 taken)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg_plural("%s cannot be called where only %llu row is fetched",
						   "%s cannot be called where only %llu rows are fetched",
						   (unsigned long) taken, reader, (unsigned long long) taken),
			 errdetail(WHAT_IS_LOST, reader),
			 errhint("Fetch all rows, or let max_rows be at most %llu, as in %s(name, row_type, %llu).",
					 (unsigned long long) taken, reader, (unsigned long long) taken)));
}

/* Refuse a caller that may not take all rows; else return how many it takes, 0 for all. */
uint64
rows_taken(FunctionCallInfo fcinfo, Value max_rows)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	const char *reader = get_func_name(fcinfo->flinfo->fn_oid);
	Run		   *run;
	Taken		taken;

	if (result == NULL || !IsA(result, ReturnSetInfo))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("set-valued function called in context that cannot accept a set")));
	run = run_of(result->econtext->ecxt_estate);
	taken = how_written(result->econtext->ecxt_estate, fcinfo->flinfo->fn_expr);
	if (run != NULL)
		taken = Max(taken, how_taken(run->query->planstate, fcinfo->flinfo->fn_expr));
	if (taken == NOT_CALLED)
		refuse(reader, "where the query around it cannot be seen");
	if (run != NULL && is_cursor(run->query))
		refuse(reader, "through a cursor");
	if (taken == CUT_BY_LIMIT)
		refuse(reader, "below LIMIT, OFFSET or FETCH FIRST");
	if (taken == CUT_BY_EXISTS)
		refuse(reader, "in EXISTS");
	if (taken == ALL_TAKEN || is_loop(run->query))
		return 0;
	if (run->count > 0 && (max_rows.null || DatumGetInt32(max_rows.value) > (int64) run->count))
		refuse_count(reader, run->count);
	return run->count;
}

/* Rows of one transaction that no key distinguishes come together, whatever max_rows is. */
void
check_taken(FunctionCallInfo fcinfo, uint64 found, uint64 taken)
{
	const char *reader = get_func_name(fcinfo->flinfo->fn_oid);

	if (taken > 0 && found > taken)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("%s has %llu rows where only %llu can be fetched", reader,
						(unsigned long long) found, (unsigned long long) taken),
				 errdetail(WHAT_IS_LOST, reader),
				 errhint("Fetch all rows: those of a transaction that no key distinguishes, or of a table after a marker, come together, whatever max_rows is.")));
}
