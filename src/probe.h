/*
 * probe.h
 *	  Whether a table has rows of some numbers, by its indexes.
 */
#ifndef INORDER_PROBE_H
#define INORDER_PROBE_H

#include "query.h"

extern bool can_probe(const Table *table, Value numbers);
extern bool has_row_of(const Table *table, Value numbers);
extern bool has_row_beyond(const Table *table);

#endif							/* INORDER_PROBE_H */
