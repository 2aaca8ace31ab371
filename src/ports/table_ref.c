/*
 * table_ref.c
 *	  The type table_ref, and the function namesake(), which finds a table that has
 *	  taken the name of another table.
 *
 * The state refers to tables with the type table_ref, which is like regclass
 * but accepts missing tables.  A dump includes the state of all tables, even of
 * tables that were left out of the dump or of the restore.  With regclass the
 * name of a missing table would be an error, and COPY would then skip the state
 * of all other tables as well.  With table_ref the name is read as 0, and a
 * trigger skips the row.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "ports/table.h"

PG_FUNCTION_INFO_V1(namesake);
PG_FUNCTION_INFO_V1(table_ref_in);
PG_FUNCTION_INFO_V1(table_ref_out);

/* table_ref_in(cstring) -> table_ref */
Datum
table_ref_in(PG_FUNCTION_ARGS)
{
	char	   *name = PG_GETARG_CSTRING(0);

	/*
	 * The output function of regclass writes a number, or "-", for a table that
	 * was dropped or never existed.  In this database the number may belong to
	 * another table.
	 */
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

/*
 * Return the table that has taken the former name of this table, for example in an online schema change; InvalidOid if
 * there is no such table.  The former name is the name that was stored when this table was enabled.  Views are ignored,
 * because a view with this name may show the table itself.
 */
static Oid
namesake_of(const Table *table)
{
	Datum	   *names;
	int			count;
	Oid			schema;
	Oid			present_table;
	char		kind;

	if (table->known_as == NULL)
		return InvalidOid;
	deconstruct_array(table->known_as, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR, &names, NULL, &count);
	schema = count == 2 ? get_namespace_oid(NameStr(*DatumGetName(names[0])), true) : InvalidOid;
	present_table = OidIsValid(schema) ? get_relname_relid(NameStr(*DatumGetName(names[1])), schema) : InvalidOid;
	kind = OidIsValid(present_table) ? get_rel_relkind(present_table) : '\0';
	if (present_table == table->oid ||
		(kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE && kind != RELKIND_FOREIGN_TABLE))
		return InvalidOid;
	return present_table;
}

/* namesake(t feed_table) -> regclass, or null */
Datum
namesake(PG_FUNCTION_ARGS)
{
	Table		table = table_of(PG_GETARG_DATUM(0));
	Oid			present_table = namesake_of(&table);

	if (!OidIsValid(present_table))
		PG_RETURN_NULL();
	PG_RETURN_OID(present_table);
}

bool
is_swapped(const Table *table)
{
	return OidIsValid(namesake_of(table));
}
