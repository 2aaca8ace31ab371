/*
 * time_bounds.h
 *	  The collation that marks the calls that time_support.c adds to a plan.
 */
#ifndef INORDER_TIME_BOUNDS_H
#define INORDER_TIME_BOUNDS_H

#include "catalog/pg_collation.h"

/*
 * The collation of the calls of uuid_v1_time_bound() and uuid_v1_range_bound()
 * that time_support.c creates.  Statements cannot set the collation of these
 * functions, because they have no argument of a collatable type.  The collation is
 * kept when constants are folded, when a plan is sent to a worker, and when rows
 * are estimated.
 */
#define PLANNERS_CALL C_COLLATION_OID

#endif							/* INORDER_TIME_BOUNDS_H */
