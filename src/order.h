/*
 * order.h
 *	  Delivery in the order of a column.
 */
#ifndef INORDER_ORDER_H
#define INORDER_ORDER_H

#include "query.h"

/* The order of a batch */
typedef struct Order
{
	Value		column;
	Value		number;			/* of the column */
	Value		resumed_from;	/* the value at which it begins; null at the beginning of a set */
	Value		up_to;			/* no row of the set is above; null at its beginning */
} Order;

extern void prove_new_order(const Table *table, const char *column);
extern void prove_order_column(const Table *table, const Order *order);
extern void prove_batch_order(const Table *table, Value batch);
extern bool cut_ordered(const Table *table, Value *batch, Value numbers, const Order *order, Value max_rows, bool nothing_read);

#endif							/* INORDER_ORDER_H */
