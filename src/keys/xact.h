/*
 * xact.h
 *	  The number of the current transaction, for keys, columns and the guard.
 */
#ifndef INORDER_XACT_H
#define INORDER_XACT_H

#include "keys/uuid_layout.h"

extern void check_xact_number(const char *name, int64 number);
extern uint64 xact_plus_base(uint64 xact, int64 base);
extern uint64 current_xact_number(int64 base, const char *function_name);
extern UuidWords next_xact_key(int64 base);

#endif							/* INORDER_XACT_H */
