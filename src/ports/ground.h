/*
 * ground.h
 *	  What a read stands on: proved before it, looked at again after it.
 */
#ifndef INORDER_GROUND_H
#define INORDER_GROUND_H

#include "ports/table.h"

extern Table table_of(Datum description);
extern Table known_table(Datum description, Oid reader);
extern Table described_table(FunctionCallInfo fcinfo, int reader);
extern int64 table_base(const Table *table);
extern void prove_ground(Table *table);
extern void stand_on(Table *table, Value members);
extern void check_ground(const Table *table);

#endif							/* INORDER_GROUND_H */
