/*
 * guard.c
 *	  The trigger that keeps a table readable by the number of its transactions.
 *
 * A feed and an exact count pass over a transaction for good once it has
 * ended.  So a row must carry the number of the transaction that inserts it,
 * and must neither lose it nor vanish afterwards.
 *
 * Two triggers fire for rows.  The first, for INSERT and DELETE, has the base as
 * its argument, and names the columns that readers rely on, the one with the number
 * first, as UPDATE OF …: so the server follows them when they are renamed, and
 * into partitions where they have other numbers.  The second fires for every
 * UPDATE, since UPDATE OF does not when another trigger changes the column.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type_d.h"
#include "commands/trigger.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/uuid.h"

#include "names.h"
#include "ports/guard.h"
#include "ports/restored.h"
#include "keys/uuid_datum.h"
#include "keys/xact.h"

PG_FUNCTION_INFO_V1(feed_guard);
PG_FUNCTION_INFO_V1(is_guarded);
PG_FUNCTION_INFO_V1(hides_rows);

/* Anyone may make a trigger of it by hand. */
static void
refuse_trigger(Trigger *trigger, const char *fault)
{
	ereport(ERROR,
			(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
			 errmsg("trigger \"%s\" %s", trigger->tgname, fault),
			 errhint("feed_enable() makes the right ones.")));
}

static void
say_later_trigger(Relation table, const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("trigger \"%s\" of table %s fires after the guard", name, relation_name(RelationGetRelid(table))),
			 errdetail("It may give rows numbers that readers have passed."),
			 errhint("Triggers fire in the order of their names: give it one below zz_inorder_guard.")));
}

/*
 * Error if a trigger fires after the guard, whose name is given: it may change what the
 * guard has looked at.  Triggers fire by name.  Readers look for one, and so does the
 * guard: one that is there for a while leaves no trace.
 */
void
refuse_later_trigger(Relation table, const char *guard, Oid function, int16 event)
{
	TriggerDesc *all = table->trigdesc;

	for (int i = 0; all != NULL && i < all->numtriggers; i++)
	{
		Trigger    *trigger = &all->triggers[i];

		if ((trigger->tgtype & event) != 0 && TRIGGER_FOR_ROW(trigger->tgtype) && TRIGGER_FOR_BEFORE(trigger->tgtype) &&
			trigger->tgenabled != TRIGGER_DISABLED && trigger->tgfoid != function && strcmp(trigger->tgname, guard) > 0)
			say_later_trigger(table, pstrdup(trigger->tgname));
	}
}

static int64
base_of(Trigger *trigger)
{
	if (trigger->tgnargs < 1)
		refuse_trigger(trigger, "has no base among its arguments");
	return pg_strtoint64(trigger->tgargs[0]);
}

/* The trigger that names the columns */
static Trigger *
columns_of(TriggerData *data)
{
	TriggerDesc *all = data->tg_relation->trigdesc;

	if (data->tg_trigger->tgnattr > 0)
		return data->tg_trigger;
	for (int i = 0; all != NULL && i < all->numtriggers; i++)
		if (all->triggers[i].tgfoid == data->tg_trigger->tgfoid && all->triggers[i].tgnattr > 0)
			return &all->triggers[i];
	refuse_trigger(data->tg_trigger, "names no column");
	return NULL;
}

/* Every refusal speaks of a table and a column. */
static const char *
column_name(Relation table, AttrNumber column)
{
	return NameStr(TupleDescAttr(RelationGetDescr(table), column - 1)->attname);
}

static void
refuse_key(Relation table, AttrNumber column, const char *what, const char *key, const char *said, uint64 current)
{
	const char *function = TupleDescAttr(RelationGetDescr(table), column - 1)->atttypid == UUIDOID ?
		"uuid_xact_nextval" : "xact_id";

	ereport(ERROR,
			(errcode(ERRCODE_CHECK_VIOLATION),
			 errmsg("%s %s was not made by this transaction", what, key),
			 errdetail("The feed on \"%s\" delivers rows by the transaction number in column \"%s\"; this one says %s, the current one is %llu.",
					   RelationGetRelationName(table), column_name(table, column), said, (unsigned long long) current),
			 SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA ?
			 errhint("A table that was enabled here receives no rows of a publisher: call feed_disable(), or in a clone of the publisher see \"Logical replication\" in the manual.") :
			 errhint("Leave the column to its default, %s().", function),
			 errtablecol(table, column)));
}

static void
check_uuid(Relation table, AttrNumber column, Datum value, uint64 current)
{
	UuidWords	key = uuid_load(DatumGetUUIDP(value));

	if (likely(uuid_is_version(key, UUID_VERSION_CUSTOM) && xact_key_number(key) == current))
		return;
	refuse_key(table, column, "key", DatumGetCString(DirectFunctionCall1(uuid_out, value)),
			   uuid_is_version(key, UUID_VERSION_CUSTOM) ?
			   psprintf("%llu", (unsigned long long) xact_key_number(key)) : "none",
			   current);
}

static void
check_number(Relation table, AttrNumber column, int64 number, uint64 current)
{
	if (unlikely((uint64) number != current))
	{
		char	   *said = psprintf("%lld", (long long) number);

		refuse_key(table, column, "number", said, said, current);
	}
}

static void
check_insert(TriggerData *data)
{
	Relation	table = data->tg_relation;
	AttrNumber	column = columns_of(data)->tgattr[0];
	uint64		current = current_xact_number(base_of(data->tg_trigger), "feed_guard()");
	bool		is_null;
	Datum		value;
	Oid			type;

	refuse_restored(RelationGetRelid(table), data->tg_trigger, current);
	value = slot_getattr(data->tg_trigslot, column, &is_null);
	type = TupleDescAttr(RelationGetDescr(table), column - 1)->atttypid;

	if (TRIGGER_FIRED_BEFORE(data->tg_event))
		refuse_later_trigger(table, data->tg_trigger->tgname, data->tg_trigger->tgfoid, TRIGGER_TYPE_INSERT);
	if (unlikely(is_null))
		refuse_key(table, column, type == UUIDOID ? "key" : "number", "NULL", "none", current);
	else if (type == UUIDOID)
		check_uuid(table, column, value, current);
	else if (type == INT8OID)
		check_number(table, column, DatumGetInt64(value), current);
	else
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" is of type %s; a feed reads by uuid or bigint",
						column_name(table, column), format_type_be(type))));
}

static void
check_update(TriggerData *data)
{
	Relation	table = data->tg_relation;
	Trigger    *trigger = columns_of(data);
	int			count = trigger->tgnattr;

	/* A copy, since the relation cache may be built anew when a value is fetched from a TOAST table */
	int16	   *columns = memcpy(palloc(count * sizeof(int16)), trigger->tgattr, count * sizeof(int16));

	if (TRIGGER_FIRED_BEFORE(data->tg_event) && data->tg_trigger->tgnattr == 0)
		refuse_later_trigger(table, data->tg_trigger->tgname, data->tg_trigger->tgfoid, TRIGGER_TYPE_UPDATE);
	for (int i = 0; i < count; i++)
	{
		AttrNumber	column = columns[i];
		Form_pg_attribute type = TupleDescAttr(RelationGetDescr(table), column - 1);
		bool		was_null,
					is_null;
		Datum		was = slot_getattr(data->tg_trigslot, column, &was_null);
		Datum		is = slot_getattr(data->tg_newslot, column, &is_null);

		if (was_null == is_null && (is_null || datum_image_eq(was, is, type->attbyval, type->attlen)))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_RESTRICT_VIOLATION),
				 errmsg("column \"%s\" of \"%s\" must not change", NameStr(type->attname), RelationGetRelationName(table)),
				 errdetail("A feed or an exact count has passed over this row by its value."),
				 errhint("Other columns may change. A BEFORE UPDATE trigger makes the server compute generated columns anew: such a table must not be updated."),
				 errtablecol(table, column)));
	}
}

static void
refuse_removal(TriggerData *data, const char *command)
{
	ereport(ERROR,
			(errcode(ERRCODE_RESTRICT_VIOLATION),
			 errmsg("cannot %s \"%s\": it is insert-only", command, RelationGetRelationName(data->tg_relation)),
			 errdetail("A feed or an exact count relies on its rows."),
			 errhint("Moving a row to another partition deletes it from this one. Detach or drop whole partitions, or call feed_disable() first."),
			 errtable(data->tg_relation)));
}

static void
check(TriggerData *data)
{
	if (TRIGGER_FIRED_BY_INSERT(data->tg_event))
		check_insert(data);
	else if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		check_update(data);
	else
		refuse_removal(data, TRIGGER_FIRED_BY_DELETE(data->tg_event) ? "delete from" : "truncate");
}

/* feed_guard() -> trigger */
Datum
feed_guard(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("feed_guard() must be called as a trigger")));
	if ((TRIGGER_FIRED_BY_INSERT(data->tg_event) || TRIGGER_FIRED_BY_UPDATE(data->tg_event)) &&
		!TRIGGER_FIRED_FOR_ROW(data->tg_event))
		refuse_trigger(data->tg_trigger, "is not for each row");
	if (!is_receiving(data->tg_relation, data->tg_trigger))
		check(data);
	return PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple : data->tg_trigtuple);
}

/* A trigger as feed_enable() makes it, whatever it is called; whose columns are looked at by others */
static Trigger *
guard_trigger(const TriggerDesc *all, const char *name, int16 type, Oid function, const char *base)
{
	for (int i = 0; all != NULL && i < all->numtriggers; i++)
	{
		Trigger    *trigger = &all->triggers[i];

		if (strcmp(trigger->tgname, name) == 0)
			return trigger->tgfoid == function && trigger->tgenabled == TRIGGER_FIRES_ALWAYS &&
				trigger->tgtype == type && trigger->tgqual == NULL && !trigger->tgdeferrable &&
				trigger->tgnargs == 1 && strcmp(trigger->tgargs[0], base) == 0 ? trigger : NULL;
	}
	return NULL;
}

static bool
names_columns(Trigger *guard, Relation table, ArrayType *names)
{
	Datum	   *column;
	bool	   *is_null;
	int			count;

	deconstruct_array(names, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR, &column, &is_null, &count);
	if (guard->tgnattr != count || count == 0)
		return false;
	for (int i = 0; i < count; i++)
		if (is_null[i] || get_attnum(RelationGetRelid(table), NameStr(*DatumGetName(column[i]))) != guard->tgattr[i])
			return false;
	return true;
}

static bool
has_key(Relation table, AttrNumber column, bool is_uuid, bool is_generated)
{
	Form_pg_attribute key = TupleDescAttr(RelationGetDescr(table), column - 1);

	return key->atttypid == (is_uuid ? UUIDOID : INT8OID) && (key->attgenerated != '\0') == is_generated;
}

/* Whether the triggers are on a table, or on a partition of it, as feed_enable() makes them */
bool
guard_stands(Relation table, const Guard *guard)
{
	int16		when = TRIGGER_TYPE_ROW | (guard->is_generated ? TRIGGER_TYPE_AFTER : TRIGGER_TYPE_BEFORE);
	int16		events = TRIGGER_TYPE_DELETE | TRIGGER_TYPE_UPDATE | (guard->is_generated ? 0 : TRIGGER_TYPE_INSERT);
	char	   *base = psprintf("%lld", (long long) guard->base);

	/* A copy, since the relation cache may be built anew when the name of a column is looked up */
	TriggerDesc *triggers = CopyTriggerDesc(table->trigdesc);
	Trigger    *first = guard_trigger(triggers, "zz_inorder_guard", when | events, guard->function, base);

	return first != NULL && names_columns(first, table, guard->columns) &&
		has_key(table, first->tgattr[0], guard->is_uuid, guard->is_generated) &&
		guard_trigger(triggers, "zz_inorder_update", when | TRIGGER_TYPE_UPDATE, guard->function, base) != NULL;
}

/*
 * is_guarded(relation regclass, columns name[], is_uuid boolean, is_generated boolean, base bigint, guard oid) -> boolean
 *
 * The lock lasts until the transaction ends: what was seen stays so until the
 * rows are read.  The callers of this may read the table.
 */
Datum
is_guarded(PG_FUNCTION_ARGS)
{
	Relation	table = try_relation_open(PG_GETARG_OID(0), AccessShareLock);
	Guard		guard = {
		.columns = PG_GETARG_ARRAYTYPE_P(1), .is_uuid = PG_GETARG_BOOL(2), .is_generated = PG_GETARG_BOOL(3),
		.base = PG_GETARG_INT64(4), .function = PG_GETARG_OID(5)
	};
	bool		result;

	if (table == NULL)
		PG_RETURN_BOOL(false);
	result = guard_stands(table, &guard);
	relation_close(table, NoLock);
	PG_RETURN_BOOL(result);
}

/* Whether row security hides rows of a table, locked or about to be read, from a role */
bool
hidden_from(Oid role, Oid relation)
{
	return check_enable_rls(relation, role, true) == RLS_ENABLED;
}

/* hides_rows(caller oid, relation regclass) -> boolean; as is_guarded(), under a lock that lasts */
Datum
hides_rows(PG_FUNCTION_ARGS)
{
	LockRelationOid(PG_GETARG_OID(1), AccessShareLock);
	PG_RETURN_BOOL(hidden_from(PG_GETARG_OID(0), PG_GETARG_OID(1)));
}
