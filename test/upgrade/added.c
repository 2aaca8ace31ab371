/*
 * added.c
 *	  A function of the fictitious next version.
 */
#include "postgres.h"

#include "fmgr.h"

PG_FUNCTION_INFO_V1(added_in_c);

Datum
added_in_c(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(PG_GETARG_INT64(0) + 1);
}
