/*
 * rights.c
 *	  The privileges of a role on a table and on a feed, and the kind of a table.
 *
 * Every call of an internal function checks privileges.  The functions below take
 * about a microsecond.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/syscache.h"

#include "compat.h"
#include "ports/table.h"

PG_FUNCTION_INFO_V1(owns);
PG_FUNCTION_INFO_V1(may_read);
PG_FUNCTION_INFO_V1(lock_readable_table);
PG_FUNCTION_INFO_V1(is_plain);
PG_FUNCTION_INFO_V1(hides_rows);
PG_FUNCTION_INFO_V1(may_move);

/* Attributes of the type role_ref, in the order of the type; the last constant is the number of attributes. */
enum
{
	ROLE_ID, ROLE_NAME, ROLE_COLUMNS
};

static bool
role_owns(Oid role, Oid relation)
{
	Oid			owner = owner_of_table(relation);

	return OidIsValid(owner) && has_privs_of_role(role, owner);
}

/* owns(caller oid, relation regclass) -> boolean */
Datum
owns(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(role_owns(PG_GETARG_OID(0), PG_GETARG_OID(1)));
}

/* Return true if a role may read a table by its name: SELECT on the whole table, and USAGE on its schema */
bool
role_may_read(Oid role, Oid relation)
{
	Oid			schema = get_rel_namespace(relation);

	return OidIsValid(schema) && pg_class_aclcheck(relation, role, ACL_SELECT) == ACLCHECK_OK && may_use_schema(schema, role);
}

/* may_read(caller oid, relation regclass) -> boolean */
Datum
may_read(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(role_may_read(PG_GETARG_OID(0), PG_GETARG_OID(1)));
}

/* Lock a table for a role that may read it; false if the role lacks the privilege, or loses it during the wait */
bool
lock_readable(Oid caller, Oid relation)
{
	/* A role without the privilege must not lock the table. */
	if (!role_may_read(caller, relation))
		return false;
	LockRelationOid(relation, AccessShareLock);
	return role_may_read(caller, relation);
}

/* lock_readable(relation oid, caller oid) -> boolean */
Datum
lock_readable_table(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(lock_readable(PG_GETARG_OID(1), PG_GETARG_OID(0)));
}

/* Return true for a permanent heap table without partitions or children.  Such a table needs no further checks. */
bool
is_plain_table(Oid relation)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
	bool		result;
	Form_pg_class class;

	if (!HeapTupleIsValid(tuple))
		return false;
	class = (Form_pg_class) GETSTRUCT(tuple);
	result = class->relkind == RELKIND_RELATION && class->relam == HEAP_TABLE_AM_OID &&
		class->relpersistence == RELPERSISTENCE_PERMANENT && !class->relhassubclass;
	ReleaseSysCache(tuple);
	return result;
}

/* is_plain(relation regclass) -> boolean */
Datum
is_plain(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(is_plain_table(PG_GETARG_OID(0)));
}

/* Return true if row security hides rows of a table from a role */
bool
hidden_from(Oid role, Oid relation)
{
	return check_enable_rls(relation, role, true) == RLS_ENABLED;
}

/* hides_rows(caller oid, relation regclass) -> boolean: the lock keeps the result valid until the rows are read */
Datum
hides_rows(PG_FUNCTION_ARGS)
{
	LockRelationOid(PG_GETARG_OID(1), AccessShareLock);
	PG_RETURN_BOOL(hidden_from(PG_GETARG_OID(0), PG_GETARG_OID(1)));
}

/*
 * Return true if a stored OID still identifies the same role: this server stored the OID, or the role has the stored
 * name
 */
static bool
is_right(Oid role, const char *name, const char *system)
{
	const char *role_name = GetUserNameFromId(role, true);

	return (role_name != NULL && strcmp(role_name, name) == 0) || strcmp(system, system_of_server()) == 0;
}

static bool
is_role(Oid caller, Datum role, Datum name, const char *system)
{
	return is_right(DatumGetObjectId(role), NameStr(*DatumGetName(name)), system) &&
		has_privs_of_role(caller, DatumGetObjectId(role));
}

static bool
is_mover(Oid caller, Datum movers, const char *system)
{
	ArrayType  *roles = DatumGetArrayTypeP(movers);
	Datum	   *role_refs;
	bool	   *nulls;
	int			count;

	if (ARR_NDIM(roles) == 0)
		return false;
	deconstruct_array(roles, ARR_ELEMTYPE(roles), -1, false, TYPALIGN_DOUBLE, &role_refs, &nulls, &count);
	for (int i = 0; i < count; i++)
	{
		Row			row = row_of(role_refs[i], nulls[i], ROLE_COLUMNS);

		if (!row.nulls[ROLE_ID] && !row.nulls[ROLE_NAME] &&
			is_role(caller, row.values[ROLE_ID], row.values[ROLE_NAME], system))
			return true;
	}
	return false;
}

/*
 * Return true for the owner of a feed, for the owner of its table, and for each role to which feed_grant() has granted
 * the feed
 */
bool
role_may_move(Oid caller, const Row *feed)
{
	const char *system = TextDatumGetCString(feed->values[FEED_SYSTEM]);

	return is_role(caller, feed->values[FEED_OWNER], feed->values[FEED_OWNER_NAME], system) ||
		role_owns(caller, DatumGetObjectId(feed->values[FEED_RELATION])) ||
		is_mover(caller, feed->values[FEED_MOVERS], system);
}

/* may_move(caller oid, f feed) -> boolean; false if the feed is null */
Datum
may_move(PG_FUNCTION_ARGS)
{
	Row			feed = row_of(PG_ARGISNULL(1) ? (Datum) 0 : PG_GETARG_DATUM(1), PG_ARGISNULL(1), FEED_COLUMNS);

	PG_RETURN_BOOL(!PG_ARGISNULL(0) && !feed.nulls[FEED_ID] && role_may_move(PG_GETARG_OID(0), &feed));
}
