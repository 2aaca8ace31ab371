/*
 * enable.c
 *	  Making a table readable, letting it notify, and undoing both: what owners call.
 *
 * The statements of DDL run with the rights of the caller; their result is
 * checked afterwards, by the oids of the table and of the guard's function.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "funcapi.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"

#include "citus.h"
#include "feed.h"
#include "ground.h"
#include "next_batch.h"

PG_FUNCTION_INFO_V1(feed_enable);
PG_FUNCTION_INFO_V1(feed_disable);
PG_FUNCTION_INFO_V1(feed_rebase);
PG_FUNCTION_INFO_V1(feed_prepare);
PG_FUNCTION_INFO_V1(feed_notify);
PG_FUNCTION_INFO_V1(feed_unnotify);

static StateCall check_owner = {"SELECT inorder_internal.check_owner($1, $2)"};
static StateCall enabled = {"SELECT inorder_internal.is_enabled($1, $2)"};
static StateCall describe = {
	"SELECT s.t, (s.t).ordered, s.probe FROM inorder_internal.describe_new($1, $2) AS s"
};
static StateCall known = {
	"SELECT t, t.ordered FROM inorder_internal.feed_table AS t WHERE t.relation = $1"
};
static StateCall members_before = {"SELECT inorder_internal.members($1, true)"};
static StateCall members = {"SELECT inorder_internal.members($1)"};
static StateCall renew = {"SELECT inorder_internal.renew_members($1, $2, $3)"};
static StateCall guard_truncate = {"SELECT ARRAY(SELECT s FROM inorder_internal.truncate_statements($1) AS s)"};
static StateCall unguard = {"SELECT ARRAY(SELECT s FROM inorder_internal.unguard_statements($1) AS s)"};
static StateCall guard = {"SELECT ARRAY(SELECT s FROM inorder_internal.guard_statements($1) AS s)"};
static StateCall keep = {"SELECT inorder_internal.keep_table($1)"};
static StateCall forget = {"SELECT inorder_internal.forget_table($1)"};
static StateCall describe_restored = {
	"SELECT s.t, (s.t).ordered, s.highest_query, (s.t).base, (s.t).key_column"
	" FROM inorder_internal.describe_restored($1, $2) AS s"
};
static StateCall raised_base = {"SELECT inorder_internal.raised_base($1, $2, $3)"};
static StateCall base_text = {"SELECT inorder_internal.base_statement($1, $2)"};
static StateCall adopt = {"SELECT inorder_internal.adopt_roles($1)"};
static StateCall accept_feeds = {"SELECT inorder_internal.accept_feeds($1)"};
static StateCall check_accepted = {
	"SELECT inorder_internal.check_accepted(t) FROM inorder_internal.feed_table AS t WHERE t.relation = $1"
};
static StateCall channel = {"SELECT inorder_internal.channel_of($1, $2)"};
static StateCall notify = {"SELECT ARRAY(SELECT s FROM inorder_internal.notify_statements($1, $2) AS s)"};
static StateCall check_notifying = {"SELECT inorder_internal.check_notifying($1, $2)"};
static StateCall spread = {"SELECT ARRAY(SELECT s FROM inorder_internal.spread_statements($1) AS s)"};
static StateCall unnotify = {"SELECT ARRAY(SELECT s FROM inorder_internal.unnotify_statements($1) AS s)"};
static StateCall prepare = {"SELECT s FROM inorder_internal.prepare_statements($1, $2, $3) AS s", .stable = true};

static void
must_own(Value relation)
{
	Value		nothing;

	state_call(&check_owner, 2, (Value[]) {caller_value(), relation}, 1, &nothing);
}

/* A table that the caller owns */
Oid
owned_argument(FunctionCallInfo fcinfo, int number)
{
	must_own(argument_value(fcinfo, number, REGCLASSOID));
	return PG_GETARG_OID(number);
}

/* Lock a table with its partitions.  It may have another owner, or be gone, by the time we have it. */
static void
lock_table(Oid relation, LOCKMODE mode)
{
	must_own(relation_value(relation));
	LockRelationOid(relation, mode);
	must_own(relation_value(relation));
	list_free(find_all_inheritors(relation, mode, NULL));	/* which locks only those below */
}

/* Run the statements that a call returns */
static void
run_all(StateCall *call, int count, const Value *arguments)
{
	int			amount;
	char	  **statements = state_texts(call, count, arguments, &amount);

	for (int i = 0; i < amount; i++)
		run_statement(statements[i]);
}

/* How feed_enable() keeps a table now; false if it was not called */
static bool
find_known(Oid relation, Table *table)
{
	Value		argument = relation_value(relation);
	Value		found[2];

	if (!state_look(&known, 1, &argument, 2, found))
		return false;
	*table = (Table) {.oid = relation, .description = found[0], .ordered = DatumGetBool(found[1].value)};
	return true;
}

/*
 * Make the triggers of the guard anew.  Where they stood until now, and nobody
 * else had the table since, feeds may know the new ones for the old.
 */
static void
make_guard(const Table *table)
{
	Value		relation = relation_value(table->oid);
	Table		was;
	bool		stood = find_known(table->oid, &was) && tree_is_guarded(&was);
	Value		before;
	Value		after;
	Value		nothing;

	if (stood)
		state_call(&members_before, 1, &was.description, 1, &before);
	run_all(&unguard, 1, &relation);
	run_all(&guard, 1, &table->description);
	state_call(&members, 1, &table->description, 1, &after);
	if (stood)
		state_call(&renew, 3, (Value[]) {relation, before, after}, 1, &nothing);
}

/* Whether triggers of a guard are there, which are dropped under a stronger lock than making them takes */
static LOCKMODE
lock_to_enable(Oid relation)
{
	Value		argument = relation_value(relation);
	int			amount;

	(void) state_texts(&unguard, 1, &argument, &amount);
	return amount > 0 ? AccessExclusiveLock : ShareRowExclusiveLock;
}

/* Error if the table was restored: what is known of it must not be taken for what was seen here */
static void
must_be_accepted(Value relation)
{
	Value		nothing;

	(void) state_look(&check_accepted, 1, &relation, 1, &nothing);
}

/* Waits for writers, so that all rows that came without the guard are there to be looked at. */
static void
enable_table(Oid relation, Value key_column)
{
	Value		argument = relation_value(relation);
	Value		found[3];
	Value		nothing;
	Table		table;

	must_own(argument);
	require_read_committed("feed_enable", "Rows that came without the guard since this transaction began would not be looked at.");
	lock_table(relation, lock_to_enable(relation));
	state_call(&describe, 2, (Value[]) {argument, key_column}, 3, found);
	table = (Table) {.oid = relation, .description = found[0], .ordered = DatumGetBool(found[1].value)};
	probe_table(&table, text_of(found[2]), false);
	if (!tree_is_guarded(&table))
		make_guard(&table);
	run_all(&guard_truncate, 1, &table.description);
	run_all(&spread, 1, &argument);
	state_call(&keep, 1, &table.description, 1, &nothing);
}

/* Unless that was done: then no writer need wait, and who is not the owner may go on */
void
ensure_enabled(Oid relation, Value key_column)
{
	Value		answer;

	refuse_distributed(relation);
	state_call(&enabled, 2, (Value[]) {relation_value(relation), key_column}, 1, &answer);
	if (DatumGetBool(answer.value))
		return;
	must_be_accepted(relation_value(relation));
	enable_table(relation, key_column);
}

/* feed_enable(relation regclass, key_column name) */
Datum
feed_enable(PG_FUNCTION_ARGS)
{
	Oid			relation = owned_argument(fcinfo, 0);

	must_be_accepted(relation_value(relation));
	enable_table(relation, argument_value(fcinfo, 1, NAMEOID));
	PG_RETURN_VOID();
}

/* feed_disable(relation regclass) */
Datum
feed_disable(PG_FUNCTION_ARGS)
{
	Oid			oid = owned_argument(fcinfo, 0);
	Value		relation = relation_value(oid);
	Value		nothing;

	require_read_committed("feed_disable", "Feeds that were created since this transaction began would not be seen.");
	lock_table(oid, AccessExclusiveLock);
	state_call(&forget, 1, &relation, 1, &nothing);
	run_all(&unguard, 1, &relation);
	run_all(&unnotify, 1, &relation);
	PG_RETURN_VOID();
}

/* Put the base into the default of the column */
static void
set_base(Value description, Value base)
{
	Value		query;

	state_call(&base_text, 2, (Value[]) {description, base}, 1, &query);
	run_statement(text_of(query));
}

/* A base that is high enough: above the highest number that the query finds, and all that feeds have read */
static Value
raise_base(const Table *table, Value base, Value highest_query, Value beyond)
{
	Value		highest;
	Value		raised;

	if (!query_row(table, text_of(highest_query), false, 1, &highest))
		highest = null_of(INT8OID);
	state_call(&raised_base, 3, (Value[]) {table->description, beyond, highest}, 1, &raised);
	if (DatumGetInt64(raised.value) > DatumGetInt64(base.value))
		set_base(table->description, raised);
	return raised;
}

/* feed_rebase(relation regclass, beyond bigint) -> bigint */
Datum
feed_rebase(PG_FUNCTION_ARGS)
{
	Oid			oid = owned_argument(fcinfo, 0);
	Value		relation = relation_value(oid);
	Value		beyond = PG_ARGISNULL(1) ? number_value(0) : argument_value(fcinfo, 1, INT8OID);
	Value		found[5];
	Value		base;
	Value		nothing;
	Table		table;

	/* No row of an unfinished transaction may carry the old base: this waits for all of them. */
	lock_table(oid, AccessExclusiveLock);
	state_call(&describe_restored, 2, (Value[]) {relation, beyond}, 5, found);
	table = (Table) {.oid = oid, .description = found[0], .ordered = DatumGetBool(found[1].value)};
	base = found[3];
	if (!found[2].null)
		base = raise_base(&table, base, found[2], beyond);
	state_call(&adopt, 1, &relation, 1, &nothing);
	enable_table(table.oid, found[4]);
	state_call(&accept_feeds, 1, &table.description, 1, &nothing);	/* with the guard as it is now */
	PG_RETURN_DATUM(base.value);
}

/* feed_prepare(relation regclass, key_column name, method name) -> setof text */
Datum
feed_prepare(PG_FUNCTION_ARGS)
{
	state_rows(&prepare, 3,
			   (Value[]) {argument_value(fcinfo, 0, REGCLASSOID), argument_value(fcinfo, 1, NAMEOID),
			   argument_value(fcinfo, 2, NAMEOID)}, fcinfo);
	return (Datum) 0;
}

/* feed_notify(relation regclass, channel text) */
Datum
feed_notify(PG_FUNCTION_ARGS)
{
	Oid			oid = owned_argument(fcinfo, 0);
	Value		arguments[2] = {relation_value(oid), argument_value(fcinfo, 1, TEXTOID)};
	Value		nothing;

	lock_table(oid, ShareRowExclusiveLock);
	state_call(&channel, 2, arguments, 1, &arguments[1]);
	run_all(&notify, 2, arguments);
	state_call(&check_notifying, 2, arguments, 1, &nothing);
	PG_RETURN_VOID();
}

/* feed_unnotify(relation regclass) */
Datum
feed_unnotify(PG_FUNCTION_ARGS)
{
	Oid			oid = owned_argument(fcinfo, 0);
	Value		relation = relation_value(oid);

	lock_table(oid, AccessExclusiveLock);
	run_all(&unnotify, 1, &relation);
	PG_RETURN_VOID();
}
