/*
 * logging.c
 *	  The trigger that logs the changes of a table.
 *
 * What it does is said by a function in PL/pgSQL of the table's owner, which has the
 * name of the log (sql/changes/log.sql), and runs a plan for each statement.  Most
 * logs are as changes_enable() makes them.  A row of such a log meets nothing but
 * the guard, which wants the number of this transaction, and the index of the
 * primary key: no code that a user made.  So it is written here, straight from the
 * rows of the statement, and nobody needs another role for that.  For any other
 * log, for TRUNCATE, and for a row that moves to another partition, that function is
 * called.
 *
 * Whoever may write into the table may not write into its log, so who makes a trigger
 * of this must be who owns the log: else it does not even get a lock.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/partition.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type_d.h"
#include "commands/trigger.h"
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

#include "keys/uuid_datum.h"
#include "ports/state.h"
#include "ports/table.h"

PG_FUNCTION_INFO_V1(changes_trigger);

/* So many keys has a row at most, so that it is seldom compressed, and readers can limit what they take */
#define MOST_KEYS 32

typedef struct Log
{
	Relation	table;
	Relation	index;
	IndexInfo  *index_info;
	int64		base;
	char		op;
	int			columns;		/* of the primary key of the other table */
	int			numbers[INDEX_MAX_KEYS];	/* these columns */
	ArrayBuildState *keys[INDEX_MAX_KEYS];	/* that wait to be written */
	int			count;
	TupleTableSlot *row;
	MemoryContext memory;		/* of that row */
} Log;

static void
refuse_log(Relation table)
{
	Oid			number = RelationGetRelid(table);
	Oid			root = table->rd_rel->relispartition ? llast_oid(get_partition_ancestors(number)) : number;

	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the owner of table %s has no log of its changes", relation_name(number)),
			 errdetail("The log, or the function of its name, was dropped, renamed, restored, or given to another role."),
			 errhint("Let its owner call changes_resync(%s).", quote_literal_cstr(relation_name(root)))));
}

static bool
is_empty(Tuplestorestate *rows)
{
	return rows == NULL || tuplestore_tuple_count(rows) == 0;
}

/* The log that the trigger names by its number, as the name may lead to another one for a while; locked */
static Relation
open_log(TriggerData *data)
{
	Oid			owner = data->tg_relation->rd_rel->relowner;
	Oid			number = data->tg_trigger->tgnargs > 0 ? (Oid) strtoul(data->tg_trigger->tgargs[0], NULL, 10) : InvalidOid;
	Relation	log = owner_of_table(number) == owner ? try_table_open(number, RowExclusiveLock) : NULL;

	if (log == NULL || log->rd_rel->relowner != owner)
		refuse_log(data->tg_relation);
	return log;
}

static Form_pg_attribute
key_column(const Log *log, TupleDesc row, int i)
{
	return TupleDescAttr(row, log->numbers[i] - 1);
}

/* Whether rows need no more than their columns, and these are those of a log for the table */
static bool
is_plain_log(const Log *log, Relation table)
{
	Form_pg_class form = log->table->rd_rel;
	TupleDesc	row = RelationGetDescr(log->table);
	int			last = log->columns + 1;
	/* The columns of a log: the key of the row, arrays of the primary key of the table, op */
	bool		is_plain = log->columns > 0 && form->relkind == RELKIND_RELATION && !form->relispartition &&
		form->relpersistence == RELPERSISTENCE_PERMANENT && !form->relrowsecurity && log->table->rd_rules == NULL &&
		row->natts == last + 1 && (row->constr == NULL || row->constr->num_check == 0) &&
		TupleDescAttr(row, 0)->atttypid == UUIDOID && TupleDescAttr(row, last)->atttypid == CHAROID;

	for (int i = 0; is_plain && i <= last; i++)
		is_plain = TupleDescAttr(row, i)->attgenerated == '\0';
	for (int i = 0; is_plain && i < log->columns; i++)
	{
		Form_pg_attribute from = log->numbers[i] > 0 && log->numbers[i] <= RelationGetNumberOfAttributes(table) ?
			key_column(log, RelationGetDescr(table), i) : NULL;

		/* A column that was dropped has no type, and nor have arrays of some others. */
		is_plain = from != NULL && !TupleDescAttr(row, i + 1)->attisdropped &&
			TupleDescAttr(row, i + 1)->atttypid == get_array_type(from->atttypid) &&
			TupleDescAttr(row, i + 1)->atttypmod == from->atttypmod;
	}
	return is_plain;
}

/* The index of the primary key of a log, if it has no other one */
static Relation
open_only_index(Relation log)
{
	List	   *indexes = RelationGetIndexList(log);
	Relation	index;
	Form_pg_index form;

	if (list_length(indexes) != 1)
		return NULL;
	index = index_open(linitial_oid(indexes), RowExclusiveLock);
	form = index->rd_index;
	if (form->indisprimary && form->indimmediate && form->indisready && form->indnatts == 1 &&
		form->indkey.values[0] == 1 && index->rd_rel->relam == BTREE_AM_OID)
		return index;
	index_close(index, RowExclusiveLock);
	return NULL;
}

static void
write_row(Log *log)
{
	MemoryContext old = MemoryContextSwitchTo(log->memory);
	TupleTableSlot *row = log->row;
	pg_uuid_t	id;

	CHECK_FOR_INTERRUPTS();
	uuid_store(&id, next_xact_key(log->base));
	ExecClearTuple(row);
	memset(row->tts_isnull, false, sizeof(bool) * (log->columns + 2));
	row->tts_values[0] = UUIDPGetDatum(&id);
	for (int i = 0; i < log->columns; i++)
		row->tts_values[i + 1] = makeArrayResult(log->keys[i], log->memory);
	row->tts_values[log->columns + 1] = CharGetDatum(log->op);
	ExecStoreVirtualTuple(row);
	table_tuple_insert(log->table, row, GetCurrentCommandId(true), 0, NULL);
	(void) index_insert(log->index, (Datum[]) {UUIDPGetDatum(&id)}, (bool[]) {false}, &row->tts_tid, log->table,
						UNIQUE_CHECK_YES, false, log->index_info);
	ExecClearTuple(row);
	MemoryContextSwitchTo(old);
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

/* Of equal keys that differ both are logged. */
static bool
is_same_key(const Log *log, TupleTableSlot *former, TupleTableSlot *present)
{
	for (int i = 0; i < log->columns; i++)
	{
		Form_pg_attribute column = key_column(log, present->tts_tupleDescriptor, i);
		bool		was_null,
					is_null;
		Datum		was = slot_getattr(former, column->attnum, &was_null);
		Datum		is = slot_getattr(present, column->attnum, &is_null);

		if (was_null || is_null || !datum_image_eq(was, is, column->attbyval, column->attlen))
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
 * The keys that the rows had and have.  Those of an UPDATE come in the same order, so
 * a key that stays is mostly logged once.  Where a trigger kept a row that moved from
 * coming, the others are logged twice, which does no harm.
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
		bool		was = next_row(data->tg_oldtable, former);
		bool		is = next_row(data->tg_newtable, present);

		if (!was && !is)
			break;
		if (was && !(is && is_same_key(log, former, present)))
			log_key(log, former);
		if (is)
			log_key(log, present);
	}
	if (log->count > 0)
		write_row(log);
	ExecDropSingleTupleTableSlot(former);
	ExecDropSingleTupleTableSlot(present);
}

/* False, and nothing is written, if that takes more than is known here */
static bool
log_changes(TriggerData *data, Relation table)
{
	Log			log = {.table = table, .columns = Min(data->tg_trigger->tgnargs - 1, INDEX_MAX_KEYS)};
	Trigger		guard;

	/* The key for which the trigger was made: what has another one meanwhile may have this again when it is read */
	for (int i = 0; i < log.columns; i++)
		log.numbers[i] = atoi(data->tg_trigger->tgargs[i + 1]);
	if (SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA || !has_only_guard(table, &guard, &log.base) ||
		!is_plain_log(&log, data->tg_relation) || (log.index = open_only_index(table)) == NULL)
		return false;
	refuse_restored(RelationGetRelid(table), &guard, current_xact_number(log.base, "changes_trigger()"));
	log.index_info = BuildIndexInfo(log.index);
	log.op = TRIGGER_FIRED_BY_INSERT(data->tg_event) ? 'I' : TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? 'U' : 'D';
	log.row = table_slot_create(table, NULL);
	log.memory = AllocSetContextCreate(CurrentMemoryContext, "inorder: a row of a log", ALLOCSET_DEFAULT_SIZES);
	log_keys(&log, data);
	MemoryContextDelete(log.memory);
	ExecDropSingleTupleTableSlot(log.row);
	index_close(log.index, NoLock);
	return true;
}

/* The function of the log, which the owner of table and log has made; it runs as he */
static Datum
call_function(TriggerData *data, Relation log)
{
	LOCAL_FCINFO(call, 0);
	FmgrInfo	function;
	HeapTuple	tuple = SearchSysCache3(PROCNAMEARGSNSP, NameGetDatum(&log->rd_rel->relname),
										PointerGetDatum(buildoidvector(NULL, 0)),
										ObjectIdGetDatum(RelationGetNamespace(log)));
	Form_pg_proc form = HeapTupleIsValid(tuple) ? (Form_pg_proc) GETSTRUCT(tuple) : NULL;

	if (form == NULL || form->proowner != log->rd_rel->relowner || form->prorettype != TRIGGEROID)
		refuse_log(data->tg_relation);
	fmgr_info(form->oid, &function);
	ReleaseSysCache(tuple);
	InitFunctionCallInfoData(*call, &function, 0, InvalidOid, (Node *) data, NULL);
	return FunctionCallInvoke(call);
}

/* changes_trigger() -> trigger, with the number of the log as its argument, and those of the columns of the key */
Datum
changes_trigger(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	Datum		result = PointerGetDatum(NULL);
	Relation	log;
	bool		has_rows;

	if (!CALLED_AS_TRIGGER(fcinfo) || TRIGGER_FIRED_BEFORE(data->tg_event) == TRIGGER_FIRED_FOR_STATEMENT(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("changes_trigger() must be called as a trigger after a statement, or before a row is updated")));
	has_rows = TRIGGER_FIRED_FOR_STATEMENT(data->tg_event) && !TRIGGER_FIRED_BY_TRUNCATE(data->tg_event);
	if (has_rows && is_empty(data->tg_oldtable) && is_empty(data->tg_newtable))
		return result;
	log = open_log(data);
	if (!has_rows || !log_changes(data, log))
		result = call_function(data, log);
	table_close(log, NoLock);
	return result;
}
