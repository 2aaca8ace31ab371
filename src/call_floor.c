/*
 * call_floor.c
 *	  What every function that returns a uuid costs before it does anything.
 *
 * Not part of the extension's SQL: the lab declares it in a temporary schema
 * of its throw-away server and subtracts its cost from the generators'.
 */
#include "postgres.h"

#include "uuid_datum.h"

PG_FUNCTION_INFO_V1(uuid_call_floor);

Datum
uuid_call_floor(PG_FUNCTION_ARGS)
{
	UuidWords	constant = {0, 0};

	return uuid_datum(uuid_stamp(constant, UUID_VERSION_CUSTOM));
}
