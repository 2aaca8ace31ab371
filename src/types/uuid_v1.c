/*
 * uuid_v1.c
 *	  The type uuid_v1: text and binary forms, casts, parts of a value, and the generator of values.
 *
 * The text and binary forms are the same as for uuid, so that clients need no
 * support for the type.  The input functions refuse a value that is not a version-1
 * UUID of the RFC's variant.
 */
#include "postgres.h"

#include <time.h>

#include "datatype/timestamp.h"
#include "libpq/pqformat.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "keys/entropy.h"
#include "keys/uuid_datum.h"
#include "types/uuid_v1_layout.h"

PG_FUNCTION_INFO_V1(uuid_v1_in);
PG_FUNCTION_INFO_V1(uuid_v1_out);
PG_FUNCTION_INFO_V1(uuid_v1_recv);
PG_FUNCTION_INFO_V1(uuid_v1_send);
PG_FUNCTION_INFO_V1(uuid_v1_from_uuid);
PG_FUNCTION_INFO_V1(uuid_v1_to_uuid);
PG_FUNCTION_INFO_V1(uuid_v1_get_timestamp);
PG_FUNCTION_INFO_V1(uuid_v1_get_epoch);
PG_FUNCTION_INFO_V1(uuid_v1_get_clockseq);
PG_FUNCTION_INFO_V1(uuid_v1_get_node);
PG_FUNCTION_INFO_V1(uuid_v1_nextval);
PG_FUNCTION_INFO_V1(uuid_smaller);
PG_FUNCTION_INFO_V1(uuid_larger);

#define NODE_BYTES 6

/*
 * Collect the 32 digits of a string in any form that the type uuid accepts: with optional braces around the value, and
 * an optional hyphen after each group of four digits.  Return false for any other string.  The caller checks the
 * digits.
 */
static bool
collect_digits(const char *text, char *digits)
{
	bool		braces = *text == '{';

	text += braces;
	for (int i = 0; i < 2 * UUID_LEN; i++)
	{
		if (*text == '\0')
			return false;
		digits[i] = *text++;
		if (*text == '-' && i % 4 == 3 && i < 2 * UUID_LEN - 1)
			text++;
	}
	return braces ? text[0] == '}' && text[1] == '\0' : text[0] == '\0';
}

static bool
parse_words(const char *text, UuidWords *words)
{
	char		digits[2 * UUID_LEN];

	/* The standard form, which is by far the most frequent, needs no copy. */
	if (strnlen(text, UUID_TEXT_LENGTH + 1) == UUID_TEXT_LENGTH &&
		text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-')
		return words_from_digits(text, text + 9, text + 14, text + 19, text + 24, words);

	return collect_digits(text, digits) &&
		words_from_digits(digits, digits + 8, digits + 12, digits + 16, digits + 20, words);
}

/* uuid_v1_in(cstring) */
Datum
uuid_v1_in(PG_FUNCTION_ARGS)
{
	const char *text = PG_GETARG_CSTRING(0);
	UuidWords	words;

	if (unlikely(!parse_words(text, &words)))
		ereturn(fcinfo->context, (Datum) 0,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid input syntax for type %s: \"%s\"", "uuid_v1", text)));
	if (unlikely(!uuid_is_version(words, UUID_VERSION_TIME_LOW_FIRST)))
		ereturn(fcinfo->context, (Datum) 0,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("uuid \"%s\" is not of version 1", text),
				 errdetail(UUID_VERSION_DETAIL)));
	return uuid_datum(v1_from_words(words));
}

/* uuid_v1_out(uuid_v1) */
Datum
uuid_v1_out(PG_FUNCTION_ARGS)
{
	UuidWords	value = uuid_load(PG_GETARG_UUID_P(0));
	char	   *text;

	if (unlikely(value.high > V1_TICK_MAX))
		PG_RETURN_CSTRING(pstrdup("infinity")); /* V1_ABOVE_ALL, for EXPLAIN */
	text = palloc(UUID_TEXT_LENGTH + 1);
	words_to_text(v1_to_words(value), text);
	PG_RETURN_CSTRING(text);
}

/* uuid_v1_recv(internal): 16 bytes in the order of the RFC */
Datum
uuid_v1_recv(PG_FUNCTION_ARGS)
{
	StringInfo	buffer = (StringInfo) PG_GETARG_POINTER(0);
	pg_uuid_t	uuid;
	UuidWords	words;

	memcpy(uuid.data, pq_getmsgbytes(buffer, UUID_LEN), UUID_LEN);
	words = uuid_load(&uuid);
	if (unlikely(!uuid_is_version(words, UUID_VERSION_TIME_LOW_FIRST)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("uuid %s is not of version 1",
						DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(&uuid)))),
				 errdetail(UUID_VERSION_DETAIL)));
	return uuid_datum(v1_from_words(words));
}

/*
 * Convert a value to the standard form; error for V1_ABOVE_ALL, which is only an
 * operand of comparisons.  The tick of V1_ABOVE_ALL does not fit into the 60 bits of
 * the standard form.
 */
static UuidWords
words_of_value(UuidWords value)
{
	if (unlikely(value.high > V1_TICK_MAX))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("the bound above all values of uuid_v1 is not a UUID")));
	return v1_to_words(value);
}

/* uuid_v1_send(uuid_v1) -> bytea */
Datum
uuid_v1_send(PG_FUNCTION_ARGS)
{
	StringInfoData buffer;
	pg_uuid_t	uuid;

	uuid_store(&uuid, words_of_value(uuid_load(PG_GETARG_UUID_P(0))));
	pq_begintypsend(&buffer);
	pq_sendbytes(&buffer, (char *) uuid.data, UUID_LEN);
	PG_RETURN_BYTEA_P(pq_endtypsend(&buffer));
}

/* uuid_v1(uuid) */
Datum
uuid_v1_from_uuid(PG_FUNCTION_ARGS)
{
	return uuid_datum(v1_from_words(uuid_arg_of_version(PG_GETARG_DATUM(0), UUID_VERSION_TIME_LOW_FIRST)));
}

/* uuid(uuid_v1) */
Datum
uuid_v1_to_uuid(PG_FUNCTION_ARGS)
{
	return uuid_datum(words_of_value(uuid_load(PG_GETARG_UUID_P(0))));
}

/* uuid_v1_get_timestamp(uuid_v1) -> timestamptz, rounded down to microseconds */
Datum
uuid_v1_get_timestamp(PG_FUNCTION_ARGS)
{
	int64		us = (int64) (uuid_load(PG_GETARG_UUID_P(0)).high / V1_TICKS_PER_US);

	PG_RETURN_TIMESTAMPTZ(us - V1_POSTGRES_EPOCH_US);
}

/* uuid_v1_get_epoch(uuid_v1) -> seconds since 1970 */
Datum
uuid_v1_get_epoch(PG_FUNCTION_ARGS)
{
	int64		ticks = (int64) uuid_load(PG_GETARG_UUID_P(0)).high - V1_UNIX_EPOCH_US * V1_TICKS_PER_US;

	/*
	 * Seconds and fraction are converted separately, because the number of ticks may have more digits than a double
	 * can represent, and would be rounded twice.
	 */
	PG_RETURN_FLOAT8((double) (ticks / V1_TICKS_PER_SECOND) +
					 (double) (ticks % V1_TICKS_PER_SECOND) / (double) V1_TICKS_PER_SECOND);
}

/* uuid_v1_get_clockseq(uuid_v1) -> smallint, without the variant's bits */
Datum
uuid_v1_get_clockseq(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT16((int16) (uuid_load(PG_GETARG_UUID_P(0)).low >> 48));
}

/* uuid_v1_get_node(uuid_v1) -> bytea of 6 bytes */
Datum
uuid_v1_get_node(PG_FUNCTION_ARGS)
{
	uint64		node = pg_hton64(uuid_load(PG_GETARG_UUID_P(0)).low << 16);
	bytea	   *result = (bytea *) palloc(VARHDRSZ + NODE_BYTES);

	SET_VARSIZE(result, VARHDRSZ + NODE_BYTES);
	memcpy(VARDATA(result), &node, NODE_BYTES);
	PG_RETURN_BYTEA_P(result);
}

/* ---------------------------------------------------------------------------
 * Values whose ticks never repeat within a session
 * ---------------------------------------------------------------------------
 *
 * A session chooses a random node and clock sequence when it first needs them.
 * The multicast bit of the node is set, as RFC 9562 requires for nodes that are
 * not the address of a network card (section 6.10).
 */
#define NODE_MULTICAST (UINT64CONST(1) << 40)	/* lowest bit of the first byte */

static int	state_process = 0;	/* MyProcPid of the process that chose node and clock sequence */
static V1State state;

static void
begin_session(void)
{
	uint64		random = entropy_word();

	state.node = (random & V1_NODE_MAX) | NODE_MULTICAST;
	state.clockseq = random >> 48 & V1_CLOCKSEQ_MAX;
	state_process = MyProcPid;
}

static uint64
current_tick(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64) (now.tv_sec * 1000000 + V1_UNIX_EPOCH_US) * V1_TICKS_PER_US + (uint64) now.tv_nsec / 100;
}

/* uuid_v1_nextval() */
Datum
uuid_v1_nextval(PG_FUNCTION_ARGS)
{
	if (unlikely(state_process != MyProcPid))
		begin_session();
	v1_advance(&state, current_tick());
	if (unlikely(state.tick > V1_TICK_MAX))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("the system clock is outside the range of version-1 UUIDs"),
				 errdetail("Version-1 UUIDs hold %s.", V1_RANGE_TEXT)));
	return uuid_datum((UuidWords) {state.tick, v1_rest(state.clockseq, state.node)});
}

/* ---------------------------------------------------------------------------
 * min() and max() of uuid_v1, and of uuid on servers that lack them
 * ---------------------------------------------------------------------------
 */

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
