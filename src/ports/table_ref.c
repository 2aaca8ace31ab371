/*
 * table_ref.c
 *	  The type by which the state names a table: as regclass, but for tables that are not there.
 *
 * A dump has the state of all tables, also of those that were left out of it, or
 * are left out of the restore.  To regclass their names are an error, with which
 * COPY leaves out the state of all others as well; to this type they are no
 * table, 0, which a trigger then leaves out.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"

#include "compat.h"

PG_FUNCTION_INFO_V1(table_ref_in);
PG_FUNCTION_INFO_V1(table_ref_out);

/* table_ref_in(cstring) -> table_ref */
Datum
table_ref_in(PG_FUNCTION_ARGS)
{
	char	   *name = PG_GETARG_CSTRING(0);

	/* What regclass writes for a table that is gone, or was never there: here the number may be another's */
	if (name[strspn(name, "0123456789")] == '\0' || strcmp(name, "-") == 0)
		PG_RETURN_OID(InvalidOid);
	PG_RETURN_OID(RangeVarGetRelid(makeRangeVarFromNameList(qualified_name_list(name)), NoLock, true));
}

/* table_ref_out(table_ref) -> cstring */
Datum
table_ref_out(PG_FUNCTION_ARGS)
{
	return DirectFunctionCall1(regclassout, PG_GETARG_DATUM(0));
}
