/*
 * table_proof.c
 *	  Prove before a read that it will return all rows of a table, and check
 *	  the proof after the read.
 *
 * A batch is complete only if no row bypassed the guard, and no row is outside the tables that are read.  Before a
 * read the table and all of its partitions are therefore locked.  Each table that holds rows must have the guard, an
 * unchanged expression for its transaction numbers, and an index that finds the rows (sql/ports/proof.sql).  The
 * snapshot must see the files and partitions that are read (files.c).  After the read the partitions must still be the
 * same, because the locks of a reader do not prevent other sessions from attaching a partition.
 *
 * The session caches the proof until the server invalidates the table, a partition or an index.  The proof does not
 * include privileges, which are checked for each read.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace_d.h"
#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "ports/table.h"

PG_FUNCTION_INFO_V1(lock_table);
PG_FUNCTION_INFO_V1(proved_members);
PG_FUNCTION_INFO_V1(seen_members);
PG_FUNCTION_INFO_V1(unchanged_members);
PG_FUNCTION_INFO_V1(type_of_rows);
PG_FUNCTION_INFO_V1(type_of_column);
PG_FUNCTION_INFO_V1(column_is_proved);
PG_FUNCTION_INFO_V1(keep_proof_of_column);

static HTAB *proofs = NULL;
static uint64 last_number = 0;	/* number of the newest proof */

/* Number of invalidations that are stored, to find the invalidations that were processed while a proof was made */
#define INVALIDATIONS_KEPT 1024

static uint64 invalidations = 0;	/* number of invalidations so far */
static Oid	invalidated[INVALIDATIONS_KEPT];

static bool
depends_on(const TableProof *proof, Oid relation)
{
	if (in_tree(proof, relation))
		return true;
	for (int i = 0; i < proof->leaf_count; i++)
		if (proof->leaves[i].index == relation)
			return true;
	return false;
}

/* Return true if no relation that a proof depends on was invalidated after the first "since" invalidations */
bool
is_untouched(const TableProof *proof, uint64 since)
{
	if (invalidations - since > INVALIDATIONS_KEPT)
		return false;
	for (uint64 i = since; i < invalidations; i++)
		if (!OidIsValid(invalidated[i % INVALIDATIONS_KEPT]) || depends_on(proof, invalidated[i % INVALIDATIONS_KEPT]))
			return false;
	return true;
}

/* Called when the server invalidates an object, or all objects if the oid is invalid */
static void
notice_invalidation(Datum unused, Oid relation)
{
	HASH_SEQ_STATUS status;
	TableProof *proof;

	invalidated[invalidations++ % INVALIDATIONS_KEPT] = relation;
	hash_seq_init(&status, proofs);
	while ((proof = hash_seq_search(&status)) != NULL)
		if (proof->is_valid && (!OidIsValid(relation) || depends_on(proof, relation)))
			proof->is_valid = false;
}

/*
 * Called when a schema or a sequence changes.  All proofs become invalid,
 * because positions contain names, and the order of a column may depend on its
 * sequence.
 */
static void
notice_any(Datum unused, int cache, uint32 hash)
{
	notice_invalidation(unused, InvalidOid);
}

static void
make_cache(void)
{
	HASHCTL		control = {.keysize = sizeof(Oid), .entrysize = sizeof(TableProof)};

	proofs = hash_create("inorder: table proofs", 16, &control, HASH_ELEM | HASH_BLOBS);
	CacheRegisterRelcacheCallback(notice_invalidation, (Datum) 0);
	CacheRegisterSyscacheCallback(NAMESPACEOID, notice_any, (Datum) 0);
	CacheRegisterSyscacheCallback(SEQRELID, notice_any, (Datum) 0);
}

/* Return the number of invalidations since the first call of this function or of find_proof() */
uint64
invalidations_noticed(void)
{
	if (proofs == NULL)
		make_cache();
	return invalidations;
}

/*
 * Forget tables that were dropped.  An invalidation does not show whether a
 * table was dropped or changed.
 */
static void
forget_dropped(void)
{
	HASH_SEQ_STATUS status;
	TableProof *proof;

	hash_seq_init(&status, proofs);
	while ((proof = hash_seq_search(&status)) != NULL)
	{
		if (proof->is_valid || SearchSysCacheExists1(RELOID, ObjectIdGetDatum(proof->relation)))
			continue;
		if (proof->memory != NULL)
			MemoryContextDelete(proof->memory);
		(void) hash_search(proofs, &proof->relation, HASH_REMOVE, NULL);
	}
}

static TableProof *
find_proof(Oid relation)
{
	TableProof *proof;
	bool		is_stored;

	if (proofs == NULL)
		make_cache();
	if (hash_search(proofs, &relation, HASH_FIND, NULL) == NULL)
		forget_dropped();
	proof = hash_search(proofs, &relation, HASH_ENTER, &is_stored);
	if (!is_stored)
		*proof = (TableProof) {.relation = relation};
	return proof;
}

/* Return the role that reads */
static Oid
reader_of(const Table *table)
{
	return OidIsValid(table->reader) ? table->reader : GetUserId();
}

static Value
reader_value(const Table *table)
{
	return value_of(ObjectIdGetDatum(reader_of(table)), OIDOID);
}

/* Return the table that a value of type feed_table describes */
Table
table_of(Datum description)
{
	HeapTupleHeader header = DatumGetHeapTupleHeader(description);
	Row			row = row_of(PointerGetDatum(header), false, TABLE_COLUMNS);

	if (row.nulls[TABLE_RELATION] || row.nulls[TABLE_KEY_COLUMN] || row.nulls[TABLE_ORDER_COLUMNS] || row.nulls[TABLE_BASE])
		elog(ERROR, "the description of a table has null attributes");
	return (Table) {
		.oid = DatumGetObjectId(row.values[TABLE_RELATION]),
		.reading = {
			.key_column = NameStr(*DatumGetName(row.values[TABLE_KEY_COLUMN])),
			.is_uuid = DatumGetBool(row.values[TABLE_IS_UUID]),
			.is_generated = DatumGetBool(row.values[TABLE_IS_GENERATED]),
			.is_partial = DatumGetBool(row.values[TABLE_IS_PARTIAL]),
			.base = DatumGetInt64(row.values[TABLE_BASE]),
			.order_columns = DatumGetArrayTypeP(row.values[TABLE_ORDER_COLUMNS])
		},
		.known_as = row.nulls[TABLE_KNOWN_AS] ? NULL : DatumGetArrayTypeP(row.values[TABLE_KNOWN_AS]),
		.is_share = !row.nulls[TABLE_SHARE_CONDITION],
		.description = value_of(PointerGetDatum(header), HeapTupleHeaderGetTypeId(header))
	};
}

/* Return the described table, with its proof.  "reader" is the role that reads; InvalidOid for the current role. */
Table
table_with_proof(Datum description, Oid reader)
{
	Table		table = table_of(description);

	table.reader = reader;
	table.proof = find_proof(table.oid);
	return table;
}

/*
 * Return the table described by the first argument of an internal function.  "reader" is the number of the argument
 * with the role; negative if there is no such argument.
 */
Table
described_table(FunctionCallInfo fcinfo, int reader)
{
	for (int i = 0; i < PG_NARGS(); i++)
		if (PG_ARGISNULL(i))
			elog(ERROR, "argument %d of an internal function is null", i + 1);
	return table_with_proof(PG_GETARG_DATUM(0), reader < 0 ? InvalidOid : PG_GETARG_OID(reader));
}

static bool
is_same_reading(const Reading *a, const Reading *b)
{
	return strcmp(a->key_column, b->key_column) == 0 && a->is_uuid == b->is_uuid &&
		a->is_generated == b->is_generated && a->is_partial == b->is_partial && a->base == b->base &&
		datumIsEqual(PointerGetDatum(a->order_columns), PointerGetDatum(b->order_columns), false, -1);
}

/* Return true if a position would contain exactly the partitions that were locked and checked */
static bool
has_all_members(const TableProof *proof)
{
	ArrayType  *members = DatumGetArrayTypeP(proof->members.value);
	Datum	   *rows;
	int			count;

	deconstruct_array(members, ARR_ELEMTYPE(members), -1, false, TYPALIGN_DOUBLE, &rows, NULL, &count);
	if (count != proof->tree_count)
		return false;
	for (int i = 0; i < count; i++)
		if (DatumGetObjectId(attribute_of(DatumGetHeapTupleHeader(rows[i]), "relation")) != proof->tree[i])
			return false;
	return true;
}

static void
refuse_change(Oid relation)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("partitions of %s were attached, detached or changed while it was read", relation_name(relation)),
			 errhint("Try again.")));
}

/*
 * Make a new snapshot the active snapshot.  In parallel mode the active
 * snapshot is kept, because all processes must use the same snapshot.
 */
static void
push_snapshot(Snapshot (*take_snapshot) (void))
{
	PushActiveSnapshot(IsInParallelMode() ? GetActiveSnapshot() : take_snapshot());
}

/* Call an internal function in a new snapshot, and return its result */
static Value
call_under(Snapshot (*take_snapshot) (void), const char *name, int count, const Value *arguments)
{
	Value		result;

	push_snapshot(take_snapshot);
	result = owner_call(name, count, arguments);
	PopActiveSnapshot();
	return result;
}

/* Raise an error unless a table can be read, according to the catalog in this transaction's snapshot */
static void
check_table(const Table *table)
{
	if (!IsInParallelMode())
		CommandCounterIncrement();
	(void) call_under(GetTransactionSnapshot, "check_table", 2, (Value[]) {table->description, reader_value(table)});
}

/* Return the partitions of a table in the format that a position stores */
static Value
members_under(Snapshot (*take_snapshot) (void), const Table *table)
{
	Value		arguments[] = {table->description, value_of(BoolGetDatum(false), BOOLOID)};
	Datum		members = (Datum) 0;

	if (is_plain_table(table->oid))
	{
		push_snapshot(take_snapshot);
		members = plain_members(table);
		PopActiveSnapshot();
	}
	if (members == (Datum) 0)
		members = call_under(take_snapshot, "members", 2, arguments).value;
	return value_of(PointerGetDatum(DatumGetArrayTypeP(members)), InvalidOid);
}

static void
store_leaves(TableProof *proof, ArrayType *indexes)
{
	Datum	   *oids;

	deconstruct_array(indexes, OIDOID, sizeof(Oid), true, TYPALIGN_INT, &oids, NULL, &proof->leaf_count);
	proof->leaves = palloc(sizeof(Leaf) * proof->leaf_count);
	for (int i = 0; i < proof->leaf_count; i++)
		proof->leaves[i] = (Leaf) {IndexGetRelation(DatumGetObjectId(oids[i]), false), DatumGetObjectId(oids[i])};
}

/* Store a table and its partitions, in the order of their locks and in the order of their OIDs */
static void
store_tree(TableProof *proof, List *tree)
{
	ListCell   *cell;

	proof->tree = palloc(sizeof(Oid) * list_length(tree));
	proof->lock_order = palloc(sizeof(Oid) * list_length(tree));
	foreach(cell, tree)
		proof->lock_order[proof->tree_count++] = lfirst_oid(cell);
	memcpy(proof->tree, proof->lock_order, sizeof(Oid) * proof->tree_count);
	qsort(proof->tree, proof->tree_count, sizeof(Oid), oid_cmp);
}

/* Lock a table with all partitions, and check it according to the current catalog */
static TableProof
make_proof(const Table *table)
{
	TableProof	proof = {.relation = table->oid, .reading = table->reading};
	Value		arguments[] = {table->description, reader_value(table)};

	if (get_rel_relkind(table->oid) == '\0')	/* the table was dropped */
		check_table(table);
	store_tree(&proof, find_all_inheritors(table->oid, AccessShareLock, NULL));
	/* If the catalog of Citus exists, check that the table is not distributed. */
	if (OidIsValid(get_relname_relid("pg_dist_partition", PG_CATALOG_NAMESPACE)))
		(void) call_under(GetLatestSnapshot, "check_local", 1, (Value[]) {value_of(ObjectIdGetDatum(table->oid), REGCLASSOID)});
	if (!is_as_made(&proof))
		store_leaves(&proof, DatumGetArrayTypeP(call_under(GetLatestSnapshot, "prove_table", 2, arguments).value));
	for (int i = 0; i < proof.tree_count; i++)
		refuse_later_triggers(proof.lock_order[i]);
	proof.members = members_under(GetTransactionSnapshot, table);
	proof.next_id = ReadNextTransactionId();
	/* For an older snapshot, files.c makes further checks. */
	if (!IsolationUsesXactSnapshot() && !has_all_members(&proof))
		refuse_change(table->oid);
	return proof;
}

static void *
copy_of(const void *from, Size size)
{
	return memcpy(palloc(size), from, size);
}

/*
 * Return true if a proof matches the current catalog.  The members in the proof were read in this transaction's
 * snapshot, which may be older than the catalog.  In parallel mode the catalog cannot be compared, and the result is
 * false.
 */
static bool
matches_catalog(const TableProof *proof, const Table *table)
{
	if (!IsolationUsesXactSnapshot() || IsInParallelMode())
		return !IsInParallelMode();
	return datumIsEqual(proof->members.value, members_under(GetLatestSnapshot, table).value, false, -1);
}

/*
 * Store a proof.  A valid proof is used again in this session for later snapshots; a proof that is not valid is used
 * only in this call.
 */
static void
keep_proof(TableProof *entry, TableProof proof, bool is_valid)
{
	MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "inorder: table proof", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(memory);

	proof.memory = memory;
	proof.reading.key_column = pstrdup(proof.reading.key_column);
	proof.reading.order_columns = copy_of(proof.reading.order_columns, VARSIZE(proof.reading.order_columns));
	proof.tree = copy_of(proof.tree, sizeof(Oid) * proof.tree_count);
	proof.lock_order = copy_of(proof.lock_order, sizeof(Oid) * proof.tree_count);
	proof.leaves = copy_of(proof.leaves, sizeof(Leaf) * proof.leaf_count);
	proof.members.value = datumCopy(proof.members.value, false, -1);
	MemoryContextSwitchTo(old);
	MemoryContextSetParent(memory, CacheMemoryContext);
	if (entry->memory != NULL)
		MemoryContextDelete(entry->memory);
	*entry = proof;
	entry->is_valid = is_valid;
	entry->number = ++last_number;
}

static void
lock_tree(const TableProof *proof)
{
	for (int i = 0; i < proof->tree_count && proof->is_valid; i++)
	{
		CHECK_FOR_INTERRUPTS();
		LockRelationOid(proof->lock_order[i], AccessShareLock);
	}
}

/*
 * Return true if a proof holds in the snapshot of this transaction.  A snapshot that another session exported may be
 * older than the proof.  A snapshot is newer if every transaction that existed when the proof was made has ended in the
 * snapshot; otherwise the partitions that the snapshot sees are compared with those of the proof.
 */
static bool
matches_snapshot(const TableProof *proof, const Table *table)
{
	if (!IsolationUsesXactSnapshot() || TransactionIdFollowsOrEquals(GetTransactionSnapshot()->xmin, proof->next_id))
		return true;
	return datumIsEqual(proof->members.value, members_under(GetTransactionSnapshot, table).value, false, -1);
}

/*
 * Lock a table with all partitions, and return a valid proof.  The locks are taken
 * first, because the server processes invalidations when it takes locks.
 */
static TableProof *
valid_proof(const Table *table)
{
	TableProof *proof = find_proof(table->oid);

	LockRelationOid(table->oid, AccessShareLock);
	lock_tree(proof);
	if (!proof->is_valid || !is_same_reading(&proof->reading, &table->reading) || !matches_snapshot(proof, table))
	{
		uint64		invalidations_before = invalidations;
		TableProof	new_proof = make_proof(table);
		bool		is_current = matches_catalog(&new_proof, table);

		keep_proof(proof, new_proof, is_current && is_untouched(&new_proof, invalidations_before));
	}
	return proof;
}

/*
 * Raise an error if the privilege to read a table was revoked while this call waited for its locks, or before the
 * active snapshot was taken
 */
static void
check_reader(const Table *table)
{
	if (!IsInParallelMode())
		AcceptInvalidationMessages();
	if (!role_may_read(reader_of(table), table->oid))
		owner_error("check_reader", 2, (Value[]) {reader_value(table), value_of(ObjectIdGetDatum(table->oid), REGCLASSOID)});
}

/* Lock a table with all partitions.  Raise an error unless a read by the caller will return the right rows. */
void
prove_table(Table *table)
{
	TableProof *proof = valid_proof(table);

	check_reader(table);
	if (hidden_from(reader_of(table), table->oid))
		check_table(table);
	table->members = proof->members;
	table->members.value = datumCopy(proof->members.value, false, -1);
	table->proof = proof;
	forget_parts_of(proof);
	if (IsolationUsesXactSnapshot())
		check_files(proof, GetTransactionSnapshot());
}

/* Use the proof that an internal function has made in this call */
void
use_proof(Table *table, Value members)
{
	table->proof = find_proof(table->oid);
	table->members = members;
	table->members.value = PointerGetDatum(DatumGetArrayTypeP(members.value));
}

/* lock_table(t feed_table, caller oid) -> feed_table */
Datum
lock_table(PG_FUNCTION_ARGS)
{
	Table		table = described_table(fcinfo, 1);

	prove_table(&table);
	PG_RETURN_DATUM(table.description.value);
}

/* proved_members(t feed_table, caller oid) -> feed_member[] */
Datum
proved_members(PG_FUNCTION_ARGS)
{
	Table		table = described_table(fcinfo, 1);

	prove_table(&table);
	check_partitions(table.proof, GetActiveSnapshot());
	PG_RETURN_DATUM(table.members.value);
}

/* unchanged_members(t feed_table, remembered feed_member[]) -> feed_member[] */
Datum
unchanged_members(PG_FUNCTION_ARGS)
{
	Table		table = described_table(fcinfo, -1);

	use_proof(&table, argument_value(fcinfo, 1, InvalidOid));
	check_proof(&table);
	PG_RETURN_DATUM(table.members.value);
}

/* Return the column that was checked for dividing or for ordering the rows of a table */
static AttrNumber *
proved_column(TableProof *proof, bool divides)
{
	return divides ? &proof->share_column : &proof->order_column;
}

/* column_is_proved(t feed_table, column_name text, number smallint, divides boolean) -> boolean */
Datum
column_is_proved(PG_FUNCTION_ARGS)
{
	Table		table;
	AttrNumber	number = PG_GETARG_INT16(2);
	const char *name;

	AcceptInvalidationMessages();	/* the sequence of the column is not locked */
	table = described_table(fcinfo, -1);
	name = get_attname(table.oid, number, true);
	PG_RETURN_BOOL(table.proof->is_valid && *proved_column(table.proof, PG_GETARG_BOOL(3)) == number &&
				   name != NULL && strcmp(name, text_to_cstring(PG_GETARG_TEXT_PP(1))) == 0);
}

/*
 * keep_proof_of_column(t feed_table, number smallint, divides boolean)
 *
 * Has no effect if the snapshot may be older than the proof of the table.
 */
Datum
keep_proof_of_column(PG_FUNCTION_ARGS)
{
	if (!IsolationUsesXactSnapshot())
		*proved_column(described_table(fcinfo, -1).proof, PG_GETARG_BOOL(2)) = PG_GETARG_INT16(1);
	PG_RETURN_VOID();
}

/* type_of_rows(relation regclass) -> oid */
Datum
type_of_rows(PG_FUNCTION_ARGS)
{
	PG_RETURN_OID(get_rel_type_id(PG_GETARG_OID(0)));
}

/* type_of_column(relation regclass, column_name name) -> oid */
Datum
type_of_column(PG_FUNCTION_ARGS)
{
	Oid			relation = PG_GETARG_OID(0);
	AttrNumber	number = get_attnum(relation, NameStr(*PG_GETARG_NAME(1)));

	if (number <= 0)
		PG_RETURN_NULL();
	PG_RETURN_OID(get_atttype(relation, number));
}

/*
 * seen_members(relation regclass, members feed_member[]) -> feed_member[]
 *
 * Error unless the active snapshot sees the files and partitions that are read.  Returns the members; null if the table
 * was locked but not checked.
 */
Datum
seen_members(PG_FUNCTION_ARGS)
{
	TableProof	locked = {.relation = PG_GETARG_OID(0)};

	if (!PG_ARGISNULL(1))
	{
		check_files(find_proof(locked.relation), GetActiveSnapshot());
		PG_RETURN_DATUM(PG_GETARG_DATUM(1));
	}
	store_tree(&locked, tree_of(locked.relation, NoLock));
	check_files(&locked, GetActiveSnapshot());
	PG_RETURN_NULL();
}

/*
 * Raise an error unless the proof still holds after the read.  If the proof was invalidated, for example by VACUUM or
 * ANALYZE, the table is checked again, and the partitions are compared.
 */
void
check_proof(const Table *table)
{
	if (table->proof == NULL)
		return;					/* nothing was read */
	AcceptInvalidationMessages();
	if (find_proof(table->oid)->is_valid)
		return;
	if (!datumIsEqual(valid_proof(table)->members.value, table->members.value, false, -1))
		refuse_change(table->oid);
}
