/*
 * feed.h
 *	  What the functions of feeds and counts share.
 */
#ifndef INORDER_FEED_H
#define INORDER_FEED_H

#include "query.h"

extern Oid readable_argument(FunctionCallInfo fcinfo, int number);
extern Oid owned_argument(FunctionCallInfo fcinfo, int number);
extern Table open_table(Oid relation);
extern Value relation_value(Oid relation);
extern Value start_position(const Table *table, Value start, Value order_column);
extern void ensure_enabled(Oid relation, Value key_column);

#endif							/* INORDER_FEED_H */
