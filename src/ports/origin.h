/*
 * origin.h
 *	  Which server this is, on which timeline: what transaction numbers are valid on.
 */
#ifndef INORDER_ORIGIN_H
#define INORDER_ORIGIN_H

#include "access/xlogdefs.h"

extern TimeLineID timeline_here(void);
extern void expect_timeline(TimeLineID timeline);

#endif							/* INORDER_ORIGIN_H */
