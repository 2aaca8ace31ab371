/*
 * inorder_test.c
 *	  Test functions for behavior that SQL cannot observe.
 */
#include "postgres.h"

#include <sys/wait.h>
#include <unistd.h>

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/analyze.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"

#include "keys/entropy.c"
#include "keys/uuid_datum.h"
#include "types/uuid_v1_layout.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(test_pool_wiped);
PG_FUNCTION_INFO_V1(test_fork_repeats);
PG_FUNCTION_INFO_V1(test_clone_repeats);
PG_FUNCTION_INFO_V1(test_v7);
PG_FUNCTION_INFO_V1(test_v1);
PG_FUNCTION_INFO_V1(test_xact_capacity);
PG_FUNCTION_INFO_V1(test_hold_commit);
PG_FUNCTION_INFO_V1(test_captured);

void		_PG_init(void);

/* Draw words one by one. Return how many of them are still in the pool afterwards. */
Datum
test_pool_wiped(PG_FUNCTION_ARGS)
{
	int32		words = PG_GETARG_INT32(0);
	int			found = 0;

	for (int i = 0; i < words; i++)
	{
		uint64		word = entropy_word();

		CHECK_FOR_INTERRUPTS();
		for (int j = 0; j < ENTROPY_POOL_WORDS; j++)
			found += pool[j] == word;
		for (int j = pool_left; j < ENTROPY_POOL_WORDS; j++)
			found += pool[j] != 0;
	}
	PG_RETURN_INT32(found);
}

/* The child sets its own pid, as fork_process() and its caller do. */
static pid_t
fork_writing_words(int fd, int32 words)
{
	pid_t		child = fork();

	if (child == 0)
	{
		MyProcPid = getpid();
		for (int i = 0; i < words; i++)
		{
			uint64		word = entropy_word();

			if (write(fd, &word, sizeof(word)) != sizeof(word))
				_exit(1);
		}
		_exit(0);
	}
	return child;
}

Datum
test_fork_repeats(PG_FUNCTION_ARGS)
{
	int32		words = Min(PG_GETARG_INT32(0), ENTROPY_POOL_WORDS / 2);
	uint64		theirs[ENTROPY_POOL_WORDS / 2];
	int			ends[2];
	int			repeats = 0;
	pid_t		child;

	while (pool_left < words)	/* the pool must have words that the child could repeat */
		(void) entropy_word();
	if (pipe(ends) != 0)
		elog(ERROR, "pipe: %m");
	child = fork_writing_words(ends[1], words);
	if (child < 0)
		elog(ERROR, "fork: %m");
	for (int i = 0; i < words; i++)
	{
		if (read(ends[0], &theirs[i], sizeof(uint64)) != sizeof(uint64))
			elog(ERROR, "read: %m");
	}
	waitpid(child, NULL, 0);
	close(ends[0]);
	close(ends[1]);

	for (int i = 0; i < words; i++)
	{
		uint64		ours = entropy_word();

		for (int j = 0; j < words; j++)
			repeats += theirs[j] == ours;
	}
	PG_RETURN_INT32(repeats);
}

/*
 * Return how many words a cloned virtual machine, which continues with a copy of the
 * pool, has in common with the original. The argument is the age of the pool in
 * microseconds.
 */
Datum
test_clone_repeats(PG_FUNCTION_ARGS)
{
	uint64		theirs[ENTROPY_POOL_WORDS];
	int			count;
	int			repeats = 0;

	(void) entropy_word();
	count = pool_left;
	memcpy(theirs, pool, sizeof(theirs));
	pool_filled = GetCurrentStatementStartTimestamp() - PG_GETARG_INT64(0);
	for (int i = count; i-- > 0;)
		repeats += entropy_word() == theirs[i];
	PG_RETURN_INT32(repeats);
}

Datum
test_v7(PG_FUNCTION_ARGS)
{
	static V7State state;

	v7_advance(&state, v7_clock_tick(PG_GETARG_INT64(0), PG_GETARG_INT32(1)), entropy_word(), V7_TAIL_BITS);
	return uuid_datum(v7_key(state.tick, state.tail));
}

/* Return, as uuid, the next version-1 value of a session whose clock shows this many ticks since 1582. */
Datum
test_v1(PG_FUNCTION_ARGS)
{
	static V1State state;

	v1_advance(&state, (uint64) PG_GETARG_INT64(0));
	return uuid_datum(v1_to_words((UuidWords) {state.tick, v1_rest(state.clockseq, state.node)}));
}

/* Return how many keys a transaction with the largest start and the largest steps can have, up to a maximum. */
Datum
test_xact_capacity(PG_FUNCTION_ARGS)
{
	int64		most = PG_GETARG_INT64(0);
	XactTail	tail = xact_tail_start(~UINT64CONST(0), ~UINT64CONST(0));
	int64		keys = 1;

	for (; keys < most && xact_tail_advance(&tail, ~UINT64CONST(0)); keys++)
	{
		if (keys % 1000000 == 0)
			CHECK_FOR_INTERRUPTS();
	}
	PG_RETURN_INT64(keys);
}

static char held_by[MAXPGPATH];

/* Wait at a point where snapshots show the transaction as ended, but it still has locks and unsent invalidations. */
static void
hold_commit(XactEvent event, void *argument)
{
	if (event == XACT_EVENT_COMMIT)
		while (held_by[0] != '\0' && access(held_by, F_OK) == 0)
			pg_usleep(1000);
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT)
		held_by[0] = '\0';
}

/* Let the commit of this transaction wait halfway until a file is removed. */
Datum
test_hold_commit(PG_FUNCTION_ARGS)
{
	static bool is_registered = false;

	if (!is_registered)
		RegisterXactCallback(hold_commit, NULL);
	is_registered = true;
	strlcpy(held_by, text_to_cstring(PG_GETARG_TEXT_PP(0)), sizeof(held_by));
	PG_RETURN_VOID();
}

#define CAPTURING_SCHEMAS "capturing_"

static post_parse_analyze_hook_type next_analyze_hook = NULL;

/* Write the name of an object in a capturing schema, and the current role, to the server log. */
static void
report_captured(const char *qualified)
{
	if (strncmp(qualified, CAPTURING_SCHEMAS, strlen(CAPTURING_SCHEMAS)) == 0)
		ereport(LOG, errmsg_internal("captured: %s as %s", qualified, GetUserNameFromId(GetUserId(), false)));
}

static bool
report_captured_function(Oid function, void *context)
{
	if (function >= FirstNormalObjectId)
		report_captured(format_procedure_qualified(function));
	return false;
}

static void
report_captured_relation(Oid relation)
{
	if (relation >= FirstNormalObjectId)
		report_captured(quote_qualified_identifier(get_namespace_name(get_rel_namespace(relation)),
												   get_rel_name(relation)));
}

static bool
captured_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, captured_walker, context, QTW_EXAMINE_RTES_BEFORE);
	if (IsA(node, RangeTblEntry))
	{
		report_captured_relation(((RangeTblEntry *) node)->relid);
		return false;
	}
	if (IsA(node, CoerceToDomain))
		report_captured(format_type_be_qualified(exprType(node)));
	check_functions_in_node(node, report_captured_function, context);
	return expression_tree_walker(node, captured_walker, context);
}

/* Report the functions, operators, domains and relations that a statement refers to, before it is executed. */
static void
report_captured_names(ParseState *state, Query *query, JumbleState *jumble)
{
	Node	   *utility = query->utilityStmt;

	if (next_analyze_hook)
		next_analyze_hook(state, query, jumble);
	if (utility == NULL)
		captured_walker((Node *) query, NULL);
	else if (IsA(utility, CreateTableAsStmt))
		captured_walker(((CreateTableAsStmt *) utility)->query, NULL);
	else if (IsA(utility, DeclareCursorStmt))
		captured_walker(((DeclareCursorStmt *) utility)->query, NULL);
	else if (IsA(utility, ExplainStmt))
		captured_walker(((ExplainStmt *) utility)->query, NULL);
}

/* Report a call of an SQL function. Any number of SQL functions may use this symbol. */
Datum
test_captured(PG_FUNCTION_ARGS)
{
	report_captured_function(fcinfo->flinfo->fn_oid, NULL);
	PG_RETURN_NULL();
}

void
_PG_init(void)
{
	next_analyze_hook = post_parse_analyze_hook;
	/* from 19 on, the hook's last argument is const, which does not change the call */
	post_parse_analyze_hook = (post_parse_analyze_hook_type) report_captured_names;
}
