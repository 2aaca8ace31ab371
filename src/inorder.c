/*
 * inorder.c
 *	  The module itself: magic block and nothing else.
 *
 * There is no _PG_init: nothing is preloaded or configured, and nothing hooked
 * but the executor, in sessions that call feed_read or changes_read (caller.c).
 * Where things are is in CONTRIBUTING.md.
 */
#include "postgres.h"

#include "fmgr.h"

#include "compat.h"

INORDER_MODULE_MAGIC("inorder");
