/*
 * guard.c
 *	  The trigger that keeps a table readable by the number of its transactions.
 *
 * A feed and an exact count pass over a transaction for good once it has
 * ended.  So a row must carry the number of the transaction that inserts it,
 * and must neither lose it nor vanish afterwards.  The trigger's first argument
 * is the base; its columns (UPDATE OF …) are those the readers rely on, the
 * one with the number first.  Where that is a generated column no list of columns
 * would ever fire, and their names are the further arguments.
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/uuid.h"

#include "uuid_datum.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(feed_guard);

/* Anyone may make a trigger of it by hand. */
static void
refuse_trigger(Trigger *trigger, const char *fault)
{
	ereport(ERROR,
			(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
			 errmsg("trigger \"%s\" %s", trigger->tgname, fault),
			 errhint("feed_enable() makes the right ones.")));
}

static int64
base_of(Trigger *trigger)
{
	if (trigger->tgnargs < 1)
		refuse_trigger(trigger, "has no base among its arguments");
	return pg_strtoint64(trigger->tgargs[0]);
}

static int
columns_of(Trigger *trigger)
{
	return trigger->tgnattr > 0 ? trigger->tgnattr : trigger->tgnargs - 1;
}

static AttrNumber
column_of(Trigger *trigger, Relation table, int i)
{
	int			column;

	if (trigger->tgnattr > 0)
		return trigger->tgattr[i];
	if (i + 1 >= trigger->tgnargs)
		refuse_trigger(trigger, "names no column");
	column = SPI_fnumber(RelationGetDescr(table), trigger->tgargs[i + 1]);
	if (column == SPI_ERROR_NOATTRIBUTE)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("table \"%s\" has no column \"%s\", which its feed relies on",
						RelationGetRelationName(table), trigger->tgargs[i + 1]),
				 errhint("Give the column its name back, or call feed_enable() again.")));
	return column;
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
	AttrNumber	column = column_of(data->tg_trigger, table, 0);
	uint64		current = current_xact_number(base_of(data->tg_trigger), "feed_guard()");
	bool		is_null;
	Datum		value = slot_getattr(data->tg_trigslot, column, &is_null);
	Oid			type = TupleDescAttr(RelationGetDescr(table), column - 1)->atttypid;

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

	for (int i = 0; i < columns_of(data->tg_trigger); i++)
	{
		AttrNumber	column = column_of(data->tg_trigger, table, i);
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
			 errhint("Detach or drop whole partitions, or call feed_disable() first."),
			 errtable(data->tg_relation)));
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
	if (TRIGGER_FIRED_BY_INSERT(data->tg_event))
		check_insert(data);
	else if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		check_update(data);
	else if (TRIGGER_FIRED_BY_DELETE(data->tg_event))
		refuse_removal(data, "delete from");
	else
		refuse_removal(data, "truncate");
	return PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple : data->tg_trigtuple);
}
