/*
 * time_bounds.c
 *	  Bounds for the keys that have a given time, and comparisons of keys with timestamps.
 *
 * floor(t) is the smallest key in the microsecond of t, and after(t) is the
 * smallest key in the next microsecond.  If t is earlier than all keys, for
 * example -infinity, the bound is the lowest value of the type.  If t is later
 * than all keys, the bound is a value above all keys.  The planner replaces the
 * operators by comparisons with these bounds: see time_support.c.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/rangetypes.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "types/time_bounds.h"
#include "keys/uuid_datum.h"
#include "types/uuid_v1_layout.h"

PG_FUNCTION_INFO_V1(uuid_v1_time_bound);
PG_FUNCTION_INFO_V1(uuid_v7_time_bound);
PG_FUNCTION_INFO_V1(uuid_v1_range_bound);
PG_FUNCTION_INFO_V1(uuid_v7_range_bound);
PG_FUNCTION_INFO_V1(uuid_v1_floor);
PG_FUNCTION_INFO_V1(uuid_v1_ceiling);
PG_FUNCTION_INFO_V1(uuid_v7_ceiling);
PG_FUNCTION_INFO_V1(uuid_v7_checked);

/* ---------------------------------------------------------------------------
 * Bounds
 * ---------------------------------------------------------------------------
 *
 * "us" is the internal value of a timestamptz, in microseconds.  The lowest
 * timestamptz represents -infinity, and the highest represents infinity.
 */

/* Return the next microsecond; the same microsecond if there is no later one */
static inline TimestampTz
next_us(TimestampTz us)
{
	return us == PG_INT64_MAX ? us : us + 1;
}

/*
 * Return the smallest value of a microsecond; V1_ABOVE_ALL if all values are earlier than the microsecond, and the
 * lowest value if all values are later
 */
static UuidWords
v1_bound(TimestampTz us)
{
	UuidWords	bound = {0, 0};

	if (us > V1_US_MAX - V1_POSTGRES_EPOCH_US)
		bound.high = V1_ABOVE_ALL;
	else if (us > -V1_POSTGRES_EPOCH_US)
		bound.high = (uint64) (us + V1_POSTGRES_EPOCH_US) * V1_TICKS_PER_US;
	return bound;
}

/*
 * Return the smallest key of a microsecond; the greatest uuid if all keys are earlier than the microsecond, and the
 * lowest uuid if all keys are later
 */
static UuidWords
v7_bound(TimestampTz us)
{
	UuidWords	lowest = {0, 0};
	UuidWords	above_all = {~UINT64CONST(0), ~UINT64CONST(0)};

	if (us > V7_US_MAX - POSTGRES_EPOCH_US)
		return above_all;
	if (us < -POSTGRES_EPOCH_US)
		return lowest;
	return v7_key(v7_us_tick(us + POSTGRES_EPOCH_US), 0);
}

static void
check_time(TimestampTz us, TimestampTz first, TimestampTz last, unsigned version, const char *range)
{
	if (unlikely(us < first || us > last))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("timestamp %s is outside the range of version-%u UUIDs", timestamptz_to_str(us), version),
				 errdetail("Version-%u UUIDs hold %s.", version, range)));
}

static void
check_v1_time(TimestampTz us)
{
	check_time(us, -V1_POSTGRES_EPOCH_US, V1_US_MAX - V1_POSTGRES_EPOCH_US, UUID_VERSION_TIME_LOW_FIRST, V1_RANGE_TEXT);
}

static TimestampTz
v1_checked_arg(FunctionCallInfo fcinfo)
{
	check_v1_time(PG_GETARG_TIMESTAMPTZ(0));
	return PG_GETARG_TIMESTAMPTZ(0);
}

/*
 * Return a bound as a Datum.  The bound above all values is not a UUID.  A
 * call that the planner has created returns this bound, and any other call
 * raises an error.
 */
static Datum
v1_bound_datum(FunctionCallInfo fcinfo, TimestampTz us)
{
	UuidWords	bound = v1_bound(us);

	if (unlikely(bound.high == V1_ABOVE_ALL && PG_GET_COLLATION() != PLANNERS_CALL))
		check_v1_time(us);
	return uuid_datum(bound);
}

/* uuid_v1_time_bound(timestamptz, after boolean) */
Datum
uuid_v1_time_bound(PG_FUNCTION_ARGS)
{
	TimestampTz us = PG_GETARG_TIMESTAMPTZ(0);

	return v1_bound_datum(fcinfo, PG_GETARG_BOOL(1) ? next_us(us) : us);
}

/* uuid_v7_time_bound(timestamptz, after boolean) */
Datum
uuid_v7_time_bound(PG_FUNCTION_ARGS)
{
	TimestampTz us = PG_GETARG_TIMESTAMPTZ(0);

	return uuid_datum(v7_bound(PG_GETARG_BOOL(1) ? next_us(us) : us));
}

/*
 * Return the first microsecond in a range (upper false), or the first microsecond after the range (upper true).  For an
 * empty range, the result is the latest time (upper false) or the earliest time (upper true).
 */
static TimestampTz
range_end(FunctionCallInfo fcinfo, RangeType *range, bool upper)
{
	TypeCacheEntry *typcache = range_get_typcache(fcinfo, RangeTypeGetOid(range));
	RangeBound	bounds[2];
	bool		empty;
	TimestampTz us;

	range_deserialize(typcache, range, &bounds[0], &bounds[1], &empty);
	if (empty)
		return upper ? PG_INT64_MIN : PG_INT64_MAX;
	if (bounds[upper].infinite)
		return upper ? PG_INT64_MAX : PG_INT64_MIN;
	us = DatumGetTimestampTz(bounds[upper].val);
	return bounds[upper].inclusive == upper ? next_us(us) : us;
}

/* uuid_v1_range_bound(tstzrange, upper boolean) */
Datum
uuid_v1_range_bound(PG_FUNCTION_ARGS)
{
	return v1_bound_datum(fcinfo, range_end(fcinfo, PG_GETARG_RANGE_P(0), PG_GETARG_BOOL(1)));
}

/* uuid_v7_range_bound(tstzrange, upper boolean) */
Datum
uuid_v7_range_bound(PG_FUNCTION_ARGS)
{
	return uuid_datum(v7_bound(range_end(fcinfo, PG_GETARG_RANGE_P(0), PG_GETARG_BOOL(1))));
}

/* uuid_v1_floor(timestamptz): the smallest value of that microsecond */
Datum
uuid_v1_floor(PG_FUNCTION_ARGS)
{
	return uuid_datum(v1_bound(v1_checked_arg(fcinfo)));
}

/* uuid_v1_ceiling(timestamptz): the largest value of that microsecond */
Datum
uuid_v1_ceiling(PG_FUNCTION_ARGS)
{
	uint64		first = v1_bound(v1_checked_arg(fcinfo)).high;

	return uuid_datum((UuidWords) {Min(first + V1_TICKS_PER_US - 1, V1_TICK_MAX), V1_REST_MAX});
}

/* uuid_v7_ceiling(timestamptz): the largest version-7 key of that microsecond */
Datum
uuid_v7_ceiling(PG_FUNCTION_ARGS)
{
	TimestampTz us = PG_GETARG_TIMESTAMPTZ(0);

	check_time(us, -POSTGRES_EPOCH_US, V7_US_MAX - POSTGRES_EPOCH_US, UUID_VERSION_TIME, V7_RANGE_TEXT);
	return uuid_datum(v7_key(v7_us_tick(us + POSTGRES_EPOCH_US + 1) - 1, UUID_FIELD62_MAX));
}

/* ---------------------------------------------------------------------------
 * The comparisons, for calls that are not rewritten
 * ---------------------------------------------------------------------------
 */

static inline UuidWords
v1_words(Datum id)
{
	return uuid_load(DatumGetUUIDP(id));
}

/* Return the words of a version-7 key.  Raise an error for keys of other versions, because they contain no time. */
static UuidWords
v7_words(Datum id)
{
	UuidWords	key = uuid_load(DatumGetUUIDP(id));

	if (unlikely(!uuid_is_version(key, UUID_VERSION_TIME)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("uuid %s cannot be compared with a time: it is not of version %u",
						DatumGetCString(DirectFunctionCall1(uuid_out, id)), UUID_VERSION_TIME),
				 errdetail(UUID_VERSION_DETAIL),
				 errhint("Compare a column of type timestamptz, or convert version-1 UUIDs to uuid_v1. "
						 "To compare any uuid, use the bound uuid_v7_floor(timestamptz).")));
	return key;
}

/*
 * uuid_v7_checked(uuid, "any"): true, or an error if the key is not of version 7.
 * The second argument is the other operand of the comparison.  Because of this
 * argument, the planner evaluates the check together with the comparison.
 */
Datum
uuid_v7_checked(PG_FUNCTION_ARGS)
{
	v7_words(PG_GETARG_DATUM(0));
	PG_RETURN_BOOL(true);
}

static inline bool
words_below(UuidWords a, UuidWords b)
{
	return a.high != b.high ? a.high < b.high : a.low < b.low;
}

typedef UuidWords (*BoundOf) (TimestampTz us);

/* Compare a key with a microsecond: -1 if the key is earlier, 0 if it is in the microsecond, 1 if it is later */
static inline int
compare_time(UuidWords key, TimestampTz us, BoundOf bound)
{
	if (words_below(key, bound(us)))
		return -1;
	return words_below(key, bound(next_us(us))) ? 0 : 1;
}

static bool
in_range(FunctionCallInfo fcinfo, UuidWords key, Datum range, BoundOf bound)
{
	RangeType  *times = DatumGetRangeTypeP(range);

	return !words_below(key, bound(range_end(fcinfo, times, false))) &&
		words_below(key, bound(range_end(fcinfo, times, true)));
}

/* These macros end without a semicolon, like PG_FUNCTION_INFO_V1. */
#define TIME_COMPARISON(type, words, bound, name, test) \
PG_FUNCTION_INFO_V1(uuid_##type##_##name##_time); \
PG_FUNCTION_INFO_V1(time_##name##_uuid_##type); \
Datum \
uuid_##type##_##name##_time(PG_FUNCTION_ARGS) \
{ \
	PG_RETURN_BOOL(compare_time(words(PG_GETARG_DATUM(0)), PG_GETARG_TIMESTAMPTZ(1), bound) test 0); \
} \
Datum \
time_##name##_uuid_##type(PG_FUNCTION_ARGS) \
{ \
	PG_RETURN_BOOL(0 test compare_time(words(PG_GETARG_DATUM(1)), PG_GETARG_TIMESTAMPTZ(0), bound)); \
} \
extern int	no_such_variable

#define TIME_COMPARISONS(type, words, bound) \
TIME_COMPARISON(type, words, bound, lt, <); \
TIME_COMPARISON(type, words, bound, le, <=); \
TIME_COMPARISON(type, words, bound, ge, >=); \
TIME_COMPARISON(type, words, bound, gt, >); \
TIME_COMPARISON(type, words, bound, eq, ==); \
TIME_COMPARISON(type, words, bound, ne, !=); \
PG_FUNCTION_INFO_V1(uuid_##type##_in_range); \
PG_FUNCTION_INFO_V1(range_has_uuid_##type); \
Datum \
uuid_##type##_in_range(PG_FUNCTION_ARGS) \
{ \
	PG_RETURN_BOOL(in_range(fcinfo, words(PG_GETARG_DATUM(0)), PG_GETARG_DATUM(1), bound)); \
} \
Datum \
range_has_uuid_##type(PG_FUNCTION_ARGS) \
{ \
	PG_RETURN_BOOL(in_range(fcinfo, words(PG_GETARG_DATUM(1)), PG_GETARG_DATUM(0), bound)); \
} \
extern int	no_such_variable

TIME_COMPARISONS(v1, v1_words, v1_bound);
TIME_COMPARISONS(v7, v7_words, v7_bound);
