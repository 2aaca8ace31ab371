/*
 * tree.h
 *	  A table and all partitions below it.
 */
#ifndef INORDER_TREE_H
#define INORDER_TREE_H

#include "nodes/pg_list.h"
#include "storage/lockdefs.h"

extern List *tree_of(Oid relation, LOCKMODE mode);

#endif							/* INORDER_TREE_H */
