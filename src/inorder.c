/*
 * inorder.c
 *	  The magic block of the module.
 *
 * There is no _PG_init, because the module defines no settings and no hooks.
 * CONTRIBUTING.md describes the files.
 */
#include "postgres.h"

#include "fmgr.h"

#include "compat.h"

INORDER_MODULE_MAGIC("inorder");
