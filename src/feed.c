/*
 * feed.c
 *	  Feeds whose position the database keeps: what users call.
 *
 * Each call finds the feed, which checks that the caller may move it, takes
 * its lock, and only then looks at its state, in a snapshot that knows what
 * the last reader left.  Rows are read with the rights of the caller (query.c),
 * positions are written as the owner of the state (state.c).
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/multirangetypes.h"

#include "caller.h"
#include "feed.h"
#include "ground.h"
#include "next_batch.h"
#include "shares.h"
#include "wait.h"
#include "wal.h"
#include "workers.h"

PG_FUNCTION_INFO_V1(feed_create);
PG_FUNCTION_INFO_V1(feed_claim);
PG_FUNCTION_INFO_V1(feed_seek_to);
PG_FUNCTION_INFO_V1(feed_seek_start);
PG_FUNCTION_INFO_V1(feed_peek);
PG_FUNCTION_INFO_V1(feed_apply);
PG_FUNCTION_INFO_V1(feed_next_batch);
PG_FUNCTION_INFO_V1(feed_batch_rows);
PG_FUNCTION_INFO_V1(feed_wait);
PG_FUNCTION_INFO_V1(session_lives);
PG_FUNCTION_INFO_V1(lock_feed);
PG_FUNCTION_INFO_V1(seen_feeds);

/* The usual case in one query each; all others, and every error, are for the functions after them. */
static StateCall find_own = {
	"SELECT f.id, f.relation::pg_catalog.oid FROM inorder_internal.feed AS f, pg_catalog.pg_class AS c"
	" WHERE f.name = $1 AND f.owner = $2 AND inorder_internal.is_own(f, $1, $2, $3) AND c.oid = f.relation"
};
static StateCall find = {
	/* As a condition the function would not be called where a sequential scan finds no feed at all. */
	"SELECT f.id, f.relation::pg_catalog.oid FROM (SELECT inorder_internal.find_feed($1, $2, $3) AS id OFFSET 0) AS s"
	" LEFT JOIN inorder_internal.feed AS f ON f.id = s.id"
};
static StateCall own_state = {
	"SELECT f.name, t, t.ordered, f.position, f.batch, f.finished, f.pending, f.whole_transactions,"
	" inorder_internal.is_shared(f.id), inorder_internal.is_poll_due(f),"
	" CASE WHEN (f.shared_by).shares IS NOT NULL THEN f.shared_by END"
	" FROM inorder_internal.feed AS f JOIN inorder_internal.feed_table AS t ON t.relation = f.relation"
	" WHERE f.id = $1 AND (f.pending).transactions IS NULL AND f.written_here AND (t.written_here OR t.is_generated)"
	" AND inorder_internal.may_move($2, f)"
};
static StateCall state = {
	"SELECT s.name, s.t, (s.t).ordered, s.at_position, s.batch, s.finished, s.pending, s.whole_transactions, s.shared,"
	" s.is_poll_due, s.shared_by"
	" FROM inorder_internal.feed_state($1, $2, $3, $4) AS s"
};
static StateCall check_name = {"SELECT inorder_internal.check_name($1)"};
static StateCall create = {"SELECT inorder_internal.create_feed($1, $2, $3, $4, $5, $6, $7)"};
static StateCall seek_to = {"SELECT inorder_internal.seek_to($1, $2, $3)"};
static StateCall seek_start = {"SELECT inorder_internal.seek_start($1, $2, $3)"};
static StateCall move = {"SELECT inorder_internal.move_feed($1, $2, $3, $4)"};
static StateCall keep_pending = {"SELECT inorder_internal.keep_pending($1, $2, $3, $4, $5, $6)"};
static StateCall note_poll = {"SELECT inorder_internal.note_poll($1, $2, $3)"};
static StateCall holder_of = {"SELECT f.holder, f.holder_pid FROM inorder_internal.feed AS f WHERE f.id = $1"};
static StateCall hand_over = {"SELECT inorder_internal.hand_over($1, $2, $3)"};
static StateCall say_held = {"SELECT inorder_internal.say_held($1, $2, $3)"};
static StateCall check_pending = {"SELECT inorder_internal.check_pending($1, $2, $3, $4, $5)"};
static StateCall say_pending = {"SELECT inorder_internal.say_pending($1, $2)"};
static StateCall say_shared = {"SELECT inorder_internal.say_shared($1, $2)"};
static StateCall seen = {"SELECT f.* FROM inorder_internal.feeds_of($1) AS f", .stable = true};

/* A feed that the caller may move */
Feed
find_feed(FunctionCallInfo fcinfo, int owner)
{
	Value		caller = caller_value();
	Value		role = PG_ARGISNULL(owner) ? caller : argument_value(fcinfo, owner, OIDOID);
	Value		arguments[3] = {argument_value(fcinfo, 0, TEXTOID), role, caller};
	Value		found[2];

	if (!state_look(&find_own, 3, arguments, 2, found))
		state_call(&find, 3, arguments, 2, found);
	return (Feed) {.id = found[0], .table = {.oid = DatumGetObjectId(found[1].value)}};
}

/* Its state, and the ground that its rows are read on */
void
look_at(Feed *feed, Need need)
{
	Value		reads = need == NEED_ROWS_UNLESS_PENDING ? null_of(BOOLOID) : value_of(BoolGetDatum(need != NEED_NOTHING), BOOLOID);
	Value		seeks = value_of(BoolGetDatum(need == NEED_TABLE), BOOLOID);
	Value		found[11];
	bool		may_read = need != NEED_NOTHING && lock_readable(feed->table.oid);

	if (!may_read || !state_look(&own_state, 2, (Value[]) {feed->id, caller_value()}, 11, found))
		state_call(&state, 4, (Value[]) {feed->id, caller_value(), reads, seeks}, 11, found);
	feed->name = found[0];
	feed->table.description = found[1];
	feed->table.ordered = DatumGetBool(found[2].value);
	feed->position = found[3];
	feed->batch = found[4];
	feed->finished = found[5];
	feed->pending = found[6];
	feed->table.whole = DatumGetBool(found[7].value);
	feed->shared = found[8];
	feed->poll_due = DatumGetBool(found[9].value);
	feed->share_key = found[10];
	if (need == NEED_ROWS || need == NEED_TABLE || (need == NEED_ROWS_UNLESS_PENDING && feed->pending.null))
		prove_ground(&feed->table);
}

/* lock_feed(feed bigint): readers of one feed take turns */
Datum
lock_feed(PG_FUNCTION_ARGS)
{
	state_lock("feed", (Oid) PG_GETARG_INT64(0));
	PG_RETURN_VOID();
}

Feed
take_feed(FunctionCallInfo fcinfo, int owner, Need need)
{
	Feed		feed = find_feed(fcinfo, owner);

	state_lock("feed", (Oid) DatumGetInt64(feed.id.value));
	/* Not after the snapshot in which rows are looked for */
	feed.asked = value_of(TimestampTzGetDatum(IsolationUsesXactSnapshot() ? GetCurrentTransactionStartTimestamp() :
											  GetCurrentTimestamp()), TIMESTAMPTZOID);
	look_at(&feed, need);
	return feed;
}

/* While workers have batches, the feed gives none without them: its order would be another. */
static void
refuse_shared(const Feed *feed)
{
	Value		nothing;

	refuse_divided(feed);
	if (DatumGetBool(feed->shared.value))
		state_call(&say_shared, 2, (Value[]) {feed->name, feed->id}, 1, &nothing);
}

static void
refuse_pending(const Feed *feed)
{
	Value		nothing;

	if (!feed->pending.null)
		state_call(&say_pending, 2, (Value[]) {feed->name, feed->batch}, 1, &nothing);
	refuse_shared(feed);
}

Value
is_all_value(const Feed *feed)
{
	return value_of(BoolGetDatum(feed->is_all), BOOLOID);
}

static void
move_feed(const Feed *feed, Value batch)
{
	Value		nothing;

	state_call(&move, 4, (Value[]) {feed->id, batch, feed->asked, is_all_value(feed)}, 1, &nothing);
}

/*
 * Nothing was found, in the rest of a transaction if there is a batch.  A poll
 * writes nothing, or it would cost WAL: except now and then, so that the view
 * feeds knows of it.
 */
void
note_empty_poll(const Feed *feed, Value batch)
{
	Value		nothing;

	if (feed->poll_due && !XactReadOnly && !IsolationUsesXactSnapshot())
		state_call(&note_poll, 3, (Value[]) {feed->id, batch, feed->asked}, 1, &nothing);
}

/*
 * feed_create(name text, relation regclass, start text, key_column name, order_column name, whole_transactions boolean,
 *			   partition_by name, shares int)
 */
Datum
feed_create(PG_FUNCTION_ARGS)
{
	Value		name = argument_value(fcinfo, 0, TEXTOID);
	Value		start = PG_ARGISNULL(2) ? value_of(CStringGetTextDatum("beginning"), TEXTOID) : argument_value(fcinfo, 2, TEXTOID);
	Value		position;
	Value		nothing;
	Table		table;
	Oid			relation;
	Value		column = argument_value(fcinfo, 6, NAMEOID);
	Value		shares = argument_value(fcinfo, 7, INT4OID);
	bool		whole = !PG_ARGISNULL(5) && PG_GETARG_BOOL(5);

	refuse_whole(whole && !PG_ARGISNULL(4));
	check_shares(shares, column, whole);
	state_call(&check_name, 1, &name, 1, &nothing);
	relation = readable_argument(fcinfo, 1);
	ensure_enabled(relation, argument_value(fcinfo, 3, NAMEOID));
	table = open_table(relation);
	position = start_position(&table, start, argument_value(fcinfo, 4, NAMEOID));
	if (!column.null)
		prove_new_share_column(&table, column);
	state_call(&create, 7,
			   (Value[]) {name, caller_value(), relation_value(relation), position, value_of(BoolGetDatum(whole), BOOLOID), column, shares},
			   1, &nothing);
	PG_RETURN_VOID();
}

/* feed_claim(name text, owner regrole) -> boolean */
Datum
feed_claim(PG_FUNCTION_ARGS)
{
	Feed		feed = find_feed(fcinfo, 1);

	PG_RETURN_BOOL(state_claim("feed", (Oid) DatumGetInt64(feed.id.value)));
}

static Datum
seek(FunctionCallInfo fcinfo, StateCall *call, Oid type)
{
	Feed		feed;
	Value		nothing;

	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", type == TEXTOID ? "start" : "transactions")));
	feed = take_feed(fcinfo, 2, NEED_TABLE);
	state_call(call, 3, (Value[]) {feed.id, feed.table.description, argument_value(fcinfo, 1, type)}, 1, &nothing);
	PG_RETURN_VOID();
}

/* feed_seek(name text, transactions int8multirange, owner regrole) */
Datum
feed_seek_to(PG_FUNCTION_ARGS)
{
	return seek(fcinfo, &seek_to, INT8MULTIRANGEOID);
}

/* feed_seek(name text, start text, owner regrole) */
Datum
feed_seek_start(PG_FUNCTION_ARGS)
{
	return seek(fcinfo, &seek_start, TEXTOID);
}

/* The batch that comes next.  The rest of a set may have no rows any more: then the feed passes it, for good if it moves. */
bool
find_batch(Feed *feed, Value max_rows, bool moves, Value *batch)
{
	Next		next;

	while ((next = next_batch(&feed->table, feed->position, max_rows, batch)) == REST_OF_SET)
	{
		if (moves)
			move_feed(feed, *batch);
		feed->position = position_after(feed->position, *batch);
	}
	feed->is_all = next == LAST_BATCH;
	return next >= BATCH_OF_ROWS;
}

/* Whether there is a batch with rows; a poll that finds none is noted */
bool
find_rows(Feed *feed, Value max_rows, Value *batch)
{
	bool		found = find_batch(feed, max_rows, true, batch);

	if (found && has_rows(&feed->table, *batch))
		return true;
	check_ground(&feed->table);
	note_empty_poll(feed, found ? *batch : null_of(feed->pending.type));
	return false;
}

/* The rows that come next, as the result of the calling function; returns how many */
static uint64
read_next(Feed *feed, FunctionCallInfo fcinfo, bool moves, Value *batch)
{
	uint64		found = 0;

	refuse_pending(feed);
	check_row_type(&feed->table, fcinfo, 1);
	InitMaterializedSRF(fcinfo, 0);
	if (find_batch(feed, argument_value(fcinfo, 2, INT4OID), moves, batch))
		found = query_rows(&feed->table, batch_query(&feed->table, *batch, "e.*", true), fcinfo);
	else
		*batch = null_of(feed->pending.type);
	check_ground(&feed->table);
	return found;
}

/* As PG_FUNCTION_INFO_V1(feed_read), which a session calls before it runs the first query with feed_read */
extern PGDLLEXPORT Datum feed_read(PG_FUNCTION_ARGS);
extern PGDLLEXPORT const Pg_finfo_record *pg_finfo_feed_read(void);

const Pg_finfo_record *
pg_finfo_feed_read(void)
{
	static const Pg_finfo_record info = {1};

	watch_runs();
	return &info;
}

/* feed_read(name text, row_type anyelement, max_rows int, owner regrole) -> setof row_type */
Datum
feed_read(PG_FUNCTION_ARGS)
{
	uint64		taken = rows_taken(fcinfo, argument_value(fcinfo, 2, INT4OID));
	Feed		feed = take_feed(fcinfo, 3, NEED_ROWS);
	Value		batch;
	uint64		found = read_next(&feed, fcinfo, true, &batch);

	check_taken(found, taken);
	if (found > 0)
		move_feed(&feed, batch);
	else
		note_empty_poll(&feed, batch);
	return (Datum) 0;
}

/* feed_peek(name text, row_type anyelement, max_rows int, owner regrole) -> setof row_type */
Datum
feed_peek(PG_FUNCTION_ARGS)
{
	Feed		feed = find_feed(fcinfo, 3);
	Value		batch;

	look_at(&feed, NEED_ROWS);
	(void) read_next(&feed, fcinfo, false, &batch);
	return (Datum) 0;
}

/* feed_apply(name text, statement text, max_rows int, owner regrole) -> bigint */
Datum
feed_apply(PG_FUNCTION_ARGS)
{
	Feed		feed;
	Value		batch;
	uint64		processed;

	if (PG_ARGISNULL(1))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("statement must not be null")));
	feed = take_feed(fcinfo, 3, NEED_ROWS);
	refuse_pending(&feed);
	if (!find_rows(&feed, argument_value(fcinfo, 2, INT4OID), &batch))
		PG_RETURN_NULL();
	move_feed(&feed, batch);
	processed = query_batch(&feed.table, batch_query(&feed.table, batch, "e.*", false),
							text_to_cstring(PG_GETARG_TEXT_PP(1)));
	check_ground(&feed.table);
	PG_RETURN_INT64((int64) processed);
}

/*
 * What leaves the database must not be taken back by a crash: neither the rows
 * nor the batch itself, whatever synchronous_commit is or will be.
 */
void
make_durable(void)
{
	flush_wal_to_end();
	ForceSyncCommit();
}

Value
session_value(void)
{
	return value_of(ObjectIdGetDatum(state_session("feed")), OIDOID);
}

Value
pid_value(void)
{
	return value_of(Int32GetDatum(MyProcPid), INT4OID);
}

/*
 * The unfinished batch is its holder's while that session lives.  The holder is
 * kept with the batch, so that both come and go with one transaction, and no
 * session has to give back a lock on a batch that was finished elsewhere.
 */
bool
is_held_elsewhere(const Feed *feed, Value session, Value *pid)
{
	Value		holder[2];

	state_call(&holder_of, 1, &feed->id, 2, holder);
	*pid = holder[1];
	return !holder[0].null && DatumGetObjectId(holder[0].value) != DatumGetObjectId(session.value) &&
		state_lives("feed", DatumGetObjectId(holder[0].value));
}

static void
take_over(const Feed *feed)
{
	Value		session = session_value();
	Value		pid;
	Value		nothing;

	if (!OidIsValid(DatumGetObjectId(session.value)))
		return;					/* on a standby nobody has it */
	if (is_held_elsewhere(feed, session, &pid))
		state_call(&say_held, 3, (Value[]) {feed->name, feed->batch, pid}, 1, &nothing);
	state_call(&hand_over, 3, (Value[]) {feed->id, session, pid_value()}, 1, &nothing);
}

/* feed_next_batch(name text, max_rows int, owner regrole) -> bigint */
Datum
feed_next_batch(PG_FUNCTION_ARGS)
{
	Feed		feed = take_feed(fcinfo, 2, NEED_ROWS_UNLESS_PENDING);
	Value		batch;

	refuse_shared(&feed);
	if (feed.pending.null)
	{
		if (!find_rows(&feed, argument_value(fcinfo, 1, INT4OID), &batch))
			PG_RETURN_NULL();
		check_ground(&feed.table);
		state_call(&keep_pending, 6,
				   (Value[]) {feed.id, batch, session_value(), pid_value(), feed.asked, is_all_value(&feed)}, 1, &feed.batch);
	}
	else
		take_over(&feed);
	make_durable();
	PG_RETURN_DATUM(feed.batch.value);
}

static void
expect_pending(const Feed *feed, Value number)
{
	Value		nothing;

	state_call(&check_pending, 5, (Value[]) {feed->name, number, feed->batch, feed->finished, feed->pending}, 1, &nothing);
}

/* feed_batch_rows(name text, batch bigint, row_type anyelement, owner regrole) -> setof row_type */
Datum
feed_batch_rows(PG_FUNCTION_ARGS)
{
	Feed		feed = find_feed(fcinfo, 3);
	Value		number = argument_value(fcinfo, 1, INT8OID);
	Value		batch;

	look_at(&feed, NEED_ROWS);
	batch = worker_batch(&feed, number);
	if (batch.null)
	{
		expect_pending(&feed, number);
		batch = feed.pending;
	}
	check_row_type(&feed.table, fcinfo, 2);
	InitMaterializedSRF(fcinfo, 0);
	read_batch(&feed.table, batch, fcinfo);
	return (Datum) 0;
}

/* Whether feed_next_batch would return a batch now; one of another session is waited for */
static bool
has_next_batch(FunctionCallInfo fcinfo)
{
	Feed		feed = find_feed(fcinfo, 2);
	Value		pid;

	look_at(&feed, NEED_ROWS_UNLESS_PENDING);
	if (!feed.pending.null)
		return RecoveryInProgress() || !is_held_elsewhere(&feed, session_value(), &pid);
	return has_free_batch(&feed) || has_next(&feed.table, feed.position);
}

/* feed_wait(name text, timeout interval, owner regrole) -> boolean */
Datum
feed_wait(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(wait_until(has_next_batch, fcinfo, 1));
}

/* session_lives(number oid) -> boolean */
Datum
session_lives(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(!RecoveryInProgress() && state_lives("feed", PG_GETARG_OID(0)));
}

/* seen_feeds() -> setof inorder_internal.seen_feed */
Datum
seen_feeds(PG_FUNCTION_ARGS)
{
	state_rows(&seen, 1, (Value[]) {caller_value()}, fcinfo);
	return (Datum) 0;
}
