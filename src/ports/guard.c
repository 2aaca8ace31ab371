/*
 * guard.c
 *	  The trigger function that keeps a table readable by transaction number.
 *
 * Feeds and exact counts read the rows of a transaction once, after the
 * transaction has ended.  A row must therefore carry the number of the transaction that
 * inserts it, the number must never change, and the row must never be deleted.
 *
 * Two triggers fire for rows.  The first trigger fires for INSERT, for DELETE, and for UPDATE OF the columns that
 * readers rely on, beginning with the column of the number.  Since the trigger names these columns, the server follows
 * the columns when they are renamed, and finds the columns of partitions, which may have other attribute numbers.
 * The second trigger fires for every UPDATE, since UPDATE OF does not fire when another trigger changes a column.  A
 * third trigger refuses TRUNCATE.  The argument of each trigger is the base.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type_d.h"
#include "commands/trigger.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/uuid.h"

#include "ports/state.h"
#include "keys/uuid_datum.h"
#include "ports/table.h"

PG_FUNCTION_INFO_V1(feed_guard);

/* Call an internal function that raises an error.  The SQL edition calls the same function. */
static void
say(const char *error, Value first, Value second)
{
	owner_error(error, 2, (Value[]) {first, second});
}

static Value
text_value(const char *text)
{
	return value_of(CStringGetTextDatum(text), TEXTOID);
}

static Value
relation_value(Relation table)
{
	return value_of(ObjectIdGetDatum(RelationGetRelid(table)), REGCLASSOID);
}

static Value
column_value(Relation table, AttrNumber column)
{
	return value_of(NameGetDatum(&TupleDescAttr(RelationGetDescr(table), column - 1)->attname), NAMEOID);
}

/* Set the error code and hint of an error about a trigger that was created by hand */
static int
of_wrong_trigger(void)
{
	errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED);
	errhint("feed_enable() creates the right triggers.");
	return 0;
}

/*
 * Raise an error if another trigger fires after the guard, and may therefore change values that the guard has checked.
 * Triggers fire in the order of their names; "guard" is the name of the guard's trigger.  Readers make the same check,
 * but do not detect a trigger that was dropped before the read.
 */
static void
refuse_later_trigger(Relation table, const char *guard, Oid function, int16 event)
{
	TriggerDesc *trigdesc = table->trigdesc;

	for (int i = 0; trigdesc != NULL && i < trigdesc->numtriggers; i++)
	{
		Trigger    *trigger = &trigdesc->triggers[i];

		if ((trigger->tgtype & event) != 0 && TRIGGER_FOR_ROW(trigger->tgtype) && TRIGGER_FOR_BEFORE(trigger->tgtype) &&
			trigger->tgenabled != TRIGGER_DISABLED && trigger->tgfoid != function && strcmp(trigger->tgname, guard) > 0)
			say("say_later_trigger", relation_value(table), text_value(trigger->tgname));
	}
}

/* Raise an error if a trigger of a locked table fires after the guard.  Readers make this check. */
void
refuse_later_triggers(Oid table)
{
	Relation	relation = table_open(table, NoLock);
	TriggerDesc *trigdesc = relation->trigdesc;

	for (int i = 0; trigdesc != NULL && i < trigdesc->numtriggers; i++)
	{
		Trigger    *guard = &trigdesc->triggers[i];

		if (!TRIGGER_FOR_BEFORE(guard->tgtype))
			continue;
		if (strcmp(guard->tgname, "zz_inorder_guard") == 0 && TRIGGER_FOR_INSERT(guard->tgtype))
			refuse_later_trigger(relation, guard->tgname, guard->tgfoid, TRIGGER_TYPE_INSERT);
		if (strcmp(guard->tgname, "zz_inorder_update") == 0)
			refuse_later_trigger(relation, guard->tgname, guard->tgfoid, TRIGGER_TYPE_UPDATE);
	}
	table_close(relation, NoLock);
}

static int64
base_of(Trigger *trigger)
{
	if (trigger->tgnargs < 1)
		ereport(ERROR,
				(of_wrong_trigger(), errmsg("trigger \"%s\" has no base among its arguments", trigger->tgname)));
	return pg_strtoint64(trigger->tgargs[0]);
}

bool
is_guard_function(Oid function)
{
	FmgrInfo	info;

	fmgr_info(function, &info);
	return info.fn_addr == feed_guard;
}

/*
 * Return the base of the transaction numbers of a table, which is the argument of its guard; 0 if the table has no
 * guard.  No feed reads a table without the guard.
 */
int64
guard_base(Relation table)
{
	TriggerDesc *trigdesc = table->trigdesc;

	for (int i = 0; trigdesc != NULL && i < trigdesc->numtriggers; i++)
	{
		Trigger    *trigger = &trigdesc->triggers[i];

		if (TRIGGER_FOR_INSERT(trigger->tgtype) && TRIGGER_FOR_ROW(trigger->tgtype) && trigger->tgnattr > 0 &&
			trigger->tgattr[0] == 1 && is_guard_function(trigger->tgfoid))
			return base_of(trigger);
	}
	return 0;
}

/* Return the first trigger of the guard, which names the columns */
static Trigger *
columns_of(TriggerData *data)
{
	TriggerDesc *trigdesc = data->tg_relation->trigdesc;

	if (data->tg_trigger->tgnattr > 0)
		return data->tg_trigger;
	for (int i = 0; trigdesc != NULL && i < trigdesc->numtriggers; i++)
		if (trigdesc->triggers[i].tgfoid == data->tg_trigger->tgfoid && trigdesc->triggers[i].tgnattr > 0)
			return &trigdesc->triggers[i];
	ereport(ERROR, (of_wrong_trigger(), errmsg("trigger \"%s\" names no column", data->tg_trigger->tgname)));
	return NULL;
}

/* Refuse a row with this key; "number" is the transaction number in the key, or null */
static void
refuse_key(Relation table, AttrNumber column, Value key, Value number, uint64 current)
{
	bool		is_uuid = TupleDescAttr(RelationGetDescr(table), column - 1)->atttypid == UUIDOID;
	Value		arguments[] = {
		relation_value(table), column_value(table, column), value_of(BoolGetDatum(is_uuid), BOOLOID), key, number,
		number_value((int64) current)
	};

	owner_error("say_foreign", lengthof(arguments), arguments);
}

static void
check_uuid(Relation table, AttrNumber column, Datum value, uint64 current)
{
	UuidWords	key = uuid_load(DatumGetUUIDP(value));
	bool		is_ours = uuid_is_version(key, UUID_VERSION_CUSTOM);

	if (unlikely(!is_ours || xact_key_number(key) != current))
		refuse_key(table, column, text_value(DatumGetCString(DirectFunctionCall1(uuid_out, value))),
				   is_ours ? number_value((int64) xact_key_number(key)) : null_of(INT8OID), current);
}

static void
check_number(Relation table, AttrNumber column, int64 number, uint64 current)
{
	if (unlikely((uint64) number != current))
		refuse_key(table, column, text_value(psprintf("%lld", (long long) number)), number_value(number), current);
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
		refuse_key(table, column, null_of(TEXTOID), null_of(INT8OID), current);
	else if (type == UUIDOID)
		check_uuid(table, column, value, current);
	else if (type == INT8OID)
		check_number(table, column, DatumGetInt64(value), current);
	else
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" is of type %s, not uuid or bigint",
						get_attname(RelationGetRelid(table), column, false), format_type_be(type))));
}

static void
check_update(TriggerData *data)
{
	Relation	table = data->tg_relation;
	Trigger    *trigger = columns_of(data);
	int			count = trigger->tgnattr;

	/* Copy the columns, since the relation cache may be rebuilt when a value is fetched from a TOAST table. */
	int16	   *columns = memcpy(palloc(count * sizeof(int16)), trigger->tgattr, count * sizeof(int16));

	if (TRIGGER_FIRED_BEFORE(data->tg_event) && data->tg_trigger->tgnattr == 0)
		refuse_later_trigger(table, data->tg_trigger->tgname, data->tg_trigger->tgfoid, TRIGGER_TYPE_UPDATE);
	for (int i = 0; i < count; i++)
	{
		AttrNumber	column = columns[i];
		Form_pg_attribute type = TupleDescAttr(RelationGetDescr(table), column - 1);
		bool		was_null,
					is_null;
		Datum		old_value = slot_getattr(data->tg_trigslot, column, &was_null);
		Datum		new_value = slot_getattr(data->tg_newslot, column, &is_null);

		if (was_null != is_null || (!is_null && !datum_image_eq(old_value, new_value, type->attbyval, type->attlen)))
			say("say_changed", relation_value(table), column_value(table, column));
	}
}

static void
check(TriggerData *data)
{
	if (TRIGGER_FIRED_BY_INSERT(data->tg_event))
		check_insert(data);
	else if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		check_update(data);
	else
		say("say_insert_only", relation_value(data->tg_relation),
			text_value(TRIGGER_FIRED_BY_DELETE(data->tg_event) ? "delete from" : "truncate"));
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
		ereport(ERROR,
				(of_wrong_trigger(), errmsg("trigger \"%s\" is not FOR EACH ROW", data->tg_trigger->tgname)));
	if (!is_receiving(data->tg_relation, data->tg_trigger))
		check(data);
	return PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple : data->tg_trigtuple);
}
