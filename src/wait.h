/*
 * wait.h
 *	  Waiting for rows that others commit.
 */
#ifndef INORDER_WAIT_H
#define INORDER_WAIT_H

#include "fmgr.h"

/* Whether there is what is waited for: called again and again, with the same arguments */
typedef bool (*HasCome) (FunctionCallInfo fcinfo);

extern bool without_locks(HasCome has_come, FunctionCallInfo fcinfo);
extern bool wait_until(HasCome has_come, FunctionCallInfo fcinfo, int timeout_argument);

#endif							/* INORDER_WAIT_H */
