/*
 * wait.h
 *	  The server's counter of transactions that ended.
 */
#ifndef INORDER_WAIT_H
#define INORDER_WAIT_H

extern uint64 ended_count(void);
extern double now_ms(void);

#endif							/* INORDER_WAIT_H */
