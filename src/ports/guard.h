/*
 * guard.h
 *	  What readers ask of the guard of a table.
 */
#ifndef INORDER_GUARD_H
#define INORDER_GUARD_H

#include "utils/rel.h"
#include "utils/reltrigger.h"

extern bool is_guard_function(Oid function);
extern bool has_only_guard(Relation table, Trigger *guard, int64 *base);
extern void refuse_later_triggers(Oid table);

#endif
