/*
 * uuid_min_max.c
 *	  The smaller and the larger of two uuids, for min() and max() on servers
 *	  that have none.
 */
#include "postgres.h"

#include "keys/uuid_datum.h"

PG_FUNCTION_INFO_V1(uuid_smaller);
PG_FUNCTION_INFO_V1(uuid_larger);

static inline int
compare_args(FunctionCallInfo fcinfo)
{
	return memcmp(PG_GETARG_UUID_P(0)->data, PG_GETARG_UUID_P(1)->data, UUID_LEN);
}

/* uuid_smaller(uuid, uuid) */
Datum
uuid_smaller(PG_FUNCTION_ARGS)
{
	return PG_GETARG_DATUM(compare_args(fcinfo) <= 0 ? 0 : 1);
}

/* uuid_larger(uuid, uuid) */
Datum
uuid_larger(PG_FUNCTION_ARGS)
{
	return PG_GETARG_DATUM(compare_args(fcinfo) >= 0 ? 0 : 1);
}
