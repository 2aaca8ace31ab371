/*
 * apply.h
 *	  The statement of feed_apply.
 */
#ifndef INORDER_APPLY_H
#define INORDER_APPLY_H

#include "ports/table.h"

extern void refuse_with(const char *statement);
extern void check_without_batch(const Table *table, const char *statement, Value feed);
extern uint64 query_batch(const Table *table, const char *query, const char *statement, Value feed);

#endif							/* INORDER_APPLY_H */
