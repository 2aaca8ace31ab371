/*
 * walk.h
 *	  Rows of a batch by the index of their keys, without a query.
 */
#ifndef INORDER_WALK_H
#define INORDER_WALK_H

#include "tcop/dest.h"

#include "ports/table.h"

extern uint64 walk_batch(const Table *table, HeapTupleHeader batch, uint64 most, DestReceiver *rows);

#endif							/* INORDER_WALK_H */
