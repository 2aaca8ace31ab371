/*
 * names.h
 *	  Names that all of it uses.
 */
#ifndef INORDER_NAMES_H
#define INORDER_NAMES_H

/* Of the state and the internal functions */
#define INTERNAL_SCHEMA "inorder_internal"

extern char *relation_name(Oid relation);

#endif							/* INORDER_NAMES_H */
