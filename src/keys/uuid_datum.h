/*
 * uuid_datum.h
 *	  Between keys as two words and uuid values as the server passes them.
 */
#ifndef INORDER_UUID_DATUM_H
#define INORDER_UUID_DATUM_H

#include "fmgr.h"

#include "keys/uuid_layout.h"

/* A uuid in the current memory context, as a function returns it. */
static inline Datum
uuid_datum(UuidWords words)
{
	pg_uuid_t  *uuid = (pg_uuid_t *) palloc(sizeof(pg_uuid_t));

	uuid_store(uuid, words);
	return UUIDPGetDatum(uuid);
}

/* For every error about a uuid of the wrong version */
#define UUID_VERSION_DETAIL \
	"The version is the 13th hexadecimal digit, and the 17th must be 8, 9, a or b (RFC 9562, section 4)."

extern UuidWords uuid_arg_of_version(Datum arg, unsigned version);

#endif							/* INORDER_UUID_DATUM_H */
