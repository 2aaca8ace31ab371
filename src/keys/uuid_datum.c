/*
 * uuid_datum.c
 *	  The check that a uuid handed to a reader has the layout it reads.
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "keys/uuid_datum.h"

UuidWords
uuid_arg_of_version(Datum arg, unsigned version)
{
	UuidWords	words = uuid_load(DatumGetUUIDP(arg));

	if (unlikely(!uuid_is_version(words, version)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("uuid %s is not of version %u",
						DatumGetCString(DirectFunctionCall1(uuid_out, arg)), version),
				 errdetail(UUID_VERSION_DETAIL)));
	return words;
}
