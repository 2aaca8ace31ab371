/*
 * restored.h
 *	  Tables whose state a restore brought, and that take no rows until their owner accepts it.
 */
#ifndef INORDER_RESTORED_H
#define INORDER_RESTORED_H

#include "utils/relcache.h"

extern void refuse_restored(Relation table, uint64 transaction);

#endif							/* INORDER_RESTORED_H */
