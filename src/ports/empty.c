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
 *
 * An exact count is a call that found nothing, too: no row but those that it has
 * counted.  It looks in the snapshot of its statement, which may be older than
 * the last call.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_type_d.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "compat.h"
#include "ports/state.h"
#include "ports/table.h"

PG_FUNCTION_INFO_V1(found_empty);
PG_FUNCTION_INFO_V1(note_empty);

#define REMEMBERED_MS 10000		/* less than the minute after which a poll is recorded */
#define REMEMBERED_CALLS 16
#define VERSIONS 3				/* rows of the state that a look reads */

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
	bool		counts;
} Call;

/* What a call that found nothing had looked at */
typedef struct Look
{
	MemoryContext memory;		/* of what it points to */
	Call		call;			/* .asked is null if there was none */
	int64		amount;			/* what the call returns again */
	Oid			relation;
	Oid			caller;
	Datum		table;			/* feed_table: its description; 0 if the versions are not known */
	Datum		position;		/* feed_position */
	Version		state[VERSIONS];
} Look;

static Call made;				/* the last one; .asked is null if no other may rely on it */
static Look looks[REMEMBERED_CALLS];	/* each in the place of its hash */

static bool
relies_on(const Look *look, Oid relation)
{
	for (int i = 0; i < VERSIONS; i++)
		if (look->state[i].table == relation)
			return true;
	return look->relation == relation;
}

/* Something was invalidated that looks rely on */
static void
forget_relation(Datum unused, Oid relation)
{
	for (int i = 0; i < REMEMBERED_CALLS; i++)
		if (!OidIsValid(relation) || relies_on(&looks[i], relation))
			looks[i].table = (Datum) 0;
}

static void
forget_roles(Datum unused, int cache, uint32 hash)
{
	forget_relation(unused, InvalidOid);
}

static void
begin_to_remember(void)
{
	if (looks[0].memory != NULL)
		return;
	for (int i = 0; i < REMEMBERED_CALLS; i++)
		looks[i].memory = AllocSetContextCreate(TopMemoryContext, "inorder: a call that found nothing", ALLOCSET_SMALL_SIZES);
	CacheRegisterRelcacheCallback(forget_relation, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHOID, forget_roles, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, forget_roles, (Datum) 0);
}

/* Where a call is remembered */
static Look *
look_of(const char *asked)
{
	return &looks[string_hash(asked, strlen(asked) + 1) % REMEMBERED_CALLS];
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
is_state_current(const Look *look)
{
	for (int i = 0; i < VERSIONS; i++)
		if (!is_current(&look->state[i], GetActiveSnapshot()))
			return false;
	return true;
}

/*
 * Whether a look would find nothing again, in the active snapshot.
 * Invalidations are processed although this transaction may have the lock from
 * before: it keeps nobody from changing the triggers of the table.
 */
static bool
is_still_empty(const Look *look)
{
	if (look->table == (Datum) 0)
		return false;
	LockRelationOid(look->relation, AccessShareLock);
	AcceptInvalidationMessages();
	return look->table != (Datum) 0 && role_may_read(look->caller, look->relation) && is_state_current(look) &&
		look->table != (Datum) 0 && is_idle_table(look->table, look->position, look->caller, look->call.counts);
}

/* The same, after transactions have ended: a snapshot taken before these were counted would not see the last of them. */
static bool
is_empty_by_now(const Look *look)
{
	bool		result;

	if (look->call.ended == made.ended)
		return true;
	PushActiveSnapshot(GetTransactionSnapshot());
	result = is_still_empty(look);
	PopActiveSnapshot();
	return result;
}

static bool
is_same_call(const Call *call)
{
	return call->asked != NULL && made.at_ms - call->at_ms <= REMEMBERED_MS && strcmp(call->asked, made.asked) == 0;
}

/*
 * found_empty(asked text, counts boolean) -> bigint
 *
 * In a transaction that keeps its snapshot, or has changed something itself, the
 * next call may find what this one did not.
 */
Datum
found_empty(PG_FUNCTION_ARGS)
{
	Look	   *look;

	begin_to_remember();
	if (made.asked != NULL)
		pfree(made.asked);
	made = (Call) {.ended = ended_count(), .at_ms = now_ms(), .counts = PG_GETARG_BOOL(1)};
	if (IsInParallelMode() || IsolationUsesXactSnapshot() || TransactionIdIsValid(GetTopTransactionIdIfAny()))
		PG_RETURN_NULL();
	made.asked = MemoryContextStrdup(TopMemoryContext, text_to_cstring(PG_GETARG_TEXT_PP(0)));
	look = look_of(made.asked);
	if (!is_same_call(&look->call) || !(made.counts ? is_still_empty(look) : is_empty_by_now(look)))
		PG_RETURN_INT64(-1);
	look->call.ended = made.ended;
	PG_RETURN_INT64(look->amount);
}

/* An attribute, for as long as it is remembered */
static Datum
kept_attribute(const Look *look, HeapTupleHeader row, const char *name)
{
	MemoryContext old;
	Datum		value = attribute_of(row, name);

	if (value == (Datum) 0)
		return value;
	old = MemoryContextSwitchTo(look->memory);
	value = PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
	MemoryContextSwitchTo(old);
	return value;
}

/* The elements of an array, as many as there are versions */
static Datum *
of_versions(HeapTupleHeader taken, const char *name, Oid type, int length, bool by_value, char alignment)
{
	Datum	   *elements;
	int			count;

	deconstruct_array(DatumGetArrayTypeP(attribute_of(taken, name)), type, length, by_value, alignment, &elements, NULL, &count);
	if (count != VERSIONS)
		elog(ERROR, "%d rows of the state were read, not %d", count, VERSIONS);
	return elements;
}

/* The versions that a look has read; false if it did not say which */
static bool
note_versions(Look *look, HeapTupleHeader taken)
{
	Datum	   *table;
	Datum	   *place;
	Datum	   *writer;

	if (attribute_of(taken, "places") == (Datum) 0)
		return false;
	table = of_versions(taken, "tables", OIDOID, sizeof(Oid), true, TYPALIGN_INT);
	place = of_versions(taken, "places", TIDOID, sizeof(ItemPointerData), false, TYPALIGN_SHORT);
	writer = of_versions(taken, "writers", XIDOID, sizeof(TransactionId), true, TYPALIGN_INT);
	for (int i = 0; i < VERSIONS; i++)
		look->state[i] = (Version) {
			DatumGetObjectId(table[i]), *(ItemPointer) DatumGetPointer(place[i]), DatumGetTransactionId(writer[i])
		};
	return true;
}

/* note_empty(asked text, taken taken, amount bigint) -> boolean; not if the look has made another call */
Datum
note_empty(PG_FUNCTION_ARGS)
{
	HeapTupleHeader taken;
	Look	   *look;

	if (made.asked == NULL || strcmp(made.asked, text_to_cstring(PG_GETARG_TEXT_PP(0))) != 0)
		PG_RETURN_BOOL(false);
	taken = PG_GETARG_HEAPTUPLEHEADER(1);
	look = look_of(made.asked);
	MemoryContextReset(look->memory);
	*look = (Look) {.memory = look->memory, .amount = PG_GETARG_INT64(2)};
	look->relation = DatumGetObjectId(attribute_of(taken, "relation"));
	look->caller = DatumGetObjectId(attribute_of(taken, "caller"));
	if (note_versions(look, taken))
	{
		look->position = kept_attribute(look, taken, "at_position");
		look->table = kept_attribute(look, taken, "t");
	}
	look->call = made;
	look->call.asked = MemoryContextStrdup(look->memory, made.asked);
	PG_RETURN_BOOL(false);
}
