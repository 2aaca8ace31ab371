/*
 * snapshot.h
 *	  Which transactions have ended, as a set of their numbers.
 */
#ifndef INORDER_SNAPSHOT_H
#define INORDER_SNAPSHOT_H

#include "ports/numbers.h"

extern Numbers ended_numbers(int64 base, bool everywhere);

#endif							/* INORDER_SNAPSHOT_H */
