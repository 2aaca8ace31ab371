/*
 * idle.h
 *	  Whether it is known at once that nothing follows a position.
 */
#ifndef INORDER_IDLE_H
#define INORDER_IDLE_H

extern bool is_idle_table(Datum description, Datum position, Oid reader, bool counts);

#endif							/* INORDER_IDLE_H */
