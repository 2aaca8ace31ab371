/*
 * feed.h
 *	  What the functions of feeds and counts share.
 */
#ifndef INORDER_FEED_H
#define INORDER_FEED_H

#include "ports/query.h"

extern Oid readable_argument(FunctionCallInfo fcinfo, int number);
extern Value composite_argument(FunctionCallInfo fcinfo, int number);
extern Table open_table(Oid relation);
extern Value relation_value(Oid relation);

#endif							/* INORDER_FEED_H */
