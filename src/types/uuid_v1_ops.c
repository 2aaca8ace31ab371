/*
 * uuid_v1_ops.c
 *	  Comparing, sorting, hashing and summarising uuid_v1.
 *
 * v1_compare() decides; operators, btree, sort support, BRIN and the
 * aggregates are shells around it.  Equal values are the same 16 bytes, which
 * is what hashing and equalimage rely on.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/sortsupport.h"

#include "compat.h"
#include "types/uuid_v1_datum.h"

PG_FUNCTION_INFO_V1(uuid_v1_lt);
PG_FUNCTION_INFO_V1(uuid_v1_le);
PG_FUNCTION_INFO_V1(uuid_v1_eq);
PG_FUNCTION_INFO_V1(uuid_v1_ge);
PG_FUNCTION_INFO_V1(uuid_v1_gt);
PG_FUNCTION_INFO_V1(uuid_v1_ne);
PG_FUNCTION_INFO_V1(uuid_v1_cmp);
PG_FUNCTION_INFO_V1(uuid_v1_smaller);
PG_FUNCTION_INFO_V1(uuid_v1_larger);
PG_FUNCTION_INFO_V1(uuid_v1_sortsupport);
PG_FUNCTION_INFO_V1(uuid_v1_hash);
PG_FUNCTION_INFO_V1(uuid_v1_hash_extended);
PG_FUNCTION_INFO_V1(uuid_v1_distance);

static inline int
compare_args(FunctionCallInfo fcinfo)
{
	return v1_compare(PG_GETARG_UUID_V1(0), PG_GETARG_UUID_V1(1));
}

Datum
uuid_v1_lt(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_args(fcinfo) < 0);
}

Datum
uuid_v1_le(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_args(fcinfo) <= 0);
}

Datum
uuid_v1_eq(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_args(fcinfo) == 0);
}

Datum
uuid_v1_ge(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_args(fcinfo) >= 0);
}

Datum
uuid_v1_gt(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_args(fcinfo) > 0);
}

Datum
uuid_v1_ne(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_args(fcinfo) != 0);
}

Datum
uuid_v1_cmp(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(compare_args(fcinfo));
}

Datum
uuid_v1_smaller(PG_FUNCTION_ARGS)
{
	return PG_GETARG_DATUM(compare_args(fcinfo) <= 0 ? 0 : 1);
}

Datum
uuid_v1_larger(PG_FUNCTION_ARGS)
{
	return PG_GETARG_DATUM(compare_args(fcinfo) >= 0 ? 0 : 1);
}

/* ---------------------------------------------------------------------------
 * Sort support
 * ---------------------------------------------------------------------------
 */

static int
full_comparator(Datum a, Datum b, SortSupport ssup)
{
	return v1_compare(v1_value(a), v1_value(b));
}

#if SIZEOF_DATUM == 8

/* The time is the abbreviation: the whole order but for clock sequence and node. */
static Datum
abbreviate(Datum original, SortSupport ssup)
{
	return UInt64GetDatum(v1_value(original).time);
}

/*
 * Never given up: it costs a load, and where all times were equal the full
 * comparison that follows would have had to load them as well.
 */
static bool
never_abort(int rows, SortSupport ssup)
{
	return false;
}

#endif

Datum
uuid_v1_sortsupport(PG_FUNCTION_ARGS)
{
	SortSupport ssup = (SortSupport) PG_GETARG_POINTER(0);

	ssup->comparator = full_comparator;
#if SIZEOF_DATUM == 8
	if (ssup->abbreviate)
	{
		ssup->comparator = ssup_datum_unsigned_cmp;
		ssup->abbrev_converter = abbreviate;
		ssup->abbrev_abort = never_abort;
		ssup->abbrev_full_comparator = full_comparator;
	}
#endif
	PG_RETURN_VOID();
}

/* ---------------------------------------------------------------------------
 * Hash, BRIN distance
 * ---------------------------------------------------------------------------
 */

Datum
uuid_v1_hash(PG_FUNCTION_ARGS)
{
	return UInt32GetDatum(hash_bytes((unsigned char *) PG_GETARG_POINTER(0), sizeof(UuidV1)));
}

Datum
uuid_v1_hash_extended(PG_FUNCTION_ARGS)
{
	return UInt64GetDatum(hash_bytes_extended((unsigned char *) PG_GETARG_POINTER(0), sizeof(UuidV1),
											  (uint64) PG_GETARG_INT64(1)));
}

/* How far apart two ordered values are, in ticks; what is behind the time counts as their fraction. */
Datum
uuid_v1_distance(PG_FUNCTION_ARGS)
{
	UuidV1		a = PG_GETARG_UUID_V1(0);
	UuidV1		b = PG_GETARG_UUID_V1(1);
	double		rest = ((double) b.rest - (double) a.rest) / (double) (V1_REST_MAX + 1);

	PG_RETURN_FLOAT8((double) (b.time - a.time) + rest);
}

/* ---------------------------------------------------------------------------
 * Skip support: the neighbours of a value
 * ---------------------------------------------------------------------------
 */
#ifdef INORDER_HAS_SKIP_SUPPORT

PG_FUNCTION_INFO_V1(uuid_v1_skipsupport);

static Datum
next_lower(Relation relation, Datum existing, bool *underflow)
{
	UuidV1		value = v1_value(existing);

	*underflow = value.time == 0 && value.rest == 0;
	if (*underflow)
		return (Datum) 0;
	value.time -= value.rest == 0;
	value.rest = (value.rest - 1) & V1_REST_MAX;
	return v1_datum(value);
}

static Datum
next_higher(Relation relation, Datum existing, bool *overflow)
{
	UuidV1		value = v1_value(existing);

	*overflow = value.time == V1_TICK_MAX && value.rest == V1_REST_MAX;
	if (*overflow)
		return (Datum) 0;
	value.time += value.rest == V1_REST_MAX;
	value.rest = (value.rest + 1) & V1_REST_MAX;
	return v1_datum(value);
}

Datum
uuid_v1_skipsupport(PG_FUNCTION_ARGS)
{
	SkipSupport support = (SkipSupport) PG_GETARG_POINTER(0);
	UuidV1		lowest = {0, 0};
	UuidV1		highest = {V1_TICK_MAX, V1_REST_MAX};

	support->decrement = next_lower;
	support->increment = next_higher;
	support->low_elem = v1_datum(lowest);
	support->high_elem = v1_datum(highest);
	PG_RETURN_VOID();
}

#endif							/* INORDER_HAS_SKIP_SUPPORT */
