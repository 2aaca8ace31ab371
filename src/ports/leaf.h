/*
 * leaf.h
 *	  What is proved of a table that holds rows.
 */
#ifndef INORDER_LEAF_H
#define INORDER_LEAF_H

#include "ports/guard.h"
#include "ports/table.h"

extern Guard guard_of(const Reading *reading, const Facts *facts);
extern void prove_guard(Relation table, const Reading *reading, const Facts *facts, Oid root);
extern Oid	prove_leaf(Relation leaf, const Reading *reading, Oid root);

#endif							/* INORDER_LEAF_H */
