/*
 * version.h
 *	  Check that this library and the SQL of the extension are compatible.
 */
#ifndef INORDER_VERSION_H
#define INORDER_VERSION_H

extern void check_interface(Oid schema);

#endif							/* INORDER_VERSION_H */
