/*
 * inorder.c
 *	  The module itself: magic block and nothing else.
 *
 * There is no _PG_init: nothing is preloaded, configured or hooked.
 * Where things are is in CONTRIBUTING.md.
 */
#include "postgres.h"

#include "fmgr.h"

#include "compat.h"

INORDER_MODULE_MAGIC("inorder");
