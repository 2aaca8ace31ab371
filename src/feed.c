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
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/multirangetypes.h"

#include "feed.h"
#include "next_batch.h"
#include "wal.h"

PG_FUNCTION_INFO_V1(feed_create);
PG_FUNCTION_INFO_V1(feed_drop);
PG_FUNCTION_INFO_V1(feed_grant);
PG_FUNCTION_INFO_V1(feed_revoke);
PG_FUNCTION_INFO_V1(feed_claim);
PG_FUNCTION_INFO_V1(feed_seek_to);
PG_FUNCTION_INFO_V1(feed_seek_start);
PG_FUNCTION_INFO_V1(feed_read);
PG_FUNCTION_INFO_V1(feed_apply);
PG_FUNCTION_INFO_V1(feed_next_batch);
PG_FUNCTION_INFO_V1(feed_batch_rows);
PG_FUNCTION_INFO_V1(feed_finish_batch);
PG_FUNCTION_INFO_V1(seen_feeds);

typedef struct Feed
{
	Value		id;
	Value		name;
	Table		table;
	Value		position;
	Value		batch;			/* number of the last one handed out */
	Value		pending;		/* which that is, while it is not finished */
} Feed;

/* The usual case in one query each; all others, and every error, are for the functions after them. */
static StateCall find_own = {
	"SELECT f.id FROM inorder_internal.feed AS f, pg_catalog.pg_class AS c"
	" WHERE f.name = $1 AND f.owner = $2 AND inorder_internal.is_own(f, $1, $2, $3) AND c.oid = f.relation"
};
static StateCall find = {"SELECT inorder_internal.find_feed($1, $2, $3)"};

/*
 * OFFSET 0, or the planner may ask is_fine() of every readable table before it
 * joins, which locks it: all feeds would wait for the owner of any.
 */
static StateCall fine_state = {
	"SELECT s.name, s.relation, s.t, (s.t).ordered, s.position, s.batch, s.pending"
	" FROM (SELECT f, f.name, f.relation::pg_catalog.oid, f.position, f.batch, f.pending, t"
	" FROM inorder_internal.feed AS f JOIN inorder_internal.feed_table AS t ON t.relation = f.relation"
	" WHERE f.id = $1 AND (f.pending).transactions IS NULL OFFSET '0'::pg_catalog.int8) AS s"
	" WHERE inorder_internal.may_move($2, s.f) AND inorder_internal.is_fine(s.t, $2)"
};
static StateCall state = {
	"SELECT s.name, s.relation, s.t, (s.t).ordered, s.at_position, s.batch, s.pending"
	" FROM inorder_internal.feed_state($1, $2, $3) AS s"
};
static StateCall check_name = {"SELECT inorder_internal.check_name($1)"};
static StateCall create = {"SELECT inorder_internal.create_feed($1, $2, $3, $4)"};
static StateCall drop = {"SELECT inorder_internal.drop_feed($1, $2)"};
static StateCall set_mover = {"SELECT inorder_internal.set_mover($1, $2, $3, $4)"};
static StateCall seek_to = {"SELECT inorder_internal.seek_to($1, $2, $3)"};
static StateCall seek_start = {"SELECT inorder_internal.seek_start($1, $2, $3)"};
static StateCall move = {"SELECT inorder_internal.move_feed($1, $2)"};
static StateCall keep_pending = {"SELECT inorder_internal.keep_pending($1, $2)"};
static StateCall check_pending = {"SELECT inorder_internal.check_pending($1, $2, $3, $4)"};
static StateCall say_pending = {"SELECT inorder_internal.say_pending($1, $2)"};
static StateCall check_batch = {"SELECT inorder_internal.check_batch($1, $2)"};
static StateCall seen = {"SELECT f.* FROM inorder_internal.feeds_of($1) AS f", .stable = true};

/* The id of a feed that the caller may move */
static Value
find_feed(FunctionCallInfo fcinfo, int owner)
{
	Value		caller = caller_value();
	Value		role = PG_ARGISNULL(owner) ? caller : argument_value(fcinfo, owner, OIDOID);
	Value		id;

	if (!state_look(&find_own, 3, (Value[]) {argument_value(fcinfo, 0, TEXTOID), role, caller}, 1, &id))
		state_call(&find, 3, (Value[]) {argument_value(fcinfo, 0, TEXTOID), role, caller}, 1, &id);
	return id;
}

/* What a call needs of the table */
typedef enum Need
{
	NEED_NOTHING,
	NEED_ROWS,
	NEED_ROWS_UNLESS_PENDING
} Need;

static Feed
look_at(Value id, Need need)
{
	Value		reads = need == NEED_ROWS_UNLESS_PENDING ? null_of(BOOLOID) : value_of(BoolGetDatum(need == NEED_ROWS), BOOLOID);
	Value		found[7];

	if (need == NEED_NOTHING || !state_look(&fine_state, 2, (Value[]) {id, caller_value()}, 7, found))
		state_call(&state, 3, (Value[]) {id, caller_value(), reads}, 7, found);
	return (Feed) {
		.id = id, .name = found[0], .position = found[4], .batch = found[5], .pending = found[6],
		.table = {
			.oid = DatumGetObjectId(found[1].value), .description = found[2],
			.ordered = DatumGetBool(found[3].value)
		}
	};
}

/* Readers of one feed take turns */
static void
lock_feed(Value id)
{
	state_lock("feed", (Oid) DatumGetInt64(id.value));
}

static Feed
take_feed(FunctionCallInfo fcinfo, int owner, Need need)
{
	Value		id = find_feed(fcinfo, owner);

	lock_feed(id);
	return look_at(id, need);
}

static void
refuse_pending(const Feed *feed)
{
	Value		nothing;

	if (!feed->pending.null)
		state_call(&say_pending, 2, (Value[]) {feed->name, feed->batch}, 1, &nothing);
}

static void
move_feed(const Feed *feed, Value batch)
{
	Value		nothing;

	state_call(&move, 2, (Value[]) {feed->id, batch}, 1, &nothing);
}

/* Whether a batch has rows; then the query for them, as they come */
static char *
query_if_filled(const Feed *feed, Value batch)
{
	Value		found;

	if (!query_row(&feed->table, psprintf("%s LIMIT 1", batch_query(&feed->table, batch, "'1'::pg_catalog.int4 AS found", false)),
				   false, 1, &found))
		return NULL;
	return batch_query(&feed->table, batch, "e.*", false);
}

/* feed_create(name text, relation regclass, start text, key_column name) */
Datum
feed_create(PG_FUNCTION_ARGS)
{
	Value		name = argument_value(fcinfo, 0, TEXTOID);
	Value		start = PG_ARGISNULL(2) ? value_of(CStringGetTextDatum("beginning"), TEXTOID) : argument_value(fcinfo, 2, TEXTOID);
	Value		position;
	Value		nothing;
	Table		table;
	Oid			relation;

	state_call(&check_name, 1, &name, 1, &nothing);
	relation = readable_argument(fcinfo, 1);
	ensure_enabled(relation, argument_value(fcinfo, 3, NAMEOID));
	table = open_table(relation);
	position = start_position(&table, start);
	state_call(&create, 4, (Value[]) {name, caller_value(), relation_value(relation), position}, 1, &nothing);
	PG_RETURN_VOID();
}

/* feed_drop(name text, owner regrole) */
Datum
feed_drop(PG_FUNCTION_ARGS)
{
	Value		id = find_feed(fcinfo, 1);
	Value		nothing;

	lock_feed(id);
	state_call(&drop, 2, (Value[]) {id, caller_value()}, 1, &nothing);
	PG_RETURN_VOID();
}

static void
change_mover(FunctionCallInfo fcinfo, bool allowed)
{
	Value		id = find_feed(fcinfo, 2);
	Value		nothing;

	if (PG_ARGISNULL(1))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("the role must not be null")));
	lock_feed(id);
	state_call(&set_mover, 4,
			   (Value[]) {id, caller_value(), argument_value(fcinfo, 1, OIDOID), value_of(BoolGetDatum(allowed), BOOLOID)},
			   1, &nothing);
}

/* feed_grant(name text, to_role regrole, owner regrole) */
Datum
feed_grant(PG_FUNCTION_ARGS)
{
	change_mover(fcinfo, true);
	PG_RETURN_VOID();
}

/* feed_revoke(name text, from_role regrole, owner regrole) */
Datum
feed_revoke(PG_FUNCTION_ARGS)
{
	change_mover(fcinfo, false);
	PG_RETURN_VOID();
}

/* feed_claim(name text, owner regrole) -> boolean */
Datum
feed_claim(PG_FUNCTION_ARGS)
{
	Value		id = find_feed(fcinfo, 1);

	PG_RETURN_BOOL(state_claim("feed", (Oid) DatumGetInt64(id.value)));
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
	feed = take_feed(fcinfo, 2, NEED_ROWS);
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

/* feed_read(name text, row_type anyelement, max_rows int, owner regrole) -> setof row_type */
Datum
feed_read(PG_FUNCTION_ARGS)
{
	Feed		feed = take_feed(fcinfo, 3, NEED_ROWS);
	Value		batch;

	refuse_pending(&feed);
	check_row_type(&feed.table, get_fn_expr_argtype(fcinfo->flinfo, 1));
	InitMaterializedSRF(fcinfo, 0);
	/* Without rows there is nothing to remember: an idle poll writes nothing. */
	if (next_batch(&feed.table, feed.position, argument_value(fcinfo, 2, INT4OID), &batch) &&
		query_rows(&feed.table, batch_query(&feed.table, batch, "e.*", true), fcinfo) > 0)
		move_feed(&feed, batch);
	return (Datum) 0;
}

/* feed_apply(name text, statement text, max_rows int, owner regrole) -> bigint */
Datum
feed_apply(PG_FUNCTION_ARGS)
{
	Feed		feed;
	Value		batch;
	char	   *query;

	if (PG_ARGISNULL(1))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("statement must not be null")));
	feed = take_feed(fcinfo, 3, NEED_ROWS);
	refuse_pending(&feed);
	if (!next_batch(&feed.table, feed.position, argument_value(fcinfo, 2, INT4OID), &batch) ||
		(query = query_if_filled(&feed, batch)) == NULL)
		PG_RETURN_NULL();
	move_feed(&feed, batch);
	PG_RETURN_INT64((int64) query_batch(&feed.table, query, text_to_cstring(PG_GETARG_TEXT_PP(1))));
}

/* What leaves the database must not be taken back by a crash: neither the rows nor the batch itself. */
static void
make_durable(void)
{
	flush_wal_to_end();
	if (synchronous_commit == SYNCHRONOUS_COMMIT_OFF)
		(void) set_config_option("synchronous_commit", "local", PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_LOCAL, true, 0, false);
}

/* feed_next_batch(name text, max_rows int, owner regrole) -> bigint */
Datum
feed_next_batch(PG_FUNCTION_ARGS)
{
	Feed		feed = take_feed(fcinfo, 2, NEED_ROWS_UNLESS_PENDING);
	Value		batch;

	if (feed.pending.null)
	{
		if (!next_batch(&feed.table, feed.position, argument_value(fcinfo, 1, INT4OID), &batch) ||
			query_if_filled(&feed, batch) == NULL)
			PG_RETURN_NULL();
		state_call(&keep_pending, 2, (Value[]) {feed.id, batch}, 1, &feed.batch);
	}
	make_durable();
	PG_RETURN_DATUM(feed.batch.value);
}

static void
expect_pending(const Feed *feed, Value number)
{
	Value		nothing;

	state_call(&check_pending, 4, (Value[]) {feed->name, number, feed->batch, feed->pending}, 1, &nothing);
}

/* feed_batch_rows(name text, batch bigint, row_type anyelement, owner regrole) -> setof row_type */
Datum
feed_batch_rows(PG_FUNCTION_ARGS)
{
	Feed		feed = look_at(find_feed(fcinfo, 3), NEED_ROWS);
	Value		nothing;

	expect_pending(&feed, argument_value(fcinfo, 1, INT8OID));
	state_call(&check_batch, 2, (Value[]) {feed.table.description, feed.pending}, 1, &nothing);
	check_row_type(&feed.table, get_fn_expr_argtype(fcinfo->flinfo, 2));
	InitMaterializedSRF(fcinfo, 0);
	(void) query_rows(&feed.table, batch_query(&feed.table, feed.pending, "e.*", true), fcinfo);
	return (Datum) 0;
}

/* feed_finish_batch(name text, batch bigint, owner regrole) -> boolean */
Datum
feed_finish_batch(PG_FUNCTION_ARGS)
{
	Feed		feed = take_feed(fcinfo, 2, NEED_NOTHING);
	Value		number = argument_value(fcinfo, 1, INT8OID);

	if (feed.pending.null && !number.null && DatumGetInt64(number.value) == DatumGetInt64(feed.batch.value))
		PG_RETURN_BOOL(false);
	expect_pending(&feed, number);
	move_feed(&feed, feed.pending);
	PG_RETURN_BOOL(true);
}

/* seen_feeds() -> setof inorder_internal.seen_feed */
Datum
seen_feeds(PG_FUNCTION_ARGS)
{
	state_rows(&seen, 1, (Value[]) {caller_value()}, fcinfo);
	return (Datum) 0;
}
