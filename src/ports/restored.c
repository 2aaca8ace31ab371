/*
 * restored.c
 *	  State that was restored from a dump, and that feed_rebase() has not
 *	  accepted yet.
 *
 * A dump includes the positions of feeds.  A position is the set of the transactions that were read on the dumped
 * server.  In the restored database the numbers of these transactions may still be in the future.  Feeds would skip the
 * rows that get these numbers later, and nothing would show the loss.  Each row of the state therefore has a column
 * written_here: true if the extension wrote the row on this server.  Since the column is generated, no role can supply
 * its value, a dump leaves the column out, and COPY and INSERT compute the value again.  Commands and tools that copy
 * files or tuples unchanged (VACUUM FULL, CLUSTER, REPACK, pg_upgrade, standbys, backups) keep the value.
 *
 * The guard looks up the state of its table once in a session, and forgets the result when the server invalidates the
 * table.  A row that the extension wrote here is deleted only by feed_disable() or by a DROP command, which also drop
 * the triggers.
 *
 * On a subscriber of logical replication, the extension has not written the state of
 * a table: the state is missing, or was replicated.  Until feed_rebase() is called,
 * the table may receive rows of its publisher.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type_d.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "ports/state.h"
#include "ports/table.h"

PG_FUNCTION_INFO_V1(is_written_here);

/*
 * is_written_here(anyelement) -> boolean, declared IMMUTABLE, as a generated column requires
 *
 * True in a security-restricted operation that has changed the user ID to the
 * ID of a superuser.  Only state.c writes the state in such an operation.
 */
Datum
is_written_here(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(InLocalUserIdChange() && InSecurityRestrictedOperation() && superuser_arg(GetUserId()));
}

/*
 * A table that passed the check.  If the state of the table was written in this
 * transaction, or does not exist yet, a rollback may change the result of the
 * check.  In both cases the result is valid only until the transaction or
 * savepoint ends.
 */
typedef struct CheckedTable
{
	Oid			table;
	Oid			guard;			/* the trigger that was checked; other roles may have created other triggers */
	/* transaction in which the result is valid; 0 for all transactions */
	uint64		transaction;
	SubTransactionId savepoint; /* subtransaction in which the result is valid */
} CheckedTable;

static HTAB *checked_tables = NULL;
static Oid	last_guard = InvalidOid;	/* the last guard whose result is valid in all transactions */
static uint64 invalidations = 0;

/* Forget the result for a table, or all results if the server does not report which table has changed. */
static void
forget(Datum argument, Oid table)
{
	HASH_SEQ_STATUS status;
	CheckedTable *checked;

	invalidations++;
	last_guard = InvalidOid;
	if (OidIsValid(table))
	{
		(void) hash_search(checked_tables, &table, HASH_REMOVE, NULL);
		return;
	}
	hash_seq_init(&status, checked_tables);
	while ((checked = hash_seq_search(&status)) != NULL)
		(void) hash_search(checked_tables, &checked->table, HASH_REMOVE, NULL);
}

static void
make_cache(void)
{
	HASHCTL		control = {.keysize = sizeof(Oid), .entrysize = sizeof(CheckedTable)};

	if (checked_tables != NULL)
		return;
	checked_tables = hash_create("inorder: tables that were checked", 64, &control, HASH_ELEM | HASH_BLOBS);
	CacheRegisterRelcacheCallback(forget, (Datum) 0);
}

typedef enum Verdict
{
	FOUND_NOTHING,
	FOUND_WRITTEN_NOW,			/* the row was written in this transaction */
	FOUND_WRITTEN_HERE,
	FOUND_RESTORED
} Verdict;

static Verdict
judge(HeapTuple row, Datum written_here, bool is_null)
{
	if (is_null || !DatumGetBool(written_here))
		return FOUND_RESTORED;
	return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(row->t_data)) ? FOUND_WRITTEN_NOW : FOUND_WRITTEN_HERE;
}

static Verdict
read_state(Relation state, Oid index, Oid table)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	AttrNumber	column = get_attnum(RelationGetRelid(state), "written_here");
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	row;
	Verdict		verdict = FOUND_NOTHING;

	ScanKeyInit(&key, get_attnum(RelationGetRelid(state), "relation"), BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(table));
	scan = systable_beginscan(state, index, OidIsValid(index), snapshot, 1, &key);
	if (HeapTupleIsValid(row = systable_getnext(scan)))
	{
		bool		is_null;
		Datum		written_here = heap_getattr(row, column, RelationGetDescr(state), &is_null);

		verdict = judge(row, written_here, is_null);
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	return verdict;
}

/*
 * Find out from the state of a table where the state was written.  The caller is a trigger of the extension on a locked
 * table.  The extension therefore cannot be dropped meanwhile.
 */
static Verdict
verdict_of(Oid table)
{
	Oid			schema = get_namespace_oid(INTERNAL_SCHEMA, true);
	Oid			relation = OidIsValid(schema) ? get_relname_relid("feed_table", schema) : InvalidOid;
	Relation	state;
	Verdict		verdict;

	if (!OidIsValid(relation))
		return FOUND_NOTHING;
	state = table_open(relation, AccessShareLock);
	verdict = read_state(state, get_relname_relid("feed_table_pkey", schema), table);
	table_close(state, AccessShareLock);
	return verdict;
}

/*
 * Return the table for which feed_enable() created a guard; partitions inherit the guard.  If a partition inherits the
 * guard, the state of the partition is ignored.  A restore never inserts such state, but another role may have inserted
 * it.
 */
static Oid
guarded_table(Oid guard)
{
	Relation	triggers = table_open(TriggerRelationId, AccessShareLock);
	Oid			table = InvalidOid;

	while (OidIsValid(guard))
	{
		ScanKeyData key;
		SysScanDesc scan;
		HeapTuple	row;

		ScanKeyInit(&key, Anum_pg_trigger_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(guard));
		scan = systable_beginscan(triggers, TriggerOidIndexId, true, NULL, 1, &key);
		guard = InvalidOid;
		if (HeapTupleIsValid(row = systable_getnext(scan)))
		{
			table = ((Form_pg_trigger) GETSTRUCT(row))->tgrelid;
			guard = ((Form_pg_trigger) GETSTRUCT(row))->tgparentid;
		}
		systable_endscan(scan);
	}
	table_close(triggers, AccessShareLock);
	return table;
}

/*
 * Raise an error if the state of a table was restored; otherwise keep the result, unless an invalidation arrived
 * meanwhile
 */
static void
check_state(Oid oid, const Trigger *guard, uint64 transaction)
{
	uint64		invalidations_before = invalidations;
	Oid			made_for = guarded_table(guard->tgoid);
	Verdict		verdict = verdict_of(made_for);
	CheckedTable *checked;

	if (verdict == FOUND_RESTORED)
	{
		Value		table = value_of(ObjectIdGetDatum(made_for), REGCLASSOID);

		owner_error("say_restored_table", 1, &table);
	}
	if (invalidations != invalidations_before)
		return;
	checked = hash_search(checked_tables, &oid, HASH_ENTER, NULL);
	checked->guard = guard->tgoid;
	checked->transaction = verdict == FOUND_WRITTEN_HERE ? 0 : transaction;
	checked->savepoint = GetCurrentSubTransactionId();
}

static bool
is_checked(const CheckedTable *checked, Oid guard, uint64 transaction)
{
	return checked->guard == guard &&
		(checked->transaction == 0 ||
		 (checked->transaction == transaction && checked->savepoint == GetCurrentSubTransactionId()));
}

/*
 * Return true if logical replication may insert and change rows.  On this server no feed reads the table before
 * feed_enable() or feed_rebase() has checked all numbers.
 */
bool
is_receiving(Relation table, const Trigger *guard)
{
	TriggerDesc *trigdesc = table->trigdesc;
	Verdict		verdict;

	if (likely(SessionReplicationRole != SESSION_REPLICATION_ROLE_REPLICA) || guard->tgoid == last_guard)
		return false;
	/* Partitions do not inherit the trigger for TRUNCATE. */
	for (int i = 0; trigdesc != NULL && i < trigdesc->numtriggers; i++)
		if (trigdesc->triggers[i].tgfoid == guard->tgfoid && trigdesc->triggers[i].tgisclone)
			guard = &trigdesc->triggers[i];
	verdict = verdict_of(guarded_table(guard->tgoid));
	return verdict == FOUND_NOTHING || verdict == FOUND_RESTORED;
}

/*
 * Raise an error if a row is inserted into a table that was restored from a dump, and the owner of the table has not
 * called feed_rebase() yet
 */
void
refuse_restored(Oid table, const Trigger *guard, uint64 transaction)
{
	CheckedTable *checked;

	if (likely(guard->tgoid == last_guard))
		return;
	make_cache();
	checked = hash_search(checked_tables, &table, HASH_FIND, NULL);
	if (checked == NULL || !is_checked(checked, guard->tgoid, transaction))
		check_state(table, guard, transaction);
	else if (checked->transaction == 0)
		last_guard = guard->tgoid;
}
