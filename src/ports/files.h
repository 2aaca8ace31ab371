/*
 * files.h
 *	  The partitions of a table, and whether a snapshot sees the files and partitions that are read.
 */
#ifndef INORDER_FILES_H
#define INORDER_FILES_H

#include "storage/lockdefs.h"
#include "utils/snapshot.h"

#include "ports/table.h"

extern List *tree_of(Oid relation, LOCKMODE mode);
extern bool in_tree(const Ground *ground, Oid relation);
extern void check_files(const Ground *ground, Snapshot snapshot);
extern void check_names(const Ground *ground, Snapshot snapshot);
extern void check_partitions(const Ground *ground, Snapshot snapshot);

#endif							/* INORDER_FILES_H */
