/*
 * guard.h
 *	  The trigger that keeps a table readable, as others look at it.
 */
#ifndef INORDER_GUARD_H
#define INORDER_GUARD_H

#include "utils/array.h"
#include "utils/relcache.h"

/* What the guard of a table must be */
typedef struct Guard
{
	ArrayType  *columns;		/* name[]: those that readers rely on, the one with the number first */
	bool		is_uuid;
	bool		is_generated;
	int64		base;
	Oid			function;		/* feed_guard() */
} Guard;

extern bool guard_stands(Relation table, const Guard *guard);
extern void refuse_later_trigger(Relation table, const char *guard, Oid function, int16 event);
extern bool hidden_from(Oid role, Oid relation);

#endif							/* INORDER_GUARD_H */
