/*
 * feed.h
 *	  A feed as one call sees it.
 */
#ifndef INORDER_FEED_H
#define INORDER_FEED_H

#include "query.h"

extern Table open_table(Oid relation);
extern void enable_table(Oid relation, Value key_column);
extern bool is_enabled(Oid relation, Value key_column);
extern Oid relation_argument(FunctionCallInfo fcinfo, int number);

#endif							/* INORDER_FEED_H */
