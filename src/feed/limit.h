/*
 * limit.h
 *	  Whether a statement reads the rows that it is given as the table "batch".
 */
#ifndef INORDER_LIMIT_H
#define INORDER_LIMIT_H

#include "nodes/parsenodes.h"

extern void check_batch_is_read(List *queries);

#endif							/* INORDER_LIMIT_H */
