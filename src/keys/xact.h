/*
 * xact.h
 *	  The number of the current transaction, for keys, columns and the guard.
 */
#ifndef INORDER_XACT_H
#define INORDER_XACT_H

extern void check_xact_number(const char *name, int64 number);
extern uint64 xact_plus_base(uint64 xact, int64 base);
extern uint64 current_xact_number(int64 base, const char *function_name);

#endif							/* INORDER_XACT_H */
