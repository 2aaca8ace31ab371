/*
 * kept.c
 *	  Find a feed by its name, read its current state, and move the feed.
 *
 * Each read of a feed needs the state of the feed.  Starting the executor would
 * take ten times as long as finding the rows of the state by their keys.  The
 * rows are therefore found by index scans, like rows of the server's catalogs.
 * become_owner() or state_owner() has locked the table "feed", and no other
 * session can drop the extension.  If a feed cannot be read, SQL functions
 * report why (checked_feed(), find_feed()).
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_collation_d.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "ports/kept.h"

PG_FUNCTION_INFO_V1(movable_feed);
PG_FUNCTION_INFO_V1(view_feed);

/* Attributes of the type feed_view, in the order of the type; the last constant is the number of attributes. */
enum
{
	VIEW_FEED_ID, VIEW_CALLER, VIEW_NAME, VIEW_RELATION, VIEW_TABLE, VIEW_POSITION, VIEW_WHOLE, VIEW_SHARED,
	VIEW_SHARED_BY, VIEW_IS_POLL_DUE, VIEW_IS_RENAMED, VIEW_ASKED, VIEW_NEXT, VIEW_IS_FOUND, VIEW_VERSION,
	VIEW_COLUMNS
};

/* Attributes of the type share_key, in the order of the type; the last constant is the number of attributes. */
enum
{
	SHARE_COLUMN_NAME, SHARE_ATTNUM, SHARE_KIND, SHARE_COUNT, SHARE_FINGERPRINT, SHARE_COLUMNS
};

/* The highest number of a batch: see next_number() */
#define BATCH_MAX ((INT64CONST(1) << 53) - 1)

/* Find a table of the state by its name */
Oid
state_table(const char *name)
{
	return get_relname_relid(name, get_namespace_oid(INTERNAL_SCHEMA, false));
}

/*
 * Raise an error unless the current role may write the state.  Functions that are called from SQL make this check,
 * because the role of the caller is one of their arguments, and a role with EXECUTE on all functions of the schema
 * could pass any role.
 */
void
check_state_writer(void)
{
	if (pg_class_aclcheck(state_table("feed_state"), GetUserId(), ACL_UPDATE) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, "feed_state");
}

static ScanKeyData
equals(AttrNumber column, Oid collation, RegProcedure function, Datum value)
{
	ScanKeyData key;

	ScanKeyEntryInitialize(&key, 0, column, BTEqualStrategyNumber, InvalidOid, collation, function, value);
	return key;
}

/*
 * Return the first row of a table with these index keys, in the active snapshot; the last row if the index is read
 * backward
 */
static Row
row_by_key(const char *table_name, int columns, const char *index_name, int count, ScanKeyData *keys,
		   ScanDirection direction)
{
	Row			row = {0};
	Relation	table = table_open(state_table(table_name), AccessShareLock);
	Relation	index = index_open(state_table(index_name), AccessShareLock);
	SysScanDesc scan = systable_beginscan_ordered(table, index, GetActiveSnapshot(), count, keys);
	HeapTuple	tuple = systable_getnext_ordered(scan, direction);

	expect_columns(RelationGetDescr(table), columns, table_name);
	if (HeapTupleIsValid(tuple))
	{
		row.tuple = heap_copytuple(tuple);
		heap_deform_tuple(row.tuple, RelationGetDescr(table), row.values, row.nulls);
	}
	systable_endscan_ordered(scan);
	index_close(index, NoLock);
	table_close(table, NoLock);
	return row;
}

/*
 * Find a feed that the caller may move, among the feeds that were created on this server.  Return false if there is no
 * such feed; SQL functions then also search the feeds of other servers, or raise the error.
 */
bool
find_movable(Datum name, Datum owner, Oid caller, Row *feed)
{
	ScanKeyData keys[] = {
		equals(FEED_NAME + 1, DEFAULT_COLLATION_OID, F_TEXTEQ, name),
		equals(FEED_OWNER + 1, InvalidOid, F_OIDEQ, owner),
		equals(FEED_SYSTEM + 1, DEFAULT_COLLATION_OID, F_TEXTEQ, CStringGetTextDatum(system_of_server()))
	};

	*feed = row_by_key("feed", FEED_COLUMNS, "feed_name_owner_system_key", lengthof(keys), keys, ForwardScanDirection);
	return feed->tuple != NULL && role_may_move(caller, feed);
}

/* movable_feed(name text, owner oid, caller oid) -> feed, or null */
Datum
movable_feed(PG_FUNCTION_ARGS)
{
	Row			feed;

	check_state_writer();
	if (!find_movable(PG_GETARG_DATUM(0), PG_GETARG_DATUM(1), PG_GETARG_OID(2), &feed))
		PG_RETURN_NULL();
	PG_RETURN_DATUM(result_row(fcinfo, &feed, FEED_COLUMNS));
}

Row
feed_by_id(Datum feed)
{
	ScanKeyData key = equals(FEED_ID + 1, InvalidOid, F_INT8EQ, feed);

	return row_by_key("feed", FEED_COLUMNS, "feed_pkey", 1, &key, ForwardScanDirection);
}

/* Return the newest version of the state of a feed */
static Row
state_of(Datum feed)
{
	ScanKeyData key = equals(STATE_FEED + 1, InvalidOid, F_INT8EQ, feed);

	return row_by_key("feed_state", STATE_COLUMNS, "feed_state_pkey", 1, &key, BackwardScanDirection);
}

/* Find an unfinished batch by its number */
Row
batch_by_number(Datum feed, Datum number)
{
	ScanKeyData keys[] = {
		equals(KEPT_FEED + 1, InvalidOid, F_INT8EQ, feed), equals(KEPT_NUMBER + 1, InvalidOid, F_INT8EQ, number)
	};

	return row_by_key("worker_batch", KEPT_COLUMNS, "worker_batch_pkey", lengthof(keys), keys, ForwardScanDirection);
}

/* A condition for first_unfinished() */
typedef bool (*IsWanted) (HeapTuple batch, TupleDesc columns, Datum worker);

static Datum
column_of(HeapTuple batch, TupleDesc columns, int column)
{
	bool		is_null;
	Datum		value = heap_getattr(batch, column + 1, columns, &is_null);

	return is_null ? (Datum) 0 : value;
}

static bool
is_any(HeapTuple batch, TupleDesc columns, Datum worker)
{
	return true;
}

/* Return true for a batch of this worker, and for a batch that any worker may take */
static bool
is_for_worker(HeapTuple batch, TupleDesc columns, Datum worker)
{
	Datum		holder = column_of(batch, columns, KEPT_WORKER);

	return DatumGetTimestampTz(column_of(batch, columns, KEPT_LEASE_END)) <= GetCurrentTimestamp() ||
		(holder != (Datum) 0 && DatumGetBool(DirectFunctionCall2Coll(texteq, DEFAULT_COLLATION_OID, holder, worker)));
}

/*
 * Return the lowest number of an unfinished batch that satisfies a condition, or 0.  If "dead" is true, only dead
 * batches are searched.  Otherwise the other batches are searched, from the number "from" on.
 */
static int64
first_unfinished(Datum feed, int64 from, bool dead, IsWanted is_wanted, Datum worker)
{
	Relation	batches = table_open(state_table("worker_batch"), AccessShareLock);
	const char *name = dead ? "worker_batch_feed_idx" : "worker_batch_feed_number_idx";
	Relation	index = index_open(state_table(name), AccessShareLock);
	TupleDesc	columns = RelationGetDescr(batches);
	ScanKeyData keys[2] = {equals(KEPT_FEED + 1, InvalidOid, F_INT8EQ, feed)};
	SysScanDesc scan;
	HeapTuple	tuple;
	int64		number = 0;

	ScanKeyEntryInitialize(&keys[1], 0, KEPT_NUMBER + 1, BTGreaterEqualStrategyNumber, InvalidOid, InvalidOid, F_INT8GE,
						   Int64GetDatum(from));
	scan = systable_beginscan_ordered(batches, index, GetActiveSnapshot(), dead ? 1 : 2, keys);
	while (number == 0 && HeapTupleIsValid(tuple = systable_getnext_ordered(scan, ForwardScanDirection)))
		if (DatumGetBool(column_of(tuple, columns, KEPT_WRITTEN_HERE)) && is_wanted(tuple, columns, worker))
			number = DatumGetInt64(column_of(tuple, columns, KEPT_NUMBER));
	systable_endscan_ordered(scan);
	index_close(index, NoLock);
	table_close(batches, NoLock);
	return number;
}

static int64
lowest_of(const Row *state)
{
	return state->nulls[STATE_FIRST_BATCH] ? PG_INT64_MIN : DatumGetInt64(state->values[STATE_FIRST_BATCH]);
}

/*
 * Return true if a poll that finds no rows should be recorded.  The first such poll after a poll with rows is recorded;
 * later polls are recorded every 30 seconds.
 */
static bool
is_poll_due(const Feed *feed)
{
	const Row  *state = &feed->state;
	TimestampTz polled = DatumGetTimestampTz(state->nulls[STATE_POLLED] ? feed->row.values[FEED_CREATED] :
											 state->values[STATE_POLLED]);
	TimestampTz now = GetCurrentTimestamp();
	bool		has_caught_up = state->nulls[STATE_POLLED] ? state->nulls[STATE_CAUGHT_UP_AT] :
		!state->nulls[STATE_CAUGHT_UP_AT] && state->values[STATE_POLLED] == state->values[STATE_CAUGHT_UP_AT];

	/* The clock may have been set back. */
	return (!has_caught_up && !feed->is_divided) || !feed->position.nulls[POSITION_PARTIAL] ||
		!feed->order.nulls[ORDER_FROZEN] || polled < now - 30 * USECS_PER_SEC || polled > now + USECS_PER_SEC;
}

/* Return true if this worker would get an unfinished batch; has_free() in SQL makes the same check */
bool
has_free_batch(const Feed *feed, Datum worker)
{
	bool		result;

	PushActiveSnapshot(GetTransactionSnapshot());
	result = feed->is_shared &&
		first_unfinished(feed->row.values[FEED_ID], lowest_of(&feed->state), false, is_for_worker, worker) != 0;
	PopActiveSnapshot();
	return result;
}

/*
 * Set the members of a feed that are derived from its row and its state.  Return false if must_read is true, and the
 * transaction numbers in the table may come from another server.
 */
static bool
read_details(Feed *feed, bool must_read)
{
	const char *owner = GetUserNameFromId(DatumGetObjectId(feed->row.values[FEED_OWNER]), true);
	Row			shares = row_of(feed->row.values[FEED_SHARED_BY], feed->row.nulls[FEED_SHARED_BY], SHARE_COLUMNS);
	Datum		id = feed->row.values[FEED_ID];
	ScanKeyData key = equals(TABLE_RELATION + 1, InvalidOid, F_OIDEQ, feed->row.values[FEED_RELATION]);
	Row			table = row_by_key("feed_table", TABLE_COLUMNS, "feed_table_pkey", 1, &key, ForwardScanDirection);

	if (must_read && !DatumGetBool(table.values[TABLE_WRITTEN_HERE]) && !DatumGetBool(table.values[TABLE_IS_GENERATED]))
		return false;
	feed->table = table.tuple == NULL ? (Datum) 0 :
		row_datum(&table, TABLE_COLUMNS, get_rel_type_id(state_table("feed_table")));
	feed->position = row_of(feed->state.values[STATE_POSITION], false, POSITION_COLUMNS);
	feed->order = row_of(feed->position.values[POSITION_ORDERING], feed->position.nulls[POSITION_ORDERING], ORDER_COLUMNS);
	feed->is_divided = !shares.nulls[SHARE_COUNT];
	/* In a feed that is ordered by a column, no batch may overtake a dead batch. */
	feed->is_shared = !feed->is_divided && !feed->state.nulls[STATE_FIRST_BATCH] &&
		(first_unfinished(id, lowest_of(&feed->state), false, is_any, (Datum) 0) != 0 ||
		 (!feed->order.nulls[ORDER_COLUMN_NAME] && first_unfinished(id, 0, true, is_any, (Datum) 0) != 0));
	feed->is_poll_due = is_poll_due(feed);
	feed->is_renamed = owner != NULL && strcmp(owner, NameStr(*DatumGetName(feed->row.values[FEED_OWNER_NAME]))) != 0 &&
		strcmp(TextDatumGetCString(feed->row.values[FEED_SYSTEM]), system_of_server()) == 0;
	/* This time must not be later than the snapshot that is used to look for rows. */
	feed->asked = XactIsoLevel == XACT_READ_COMMITTED ? GetCurrentTimestamp() : GetCurrentTransactionStartTimestamp();
	return true;
}

/*
 * Read the current state of a feed.  Return false unless the feed exists, its state was written on this server, and the
 * caller may move the feed.  If must_read is true, the table of the feed is locked first, and the result is false
 * unless the caller may also read the table.
 */
static bool
read_feed(Datum id, Oid relation, Oid caller, bool must_read, Feed *feed)
{
	bool		result;

	if (must_read ? !lock_readable(caller, relation) : get_rel_relkind(relation) == '\0')
		return false;
	PushActiveSnapshot(GetTransactionSnapshot());
	feed->row = feed_by_id(id);
	feed->state = state_of(id);
	result = feed->row.tuple != NULL && feed->state.tuple != NULL &&
		DatumGetObjectId(feed->row.values[FEED_RELATION]) == relation &&
		DatumGetBool(feed->state.values[STATE_WRITTEN_HERE]) &&
		role_may_move(caller, &feed->row) && read_details(feed, must_read);
	PopActiveSnapshot();
	return result;
}

/*
 * Find a feed that the caller may move and read, and read its current state.  If "moves" is true, first wait until no
 * other reader moves the feed.  Return false if there is no such feed; SQL functions then raise the error, or find the
 * feed (see find_movable()).
 */
bool
open_feed(Datum name, Datum owner, Oid caller, bool moves, Feed *feed)
{
	Row			row;

	if (!find_movable(name, owner, caller, &row))
		return false;
	if (moves)
		take_turn(row.values[FEED_ID]);
	if (read_feed(row.values[FEED_ID], DatumGetObjectId(row.values[FEED_RELATION]), caller, true, feed))
		return true;
	/* checked_feed() raises the error about a concurrent change, unless the change was undone. */
	PushActiveSnapshot(GetTransactionSnapshot());
	(void) owner_call("checked_feed", 4, (Value[]) {
		value_of(row.values[FEED_ID], INT8OID), value_of(ObjectIdGetDatum(caller), OIDOID),
			value_of(BoolGetDatum(true), BOOLOID), value_of(BoolGetDatum(false), BOOLOID)
	});
	PopActiveSnapshot();
	return false;
}

/* view_feed(feed bigint, relation oid, caller oid, must_read boolean) -> view, or null */
Datum
view_feed(PG_FUNCTION_ARGS)
{
	Row			view = empty_row();
	Feed		feed;

	check_state_writer();
	if (!read_feed(PG_GETARG_DATUM(0), PG_GETARG_OID(1), PG_GETARG_OID(2), PG_GETARG_BOOL(3), &feed))
		PG_RETURN_NULL();
	set_column(&view, VIEW_FEED_ID, feed.row.values[FEED_ID]);
	set_column(&view, VIEW_CALLER, PG_GETARG_DATUM(2));
	set_column(&view, VIEW_NAME, feed.row.values[FEED_NAME]);
	set_column(&view, VIEW_RELATION, feed.row.values[FEED_RELATION]);
	if (feed.table != (Datum) 0)
		set_column(&view, VIEW_TABLE, feed.table);
	set_column(&view, VIEW_POSITION, feed.state.values[STATE_POSITION]);
	set_column(&view, VIEW_WHOLE, feed.row.values[FEED_WHOLE]);
	set_column(&view, VIEW_SHARED, BoolGetDatum(feed.is_shared));
	if (feed.is_divided)
		set_column(&view, VIEW_SHARED_BY, feed.row.values[FEED_SHARED_BY]);
	set_column(&view, VIEW_IS_POLL_DUE, BoolGetDatum(feed.is_poll_due));
	set_column(&view, VIEW_IS_RENAMED, BoolGetDatum(feed.is_renamed));
	set_column(&view, VIEW_ASKED, TimestampTzGetDatum(feed.asked));
	set_column(&view, VIEW_IS_FOUND, BoolGetDatum(false));
	PG_RETURN_DATUM(result_row(fcinfo, &view, VIEW_COLUMNS));
}

/* Raise the same error as the executor does after a concurrent update. */
void
refuse_concurrent(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent update")));
}

/*
 * Return the newest state of a locked feed, in the active snapshot.  Raise an error if the state has changed since this
 * call read it.
 */
static Row
state_to_move(const Feed *feed)
{
	Row			state = state_of(feed->row.values[FEED_ID]);

	if (state.tuple == NULL || !ItemPointerEquals(&state.tuple->t_self, &feed->state.tuple->t_self))
		refuse_concurrent();
	return state;
}

/*
 * Return the position of a feed after a batch that find_next_batch() has found.  This batch does not begin inside a
 * transaction, and is not ordered by a column.  For other batches see advance() in SQL.
 */
static Row
position_after(const Feed *feed, HeapTupleHeader batch)
{
	Row			position = feed->position;
	Row			row = row_of(PointerGetDatum(batch), false, BATCH_COLUMNS);
	Numbers		read = numbers_of(DatumGetMultirangeTypeP(row.values[BATCH_TRANSACTIONS]));
	int64		cut = DatumGetInt64(row.values[BATCH_CUT]);
	Range		last_number = {cut, cut + 1};

	if (!row.nulls[BATCH_CUT])
		read = difference(read, (Numbers) {1, &last_number});
	read = united(numbers_of(DatumGetMultirangeTypeP(position.values[POSITION_TRANSACTIONS])), read);
	set_column(&position, POSITION_FORMAT, row.values[BATCH_FORMAT]);
	set_column(&position, POSITION_TRANSACTIONS, numbers_datum(read));
	position.values[POSITION_PARTIAL] = row.values[BATCH_CUT];
	position.nulls[POSITION_PARTIAL] = row.nulls[BATCH_CUT];
	position.values[POSITION_LAST_KEY] = row.values[BATCH_CUT_AFTER];
	position.nulls[POSITION_LAST_KEY] = row.nulls[BATCH_CUT_AFTER];
	set_column(&position, POSITION_MEMBERS, row.values[BATCH_MEMBERS]);
	set_column(&position, POSITION_ORIGIN, row.values[BATCH_ORIGIN]);
	return position;
}

/*
 * Set the number of a new batch, and the lower bound of the numbers of
 * unfinished batches.  The bound is not updated when a batch is finished,
 * because the feed is not locked then.
 */
static void
give_batch(Row *state, Datum origin)
{
	int64		batch = DatumGetInt64(state->values[STATE_BATCH]);
	int64		first = first_unfinished(state->values[STATE_FEED], lowest_of(state), false, is_any, (Datum) 0);
	bool		is_same = !state->nulls[STATE_BATCH_ORIGIN] &&
		DatumGetBool(DirectFunctionCall2Coll(texteq, DEFAULT_COLLATION_OID, state->values[STATE_BATCH_ORIGIN], origin));

	set_column(state, STATE_FIRST_BATCH, Int64GetDatum(first != 0 ? first : batch + 1));
	set_column(state, STATE_BATCH, is_same && batch < BATCH_MAX ? Int64GetDatum(batch + 1) :
			   owner_call("next_number", 2, (Value[]) {
		value_of(state->values[STATE_BATCH], INT8OID),
			(Value) {state->values[STATE_BATCH_ORIGIN], TEXTOID, state->nulls[STATE_BATCH_ORIGIN]}
	}).value);
	set_column(state, STATE_BATCH_ORIGIN, origin);
}

/* Move a locked feed past a batch.  Returns the number of the batch if it is given to a worker. */
int64
move_feed(const Feed *feed, HeapTupleHeader batch, bool is_all, bool gives)
{
	HeapTupleHeader old_position = DatumGetHeapTupleHeader(feed->state.values[STATE_POSITION]);
	Row			position = position_after(feed, batch);
	Relation	states;
	Row			state;
	int64		page;

	PreventCommandIfReadOnly("UPDATE");
	PreventCommandIfParallelMode("UPDATE");
	states = table_open(state_table("feed_state"), RowExclusiveLock);
	PushActiveSnapshot(GetLatestSnapshot());
	state = state_to_move(feed);
	page = ItemPointerGetBlockNumber(&state.tuple->t_self);
	set_column(&state, STATE_POSITION, row_datum(&position, POSITION_COLUMNS, HeapTupleHeaderGetTypeId(old_position)));
	set_column(&state, STATE_MOVED, TimestampTzGetDatum(GetCurrentTimestamp()));
	set_column(&state, STATE_POLLED, TimestampTzGetDatum(feed->asked));
	if (is_all)
		set_column(&state, STATE_CAUGHT_UP_AT, TimestampTzGetDatum(feed->asked));
	/* If the row has left its page since the last update, seq is increased: see next_seq() in sql/ports/state.sql. */
	if (state.nulls[STATE_PAGE] || DatumGetInt64(state.values[STATE_PAGE]) != page)
		state.values[STATE_SEQ] = Int64GetDatum(DatumGetInt64(state.values[STATE_SEQ]) + 1);
	set_column(&state, STATE_PAGE, Int64GetDatum(page));
	if (gives)
		give_batch(&state, position.values[POSITION_ORIGIN]);
	PopActiveSnapshot();
	set_column(&state, STATE_WRITTEN_HERE, BoolGetDatum(true));
	CatalogTupleUpdate(states, &state.tuple->t_self, heap_form_tuple(RelationGetDescr(states), state.values, state.nulls));
	CommandCounterIncrement();
	table_close(states, NoLock);
	return DatumGetInt64(state.values[STATE_BATCH]);
}
