/*
 * wal.h
 *	  What a crash must not take back.
 */
#ifndef INORDER_WAL_H
#define INORDER_WAL_H

extern void flush_wal_to_end(void);

#endif							/* INORDER_WAL_H */
