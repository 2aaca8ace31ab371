/*
 * rights.c
 *	  The privileges of a role on a table, and the kind of a table.
 *
 * Every call of an internal function checks them, which takes a microsecond.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "fmgr.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/syscache.h"

#include "compat.h"
#include "ports/table.h"

PG_FUNCTION_INFO_V1(owns);
PG_FUNCTION_INFO_V1(may_read);
PG_FUNCTION_INFO_V1(is_plain);
PG_FUNCTION_INFO_V1(hides_rows);

bool
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

/*
 * True if a role may read a table by its name: SELECT on the whole table, and
 * USAGE on its schema
 */
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

/*
 * is_plain(relation regclass) -> boolean: true for a permanent heap without
 * partitions or children, which needs no further checks
 */
Datum
is_plain(PG_FUNCTION_ARGS)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(PG_GETARG_OID(0)));
	bool		result;
	Form_pg_class class;

	if (!HeapTupleIsValid(tuple))
		PG_RETURN_BOOL(false);
	class = (Form_pg_class) GETSTRUCT(tuple);
	result = class->relkind == RELKIND_RELATION && class->relam == HEAP_TABLE_AM_OID &&
		class->relpersistence == RELPERSISTENCE_PERMANENT && !class->relhassubclass;
	ReleaseSysCache(tuple);
	PG_RETURN_BOOL(result);
}

/* True if row security hides rows of a table from a role */
bool
hidden_from(Oid role, Oid relation)
{
	return check_enable_rls(relation, role, true) == RLS_ENABLED;
}

/* hides_rows(caller oid, relation regclass) -> boolean: the result stays valid until the rows are read */
Datum
hides_rows(PG_FUNCTION_ARGS)
{
	LockRelationOid(PG_GETARG_OID(1), AccessShareLock);
	PG_RETURN_BOOL(hidden_from(PG_GETARG_OID(0), PG_GETARG_OID(1)));
}
