/*
 * compat.h
 *	  Every difference between the server versions we build for (15 to 19).
 *
 * No other file of ours tests PG_VERSION_NUM.
 */
#ifndef INORDER_COMPAT_H
#define INORDER_COMPAT_H

#if PG_VERSION_NUM < 150000
#error "inorder needs PostgreSQL 15 or later"
#endif

/* 18 lets a module carry its name and version, shown by pg_get_loaded_modules() */
#ifdef PG_MODULE_MAGIC_EXT
#define INORDER_MODULE_MAGIC(module_name) PG_MODULE_MAGIC_EXT(.name = module_name, .version = INORDER_VERSION)
#else
#define INORDER_MODULE_MAGIC(module_name) PG_MODULE_MAGIC
#endif

/* 16 lets input functions report an error without raising it; 15 only raises */
#if PG_VERSION_NUM >= 160000
#include "nodes/miscnodes.h"
#include "varatt.h"				/* was part of postgres.h */
#else
#define ereturn(context, dummy, rest) ereport(ERROR, rest)
#endif

/* and so does taking a name apart */
#include "utils/regproc.h"
#if PG_VERSION_NUM >= 160000
#define qualified_name_list(name) stringToQualifiedNameList(name, NULL)
#else
#define qualified_name_list(name) stringToQualifiedNameList(name)
#endif

/* 16 asks about privileges on every kind of object by one function */
#if PG_VERSION_NUM >= 160000
#define may_execute(function) (object_aclcheck(ProcedureRelationId, function, GetUserId(), ACL_EXECUTE) == ACLCHECK_OK)
#else
#define may_execute(function) (pg_proc_aclcheck(function, GetUserId(), ACL_EXECUTE) == ACLCHECK_OK)
#endif

#if PG_VERSION_NUM >= 160000
#define may_use_schema(schema, role) (object_aclcheck(NamespaceRelationId, schema, role, ACL_USAGE) == ACLCHECK_OK)
#else
#define may_use_schema(schema, role) (pg_namespace_aclcheck(schema, role, ACL_USAGE) == ACLCHECK_OK)
#endif

/* and about who owns it */
#if PG_VERSION_NUM >= 160000
#define is_owner_of_relation(relation) object_ownercheck(RelationRelationId, relation, GetUserId())
#else
#define is_owner_of_relation(relation) pg_class_ownercheck(relation, GetUserId())
#endif

/* 17 also asks whether a stronger lock will do */
#if PG_VERSION_NUM >= 170000
#define is_locked_by_me(tag, mode) LockHeldByMe(tag, mode, false)
#else
#define is_locked_by_me(tag, mode) LockHeldByMe(tag, mode)
#endif

/* 17 gave the variables of all transactions another name */
#if PG_VERSION_NUM >= 170000
#define transam_variables TransamVariables
#else
#define transam_variables ShmemVariableCache
#endif

/* and what compares search_path with what it was */
#include "catalog/namespace.h"
#if PG_VERSION_NUM >= 170000
#define is_search_path_of_now(path) SearchPathMatchesCurrentEnvironment(path)
#else
#define is_search_path_of_now(path) OverrideSearchPathMatchesCurrent(path)
#endif

/* 16 lets making a range report an error without raising it */
#if PG_VERSION_NUM >= 160000
#define serialize_range(type, lower, upper) range_serialize(type, lower, upper, false, NULL)
#else
#define serialize_range(type, lower, upper) range_serialize(type, lower, upper, false)
#endif

/* 18 counts all free bytes of a page in pgstatindex(); earlier ones keep 4 back for a line pointer */
#if PG_VERSION_NUM >= 180000
#define free_space_for_density(page) PageGetExactFreeSpace(page)
#else
#define free_space_for_density(page) PageGetFreeSpace(page)
#endif

/* 18 counts the searches of an index scan for EXPLAIN, 19 takes options of the table's scan */
#if PG_VERSION_NUM >= 190000
#define begin_index_scan(table, index, snapshot, keys) index_beginscan(table, index, snapshot, NULL, keys, 0, 0)
#elif PG_VERSION_NUM >= 180000
#define begin_index_scan(table, index, snapshot, keys) index_beginscan(table, index, snapshot, NULL, keys, 0)
#else
#define begin_index_scan(table, index, snapshot, keys) index_beginscan(table, index, snapshot, keys, 0)
#endif

/* 18 has generated columns that are computed when they are read */
#if PG_VERSION_NUM >= 180000
#define has_computed_columns(columns) ((columns)->constr != NULL && (columns)->constr->has_generated_virtual)
#else
#define has_computed_columns(columns) false
#endif

/* 18 refers to what is grouped by through an entry of its own in the range table */
#if PG_VERSION_NUM >= 180000
#define group_expressions(rte) ((rte)->rtekind == RTE_GROUP ? (rte)->groupexprs : NIL)
#else
#define group_expressions(rte) NIL
#endif

/* 18 no longer says whether a query is run once only */
#if PG_VERSION_NUM >= 180000
#define RUN_PARAMETERS QueryDesc *query, ScanDirection direction, uint64 count
#define RUN_ARGUMENTS query, direction, count
#else
#define RUN_PARAMETERS QueryDesc *query, ScanDirection direction, uint64 count, bool once
#define RUN_ARGUMENTS query, direction, count, once
#endif

#endif							/* INORDER_COMPAT_H */
