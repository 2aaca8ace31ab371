/*
 * v7.c
 *	  Version-7 UUIDs, their time, and keys that sort after random keys.  The
 *	  keys of either kind ascend within a session.
 *
 * v7_advance() in uuid_layout.h computes a key from the last key.  Each
 * backend has its own state.  The two generators are PARALLEL RESTRICTED,
 * because a parallel worker would have a state of its own.
 */
#include "postgres.h"

#include <time.h>

#include "datatype/timestamp.h"
#include "utils/timestamp.h"

#include "keys/entropy.h"
#include "keys/uuid_datum.h"

PG_FUNCTION_INFO_V1(uuid_v7_nextval);
PG_FUNCTION_INFO_V1(uuid_after_random_nextval);
PG_FUNCTION_INFO_V1(uuid_v7_time);
PG_FUNCTION_INFO_V1(uuid_v7_floor);

/* The first second since 1970 with milliseconds that do not fit into 48 bits; it is in the year 10889 */
#define V7_SECONDS_MAX ((int64) (UUID_FIELD48_MAX / 1000))

static V7State last_key;
static V7State last_after_key;

static uint64
current_tick(int64 seconds_max)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (unlikely(now.tv_sec < 0 || now.tv_sec >= seconds_max))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("the system clock is at %lld seconds since 1970, but keys can contain only 0 to %lld",
						(long long) now.tv_sec, (long long) seconds_max - 1)));
	return v7_clock_tick(now.tv_sec, (int32) now.tv_nsec);
}

/* uuid_v7_nextval() */
Datum
uuid_v7_nextval(PG_FUNCTION_ARGS)
{
	v7_advance(&last_key, current_tick(V7_SECONDS_MAX), entropy_word(), V7_TAIL_BITS);
	return uuid_datum(v7_key(last_key.tick, last_key.tail));
}

/*
 * uuid_after_random_nextval(leading_ones int)
 *
 * All calls of a session share one state.  If the argument changes, ticks therefore
 * continue from the tick of the last key.
 */
Datum
uuid_after_random_nextval(PG_FUNCTION_ARGS)
{
	int32		ones = PG_GETARG_INT32(0);

	if (unlikely(ones < AFTER_ONES_MIN || ones > AFTER_ONES_MAX))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("leading_ones must be between %d and %d, not %d", AFTER_ONES_MIN, AFTER_ONES_MAX, ones)));
	v7_advance(&last_after_key, current_tick(AFTER_SECONDS_MAX), entropy_word(), after_tail_bits(ones));
	return uuid_datum(after_key(ones, last_after_key.tick, last_after_key.tail));
}

/* uuid_v7_time(uuid) -> timestamptz */
Datum
uuid_v7_time(PG_FUNCTION_ARGS)
{
	UuidWords	key = uuid_arg_of_version(PG_GETARG_DATUM(0), UUID_VERSION_TIME);

	PG_RETURN_TIMESTAMPTZ(v7_tick_us(v7_key_tick(key)) - POSTGRES_EPOCH_US);
}

/* uuid_v7_floor(timestamptz) -> the smallest key that is not older than this time */
Datum
uuid_v7_floor(PG_FUNCTION_ARGS)
{
	TimestampTz time = PG_GETARG_TIMESTAMPTZ(0);

	if (unlikely(time < -POSTGRES_EPOCH_US || time > V7_US_MAX - POSTGRES_EPOCH_US))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("timestamp %s is outside the range of version-7 UUIDs", timestamptz_to_str(time)),
				 errdetail("Version-7 UUIDs hold %s.", V7_RANGE_TEXT)));
	return uuid_datum(v7_key(v7_us_tick(time + POSTGRES_EPOCH_US), 0));
}
