/*
 * plan.h
 *	  Read the rows of a batch with a cached plan.
 */
#ifndef INORDER_PLAN_H
#define INORDER_PLAN_H

#include "tcop/dest.h"

#include "ports/bounds.h"

extern bool is_planned(const Table *table, HeapTupleHeader batch, Bounds *bounds);
extern void run_planned(const Table *table, const Bounds *bounds, DestReceiver *rows);

#endif							/* INORDER_PLAN_H */
