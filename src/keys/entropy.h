/*
 * entropy.h
 *	  Random 64-bit words for keys.
 */
#ifndef INORDER_ENTROPY_H
#define INORDER_ENTROPY_H

extern uint64 entropy_word(void);

#endif							/* INORDER_ENTROPY_H */
