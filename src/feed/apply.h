/*
 * apply.h
 *	  The statement of feed_apply.
 */
#ifndef INORDER_APPLY_H
#define INORDER_APPLY_H

#include "ports/table.h"

extern uint64 query_batch(const Table *table, const char *query, const char *statement);

#endif							/* INORDER_APPLY_H */
