/*
 * citus.h
 *	  Tables that Citus has distributed.
 */
#ifndef INORDER_CITUS_H
#define INORDER_CITUS_H

extern bool is_distributed(Oid relation);
extern void refuse_distributed(Oid relation);
extern void show_shards(void);

#endif							/* INORDER_CITUS_H */
