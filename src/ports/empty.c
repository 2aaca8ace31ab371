/*
 * empty.c
 *	  Calls that found nothing, and are not made again.
 *
 * Most polls find nothing.  The same call finds nothing again while no
 * transaction has ended on the server (wait.c): positions, tables and
 * privileges change by transactions, too.  If some have ended, it finds nothing
 * if the rows of the state that it looked at are the same versions, nothing was
 * invalidated by which it may read and move the feed, and these transactions
 * have no rows in the table (idle.c).
 *
 * A version is known by its place and by the transaction that wrote it, as long
 * as nothing has copied the table that it is in.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "compat.h"
#include "names.h"
#include "ports/idle.h"
#include "ports/rights.h"
#include "ports/state.h"
#include "ports/wait.h"

PG_FUNCTION_INFO_V1(found_empty);
PG_FUNCTION_INFO_V1(note_empty);

#define REMEMBERED_MS 10000		/* less than the minute after which a poll is recorded */

/* The tables whose rows a look reads, in the order of taken.places and taken.writers */
static const char *const state_tables[] = {"feed", "feed_state", "feed_table"};

#define STATE_TABLES lengthof(state_tables)

/* A version of a row */
typedef struct Version
{
	Oid			table;
	ItemPointerData place;
	TransactionId writer;
} Version;

/* A call: who made it, with which arguments, and how many transactions had ended then */
typedef struct Call
{
	uint64		ended;
	char	   *asked;
	double		at_ms;
} Call;

/* What the last call that found nothing had looked at */
typedef struct Look
{
	Call		call;			/* .asked is null if there was none */
	Oid			relation;		/* table of the feed */
	Oid			caller;
	Datum		table;			/* feed_table: its description; 0 if the versions are not known */
	Datum		position;		/* feed_position */
	Version		state[STATE_TABLES];
} Look;

static Call made;				/* the last one; .asked is null if no other may rely on it */
static Look empty;
static MemoryContext memory = NULL; /* of what both point to */

/* Something was invalidated that a look relies on */
static void
forget_relation(Datum unused, Oid relation)
{
	bool		is_state = false;

	for (int i = 0; i < STATE_TABLES; i++)
		is_state = is_state || empty.state[i].table == relation;
	if (!OidIsValid(relation) || relation == empty.relation || is_state)
		empty.table = (Datum) 0;
}

static void
forget_roles(Datum unused, int cache, uint32 hash)
{
	empty.table = (Datum) 0;
}

static void
begin_to_remember(void)
{
	if (memory != NULL)
		return;
	memory = AllocSetContextCreate(TopMemoryContext, "inorder: a call that found nothing", ALLOCSET_SMALL_SIZES);
	CacheRegisterRelcacheCallback(forget_relation, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHOID, forget_roles, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, forget_roles, (Datum) 0);
}

/* Whether a version of a row is still the one that is seen */
static bool
is_current(const Version *version, Snapshot snapshot)
{
	Relation	state = table_open(version->table, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(state, NULL);
	ItemPointerData place = version->place;
	bool		is_null;
	bool		result;

	/* VACUUM may have cut off its page */
	result = ItemPointerGetBlockNumber(&place) < RelationGetNumberOfBlocks(state) &&
		table_tuple_fetch_row_version(state, &place, snapshot, slot) &&
		DatumGetTransactionId(slot_getsysattr(slot, MinTransactionIdAttributeNumber, &is_null)) == version->writer;
	ExecDropSingleTupleTableSlot(slot);
	table_close(state, NoLock);
	return result;
}

static bool
is_state_current(void)
{
	bool		result = true;

	PushActiveSnapshot(GetTransactionSnapshot());
	for (int i = 0; i < STATE_TABLES && result; i++)
		result = is_current(&empty.state[i], GetActiveSnapshot());
	PopActiveSnapshot();
	return result;
}

/* Whether a look would find nothing again, after transactions have ended.  The lock makes the server process invalidations. */
static bool
is_still_empty(void)
{
	if (empty.table == (Datum) 0)
		return false;
	LockRelationOid(empty.relation, AccessShareLock);
	return empty.table != (Datum) 0 && role_may_read(empty.caller, empty.relation) && is_state_current() &&
		empty.table != (Datum) 0 && is_idle_table(empty.table, empty.position, empty.caller);
}

static bool
is_same_call(const char *asked)
{
	return empty.call.asked != NULL && made.at_ms - empty.call.at_ms <= REMEMBERED_MS && strcmp(empty.call.asked, asked) == 0;
}

/*
 * found_empty(asked text) -> oid
 *
 * In a transaction that keeps its snapshot, or has changed something itself, the
 * next call may find what this one did not.
 */
Datum
found_empty(PG_FUNCTION_ARGS)
{
	begin_to_remember();
	if (made.asked != NULL)
		pfree(made.asked);
	made = (Call) {.ended = ended_count(), .at_ms = now_ms()};
	if (IsolationUsesXactSnapshot() || TransactionIdIsValid(GetTopTransactionIdIfAny()))
		PG_RETURN_NULL();
	made.asked = MemoryContextStrdup(TopMemoryContext, text_to_cstring(PG_GETARG_TEXT_PP(0)));
	if (!is_same_call(made.asked) || (empty.call.ended != made.ended && !is_still_empty()))
		PG_RETURN_NULL();
	empty.call.ended = made.ended;
	PG_RETURN_OID(empty.relation);
}

/* An attribute, for as long as it is remembered */
static Datum
kept_attribute(HeapTupleHeader row, const char *name)
{
	MemoryContext old;
	Datum		value = attribute_of(row, name);

	if (value == (Datum) 0)
		return value;
	old = MemoryContextSwitchTo(memory);
	value = PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
	MemoryContextSwitchTo(old);
	return value;
}

/* The versions that a look has read; false if it did not say which */
static bool
note_versions(HeapTupleHeader taken)
{
	Datum		places = attribute_of(taken, "places");
	Oid			schema = get_namespace_oid(INTERNAL_SCHEMA, false);
	Datum	   *place;
	Datum	   *writer;
	int			count;

	if (places == (Datum) 0)
		return false;
	deconstruct_array(DatumGetArrayTypeP(places), TIDOID, sizeof(ItemPointerData), false, TYPALIGN_SHORT, &place, NULL, &count);
	deconstruct_array(DatumGetArrayTypeP(attribute_of(taken, "writers")), XIDOID, sizeof(TransactionId), true, TYPALIGN_INT, &writer, NULL, &count);
	for (int i = 0; i < STATE_TABLES; i++)
		empty.state[i] = (Version) {
			get_relname_relid(state_tables[i], schema), *(ItemPointer) DatumGetPointer(place[i]), DatumGetTransactionId(writer[i])
		};
	return true;
}

/* note_empty(asked text, taken taken) -> boolean; not if the look has made another call */
Datum
note_empty(PG_FUNCTION_ARGS)
{
	HeapTupleHeader taken;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || made.asked == NULL ||
		strcmp(made.asked, text_to_cstring(PG_GETARG_TEXT_PP(0))) != 0)
		PG_RETURN_BOOL(false);
	taken = PG_GETARG_HEAPTUPLEHEADER(1);
	empty = (Look) {0};
	MemoryContextReset(memory);
	empty.relation = DatumGetObjectId(attribute_of(taken, "relation"));
	empty.caller = DatumGetObjectId(attribute_of(taken, "caller"));
	if (note_versions(taken))
	{
		empty.position = kept_attribute(taken, "at_position");
		empty.table = kept_attribute(taken, "t");
	}
	empty.call = (Call) {made.ended, MemoryContextStrdup(memory, made.asked), made.at_ms};
	PG_RETURN_BOOL(false);
}
