/*
 * column.h
 *	  A column that a feed depends on, besides that of the number.
 */
#ifndef INORDER_COLUMN_H
#define INORDER_COLUMN_H

#include "utils/rel.h"

#include "ports/query.h"

/* What must hold for it in the table or a partition; what it is for is the detail of errors */
typedef void (*ProveColumn) (Relation relation, AttrNumber number, const char *column, Oid root);

extern AttrNumber existing_column(const Table *table, const char *column);
extern void prove_in_tree(const Table *table, const char *column, ProveColumn prove);
extern void prove_not_null(Relation relation, AttrNumber number, const char *column, Oid root, const char *use);
extern void refuse_column(const char *column, Oid relation, const char *fault, const char *use, const char *hint);

#endif							/* INORDER_COLUMN_H */
