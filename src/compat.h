/*
 * compat.h
 *	  The differences between the server versions that are supported (15 to 19).
 *
 * No other file of the extension tests PG_VERSION_NUM.
 */
#ifndef INORDER_COMPAT_H
#define INORDER_COMPAT_H

#if PG_VERSION_NUM < 150000
#error "inorder needs PostgreSQL 15 or later"
#endif

/* In PostgreSQL 18 and later, pg_get_loaded_modules() shows the name and version of a module. */
#ifdef PG_MODULE_MAGIC_EXT
#define INORDER_MODULE_MAGIC(module_name) PG_MODULE_MAGIC_EXT(.name = module_name, .version = INORDER_VERSION)
#else
#define INORDER_MODULE_MAGIC(module_name) PG_MODULE_MAGIC
#endif

#include "catalog/namespace.h"
#include "utils/regproc.h"

/*
 * In PostgreSQL 16 and later, input functions and the parser of names can
 * return an error; in 15 they always raise the error.  PostgreSQL 16 also added
 * a function that checks privileges on any kind of object, and a function that
 * computes the map from root table to partition when it is first needed.
 */
#if PG_VERSION_NUM >= 160000
#include "nodes/miscnodes.h"
#include "varatt.h"				/* part of postgres.h before 16 */
#define qualified_name_list(name) stringToQualifiedNameList(name, NULL)
#define may_execute(function) (object_aclcheck(ProcedureRelationId, function, GetUserId(), ACL_EXECUTE) == ACLCHECK_OK)
#define may_use_schema(schema, role) (object_aclcheck(NamespaceRelationId, schema, role, ACL_USAGE) == ACLCHECK_OK)
#define root_to_partition(partition, estate) ExecGetRootToChildMap(partition, estate)
#else
#define ereturn(context, dummy, rest) ereport(ERROR, rest)
#define qualified_name_list(name) stringToQualifiedNameList(name)
#define may_execute(function) (pg_proc_aclcheck(function, GetUserId(), ACL_EXECUTE) == ACLCHECK_OK)
#define may_use_schema(schema, role) (pg_namespace_aclcheck(schema, role, ACL_USAGE) == ACLCHECK_OK)
#define root_to_partition(partition, estate) ((partition)->ri_RootToPartitionMap)
#endif

/*
 * PostgreSQL 17 renamed the shared variables of transactions, the local
 * transaction id of a backend, and the function that compares search_path with
 * a saved value.
 */
#if PG_VERSION_NUM >= 170000
#define transam_variables TransamVariables
#define my_local_transaction (MyProc->vxid.lxid)
#define is_search_path_of_now(path) SearchPathMatchesCurrentEnvironment(path)
#else
#define transam_variables ShmemVariableCache
#define my_local_transaction (MyProc->lxid)
#define is_search_path_of_now(path) OverrideSearchPathMatchesCurrent(path)
#endif

/*
 * PostgreSQL 18 added an argument in which an index scan counts its searches
 * for EXPLAIN.  PostgreSQL 19 added options of scans, and flags for inserting
 * index entries.
 */
#if PG_VERSION_NUM >= 190000
#define insert_index_entries(result, slot, estate) ExecInsertIndexTuples(result, estate, 0, slot, NIL, NULL)
#define begin_index_scan(table, index, snapshot, keys) index_beginscan(table, index, snapshot, NULL, keys, 0, 0)
#elif PG_VERSION_NUM >= 180000
#define begin_index_scan(table, index, snapshot, keys) index_beginscan(table, index, snapshot, NULL, keys, 0)
#else
#define begin_index_scan(table, index, snapshot, keys) index_beginscan(table, index, snapshot, keys, 0)
#endif

/* PostgreSQL 16 added an argument for inserting into summarizing indexes only. */
#if PG_VERSION_NUM < 160000
#define insert_index_entries(result, slot, estate) ExecInsertIndexTuples(result, slot, estate, false, false, NULL, NIL)
#elif PG_VERSION_NUM < 190000
#define insert_index_entries(result, slot, estate) ExecInsertIndexTuples(result, slot, estate, false, false, NULL, NIL, false)
#endif

/*
 * PostgreSQL 18 removed the argument execute_once of ExecutorRun(), and added a range table entry for GROUP BY.
 */
#if PG_VERSION_NUM >= 180000
#define run_executor(query) ExecutorRun(query, ForwardScanDirection, 0)
#define group_expressions(rte) ((rte)->rtekind == RTE_GROUP ? (rte)->groupexprs : NIL)
#else
#define run_executor(query) ExecutorRun(query, ForwardScanDirection, 0, true)
#define group_expressions(rte) NIL
#endif

#endif							/* INORDER_COMPAT_H */
