/*
 * guard.h
 *	  What readers ask of the guard of a table.
 */
#ifndef INORDER_GUARD_H
#define INORDER_GUARD_H

extern void refuse_later_triggers(Oid table);

#endif
