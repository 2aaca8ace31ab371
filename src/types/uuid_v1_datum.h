/*
 * uuid_v1_datum.h
 *	  Between uuid_v1 values and the two words they are made of.
 *
 * The type is aligned like char, as uuid is, so a value may lie anywhere: it
 * is copied out and in, which compilers make two plain moves.
 */
#ifndef INORDER_UUID_V1_DATUM_H
#define INORDER_UUID_V1_DATUM_H

#include "fmgr.h"

#include "types/uuid_v1_layout.h"

static inline UuidV1
v1_value(Datum datum)
{
	UuidV1		value;

	memcpy(&value, DatumGetPointer(datum), sizeof(value));
	return value;
}

/* A value in the current memory context, as a function returns it. */
static inline Datum
v1_datum(UuidV1 value)
{
	UuidV1	   *copy = (UuidV1 *) palloc(sizeof(UuidV1));

	*copy = value;
	return PointerGetDatum(copy);
}

#define PG_GETARG_UUID_V1(n) v1_value(PG_GETARG_DATUM(n))

#endif							/* INORDER_UUID_V1_DATUM_H */
