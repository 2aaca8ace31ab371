/*
 * without_locks.h
 *	  A look at tables that holds no lock on them afterwards.
 */
#ifndef INORDER_WITHOUT_LOCKS_H
#define INORDER_WITHOUT_LOCKS_H

#include "fmgr.h"

/* At what the arguments of a function name */
typedef bool (*Look) (FunctionCallInfo fcinfo);

extern bool without_locks(Look look, FunctionCallInfo fcinfo);

#endif							/* INORDER_WITHOUT_LOCKS_H */
