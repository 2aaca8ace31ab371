/*
 * origin.h
 *	  Which server this is, on which timeline: what transaction numbers are valid on.
 */
#ifndef INORDER_ORIGIN_H
#define INORDER_ORIGIN_H

#include "access/xlogdefs.h"

typedef struct Origin
{
	uint64		system;
	TimeLineID	timeline;
} Origin;

extern Origin origin_here(void);
extern void expect_origin(Origin origin);

#endif							/* INORDER_ORIGIN_H */
