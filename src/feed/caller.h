/*
 * caller.h
 *	  Check that the caller of feed_read or changes_read takes all rows.
 */
#ifndef INORDER_CALLER_H
#define INORDER_CALLER_H

#include "fmgr.h"

extern void check_caller(FunctionCallInfo fcinfo);

#endif							/* INORDER_CALLER_H */
