/*
 * groups.c
 *	  The trigger that counts rows by group.
 *
 * The trigger counts the rows that a statement adds to each group or removes from it.  As COPY does, the trigger then
 * writes one row per group into the table of deltas (sql/feed/groups.sql).  Values are compared by their bytes,
 * without calling a function of their type.  Equal groups whose bytes differ are combined when the deltas are read.
 * Triggers and rules of the table of deltas are not executed.
 *
 * Each set of groups also has a row trigger, with a function of its own.  Any role with the TRIGGER privilege on a
 * table may create a trigger with exact_count_trigger(), but only the owner of the table may create a trigger with the
 * function of the row trigger.  The deltas are therefore found through the row trigger.  A detached partition has no
 * row trigger, and is not counted.  Unusual cases are left to the function of the row trigger.
 *
 * Each delta of a partitioned table has a hash of the partitions at the time of the statement.  A fold, which replaces
 * deltas with their sums, stores the same kind of hash.  If the hashes of a delta and of the newest fold differ, the
 * view counts the rows of the table.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type_d.h"
#include "commands/trigger.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"

#include "compat.h"
#include "ports/state.h"

PG_FUNCTION_INFO_V1(exact_count_trigger);

#define PREFIX "zz_inorder_count_"
#define MOST_COLUMNS 4
#define MOST_GROUPS 10000		/* in memory */

/* The fixed columns of deltas, after the columns of the group.  Columns that are not set are null. */
enum
{
	DELTA_N, DELTA_XACT, DELTA_OPEN, DELTA_PROOF, DELTA_COLUMNS
};

typedef struct Key
{
	Datum		values[MOST_COLUMNS];
	bool		nulls[MOST_COLUMNS];
} Key;

typedef struct Sum
{
	Key			key;
	uint32		hash;
	char		status;
	int64		n;
} Sum;

typedef struct Counter
{
	TriggerData *data;
	Relation	deltas;
	int			columns;
	Form_pg_attribute column[MOST_COLUMNS]; /* columns of the table */
	MemoryContext memory;		/* for the values of groups */
	struct groups_hash *groups;
	char	   *tree;			/* null if the table has no partitions */
} Counter;

static Oid	last_root;			/* the partitioned table whose partitions were hashed last */
static uint64 last_hash;		/* the hash of these partitions */
static uint64 invalidations;	/* number of invalidations that this process has received so far */

static bool
is_same_group(const Counter *counter, const Key *a, const Key *b)
{
	for (int i = 0; i < counter->columns; i++)
		if (a->nulls[i] != b->nulls[i] ||
			(!a->nulls[i] && !datum_image_eq(a->values[i], b->values[i], counter->column[i]->attbyval,
											 counter->column[i]->attlen)))
			return false;
	return true;
}

static uint32
hash_of_group(const Counter *counter, const Key *key)
{
	uint32		hash = 0;

	for (int i = 0; i < counter->columns; i++)
		hash = hash_combine(hash, key->nulls[i] ? 0 : datum_image_hash(key->values[i], counter->column[i]->attbyval,
																	   counter->column[i]->attlen));
	return hash;
}

#define SH_PREFIX groups
#define SH_ELEMENT_TYPE Sum
#define SH_KEY_TYPE Key
#define SH_KEY key
#define SH_HASH_KEY(table, key) hash_of_group((table)->private_data, &(key))
#define SH_EQUAL(table, a, b) is_same_group((table)->private_data, &(a), &(b))
#define SH_STORE_HASH
#define SH_GET_HASH(table, sum) ((sum)->hash)
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/*
 * Length of the prefix that the names of all triggers of a set share.  The
 * prefix ends with the last "_".  The length is 0 for other triggers.
 */
static int
common_length(const Trigger *trigger)
{
	const char *underscore = strrchr(trigger->tgname, '_');

	if (underscore == NULL || strncmp(trigger->tgname, PREFIX, strlen(PREFIX)) != 0)
		return 0;
	return underscore + 1 - trigger->tgname;
}

/*
 * Return the function of the set's row trigger, or InvalidOid.  If another role with the TRIGGER privilege on the table
 * replaces the row trigger, the new trigger is not ENABLE REPLICA, which only the owner can set.
 */
static Oid
function_of_set(TriggerData *data)
{
	TriggerDesc *trigdesc = data->tg_relation->trigdesc;
	TriggerEvent event = data->tg_event;
	int			length = common_length(data->tg_trigger);
	const char *kind = TRIGGER_FIRED_BY_INSERT(event) ? "insert" : TRIGGER_FIRED_BY_UPDATE(event) ? "update" : "delete";

	if (length == 0 || strcmp(data->tg_trigger->tgname + length, kind) != 0)
		return InvalidOid;
	for (int i = 0; i < trigdesc->numtriggers; i++)
	{
		Trigger    *trigger = &trigdesc->triggers[i];

		if (common_length(trigger) == length && strncmp(trigger->tgname, data->tg_trigger->tgname, length) == 0 &&
			strcmp(trigger->tgname + length, "row") == 0 && trigger->tgenabled == TRIGGER_FIRES_ON_REPLICA)
			return trigger->tgfoid;
	}
	return InvalidOid;
}

/* Open and lock the table that has the name and the owner of the function; null if there is no such table. */
static Relation
open_deltas(Oid function, Oid owner)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Form_pg_proc form;
	Oid			number;
	Relation	deltas = NULL;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", function);
	form = (Form_pg_proc) GETSTRUCT(tuple);
	number = get_relname_relid(NameStr(form->proname), form->pronamespace);
	if (form->proowner == owner && OidIsValid(number) && get_rel_relkind(number) == RELKIND_RELATION)
		deltas = try_table_open(number, RowExclusiveLock);
	if (deltas != NULL && (deltas->rd_rel->relowner != owner || deltas->rd_rel->relpersistence == RELPERSISTENCE_TEMP ||
						   deltas->rd_rel->relnamespace != form->pronamespace ||
						   strcmp(RelationGetRelationName(deltas), NameStr(form->proname)) != 0))
	{
		table_close(deltas, RowExclusiveLock);
		deltas = NULL;
	}
	ReleaseSysCache(tuple);
	return deltas;
}

static bool
has_type(TupleDesc row, int place, Oid type)
{
	return !TupleDescAttr(row, place)->attisdropped && TupleDescAttr(row, place)->atttypid == type;
}

/*
 * Find the columns that the trigger names.  Return false unless the table of deltas has exactly these columns and the
 * fixed columns, has no generated column, and is not a partition.
 */
static bool
find_columns(Counter *counter)
{
	Trigger    *trigger = counter->data->tg_trigger;
	Relation	table = counter->data->tg_relation;
	TupleDesc	row = RelationGetDescr(counter->deltas);

	counter->columns = trigger->tgnargs - 1;
	if (counter->columns < 0 || counter->columns > MOST_COLUMNS || row->natts != counter->columns + DELTA_COLUMNS ||
		!has_type(row, counter->columns + DELTA_N, INT8OID) || !has_type(row, counter->columns + DELTA_XACT, XID8OID) ||
		!has_type(row, counter->columns + DELTA_PROOF, TEXTOID) ||
		(row->constr != NULL && row->constr->has_generated_stored) || counter->deltas->rd_rel->relispartition)
		return false;
	for (int i = 0; i < counter->columns; i++)
	{
		AttrNumber	number = get_attnum(RelationGetRelid(table), trigger->tgargs[i + 1]);

		if (number <= 0)
			return false;
		counter->column[i] = TupleDescAttr(RelationGetDescr(table), number - 1);
		if (!has_type(row, i, counter->column[i]->atttypid))
			return false;
	}
	return true;
}

static void
forget_tree(Datum unused, Oid relation)
{
	last_root = InvalidOid;
	invalidations++;
}

/* Return the topmost parent of a table, or the table itself */
static Oid
root_of(Relation table)
{
	List	   *ancestors = table->rd_rel->relispartition ? get_partition_ancestors(RelationGetRelid(table)) : NIL;

	return ancestors == NIL ? RelationGetRelid(table) : llast_oid(ancestors);
}

/*
 * Return a hash of the current partitions, including those that are being detached, computed as in delta_tree() in
 * sql/feed/groups.sql.  Partitions into which this statement has written are locked.  Other partitions are not locked,
 * and may be dropped meanwhile.
 */
static uint64
hash_of_tree(Oid root)
{
	List	   *tree = list_make1_oid(root);
	StringInfoData text;
	uint64		hash;

	for (int i = 0; i < list_length(tree); i++)
		if (get_rel_relkind(list_nth_oid(tree, i)) == RELKIND_PARTITIONED_TABLE)
			tree = list_concat(tree, find_inheritance_children_extended(list_nth_oid(tree, i), false, NoLock, NULL, NULL));
	list_sort(tree, list_oid_cmp);
	initStringInfo(&text);
	for (int i = 0; i < list_length(tree); i++)
		appendStringInfo(&text, i == 0 ? "%u" : ",%u", list_nth_oid(tree, i));
	hash = DatumGetUInt64(hash_any_extended((unsigned char *) text.data, text.len, 0));
	pfree(text.data);
	list_free(tree);
	return hash;
}

/*
 * Return the string that identifies the partitions in the deltas of a partitioned table; null for other tables.  When a
 * partition is attached, this process receives an invalidation before it writes rows into the partition.
 */
static char *
tree_of(Relation table)
{
	static bool is_noticed = false;
	Oid			root;

	if (table->rd_rel->relkind != RELKIND_PARTITIONED_TABLE && !table->rd_rel->relispartition)
		return NULL;
	if (!is_noticed)
		CacheRegisterRelcacheCallback(forget_tree, (Datum) 0);
	is_noticed = true;
	root = root_of(table);
	if (root != last_root)
	{
		uint64		invalidations_before = invalidations;
		uint64		hash = hash_of_tree(root);

		last_hash = hash;
		last_root = invalidations_before == invalidations ? root : InvalidOid;
	}
	return psprintf(INT64_FORMAT, (int64) last_hash);
}

/* Write the changes of all groups as deltas, and remove the groups from memory */
static void
write_deltas(Counter *counter)
{
	EState	   *estate = CreateExecutorState();
	ResultRelInfo *target = makeNode(ResultRelInfo);	/* InitResultRelInfo() would copy the triggers, too */
	TupleTableSlot *row = table_slot_create(counter->deltas, NULL);
	CommandId	command = GetCurrentCommandId(true);
	FullTransactionId transaction = GetTopFullTransactionId();
	Datum		tree = counter->tree == NULL ? (Datum) 0 : CStringGetTextDatum(counter->tree);
	groups_iterator iterator;
	Sum	   *sum;

	target->ri_RelationDesc = counter->deltas;
	ExecOpenIndices(target, false);
	groups_start_iterate(counter->groups, &iterator);
	while ((sum = groups_iterate(counter->groups, &iterator)) != NULL)
	{
		if (sum->n == 0)
			continue;
		ExecStoreAllNullTuple(row);
		memcpy(row->tts_values, sum->key.values, counter->columns * sizeof(Datum));
		memcpy(row->tts_isnull, sum->key.nulls, counter->columns * sizeof(bool));
		row->tts_values[counter->columns + DELTA_N] = Int64GetDatum(sum->n);
		row->tts_values[counter->columns + DELTA_XACT] = UInt64GetDatum(U64FromFullTransactionId(transaction));
		row->tts_isnull[counter->columns + DELTA_N] = row->tts_isnull[counter->columns + DELTA_XACT] = false;
		if (counter->tree != NULL)
		{
			row->tts_values[counter->columns + DELTA_PROOF] = tree;
			row->tts_isnull[counter->columns + DELTA_PROOF] = false;
		}
		if (RelationGetDescr(counter->deltas)->constr != NULL)
			ExecConstraints(target, row, estate);
		table_tuple_insert(counter->deltas, row, command, 0, NULL);
		if (target->ri_NumIndices > 0)
			insert_index_entries(target, row, estate);
		ResetPerTupleExprContext(estate);
	}
	ExecCloseIndices(target);
	ExecDropSingleTupleTableSlot(row);
	FreeExecutorState(estate);
	groups_reset(counter->groups);
	MemoryContextReset(counter->memory);
}

static bool
next_group(Counter *counter, Tuplestorestate *rows, TupleTableSlot *row, Key *key)
{
	if (rows == NULL || !tuplestore_gettupleslot(rows, true, false, row))
		return false;
	for (int i = 0; i < counter->columns; i++)
		key->values[i] = slot_getattr(row, counter->column[i]->attnum, &key->nulls[i]);
	return true;
}

static void
add_to_group(Counter *counter, const Key *key, int64 n)
{
	bool		is_counted;
	Sum	   *sum = groups_insert(counter->groups, *key, &is_counted);

	if (!is_counted)
	{
		MemoryContext old = MemoryContextSwitchTo(counter->memory);

		for (int i = 0; i < counter->columns; i++)
			if (!key->nulls[i])
				sum->key.values[i] = datumCopy(key->values[i], counter->column[i]->attbyval,
												 counter->column[i]->attlen);
		sum->n = 0;
		MemoryContextSwitchTo(old);
	}
	sum->n += n;
	if (counter->groups->members >= MOST_GROUPS)
		write_deltas(counter);
}

static void
read_from_beginning(Tuplestorestate *rows)
{
	if (rows != NULL)
	{
		tuplestore_select_read_pointer(rows, 0);
		tuplestore_rescan(rows);
	}
}

/*
 * Count the old and new rows of a statement by group.  The old and new rows of
 * an UPDATE are in the same order, and most rows stay in their group.
 */
static void
count_rows(Counter *counter)
{
	TriggerData *data = counter->data;
	TupleDesc	type = RelationGetDescr(data->tg_relation);
	TupleTableSlot *former = MakeSingleTupleTableSlot(type, &TTSOpsMinimalTuple);
	TupleTableSlot *present = MakeSingleTupleTableSlot(type, &TTSOpsMinimalTuple);
	Key			former_group,
				present_group;

	counter->tree = tree_of(data->tg_relation);
	counter->memory = AllocSetContextCreate(CurrentMemoryContext, "inorder: groups", ALLOCSET_SMALL_SIZES);
	counter->groups = groups_create(CurrentMemoryContext, 16, counter);
	read_from_beginning(data->tg_oldtable);
	read_from_beginning(data->tg_newtable);
	for (;;)
	{
		bool		has_former = next_group(counter, data->tg_oldtable, former, &former_group);
		bool		has_present = next_group(counter, data->tg_newtable, present, &present_group);

		if (!has_former && !has_present)
			break;
		CHECK_FOR_INTERRUPTS();
		if (has_former && has_present && is_same_group(counter, &former_group, &present_group))
			continue;
		if (has_former)
			add_to_group(counter, &former_group, -1);
		if (has_present)
			add_to_group(counter, &present_group, 1);
	}
	if (counter->groups->members > 0)
		write_deltas(counter);
	ExecDropSingleTupleTableSlot(former);
	ExecDropSingleTupleTableSlot(present);
}

/*
 * Return true if rows may have moved to another partition in this transaction.  When MERGE moves a row, the trigger
 * does not see the row.
 */
static bool
may_have_moved(TriggerData *data)
{
	Form_pg_class table = data->tg_relation->rd_rel;
	const char *moving;

	if (!TRIGGER_FIRED_BY_UPDATE(data->tg_event) || data->tg_trigger->tgnargs == 0 ||
		!(table->relispartition || table->relkind == RELKIND_PARTITIONED_TABLE))
		return false;
	moving = GetConfigOption(psprintf("inorder.moving_%s", data->tg_trigger->tgargs[0]), true, false);
	return moving != NULL && *moving != '\0';
}

/*
 * Fold the deltas in one out of 2,000 transactions.  The fold runs as the owner of the table, under the same
 * restrictions as index expressions in ANALYZE.  A fold takes about as long as 80 statements that each insert one row.
 * With one fold in 1,000 transactions, folds took 8 % of the time of these statements.
 */
static void
fold_seldom(Relation table, Oid deltas)
{
	if (U64FromFullTransactionId(GetTopFullTransactionId()) % 2000 != 0)
		return;
	(void) owner_call("exact_count_fold_soon", 3, (Value[]) {
		value_of(ObjectIdGetDatum(table->rd_rel->relowner), OIDOID),
		value_of(ObjectIdGetDatum(root_of(table)), REGCLASSOID), value_of(ObjectIdGetDatum(deltas), REGCLASSOID)
	});
}

static void
call_row_function(Oid function, Node *data)
{
	LOCAL_FCINFO(call, 0);
	FmgrInfo	row_function;

	fmgr_info(function, &row_function);
	InitFunctionCallInfoData(*call, &row_function, 0, InvalidOid, data, NULL);
	(void) FunctionCallInvoke(call);
}

static bool
is_empty(Tuplestorestate *rows)
{
	return rows == NULL || tuplestore_tuple_count(rows) == 0;
}

/*
 * exact_count_trigger() -> trigger: fires after a statement.  The first argument is the OID of the table of deltas;
 * the other arguments are names of columns.
 */
Datum
exact_count_trigger(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	Counter		counter = {.data = data};
	bool		has_moved;
	Oid			function;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_AFTER(data->tg_event) ||
		!TRIGGER_FIRED_FOR_STATEMENT(data->tg_event) || TRIGGER_FIRED_BY_TRUNCATE(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("exact_count_trigger() must be called as a trigger after a statement that changes rows")));
	function = function_of_set(data);
	has_moved = OidIsValid(function) && may_have_moved(data);
	if (!OidIsValid(function) || (!has_moved && is_empty(data->tg_oldtable) && is_empty(data->tg_newtable)))
		return PointerGetDatum(NULL);
	counter.deltas = has_moved ? NULL : open_deltas(function, data->tg_relation->rd_rel->relowner);
	if (counter.deltas == NULL || !find_columns(&counter))
		call_row_function(function, fcinfo->context);
	else
	{
		count_rows(&counter);
		fold_seldom(data->tg_relation, RelationGetRelid(counter.deltas));
	}
	if (counter.deltas != NULL)
		table_close(counter.deltas, NoLock);
	return PointerGetDatum(NULL);
}
