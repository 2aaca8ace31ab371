/*
 * state.c
 *	  Calls of the internal functions, as the owner of the extension's tables.
 *
 * All roles may call the public functions of the extension, but only the owner
 * may access its tables and its internal schema.  Each call therefore switches
 * to the owner for one internal function, with only pg_catalog in the
 * search_path.  Such a function reads catalogs and the extension's tables, and
 * evaluates no row, expression or type of a user's table.  Tables of users are
 * read in query.c, with the privileges of the caller: either after the internal
 * function has returned, or by as_caller(), which switches to the caller for
 * one query and undoes all its settings.
 *
 * The code does not need PG_TRY to restore role and settings: when an error or
 * a cancel ends the (sub)transaction, the server restores them.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation_d.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "compat.h"
#include "ports/state.h"
#include "ports/version.h"

PG_FUNCTION_INFO_V1(lock_feed);

Value
value_of(Datum value, Oid type)
{
	return (Value) {value, type, false};
}

Value
number_value(int64 number)
{
	return value_of(Int64GetDatum(number), INT8OID);
}

Value
null_of(Oid type)
{
	return (Value) {(Datum) 0, type, true};
}

Value
argument_value(FunctionCallInfo fcinfo, int number, Oid type)
{
	return PG_ARGISNULL(number) ? null_of(type) : value_of(PG_GETARG_DATUM(number), type);
}

/* Return the current role, whose privileges are checked */
Value
caller_value(void)
{
	return value_of(ObjectIdGetDatum(GetUserId()), OIDOID);
}

/* Return the role that owns a feed: an argument or, if the argument is null, the current role */
Value
owner_argument(FunctionCallInfo fcinfo, int number)
{
	return PG_ARGISNULL(number) ? caller_value() : argument_value(fcinfo, number, OIDOID);
}

char *
text_of(Value value)
{
	return TextDatumGetCString(value.value);
}

/* Return an attribute of a composite value; 0 if the attribute is null */
Datum
attribute_of(HeapTupleHeader row, const char *name)
{
	bool		is_null;
	Datum		value = GetAttributeByName(row, name, &is_null);

	return is_null ? (Datum) 0 : value;
}

/* Return the type of an attribute of a composite type in the internal schema */
Oid
attribute_type(const char *type, const char *attribute)
{
	Oid			schema = get_namespace_oid(INTERNAL_SCHEMA, false);
	Oid			row_type = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum(type), ObjectIdGetDatum(schema));
	TupleDesc	columns = lookup_rowtype_tupdesc(row_type, -1);
	Oid			result = SPI_gettypeid(columns, SPI_fnumber(columns, attribute));

	ReleaseTupleDesc(columns);
	return result;
}

/*
 * Raise an error unless there are at least "count" columns.  A later version of the SQL may have appended further
 * columns.
 */
void
expect_columns(TupleDesc columns, int count, const char *what)
{
	if (columns->natts < count || columns->natts > MANY_COLUMNS)
		elog(ERROR, "%s has %d columns, not %d", what, columns->natts, count);
}

/* Return a row whose columns are all null */
Row
empty_row(void)
{
	Row			row = {0};

	memset(row.nulls, true, sizeof(row.nulls));
	return row;
}

/* Return the attributes of a composite value; all of them are null if the value is null */
Row
row_of(Datum value, bool is_null, int count)
{
	Row			row = empty_row();
	HeapTupleHeader header;
	HeapTupleData tuple = {0};
	TupleDesc	columns;

	if (is_null)
		return row;
	header = DatumGetHeapTupleHeader(value);
	columns = lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(header), HeapTupleHeaderGetTypMod(header));
	expect_columns(columns, count, "a value");
	tuple.t_len = HeapTupleHeaderGetDatumLength(header);
	tuple.t_data = header;
	heap_deform_tuple(&tuple, columns, row.values, row.nulls);
	ReleaseTupleDesc(columns);
	return row;
}

void
set_column(Row *row, int column, Datum value)
{
	row->values[column] = value;
	row->nulls[column] = false;
}

/* Convert a row to a value of a composite type; attributes beyond the count are null */
Datum
row_datum(Row *row, int count, Oid type)
{
	TupleDesc	columns = lookup_rowtype_tupdesc(type, -1);
	HeapTuple	tuple;

	expect_columns(columns, count, "a type");
	tuple = heap_form_tuple(columns, row->values, row->nulls);
	ReleaseTupleDesc(columns);
	return HeapTupleGetDatum(tuple);
}

/* Convert a row to a value of the type that the called function returns */
Datum
result_row(FunctionCallInfo fcinfo, Row *row, int count)
{
	return row_datum(row, count, get_func_rettype(fcinfo->flinfo->fn_oid));
}

/* Return the owner of a schema; InvalidOid if there is no such schema */
static Oid
owner_of_schema(Oid schema)
{
	return GetSysCacheOid1(NAMESPACEOID, Anum_pg_namespace_nspowner, ObjectIdGetDatum(schema));
}

Oid
owner_of_table(Oid table)
{
	return GetSysCacheOid1(RELOID, Anum_pg_class_relowner, ObjectIdGetDatum(table));
}

/* Return the name of a table for an error message */
char *
relation_name(Oid relation)
{
	char	   *name = get_rel_name(relation);

	if (name == NULL)
		return psprintf("with OID %u", relation);
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relation)), name);
}

/* Return the table of the state that now has this name */
static Oid
find_table(const char *name, Oid *schema)
{
	Oid			table;

	*schema = get_namespace_oid(INTERNAL_SCHEMA, true);
	table = OidIsValid(*schema) ? get_relname_relid(name, *schema) : InvalidOid;
	if (!OidIsValid(table))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation \"%s.%s\" does not exist", INTERNAL_SCHEMA, name),
				 errhint("Run CREATE EXTENSION inorder.")));
	return table;
}

/*
 * Find a table of the state, and lock it until the transaction ends.
 *
 * At any time, the role that installed the extension may drop the extension, and create another schema with the name of
 * the internal schema.  DROP EXTENSION needs a lock on all tables of the extension before it removes anything.  Under
 * our lock, every name therefore refers to an object of the extension.  After a wait for the lock, the table is looked
 * up again.
 */
static Oid
lock_state(const char *name, Oid *schema)
{
	Oid			table = find_table(name, schema);

	for (;;)
	{
		Oid			present_table;

		LockRelationOid(table, AccessShareLock);
		present_table = find_table(name, schema);
		if (present_table == table)
			return table;
		UnlockRelationOid(table, AccessShareLock);
		table = present_table;
	}
}

/*
 * Prevent the extension from being dropped, and return its owner.  The owner is
 * a superuser, but need not be the bootstrap superuser.
 */
Oid
state_owner(Oid *schema)
{
	Oid			owner = owner_of_table(lock_state("feed", schema));

	if (!superuser_arg(owner) || !superuser_arg(owner_of_schema(*schema)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("schema \"%s\" does not belong to a superuser", INTERNAL_SCHEMA),
				 errdetail("The schema was not created by the extension, or has another owner now.")));
	check_interface(*schema);
	return owner;
}

/*
 * Settings that determine to which objects names refer, how names are written (positions contain names), and how the
 * internal functions are compiled and executed.
 */
static const char *const settings[][2] = {
	{"search_path", "pg_catalog, pg_temp"},
	{"quote_all_identifiers", "off"},
	{"standard_conforming_strings", "on"},
	{"transform_null_equals", "off"},
	{"array_nulls", "on"},
	/*
	 * A sequential scan, planned when the state was small, would later read
	 * all dead row versions.
	 */
	{"enable_seqscan", "off"},
	{"jit", "off"},				/* before 18, disabled scans cost 10^10, enough for JIT compilation */
	{"plpgsql.extra_errors", "none"},
	{"plpgsql.extra_warnings", "none"},
	{"citus.override_table_visibility", "off"}	/* with "on", Citus hides shards in pg_class */
};

/*
 * Change a setting until restore_role() is called.  A setting that already has
 * the value is skipped, because comparing a value takes a tenth of the time of
 * setting it.  A setting that no loaded library defines is also skipped.
 */
static void
pin(const char *name, const char *value)
{
	const char *present_value = GetConfigOption(name, true, false);

	if (present_value != NULL && strcmp(present_value, value) != 0)
		(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

SavedRole
become_owner(void)
{
	SavedRole	saved = {0};
	Oid			owner = state_owner(&saved.schema);

	GetUserIdAndSecContext(&saved.user, &saved.context);
	SetUserIdAndSecContext(owner, saved.context | SECURITY_LOCAL_USERID_CHANGE |
						   SECURITY_RESTRICTED_OPERATION);
	saved.nest = NewGUCNestLevel();
	for (int i = 0; i < lengthof(settings); i++)
		pin(settings[i][0], settings[i][1]);
	return saved;
}

/*
 * Switch from the owner to the caller for one statement.  restore_role() also
 * restores the settings that the statement changes.
 *
 * The statement may run code of the table's owner, who perhaps installed the
 * extension.  Our lock prevents other sessions, but not this session, from
 * dropping the extension.  After such a drop, names would refer to objects that
 * the code has created.  restore_role() therefore checks that the extension
 * exists.
 */
SavedRole
become_caller(Oid caller)
{
	SavedRole	saved = {0};

	saved.state = find_table("feed", &saved.schema);
	GetUserIdAndSecContext(&saved.user, &saved.context);
	/* The caller is an argument of internal functions, on which EXECUTE may have been granted to other roles. */
	if (caller != saved.user && OidIsValid(saved.state) && saved.user != owner_of_table(saved.state))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("only the owner of the extension \"inorder\" may act for another role")));
	SetUserIdAndSecContext(caller, saved.context);
	saved.nest = NewGUCNestLevel();
	return saved;
}

void
restore_role(SavedRole saved)
{
	AtEOXact_GUC(false, saved.nest);
	SetUserIdAndSecContext(saved.user, saved.context);
	if (OidIsValid(saved.state) && get_relname_relid("feed", get_namespace_oid(INTERNAL_SCHEMA, true)) != saved.state)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the extension \"inorder\" was dropped by a statement that one of its functions ran")));
}

Oid
internal_function(Oid schema, const char *name, int count, const Oid *types)
{
	Oid			function = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum(name),
										   PointerGetDatum(buildoidvector(types, count)), ObjectIdGetDatum(schema));

	if (!OidIsValid(function))
		elog(ERROR, "function \"%s\" has no body in schema %u", name, schema);
	return function;
}

/*
 * Return true if an internal function has raised an error; false if the function was executing code of the caller, and
 * that code has raised the error
 */
static bool
is_internal(const ErrorData *error)
{
	const char *name = error->context == NULL ? NULL : strstr(error->context, INTERNAL_SCHEMA ".");

	return name != NULL && memchr(error->context, '\n', name - error->context) == NULL &&
		error->sqlerrcode != ERRCODE_INTERNAL_ERROR;
}

/*
 * Call an internal function.  Errors of the function are reported without their
 * context.  The context would show internal functions, and no statement of the
 * user.
 */
Datum
internal_call(FunctionCallInfo call)
{
	ErrorContextCallback *outer = error_context_stack;
	MemoryContext context = CurrentMemoryContext;
	Datum		result = (Datum) 0;

	PG_TRY();
	{
		error_context_stack = NULL;
		result = FunctionCallInvoke(call);
		error_context_stack = outer;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		if (is_internal(error))
		{
			error->context = error->internalquery = NULL;
			error->internalpos = 0;
		}
		ThrowErrorData(error);	/* adds the context of the outer functions */
	}
	PG_END_TRY();
	return result;
}

/* Call an internal function as the owner of the state, in the active snapshot */
Value
owner_call(const char *name, int count, const Value *arguments)
{
	LOCAL_FCINFO(call, FUNC_MAX_ARGS);
	Oid			types[FUNC_MAX_ARGS];
	SavedRole	saved = become_owner();
	FmgrInfo	function;
	Value		result;

	for (int i = 0; i < count; i++)
		types[i] = arguments[i].type;
	fmgr_info(internal_function(saved.schema, name, count, types), &function);
	InitFunctionCallInfoData(*call, &function, count, DEFAULT_COLLATION_OID, NULL, NULL);
	for (int i = 0; i < count; i++)
		call->args[i] = (NullableDatum) {arguments[i].value, arguments[i].null};
	result.value = internal_call(call);
	result.null = call->isnull;
	result.type = get_func_rettype(function.fn_oid);
	restore_role(saved);
	return result;
}

/* Call an internal function that raises an error */
void
owner_error(const char *name, int count, const Value *arguments)
{
	(void) owner_call(name, count, arguments);
	elog(ERROR, "%s() raised no error", name);
}

/*
 * Return the lock of a feed: an object lock whose class is a table of the extension.  Unlike an advisory lock, this
 * lock cannot be taken by SQL commands, and only a role whose privileges were checked can hold it.  Unlike a row lock,
 * this lock writes nothing.
 */
static LOCKTAG
feed_tag(Oid feed)
{
	LOCKTAG		tag;
	Oid			schema;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, find_table("feed", &schema), feed, 0);
	return tag;
}

/* Wait until no other reader moves a feed, and lock the feed.  On a standby, where no feed moves, no lock is taken. */
void
take_turn(Datum feed)
{
	LOCKTAG		tag = feed_tag((Oid) DatumGetInt64(feed));

	if (!RecoveryInProgress())
		(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

/* lock_feed(feed bigint), and begin_turn(feed bigint) -> boolean, which returns true */
Datum
lock_feed(PG_FUNCTION_ARGS)
{
	take_turn(PG_GETARG_DATUM(0));
	PG_RETURN_BOOL(true);
}
