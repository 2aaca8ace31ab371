/*
 * restored.h
 *	  Tables whose state a restore brought, and that take no rows until their owner accepts it.
 */
#ifndef INORDER_RESTORED_H
#define INORDER_RESTORED_H

#include "utils/rel.h"
#include "utils/reltrigger.h"

extern bool is_receiving(Relation table, const Trigger *guard);
extern void refuse_restored(Oid table, const Trigger *guard, uint64 transaction);

#endif							/* INORDER_RESTORED_H */
