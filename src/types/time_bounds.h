/*
 * time_bounds.h
 *	  How a function that returns a bound recognizes a call by the planner.
 */
#ifndef INORDER_TIME_BOUNDS_H
#define INORDER_TIME_BOUNDS_H

#include "catalog/pg_collation.h"

/*
 * The collation of a call that time_support.c makes.  None of these functions
 * has an argument that could be collated, so no statement can give them one;
 * folding constants, sending a plan to a worker and estimating keep it.
 */
#define PLANNERS_CALL C_COLLATION_OID

#endif							/* INORDER_TIME_BOUNDS_H */
