/*
 * caller.h
 *	  Check that the caller of feed_read takes all of its rows.
 */
#ifndef INORDER_CALLER_H
#define INORDER_CALLER_H

#include "fmgr.h"

extern void check_caller(FunctionCallInfo fcinfo);

#endif							/* INORDER_CALLER_H */
