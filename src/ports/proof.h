/*
 * proof.h
 *	  Whether a table stands as it was made readable.
 */
#ifndef INORDER_PROOF_H
#define INORDER_PROOF_H

#include "ports/table.h"

extern bool stands_as_made(Ground *ground);

#endif							/* INORDER_PROOF_H */
