/*
 * caller.c
 *	  Check that the caller of feed_read or changes_read takes all rows.
 *
 * These functions move the position past all rows that they return, before the caller takes the first row.  Rows that
 * the caller does not take would be lost.  A call is therefore refused, before anything is locked or moved, if its
 * caller may stop early.  A caller may stop early if the call is under a LIMIT or in EXISTS (the plan of the statement
 * shows this), or in a cursor (the portal shows this).  A caller that takes all rows and then filters them (WHERE, a
 * join, an aggregate) is accepted.
 *
 * The plan and the portal do not show how many rows the client or a procedural
 * language takes (a fetch size, SELECT INTO); docs/feed.md has a table of these
 * cases.  The call is identified by the address of its expression, which the
 * executor does not copy.
 */
#include "postgres.h"

#include "executor/execdesc.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/plannodes.h"
#include "tcop/pquery.h"
#include "utils/lsyscache.h"
#include "utils/portal.h"

#include "feed/caller.h"

/* A search for a call in the plan of a statement */
typedef struct CallSearch
{
	PlannedStmt *statement;
	Node	   *call;
	Bitmapset  *searched;		/* numbers of the subplans that were searched */
	bool		is_whole;		/* true if a node takes all rows of the call */
	const char *cut;			/* place of the call below a node that may stop early; NULL if there is no such node */
} CallSearch;

static void search_plan(CallSearch *search, Plan *plan, const char *cut);

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

/*
 * Return the limit that applies to the nodes below a node, or NULL.  A ModifyTable node and an aggregate without groups
 * always take all rows.
 */
static const char *
limit_below(const Plan *plan, const char *cut)
{
	if (IsA(plan, Limit))
		return "below LIMIT, OFFSET or FETCH FIRST";
	if (IsA(plan, ModifyTable) || (IsA(plan, Agg) && ((const Agg *) plan)->aggstrategy == AGG_PLAIN))
		return NULL;
	return cut;
}

static void
search_subplan(CallSearch *search, int number, const char *cut)
{
	search->searched = bms_add_member(search->searched, number);
	search_plan(search, list_nth(search->statement->subplans, number - 1), cut);
}

/*
 * Search the InitPlans of a node.  A WITH query that only reads is skipped here, and searched at the CteScan nodes that
 * read it.
 */
static void
search_links(CallSearch *search, List *links)
{
	ListCell   *cell;

	foreach(cell, links)
	{
		SubPlan    *link = lfirst_node(SubPlan, cell);
		Plan	   *plan = list_nth(search->statement->subplans, link->plan_id - 1);

		if (link->subLinkType == CTE_SUBLINK && !IsA(plan, ModifyTable))
			search->searched = bms_add_member(search->searched, link->plan_id);
		else
			search_subplan(search, link->plan_id, link->subLinkType == EXISTS_SUBLINK ? "in EXISTS" : NULL);
	}
}

static void
search_list(CallSearch *search, List *plans, const char *cut)
{
	ListCell   *cell;

	foreach(cell, plans)
		search_plan(search, (Plan *) lfirst(cell), cut);
}

/* Search a node and the nodes below it.  Several nodes may scan one WITH query. */
static void
search_plan(CallSearch *search, Plan *plan, const char *cut)
{
	if (plan == NULL)
		return;
	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	if (makes_call(plan, search->call))
	{
		search->is_whole = search->is_whole || cut == NULL;
		search->cut = cut;
		return;
	}
	cut = limit_below(plan, cut);
	search_links(search, plan->initPlan);
	search_plan(search, outerPlan(plan), cut);
	search_plan(search, innerPlan(plan), cut);
	if (IsA(plan, SubqueryScan))
		search_plan(search, ((SubqueryScan *) plan)->subplan, cut);
	else if (IsA(plan, CteScan))
		search_subplan(search, ((CteScan *) plan)->ctePlanId, cut);
	else if (IsA(plan, Append))
		search_list(search, ((Append *) plan)->appendplans, cut);
	else if (IsA(plan, MergeAppend))
		search_list(search, ((MergeAppend *) plan)->mergeplans, cut);
	else if (IsA(plan, CustomScan))
		search_list(search, ((CustomScan *) plan)->custom_plans, cut);
}

/*
 * Search a statement: its main plan, then the subqueries in expressions, which
 * run to completion.  An outer subquery has a higher number than the subqueries
 * in it, and is searched before them.
 */
static void
search_statement(CallSearch *search)
{
	search_plan(search, search->statement->planTree, NULL);
	for (int number = list_length(search->statement->subplans); number > 0; number--)
		if (!bms_is_member(number, search->searched))
			search_subplan(search, number, NULL);
}

/*
 * Return true if rows are fetched through a cursor.  Invisible portals (of EXECUTE) and pinned portals (of loops in
 * procedural languages) take all rows.
 */
static bool
is_cursor(const EState *state)
{
	return ActivePortal != NULL && ActivePortal->queryDesc != NULL &&
		ActivePortal->queryDesc->plannedstmt == state->es_plannedstmt &&
		ActivePortal->name[0] != '\0' && ActivePortal->visible && !ActivePortal->portalPinned;
}

static void
refuse(const char *reader, const char *where)
{
	bool		reads_log = strcmp(reader, "changes_read") == 0;

	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("%s cannot be called %s", reader, where),
			 errdetail("The position moves past all rows that %s returns, including those that are not "
					   "fetched.", reader),
			 errhint("Limit the rows with max_rows, as in %s(name, row_type, 10). To look at %s without moving the position, call feed_peek%s.",
					 reader, reads_log ? "logged keys" : "rows", reads_log ? " with the row type of the log" : "")));
}

/* Raise an error unless the calling query is certain to fetch all rows */
void
check_caller(FunctionCallInfo fcinfo)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	const char *reader = get_func_name(fcinfo->flinfo->fn_oid);
	CallSearch	search = {.call = fcinfo->flinfo->fn_expr};
	EState	   *state;

	if (result == NULL || !IsA(result, ReturnSetInfo))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("set-valued function called in context that cannot accept a set")));
	state = result->econtext->ecxt_estate;
	search.statement = state->es_plannedstmt;
	if (search.statement != NULL)
		search_statement(&search);
	if (!search.is_whole && search.cut == NULL)
		refuse(reader, "in a query whose plan does not show the call");
	if (is_cursor(state))
		refuse(reader, "through a cursor");
	if (!search.is_whole)
		refuse(reader, search.cut);
}
