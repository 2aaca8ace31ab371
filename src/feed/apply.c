/*
 * apply.c
 *	  The statement of feed_apply, which reads the rows of a batch as the table "batch".
 *
 * feed_apply moves the position past the whole batch.  A statement that reads another table named "batch" would lose
 * the whole batch, and a statement that reads the batch under a LIMIT or OFFSET may lose rows.  These statements are
 * refused.  If WHERE, a join or an aggregate leaves out rows, that is the purpose of the statement.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/guc.h"

#include "compat.h"
#include "feed/apply.h"
#include "ports/query.h"

/* Hashes of statements that were checked in this session.  A hash replaces another hash with the same remainder. */
static uint64 checked_statements[64];

/* A query and its outer queries; the names of WITH queries are looked up in all of them */
typedef struct Level
{
	Query	   *query;
	struct Level *outer;
} Level;

/*
 * How a query reads the batch.  If a query reads the batch several times, the
 * greatest value applies.
 */
typedef enum BatchUse
{
	NOT_READ,
	READ_WHOLE,
	READ_BELOW_LIMIT
} BatchUse;

typedef struct UseSearch
{
	Level	   *level;
	BatchUse	use;
} UseSearch;

static BatchUse use_of(Level *level, bool limited);

/* Return true if a LIMIT or OFFSET may leave out rows.  LIMIT NULL, LIMIT ALL and OFFSET 0 leave out no rows. */
static bool
is_limit(Node *amount, bool zero_is_none)
{
	Const	   *constant = (Const *) (amount == NULL ? NULL : eval_const_expressions(NULL, copyObject(amount)));

	if (constant == NULL)
		return false;
	if (!IsA(constant, Const))
		return true;
	return !constant->constisnull && !(zero_is_none && DatumGetInt64(constant->constvalue) == 0);
}

/*
 * Return true if a query reads all of its input even if an outer query has a LIMIT.  A data-modifying statement runs to
 * completion, and an aggregate without groups reads all rows to return one row.
 */
static bool
takes_all(const Query *query)
{
	return query->commandType != CMD_SELECT ||
		(query->hasAggs && query->groupClause == NIL && query->groupingSets == NIL);
}

/* Find out how a FROM item that names a WITH query reads the batch */
static BatchUse
use_of_name(const RangeTblEntry *entry, Level *level, bool limited)
{
	ListCell   *cell;

	for (Index i = 0; i < entry->ctelevelsup; i++)
		level = level->outer;
	if (entry->self_reference)
		return NOT_READ;
	if (level->outer == NULL && strcmp(entry->ctename, "batch") == 0)
		return limited ? READ_BELOW_LIMIT : READ_WHOLE;
	foreach(cell, level->query->cteList)
	{
		CommonTableExpr *with = lfirst_node(CommonTableExpr, cell);

		if (strcmp(with->ctename, entry->ctename) == 0)
			return use_of(&(Level) {castNode(Query, with->ctequery), level}, limited);
	}
	return NOT_READ;
}

static BatchUse
use_of_entry(const RangeTblEntry *entry, Level *level, bool limited)
{
	if (entry->rtekind == RTE_CTE)
		return use_of_name(entry, level, limited);
	if (entry->rtekind == RTE_SUBQUERY)
		return use_of(&(Level) {entry->subquery, level}, limited);
	return NOT_READ;
}

/* Search the subqueries in expressions.  These subqueries run to completion, even if the outer query is limited. */
static bool
search_expressions(Node *node, void *context)
{
	UseSearch  *search = (UseSearch *) context;

	if (node == NULL)
		return false;
	if (IsA(node, SubLink))
	{
		Query	   *query = castNode(Query, ((SubLink *) node)->subselect);

		search->use = Max(search->use, use_of(&(Level) {query, search->level}, false));
		return search_expressions(((SubLink *) node)->testexpr, context);
	}
	return expression_tree_walker(node, search_expressions, context);
}

/*
 * Find out how a query reads the batch.  Each reference to a WITH query is followed, even if there are several
 * references.
 */
static BatchUse
use_of(Level *level, bool limited)
{
	Query	   *query = level->query;
	UseSearch	search = {level, NOT_READ};
	ListCell   *cell;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	limited = !takes_all(query) &&
		(limited || is_limit(query->limitCount, false) || is_limit(query->limitOffset, true));
	foreach(cell, query->rtable)
		search.use = Max(search.use, use_of_entry(lfirst_node(RangeTblEntry, cell), level, limited));
	foreach(cell, query->cteList)
	{
		Query	   *with = castNode(Query, lfirst_node(CommonTableExpr, cell)->ctequery);

		if (with->commandType != CMD_SELECT)
			search.use = Max(search.use, use_of(&(Level) {with, level}, false));
	}
	(void) query_tree_walker(query, search_expressions, &search, QTW_IGNORE_RT_SUBQUERIES | QTW_IGNORE_CTE_SUBQUERIES);
	return search.use;
}

/*
 * Raise an error if a statement begins with WITH, after white space and comments.  Nothing is raised after nested
 * comments: PostgreSQL itself will raise a syntax error for the word WITH.
 */
void
refuse_with(const char *statement)
{
	const char *end;

	for (;; statement = end)
	{
		statement += strspn(statement, " \t\n\r\f");
		if (strncmp(statement, "--", 2) == 0)
			end = statement + strcspn(statement, "\n\r");
		else if (strncmp(statement, "/*", 2) == 0)
		{
			const char *inner = strstr(statement + 2, "/*");

			end = strstr(statement + 2, "*/");
			if (end == NULL || (inner != NULL && inner < end))
				return;
			end += 2;
		}
		else
			break;
	}
	if (pg_strncasecmp(statement, "with", 4) == 0 && strspn(statement + 4, " \t\n\r\f/-\"") > 0)
		owner_error("say_with", 0, NULL);
}

/*
 * Raise an error unless a statement reads the whole batch.  Rules may have rewritten the statement into several
 * queries; one of these queries must read the batch.
 */
static void
check_batch_is_read(List *queries, Value feed)
{
	BatchUse	use = NOT_READ;
	ListCell   *cell;

	foreach(cell, queries)
		use = Max(use, use_of(&(Level) {lfirst_node(Query, cell), NULL}, false));
	if (use == READ_BELOW_LIMIT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the statement reads the batch below LIMIT, OFFSET or FETCH FIRST"),
				 errdetail("The position moves past the whole batch, including the rows that are left out."),
				 errhint("Limit the rows with max_rows, as in feed_apply(name, statement, 10).")));
	if (use == NOT_READ)
		owner_error("say_not_read", 1, &feed);
}

/* Return the WITH query that was added to the user's statement */
static Query *
batch_of(Query *query)
{
	ListCell   *cell;

	foreach(cell, query->cteList)
	{
		CommonTableExpr *table = lfirst_node(CommonTableExpr, cell);

		if (strcmp(table->ctename, "batch") == 0)
			return castNode(Query, table->ctequery);
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("the statement cannot follow WITH batch AS (...)"),
			 errhint("Pass a SELECT, INSERT, UPDATE, DELETE or MERGE statement.")));
	return NULL;
}

/* Check the queries of a statement.  The list is empty if a rule is DO INSTEAD NOTHING. */
static void
check_statement(List *queries, const Table *table, Value feed)
{
	if (queries != NIL)
		check_query(batch_of(linitial_node(Query, queries)), table);
	check_batch_is_read(queries, feed);
}

static uint64
statement_hash(const Table *table, const char *statement)
{
	return hash_bytes_extended((const unsigned char *) statement, strlen(statement), table->oid);
}

/*
 * Prepare and check a statement.  When an unsaved plan is executed, its query string is parsed again only if the
 * schemas of the search_path have changed.  The loop therefore ends only when the statement has been checked with the
 * current schemas.
 */
static SPIPlanPtr
checked_plan(const Table *table, const char *query, const char *statement, Value feed)
{
	char	   *text = psprintf("WITH batch AS NOT MATERIALIZED (%s) %s", query, statement);
	uint64		hash = statement_hash(table, statement);
	SPIPlanPtr	plan;

	do
	{
		CHECK_FOR_INTERRUPTS();
		plan = prepare_text(text, CURSOR_OPT_PARALLEL_OK);
		if (list_length(SPI_plan_get_plan_sources(plan)) != 1)
			ereport(ERROR,
					(errcode(ERRCODE_SYNTAX_ERROR),
					 errmsg("cannot run several statements over one batch"),
					 errhint("Run the other statements separately, in the same transaction.")));
		check_statement(source_of(plan)->query_list, table, feed);
	} while (!is_search_path_of_now(source_of(plan)->search_path));
	checked_statements[hash % lengthof(checked_statements)] = hash;
	return plan;
}

/*
 * Check a statement for which there are no rows yet.  Otherwise, an error in
 * the statement would not be noticed until the first row arrives.  The statement
 * is parsed only in the first of these calls in a session.
 */
void
check_without_batch(const Table *table, const char *statement, Value feed)
{
	uint64		hash = statement_hash(table, statement);

	if (checked_statements[hash % lengthof(checked_statements)] == hash)
		return;
	SPI_connect();
	(void) checked_plan(table, psprintf("SELECT e.* FROM %s AS e", relation_name(table->oid)), statement, feed);
	SPI_finish();
}

/*
 * Run a statement that reads the rows of a query under the name "batch", with
 * the search_path of the caller.  Returns the number of rows that the statement
 * processed.
 */
uint64
query_batch(const Table *table, const char *query, const char *statement, Value feed)
{
	SPIPlanPtr	plan;
	uint64		amount;
	int			nest;
	int			code;

	SPI_connect();
	/* With other values of constraint_exclusion, the planner would evaluate CHECK constraints of the table's owner. */
	nest = NewGUCNestLevel();
	(void) set_config_option("constraint_exclusion", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	plan = checked_plan(table, query, statement, feed);
	code = SPI_execute_plan(plan, NULL, NULL, false, 0);
	if (code < 0)
		elog(ERROR, "could not execute the statement: %s", SPI_result_code_string(code));
	amount = SPI_processed;
	AtEOXact_GUC(true, nest);	/* keep the settings that the statement has changed */
	SPI_finish();
	return amount;
}
