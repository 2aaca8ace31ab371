/*
 * workers.c
 *	  Batches of workers, of which a feed may have several at once.
 *
 * A worker that asks takes the lock of the feed, as any reader does: it may
 * move the position over a new batch.  Who finishes, returns or keeps a batch
 * changes nothing but the row of that batch, and waits for no other worker.
 * Which batch a worker gets, and what a token is worth, is in sql/workers.sql.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "ground.h"
#include "next_batch.h"
#include "shares.h"
#include "workers.h"

PG_FUNCTION_INFO_V1(feed_take_batch);
PG_FUNCTION_INFO_V1(feed_renew_batch);
PG_FUNCTION_INFO_V1(seen_batches);

#define RESULTS 4				/* number, token, tries, end of the lease */
#define PIECES_MAX 64			/* distributed by one call: some 5 ms each */

static StateCall check_worker = {"SELECT inorder_internal.check_worker($1, $2, $3)"};
static StateCall check_unordered = {"SELECT inorder_internal.check_unordered($1, $2)"};
static StateCall say_held = {"SELECT inorder_internal.say_held($1, $2, $3)"};
static StateCall share_pending = {"SELECT inorder_internal.share_pending($1)"};
static StateCall take = {
	"SELECT t.batch, t.token, t.tries, t.lease_end FROM inorder_internal.take_batch($1, $2, $3, $4, $5, $6, $7) AS t"
};
static StateCall give = {
	"SELECT g.batch, g.token, g.tries, g.lease_end FROM inorder_internal.give_batch($1, $2, $3, $4, $5, $6, $7) AS g"
};
static StateCall add = {"SELECT inorder_internal.add_batch($1, $2, $3, $4)"};
static StateCall batch_of = {"SELECT b.batch, b.share FROM inorder_internal.batch_of($1, $2) AS b"};
static StateCall has_free = {"SELECT inorder_internal.has_free($1)"};
static StateCall renew = {"SELECT inorder_internal.renew_batch($1, $2, $3, $4, $5)"};
static StateCall seen = {"SELECT b.* FROM inorder_internal.batches_of($1) AS b", .stable = true};

/* An unfinished batch of feed_next_batch() becomes theirs, unless a session has it. */
static void
share(const Feed *feed)
{
	Value		pid;
	Value		nothing;

	if (!feed->share_key.null)
	{
		prove_share_key(feed);
		return;
	}
	state_call(&check_unordered, 2, (Value[]) {feed->name, feed->position}, 1, &nothing);
	if (feed->pending.null)
		return;
	if (is_held_elsewhere(feed, session_value(), &pid))
		state_call(&say_held, 3, (Value[]) {feed->name, feed->batch, pid}, 1, &nothing);
	state_call(&share_pending, 1, &feed->id, 1, &nothing);
}

/* Store what comes next as a batch that no worker has; false if there is nothing new */
static bool
add_batch(Feed *feed, Value max_rows, Value *number)
{
	Value		batch;

	if (!find_rows(feed, max_rows, &batch))
		return false;
	check_ground(&feed->table);
	state_call(&add, 4, (Value[]) {feed->id, batch, feed->asked, is_all_value(feed)}, 1, number);
	return true;
}

/*
 * A batch of a share, with at least half as many rows as are wanted if there
 * are that many: until then the feed is distributed, piece by piece.  That ends
 * after some pieces, since others who ask wait; the rest is for the next call.
 */
static bool
take_share(Feed *feed, Value max_rows, Value *asked, Value *results)
{
	int64		enough = max_rows.null ? 0 : ((int64) DatumGetInt32(max_rows.value) + 1) / 2;
	int			pieces = 0;
	bool		more = true;
	bool		found;

	asked[6] = value_of(Int64GetDatum(enough), INT8OID);
	while (!(found = state_look(&take, 7, asked, RESULTS, results)) && pieces < PIECES_MAX)
	{
		CHECK_FOR_INTERRUPTS();
		if (!(more = distribute(feed, max_rows)))
			break;
		pieces++;
	}
	asked[6] = value_of(Int64GetDatum(0), INT8OID);
	if (!found && !state_look(&take, 7, asked, RESULTS, results))
		return false;
	if (pieces > 0 && (feed->is_all || !more))
		note_caught_up(feed);
	return true;
}

/* One that a worker has or had, or a new one */
static bool
take_any(Feed *feed, Value max_rows, Value *asked, Value *results)
{
	asked[6] = null_of(INT8OID);
	return state_look(&take, 7, asked, RESULTS, results) ||
		(add_batch(feed, max_rows, &asked[6]) && state_look(&give, 7, asked, RESULTS, results));
}

static Datum
row_of(FunctionCallInfo fcinfo, const Value *results)
{
	TupleDesc	columns;
	Datum		values[RESULTS];
	bool		nulls[RESULTS];

	if (get_call_result_type(fcinfo, NULL, &columns) != TYPEFUNC_COMPOSITE || columns->natts != RESULTS)
		elog(ERROR, "feed_take_batch() has another result");
	for (int i = 0; i < RESULTS; i++)
	{
		values[i] = results[i].value;
		nulls[i] = results[i].null;
	}
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(columns), values, nulls));
}

/* feed_take_batch(name text, worker text, max_rows int, lease interval, max_tries int, owner regrole) -> record */
Datum
feed_take_batch(PG_FUNCTION_ARGS)
{
	Value		worker = argument_value(fcinfo, 1, TEXTOID);
	Value		lease = argument_value(fcinfo, 3, INTERVALOID);
	Value		max_tries = argument_value(fcinfo, 4, INT4OID);
	Value		nothing;
	Value		results[RESULTS] = {{.null = true}, {.null = true}, {.null = true}, {.null = true}};
	Feed		feed;
	Value		asked[7];

	state_call(&check_worker, 3, (Value[]) {worker, lease, max_tries}, 1, &nothing);
	feed = take_feed(fcinfo, 5, NEED_ROWS);
	share(&feed);
	memcpy(asked, (Value[]) {feed.id, worker, lease, max_tries, session_value(), pid_value()}, sizeof(Value) * 6);
	if ((feed.share_key.null ? take_any : take_share) (&feed, argument_value(fcinfo, 2, INT4OID), asked, results))
		make_durable();
	return row_of(fcinfo, results);
}

/* feed_renew_batch(name text, batch bigint, token bigint, lease interval, owner regrole) -> timestamptz */
Datum
feed_renew_batch(PG_FUNCTION_ARGS)
{
	Feed		feed = find_feed(fcinfo, 4);
	Value		lease_end;

	look_at(&feed, NEED_NOTHING);
	state_call(&renew, 5, (Value[]) {feed.name, feed.id, argument_value(fcinfo, 1, INT8OID), argument_value(fcinfo, 2, INT8OID),
			   argument_value(fcinfo, 3, INTERVALOID)}, 1, &lease_end);
	ForceSyncCommit();			/* the worker relies on it, whether or not the server crashes */
	PG_RETURN_DATUM(lease_end.value);
}

/* An unfinished batch by its number, whose rows are read from now on; null if workers have none of that number */
Value
worker_batch(Feed *feed, Value number)
{
	Value		found[2];

	state_call(&batch_of, 2, (Value[]) {feed->id, number}, 2, found);
	if (!found[1].null && !feed->share_key.null)
		read_share(feed, found[1]);
	return found[0];
}

/* Whether a worker that asks would get one that another had */
bool
has_free_batch(const Feed *feed)
{
	Value		found;

	state_call(&has_free, 1, &feed->id, 1, &found);
	return DatumGetBool(found.value);
}

/* seen_batches() -> setof inorder_internal.seen_batch */
Datum
seen_batches(PG_FUNCTION_ARGS)
{
	state_rows(&seen, 1, (Value[]) {caller_value()}, fcinfo);
	return (Datum) 0;
}
