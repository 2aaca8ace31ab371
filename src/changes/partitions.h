/*
 * partitions.h
 *	  The partitions of a log.
 */
#ifndef INORDER_PARTITIONS_H
#define INORDER_PARTITIONS_H

#include "nodes/execnodes.h"
#include "utils/rel.h"

extern void check_partitions_of_log(EState *estate, Relation log);

#endif							/* INORDER_PARTITIONS_H */
