/*
 * citus.h
 *	  Tables that Citus has distributed.
 */
#ifndef INORDER_CITUS_H
#define INORDER_CITUS_H

extern void refuse_distributed(Oid relation);

#endif							/* INORDER_CITUS_H */
