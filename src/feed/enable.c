/*
 * enable.c
 *	  What it takes to make a table readable: locks, and DDL with the rights of the caller (sql/feed/enable.sql).
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "funcapi.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "ports/files.h"
#include "ports/query.h"

PG_FUNCTION_INFO_V1(lock_tree_in_mode);
PG_FUNCTION_INFO_V1(run_statements);

static LOCKMODE
mode_of(const char *name)
{
	if (strcmp(name, "ACCESS EXCLUSIVE") == 0)
		return AccessExclusiveLock;
	return strcmp(name, "SHARE ROW EXCLUSIVE") == 0 ? ShareRowExclusiveLock : AccessShareLock;
}

/* lock_tree(relation regclass, mode text) */
Datum
lock_tree_in_mode(PG_FUNCTION_ARGS)
{
	Oid			relation = PG_GETARG_OID(0);
	LOCKMODE	mode = mode_of(text_to_cstring(PG_GETARG_TEXT_PP(1)));

	LockRelationOid(relation, mode);
	list_free(tree_of(relation, mode));	/* which locks only those below */
	PG_RETURN_VOID();
}

/* run_statements(statements text[], caller oid) */
Datum
run_statements(PG_FUNCTION_ARGS)
{
	Datum	   *statements;
	int			amount;
	Self		owner = become_caller(PG_GETARG_OID(1));

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), TEXTOID, -1, false, TYPALIGN_INT, &statements, NULL, &amount);
	for (int i = 0; i < amount; i++)
		run_statement(TextDatumGetCString(statements[i]));
	become_self(owner);
	PG_RETURN_VOID();
}
