/*
 * wait.h
 *	  Waiting for rows that others commit.
 */
#ifndef INORDER_WAIT_H
#define INORDER_WAIT_H

#include "feed/without_locks.h"

extern bool wait_until(Look has_come, FunctionCallInfo fcinfo, int timeout_argument);

#endif							/* INORDER_WAIT_H */
