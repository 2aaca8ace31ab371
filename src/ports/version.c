/*
 * version.c
 *	  Check that this library and the SQL of the extension are compatible.
 *
 * The library and the SQL are replaced at different times.  A package may install a new library, which each new session
 * loads, days before somebody runs ALTER EXTENSION UPDATE; after pg_upgrade, the new library is used with the old SQL.
 * After an update of the SQL, a session keeps the library that it has loaded.  A library therefore supports the SQL of
 * all earlier releases: a new library never removes a function, and never changes the arguments of a function.
 *
 * The state that the library reads, and the internal functions that it calls, are an interface with numbered versions.
 * The labels of the type interface_version are the versions that the SQL supports; the library requires one of these
 * versions.  A release has a new version of the interface only if it must change the interface.  As long as library and
 * SQL are not compatible after such a release, calls that need the state are refused.  Writers are not stopped, because
 * keys and the guard depend on no part of the interface that may change.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "ports/version.h"

#define INTERFACE_VERSION "1"

PG_FUNCTION_INFO_V1(check_library);

/*
 * Return the version of the SQL in this database, or of the SQL that a running script creates; "none" if the extension
 * is not in the catalog
 */
static const char *
version_of_sql(void)
{
	Relation	extensions = table_open(ExtensionRelationId, AccessShareLock);
	const char *version = "none";
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ, CStringGetDatum("inorder"));
	scan = systable_beginscan(extensions, ExtensionNameIndexId, true, NULL, 1, &key);
	if (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		is_null;
		Datum		value = heap_getattr(tuple, Anum_pg_extension_extversion, RelationGetDescr(extensions), &is_null);

		version = TextDatumGetCString(value);
	}
	systable_endscan(scan);
	table_close(extensions, AccessShareLock);
	return version;
}

/* Return true if a version is below the version of this library.  Versions are three numbers; a missing number is 0. */
static bool
is_older_than_library(const char *version)
{
	int			sql_version[3] = {0};
	int			library_version[3] = {0};

	(void) sscanf(version, "%d.%d.%d", &sql_version[0], &sql_version[1], &sql_version[2]);
	(void) sscanf(INORDER_VERSION, "%d.%d.%d", &library_version[0], &library_version[1], &library_version[2]);
	for (int i = 0; i < lengthof(library_version); i++)
		if (sql_version[i] != library_version[i])
			return sql_version[i] < library_version[i];
	return false;
}

static void
say_old_library(const char *version)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("library of inorder %s is older than the SQL of inorder %s", INORDER_VERSION, version),
			 errdetail("A session keeps the library that it has loaded, and libraries in shared_preload_libraries are "
					   "loaded when the server starts."),
			 errhint("Connect again. If the error remains, install inorder %s on the server, or restart the server.",
					 version)));
}

static void
say_old_sql(const char *version)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("SQL of inorder %s is too old for the library of inorder %s", version, INORDER_VERSION),
			 errhint("Run ALTER EXTENSION inorder UPDATE in this database.")));
}

/* Raise an error unless the SQL in this schema supports this library */
void
check_interface(Oid schema)
{
	Oid			type = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum("interface_version"),
									   ObjectIdGetDatum(schema));
	const char *version;

	if (OidIsValid(type) &&
		SearchSysCacheExists2(ENUMTYPOIDNAME, ObjectIdGetDatum(type), CStringGetDatum(INTERFACE_VERSION)))
		return;
	version = version_of_sql();
	if (is_older_than_library(version))
		say_old_sql(version);
	say_old_library(version);
}

/*
 * check_library() -> void
 *
 * Called by the scripts of the extension.  While a script runs, the catalog already has the new version.
 */
Datum
check_library(PG_FUNCTION_ARGS)
{
	const char *version = version_of_sql();

	if (strcmp(version, INORDER_VERSION) != 0 && !is_older_than_library(version))
		say_old_library(version);
	PG_RETURN_VOID();
}
