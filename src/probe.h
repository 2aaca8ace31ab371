/*
 * probe.h
 *	  Whether a table has rows of some numbers, by its indexes.
 */
#ifndef INORDER_PROBE_H
#define INORDER_PROBE_H

#include "query.h"

/* What the snapshot that is active sees */
typedef struct Found
{
	bool		rows;			/* with one of the numbers */
	bool		beyond;			/* a row with a number that no transaction of this server has had yet */
} Found;

extern bool can_probe(const Table *table, Value numbers);
extern Found probe(const Table *table, Value numbers);
extern int64 probe_count(const Table *table, Value numbers, int64 most);

#endif							/* INORDER_PROBE_H */
