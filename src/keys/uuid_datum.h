/*
 * uuid_datum.h
 *	  Conversions between UuidWords and the server's type uuid, and declarations for xact.c.
 */
#ifndef INORDER_UUID_DATUM_H
#define INORDER_UUID_DATUM_H

#include "fmgr.h"
#include "utils/builtins.h"

#include "keys/uuid_layout.h"

/* Convert words to a uuid that a function can return; the uuid is allocated in the current memory context */
static inline Datum
uuid_datum(UuidWords words)
{
	pg_uuid_t  *uuid = (pg_uuid_t *) palloc(sizeof(pg_uuid_t));

	uuid_store(uuid, words);
	return UUIDPGetDatum(uuid);
}

/* The DETAIL of each error about a uuid of the wrong version */
#define UUID_VERSION_DETAIL \
	"The version is the 13th hexadecimal digit, and the 17th must be 8, 9, a or b (RFC 9562, section 4)."

/* Return the words of an argument.  Raise an error unless the argument is a uuid of this version. */
static inline UuidWords
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

/* xact.c */
extern uint64 xact_plus_base(uint64 xact, int64 base);
extern uint64 current_xact_number(int64 base, const char *function_name);
extern Datum xact_id_generated(PG_FUNCTION_ARGS);
extern UuidWords next_xact_key(int64 base);

#endif							/* INORDER_UUID_DATUM_H */
