/*
 * time_bounds.h
 *	  The mark of calls that the planner makes of functions that return bounds.
 */
#ifndef INORDER_TIME_BOUNDS_H
#define INORDER_TIME_BOUNDS_H

#include "catalog/pg_collation.h"

/*
 * The collation of a call that time_support.c makes.  These functions have no
 * argument of a collatable type: no statement can set the collation of a call.
 * The collation is kept when constants are folded, when a plan is sent to a
 * worker, and when rows are estimated.
 */
#define PLANNERS_CALL C_COLLATION_OID

#endif							/* INORDER_TIME_BOUNDS_H */
