/*
 * limit.h
 *	  LIMIT over the rows that a statement is given as the table "batch".
 */
#ifndef INORDER_LIMIT_H
#define INORDER_LIMIT_H

#include "nodes/parsenodes.h"

extern void check_batch_limit(Query *statement);

#endif							/* INORDER_LIMIT_H */
