/*
 * logging.c
 *	  The trigger that logs the changes of a table.
 *
 * After a statement, the trigger writes the keys of the changed rows into the log, which is a table of the same owner.
 * The trigger writes rows as COPY does: through the executor, which fires the guard of the log, finds the partition
 * and inserts the index entries.  The trigger and the executor run as the role that writes into the table.  The role
 * needs no privilege on the log, because the trigger reads nothing there, and adds only keys of rows that the role may
 * write.
 *
 * Any role with the TRIGGER privilege on a table may create a trigger with this function.  A table is therefore a log
 * only if it belongs to the owner of the logged table, and if that owner has created a trigger on the log that names
 * the logged table.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/tupconvert.h"
#include "access/xact.h"
#include "catalog/partition.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type_d.h"
#include "commands/trigger.h"
#include "executor/execPartition.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"

#include "changes/partitions.h"
#include "compat.h"
#include "keys/uuid_datum.h"
#include "ports/state.h"
#include "ports/table.h"

PG_FUNCTION_INFO_V1(changes_trigger);

/*
 * Maximum number of keys in a row of the log.  With so few keys, rows are
 * seldom compressed, and a limit on the rows of a batch also limits the keys of
 * the batch.
 */
#define MOST_KEYS 32

/*
 * Name of a trigger on each log.  The argument of the trigger is the logged table.  The
 * trigger never fires, because it is AFTER TRUNCATE, and the guard refuses TRUNCATE.
 */
#define MARK "zz_inorder_changes"

typedef struct Log
{
	Relation	table;
	int64		base;
	char		op;
	int			columns;		/* number of columns in the primary key of the logged table */
	int			numbers[INDEX_MAX_KEYS];	/* attribute numbers of the key columns */
	ArrayBuildState *keys[INDEX_MAX_KEYS];	/* keys waiting to be written */
	int			count;
	EState	   *estate;
	ResultRelInfo *target;
	ModifyTableState *state;	/* to find partitions; null if the log is not partitioned */
	PartitionTupleRouting *routing;
	ResultRelInfo *checked;		/* partition of the last row, whose triggers were checked */
	TupleTableSlot *row;
	MemoryContext memory;		/* memory for the row to be inserted */
} Log;

/*
 * Return the topmost parent of a table, or the table itself.  While DETACH CONCURRENTLY waits for older snapshots, a
 * table is still marked as a partition, but has no parent.
 */
static Oid
root_of(Relation table)
{
	Oid			number = RelationGetRelid(table);
	List	   *ancestors = table->rd_rel->relispartition ? get_partition_ancestors(number) : NIL;

	return ancestors == NIL ? number : llast_oid(ancestors);
}

static void
refuse_log(Relation table)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the log of the changes of table %s is missing or not valid", relation_name(RelationGetRelid(table))),
			 errdetail("The log was dropped, restored, changed, or given to another role."),
			 errhint("The owner of the table must call changes_resync(%s).",
					 quote_literal_cstr(relation_name(root_of(table))))));
}

/* Return true for a table that is not temporary.  The trigger may name any relation. */
static bool
is_table(Relation log)
{
	return (log->rd_rel->relkind == RELKIND_RELATION || log->rd_rel->relkind == RELKIND_PARTITIONED_TABLE) &&
		log->rd_rel->relpersistence != RELPERSISTENCE_TEMP;
}

static bool
is_empty(Tuplestorestate *rows)
{
	return rows == NULL || tuplestore_tuple_count(rows) == 0;
}

static Oid
oid_argument(const Trigger *trigger, int number)
{
	return trigger->tgnargs > number ? (Oid) strtoul(trigger->tgargs[number], NULL, 10) : InvalidOid;
}

/*
 * Return true if a trigger on the log names the table.  Other roles with the TRIGGER privilege on the log could also
 * create such a trigger, but only the owner can set a trigger to ENABLE ALWAYS, and replacing the trigger resets this
 * setting.
 */
static bool
is_log_of(Relation log, Oid table, Oid function)
{
	TriggerDesc *trigdesc = log->trigdesc;

	for (int i = 0; trigdesc != NULL && i < trigdesc->numtriggers; i++)
	{
		Trigger    *trigger = &trigdesc->triggers[i];

		if (trigger->tgfoid == function && trigger->tgenabled == TRIGGER_FIRES_ALWAYS &&
			strcmp(trigger->tgname, MARK) == 0)
			return oid_argument(trigger, 0) == table;
	}
	return false;
}

/*
 * Open and lock the log.  The trigger names the log by OID, because another table may temporarily have the name of the
 * log.  Raise an error if the log does not exist, or if its owner is not the owner of the table.  Return null if the
 * log belongs to another table: this table is a detached partition, or another role created the trigger.
 */
static Relation
open_log(TriggerData *data)
{
	Oid			owner = data->tg_relation->rd_rel->relowner;
	Oid			number = oid_argument(data->tg_trigger, 0);
	Relation	log = owner_of_table(number) == owner ? try_table_open(number, RowExclusiveLock) : NULL;

	if (log == NULL || log->rd_rel->relowner != owner || !is_table(log))
		refuse_log(data->tg_relation);
	if (is_log_of(log, root_of(data->tg_relation), data->tg_trigger->tgfoid))
		return log;
	table_close(log, RowExclusiveLock);
	return NULL;
}

static Form_pg_attribute
key_column(const Log *log, TupleDesc row, int i)
{
	return TupleDescAttr(row, log->numbers[i] - 1);
}

/*
 * Return true if a log begins with the expected columns: the uuid key of the log itself, an array for each column of
 * the logged table's primary key, and op.  Later columns are null.
 */
static bool
has_columns_of_log(const Log *log, Relation table)
{
	TupleDesc	row = RelationGetDescr(log->table);
	int			op_column = log->columns + 1;
	bool		fits = log->columns > 0 && row->natts > op_column && TupleDescAttr(row, 0)->atttypid == UUIDOID &&
		TupleDescAttr(row, op_column)->atttypid == CHAROID;

	for (int i = 0; fits && i < log->columns; i++)
	{
		Form_pg_attribute key = log->numbers[i] > 0 && log->numbers[i] <= RelationGetNumberOfAttributes(table) ?
			key_column(log, RelationGetDescr(table), i) : NULL;

		/* A dropped column has the type 0, which get_array_type() returns for types without an array type. */
		fits = key != NULL && !TupleDescAttr(row, i + 1)->attisdropped &&
			TupleDescAttr(row, i + 1)->atttypid == get_array_type(key->atttypid) &&
			TupleDescAttr(row, i + 1)->atttypmod == key->atttypmod;
	}
	return fits;
}

/*
 * Find the key columns that the trigger names, even if the primary key of the table has changed.  The table may get its
 * former primary key back before the log is read.  The trigger for rows that move to another partition is created on
 * the partitioned table.  The server copies this trigger to partitions, in which the columns may have other attribute
 * numbers.
 */
static void
find_columns(Log *log, TriggerData *data)
{
	Relation	table = data->tg_relation;
	Trigger    *trigger = data->tg_trigger;
	Oid			root = trigger->tgisclone ? root_of(table) : InvalidOid;

	log->columns = Min(trigger->tgnargs - 1, INDEX_MAX_KEYS);
	for (int i = 0; i < log->columns; i++)
	{
		log->numbers[i] = atoi(trigger->tgargs[i + 1]);
		if (OidIsValid(root))
		{
			char	   *name = get_attname(root, log->numbers[i], true);

			log->numbers[i] = name != NULL ? get_attnum(RelationGetRelid(table), name) : InvalidAttrNumber;
		}
	}
	if (!has_columns_of_log(log, table))
		refuse_log(table);
	log->base = guard_base(log->table);
}

/* Return true for the function of the guard, and for functions of the owner of the log or of a superuser */
static bool
is_trusted(Oid function, Oid owner)
{
	Oid			maker = GetSysCacheOid1(PROCOID, Anum_pg_proc_proowner, ObjectIdGetDatum(function));

	return maker == owner || superuser_arg(maker) || is_guard_function(function);
}

/*
 * Raise an error if inserting a row into the log would fire a function of another role.  The function would run with
 * the privileges of every role that changes the logged table.  A role that has the TRIGGER privilege on the log or on
 * one of its partitions, for example by default privileges, may have created such a trigger.  Triggers with conditions
 * are also refused, because the functions that a condition calls are not looked up here.
 */
static void
refuse_strange_triggers(Relation table, Oid owner)
{
	TriggerDesc *trigdesc = table->trigdesc;

	for (int i = 0; trigdesc != NULL && i < trigdesc->numtriggers; i++)
	{
		Trigger    *trigger = &trigdesc->triggers[i];

		if (TRIGGER_FOR_ROW(trigger->tgtype) && TRIGGER_FOR_INSERT(trigger->tgtype) &&
			trigger->tgenabled != TRIGGER_DISABLED &&
			(trigger->tgqual != NULL || !is_trusted(trigger->tgfoid, owner)))
			owner_error("say_strange_trigger", 2, (Value[]) {
				value_of(ObjectIdGetDatum(RelationGetRelid(table)), REGCLASSOID),
				value_of(DirectFunctionCall1(namein, CStringGetDatum(trigger->tgname)), NAMEOID)
			});
	}
}

/* Prepare to write rows, as the server does for logical replication (worker.c) */
static void
begin_log(Log *log)
{
	log->memory = AllocSetContextCreate(CurrentMemoryContext, "inorder: a row of a log", ALLOCSET_DEFAULT_SIZES);
	log->estate = CreateExecutorState();
	log->estate->es_output_cid = GetCurrentCommandId(true);
	log->row = table_slot_create(log->table, &log->estate->es_tupleTable);
	log->target = makeNode(ResultRelInfo);
	InitResultRelInfo(log->target, log->table, 0, NULL, 0);
	if (log->table->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
	{
		log->state = makeNode(ModifyTableState);
		log->state->ps.state = log->estate;
		log->state->operation = CMD_INSERT;
		log->state->resultRelInfo = log->target;
		check_partitions_of_log(log->estate, log->table);
		log->routing = ExecSetupPartitionTupleRouting(log->estate, log->table);
	}
	else
		ExecOpenIndices(log->target, false);
	AfterTriggerBeginQuery();
}

static void
end_log(Log *log)
{
	AfterTriggerEndQuery(log->estate);
	if (log->routing != NULL)
		ExecCleanupTupleRouting(log->state, log->routing);
	else
		ExecCloseIndices(log->target);
	ExecCloseResultRelations(log->estate);
	ExecResetTupleTable(log->estate->es_tupleTable, false);
	FreeExecutorState(log->estate);
	MemoryContextDelete(log->memory);
}

/* Find the partition of the row, and return the row with the columns of the partition */
static TupleTableSlot *
find_partition(Log *log, ResultRelInfo **target)
{
	TupleTableSlot *row;
	TupleConversionMap *map;

	if (log->routing == NULL)
		return log->row;
	*target = ExecFindPartition(log->state, log->target, log->routing, log->row, log->estate);
	row = (*target)->ri_PartitionTupleSlot;
	if (row == NULL)
		row = (*target)->ri_PartitionTupleSlot = table_slot_create((*target)->ri_RelationDesc,
																	&log->estate->es_tupleTable);
	map = root_to_partition(*target, log->estate);
	return map != NULL ? execute_attr_map_slot(map->attrMap, log->row, row) : ExecCopySlot(row, log->row);
}

/* Write the collected keys as one row; a row without keys represents TRUNCATE */
static void
write_row(Log *log)
{
	MemoryContext old = MemoryContextSwitchTo(log->memory);
	TupleTableSlot *row = log->row;
	ResultRelInfo *target = log->target;

	CHECK_FOR_INTERRUPTS();
	ResetPerTupleExprContext(log->estate);
	ExecStoreAllNullTuple(row);
	row->tts_values[0] = uuid_datum(next_xact_key(log->base));
	row->tts_isnull[0] = false;
	for (int i = 0; i < log->columns; i++)
	{
		row->tts_isnull[i + 1] = log->keys[i] == NULL;
		row->tts_values[i + 1] = log->keys[i] == NULL ? (Datum) 0 : makeArrayResult(log->keys[i], log->memory);
	}
	row->tts_values[log->columns + 1] = CharGetDatum(log->op);
	row->tts_isnull[log->columns + 1] = false;
	MemoryContextSwitchTo(old);
	row = find_partition(log, &target);
	if (target != log->checked)
		refuse_strange_triggers(target->ri_RelationDesc, log->table->rd_rel->relowner);
	log->checked = target;
	ExecSimpleRelationInsert(target, log->estate, row);
	ExecClearTuple(log->row);
	MemoryContextReset(log->memory);
	memset(log->keys, 0, sizeof(log->keys));
	log->count = 0;
}

static void
log_key(Log *log, TupleTableSlot *changed)
{
	for (int i = 0; i < log->columns; i++)
	{
		bool		is_null;
		Datum		value = slot_getattr(changed, log->numbers[i], &is_null);

		log->keys[i] = accumArrayResult(log->keys[i], value, is_null,
										key_column(log, changed->tts_tupleDescriptor, i)->atttypid, log->memory);
	}
	if (++log->count == MOST_KEYS)
		write_row(log);
}

/* Return true if the keys of two rows consist of the same bytes.  Equal keys with different bytes are both logged. */
static bool
is_same_key(const Log *log, TupleTableSlot *former, TupleTableSlot *present)
{
	for (int i = 0; i < log->columns; i++)
	{
		Form_pg_attribute column = key_column(log, present->tts_tupleDescriptor, i);
		bool		was_null,
					is_null;
		Datum		old_value = slot_getattr(former, column->attnum, &was_null);
		Datum		new_value = slot_getattr(present, column->attnum, &is_null);

		if (was_null || is_null || !datum_image_eq(old_value, new_value, column->attbyval, column->attlen))
			return false;
	}
	return true;
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

static bool
next_row(Tuplestorestate *rows, TupleTableSlot *slot)
{
	return rows != NULL && tuplestore_gettupleslot(rows, true, false, slot);
}

/*
 * Log the keys of the old and of the new rows of a statement.  The old and new
 * rows of an UPDATE are in the same order, and an unchanged key is usually
 * logged once.  If a trigger prevents a row from moving to another partition,
 * the two orders differ from that row on.  Unchanged keys are then logged
 * twice, which is harmless.
 */
static void
log_keys(Log *log, TriggerData *data)
{
	TupleDesc	type = RelationGetDescr(data->tg_relation);
	TupleTableSlot *former = MakeSingleTupleTableSlot(type, &TTSOpsMinimalTuple);
	TupleTableSlot *present = MakeSingleTupleTableSlot(type, &TTSOpsMinimalTuple);

	read_from_beginning(data->tg_oldtable);
	read_from_beginning(data->tg_newtable);
	for (;;)
	{
		bool		has_former = next_row(data->tg_oldtable, former);
		bool		has_present = next_row(data->tg_newtable, present);

		if (!has_former && !has_present)
			break;
		if (has_former && !(has_present && is_same_key(log, former, present)))
			log_key(log, former);
		if (has_present)
			log_key(log, present);
	}
	ExecDropSingleTupleTableSlot(former);
	ExecDropSingleTupleTableSlot(present);
}

static char
kind_of_change(TriggerEvent event)
{
	return TRIGGER_FIRED_BY_INSERT(event) ? 'I' : TRIGGER_FIRED_BY_UPDATE(event) ? 'U' :
		TRIGGER_FIRED_BY_DELETE(event) ? 'D' : 'T';
}

static void
log_changes(TriggerData *data)
{
	Log			log = {.table = open_log(data), .op = kind_of_change(data->tg_event)};

	if (log.table == NULL)
		return;
	find_columns(&log, data);
	begin_log(&log);
	if (TRIGGER_FIRED_FOR_ROW(data->tg_event))
	{
		log_key(&log, data->tg_trigslot);
		log_key(&log, data->tg_newslot);
	}
	else if (log.op != 'T')
		log_keys(&log, data);
	if (log.count > 0 || log.op == 'T')
		write_row(&log);
	end_log(&log);
	table_close(log.table, NoLock);
}

/* changes_trigger() -> trigger: its arguments are the OID of the log, and the attribute numbers of the key columns */
Datum
changes_trigger(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	TriggerEvent event = CALLED_AS_TRIGGER(fcinfo) ? data->tg_event : 0;
	bool		is_of_statement = TRIGGER_FIRED_FOR_STATEMENT(event) && TRIGGER_FIRED_AFTER(event);
	bool		is_of_move = TRIGGER_FIRED_FOR_ROW(event) && TRIGGER_FIRED_BEFORE(event) && TRIGGER_FIRED_BY_UPDATE(event);

	if (!CALLED_AS_TRIGGER(fcinfo) || !(is_of_statement || is_of_move))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("changes_trigger() must be called as a trigger after a statement, or before a row is updated")));
	if (is_of_move || TRIGGER_FIRED_BY_TRUNCATE(event) || !is_empty(data->tg_oldtable) || !is_empty(data->tg_newtable))
		log_changes(data);
	return PointerGetDatum(is_of_move ? data->tg_newtuple : NULL);
}
