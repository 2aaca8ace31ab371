/*
 * parts.h
 *	  Which partitions a query has to read.
 */
#ifndef INORDER_PARTS_H
#define INORDER_PARTS_H

#include "ports/numbers.h"
#include "ports/table.h"

/* Below it a plan over all of them takes little */
#define MANY_LEAVES 8

extern void forget_parts_of(Ground *ground);
extern bool parts_are_known(const Parts *parts, Numbers set);
extern void note_parts(const Table *table, Value numbers, const bool *has);

#endif							/* INORDER_PARTS_H */
