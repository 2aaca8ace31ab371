/*
 * rights.h
 *	  What a role may do with a table.
 */
#ifndef INORDER_RIGHTS_H
#define INORDER_RIGHTS_H

extern bool role_may_read(Oid role, Oid relation);
extern bool hidden_from(Oid role, Oid relation);

#endif							/* INORDER_RIGHTS_H */
