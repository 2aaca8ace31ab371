/*
 * key_base.h
 *	  What the default of a column says about the numbers in it.
 */
#ifndef INORDER_KEY_BASE_H
#define INORDER_KEY_BASE_H

#include "nodes/nodes.h"

extern bool base_of_call(Node *expression, Oid function, int64 *base);

#endif							/* INORDER_KEY_BASE_H */
