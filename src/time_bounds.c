/*
 * time_bounds.c
 *	  Comparing keys with timestamps so that indexes on the keys serve it.
 *
 * The simple form, uuid_v1_get_timestamp(id) >= t, hides the key behind a
 * function: no index, no statistics, no partition pruning.  A cross-type
 * operator in the btree family would be found by all three, but many keys
 * equal one timestamp, and a family's equality must be transitive.  So the
 * operators stay outside of it, and a planner support function rewrites each
 * into comparisons of the key with a bound of its own type:
 *
 *	  id <~ t	id < floor(t)		floor(t): the smallest key of t's microsecond
 *	  id <=~ t	id < after(t)		after(t): the smallest key of a later one
 *	  id >~ t	id >= after(t)
 *	  id >=~ t	id >= floor(t)
 *	  id =~ t	id >= floor(t) AND id < after(t)
 *	  id <>~ t	id < floor(t) OR id >= after(t)
 *
 * Bounds are functions of t, so parameters and now() do as well as constants.
 * Beyond what keys can hold they are the lowest value or one above all others;
 * infinity needs no case of its own.
 */
#include "postgres.h"

#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rangetypes.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "compat.h"
#include "uuid_datum.h"
#include "uuid_v1_datum.h"

PG_FUNCTION_INFO_V1(uuid_v1_time_bound);
PG_FUNCTION_INFO_V1(uuid_v7_time_bound);
PG_FUNCTION_INFO_V1(uuid_v1_range_bound);
PG_FUNCTION_INFO_V1(uuid_v7_range_bound);
PG_FUNCTION_INFO_V1(uuid_v1_floor);
PG_FUNCTION_INFO_V1(uuid_v1_ceiling);
PG_FUNCTION_INFO_V1(uuid_v7_ceiling);

/* ---------------------------------------------------------------------------
 * Bounds
 * ---------------------------------------------------------------------------
 *
 * "us" is microseconds in timestamptz's own count; infinity is the ends of its
 * range.
 */

/* The microsecond after, staying at the end */
static inline TimestampTz
next_us(TimestampTz us)
{
	return us == PG_INT64_MAX ? us : us + 1;
}

/* Above all values; see V1_ABOVE_ALL. */
static UuidV1
v1_bound(TimestampTz us)
{
	UuidV1		bound = {0, 0};

	if (us > V1_US_MAX - V1_POSTGRES_EPOCH_US)
		bound.time = V1_ABOVE_ALL;
	else if (us > -V1_POSTGRES_EPOCH_US)
		bound.time = (uint64) (us + V1_POSTGRES_EPOCH_US) * V1_TICKS_PER_US;
	return bound;
}

/* The greatest uuid is of no version, so it is above every key; the least is below. */
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

/* uuid_v1_time_bound(timestamptz, after boolean) */
Datum
uuid_v1_time_bound(PG_FUNCTION_ARGS)
{
	TimestampTz us = PG_GETARG_TIMESTAMPTZ(0);

	return v1_datum(v1_bound(PG_GETARG_BOOL(1) ? next_us(us) : us));
}

/* uuid_v7_time_bound(timestamptz, after boolean) */
Datum
uuid_v7_time_bound(PG_FUNCTION_ARGS)
{
	TimestampTz us = PG_GETARG_TIMESTAMPTZ(0);

	return uuid_datum(v7_bound(PG_GETARG_BOOL(1) ? next_us(us) : us));
}

/*
 * Where the keys of a range begin (upper false) or have ended (upper true).
 * An empty range begins above all and ends at the lowest.
 */
static TimestampTz
range_end(FunctionCallInfo fcinfo, RangeType *range, bool upper)
{
	TypeCacheEntry *typcache = range_get_typcache(fcinfo, RangeTypeGetOid(range));
	RangeBound	ends[2];
	bool		empty;
	TimestampTz us;

	range_deserialize(typcache, range, &ends[0], &ends[1], &empty);
	if (empty)
		return upper ? PG_INT64_MIN : PG_INT64_MAX;
	if (ends[upper].infinite)
		return upper ? PG_INT64_MAX : PG_INT64_MIN;
	us = DatumGetTimestampTz(ends[upper].val);
	return ends[upper].inclusive == upper ? next_us(us) : us;
}

/* uuid_v1_range_bound(tstzrange, upper boolean) */
Datum
uuid_v1_range_bound(PG_FUNCTION_ARGS)
{
	return v1_datum(v1_bound(range_end(fcinfo, PG_GETARG_RANGE_P(0), PG_GETARG_BOOL(1))));
}

/* uuid_v7_range_bound(tstzrange, upper boolean) */
Datum
uuid_v7_range_bound(PG_FUNCTION_ARGS)
{
	return uuid_datum(v7_bound(range_end(fcinfo, PG_GETARG_RANGE_P(0), PG_GETARG_BOOL(1))));
}

static void
check_time(TimestampTz us, TimestampTz first, TimestampTz last, const char *version, const char *detail)
{
	if (unlikely(us < first || us > last))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("timestamp %s is outside the range of %s UUIDs", timestamptz_to_str(us), version),
				 errdetail("They hold %s.", detail)));
}

static TimestampTz
v1_checked_arg(FunctionCallInfo fcinfo)
{
	TimestampTz us = PG_GETARG_TIMESTAMPTZ(0);

	check_time(us, -V1_POSTGRES_EPOCH_US, V1_US_MAX - V1_POSTGRES_EPOCH_US,
			   "version-1", V1_RANGE_TEXT);
	return us;
}

/* uuid_v1_floor(timestamptz): the smallest value of that microsecond */
Datum
uuid_v1_floor(PG_FUNCTION_ARGS)
{
	return v1_datum(v1_bound(v1_checked_arg(fcinfo)));
}

/* uuid_v1_ceiling(timestamptz): the largest value of that microsecond */
Datum
uuid_v1_ceiling(PG_FUNCTION_ARGS)
{
	UuidV1		value = v1_bound(v1_checked_arg(fcinfo));

	value.time = Min(value.time + V1_TICKS_PER_US - 1, V1_TICK_MAX);
	value.rest = V1_REST_MAX;
	return v1_datum(value);
}

/* uuid_v7_ceiling(timestamptz): the largest version-7 key of that microsecond */
Datum
uuid_v7_ceiling(PG_FUNCTION_ARGS)
{
	TimestampTz us = PG_GETARG_TIMESTAMPTZ(0);

	check_time(us, -POSTGRES_EPOCH_US, V7_US_MAX - POSTGRES_EPOCH_US, "version-7", V7_RANGE_TEXT);
	return uuid_datum(v7_key(v7_us_tick(us + POSTGRES_EPOCH_US + 1) - 1, UUID_FIELD62_MAX));
}

/* ---------------------------------------------------------------------------
 * The comparisons themselves, for where they are not rewritten
 * ---------------------------------------------------------------------------
 */

/* Whether the key is of an earlier, the same or a later microsecond */
static inline int
v1_compare_time(Datum id, TimestampTz us)
{
	UuidV1		key = v1_value(id);

	if (v1_compare(key, v1_bound(us)) < 0)
		return -1;
	return v1_compare(key, v1_bound(next_us(us))) < 0 ? 0 : 1;
}

static inline bool
words_below(UuidWords a, UuidWords b)
{
	return a.high != b.high ? a.high < b.high : a.low < b.low;
}

/* By position, as the rewritten form has it: a uuid that is no version 7 is no error. */
static inline int
v7_compare_time(Datum id, TimestampTz us)
{
	UuidWords	key = uuid_load(DatumGetUUIDP(id));

	if (words_below(key, v7_bound(us)))
		return -1;
	return words_below(key, v7_bound(next_us(us))) ? 0 : 1;
}

/* Ends without a semicolon, as PG_FUNCTION_INFO_V1 does. */
#define TIME_COMPARISON(type, compare, name, test) \
PG_FUNCTION_INFO_V1(uuid_##type##_##name##_time); \
PG_FUNCTION_INFO_V1(time_##name##_uuid_##type); \
Datum \
uuid_##type##_##name##_time(PG_FUNCTION_ARGS) \
{ \
	PG_RETURN_BOOL(compare(PG_GETARG_DATUM(0), PG_GETARG_TIMESTAMPTZ(1)) test 0); \
} \
Datum \
time_##name##_uuid_##type(PG_FUNCTION_ARGS) \
{ \
	PG_RETURN_BOOL(0 test compare(PG_GETARG_DATUM(1), PG_GETARG_TIMESTAMPTZ(0))); \
} \
extern int	no_such_variable

TIME_COMPARISON(v1, v1_compare_time, lt, <);
TIME_COMPARISON(v1, v1_compare_time, le, <=);
TIME_COMPARISON(v1, v1_compare_time, ge, >=);
TIME_COMPARISON(v1, v1_compare_time, gt, >);
TIME_COMPARISON(v1, v1_compare_time, eq, ==);
TIME_COMPARISON(v1, v1_compare_time, ne, !=);
TIME_COMPARISON(v7, v7_compare_time, lt, <);
TIME_COMPARISON(v7, v7_compare_time, le, <=);
TIME_COMPARISON(v7, v7_compare_time, ge, >=);
TIME_COMPARISON(v7, v7_compare_time, gt, >);
TIME_COMPARISON(v7, v7_compare_time, eq, ==);
TIME_COMPARISON(v7, v7_compare_time, ne, !=);

PG_FUNCTION_INFO_V1(uuid_v1_in_range);
PG_FUNCTION_INFO_V1(uuid_v7_in_range);
PG_FUNCTION_INFO_V1(range_has_uuid_v1);
PG_FUNCTION_INFO_V1(range_has_uuid_v7);

static bool
v1_in_range(FunctionCallInfo fcinfo, Datum id, RangeType *range)
{
	UuidV1		key = v1_value(id);

	return v1_compare(key, v1_bound(range_end(fcinfo, range, false))) >= 0 &&
		v1_compare(key, v1_bound(range_end(fcinfo, range, true))) < 0;
}

static bool
v7_in_range(FunctionCallInfo fcinfo, Datum id, RangeType *range)
{
	UuidWords	key = uuid_load(DatumGetUUIDP(id));

	return !words_below(key, v7_bound(range_end(fcinfo, range, false))) &&
		words_below(key, v7_bound(range_end(fcinfo, range, true)));
}

/* uuid_v1 <@~ tstzrange */
Datum
uuid_v1_in_range(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(v1_in_range(fcinfo, PG_GETARG_DATUM(0), PG_GETARG_RANGE_P(1)));
}

/* uuid <@~ tstzrange */
Datum
uuid_v7_in_range(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(v7_in_range(fcinfo, PG_GETARG_DATUM(0), PG_GETARG_RANGE_P(1)));
}

/* tstzrange @>~ uuid_v1 */
Datum
range_has_uuid_v1(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(v1_in_range(fcinfo, PG_GETARG_DATUM(1), PG_GETARG_RANGE_P(0)));
}

/* tstzrange @>~ uuid */
Datum
range_has_uuid_v7(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(v7_in_range(fcinfo, PG_GETARG_DATUM(1), PG_GETARG_RANGE_P(0)));
}

/* ---------------------------------------------------------------------------
 * Rewriting
 * ---------------------------------------------------------------------------
 */

/* The parts of a comparison that is to be rewritten */
typedef struct Comparison
{
	PlannerInfo *root;
	Oid			namespace;		/* of the extension */
	Node	   *id;
	Oid			id_type;
	Node	   *moment;			/* timestamptz or tstzrange */
	Oid			less;			/* id_type's own operator < */
	Oid			bound;			/* function that gives the bounds */
} Comparison;

/*
 * The function that gives the bounds, or InvalidOid if there is none that the
 * current user may execute.  Found without asking for USAGE on the schema:
 * whoever reads a view need not have it.
 */
static Oid
bound_function(Oid namespace, Oid id_type, bool is_range)
{
	const char *name = id_type == UUIDOID ?
		(is_range ? "uuid_v7_range_bound" : "uuid_v7_time_bound") :
		(is_range ? "uuid_v1_range_bound" : "uuid_v1_time_bound");
	Oid			types[2] = {is_range ? TSTZRANGEOID : TIMESTAMPTZOID, BOOLOID};
	Oid			function = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum(name),
										   PointerGetDatum(buildoidvector(types, 2)),
										   ObjectIdGetDatum(namespace));

	return OidIsValid(function) && may_execute(function) ? function : InvalidOid;
}

/* The bound on this side of the moment, folded if that is constant */
static Node *
bound_expression(Comparison *comparison, bool second)
{
	List	   *args = list_make2(copyObject(comparison->moment), makeBoolConst(second, false));

	return eval_const_expressions(comparison->root,
								  (Node *) makeFuncExpr(comparison->bound, comparison->id_type, args,
														InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL));
}

static bool
is_above_all(Comparison *comparison, Node *bound)
{
	return comparison->id_type != UUIDOID && IsA(bound, Const) && !((Const *) bound)->constisnull &&
		v1_value(((Const *) bound)->constvalue).time == V1_ABOVE_ALL;
}

static Node *
clause_of(Comparison *comparison, Oid operator, Node *bound)
{
	Expr	   *clause = make_opclause(operator, BOOLOID, false, (Expr *) copyObject(comparison->id),
									   (Expr *) bound, InvalidOid, InvalidOid);

	set_opfuncid((OpExpr *) clause);
	return (Node *) clause;
}

/*
 * id < bound, or its negation id >= bound.  Below what is above all is the
 * same as not above the greatest; that can be shown, and sent to another
 * server.
 */
static Node *
below(Comparison *comparison, bool second, bool negated)
{
	Node	   *bound = bound_expression(comparison, second);
	Oid			operator = comparison->less;

	if (is_above_all(comparison, bound))
	{
		UuidV1		greatest = {V1_TICK_MAX, V1_REST_MAX};

		((Const *) bound)->constvalue = v1_datum(greatest);
		operator = get_negator(get_commutator(operator));	/* <= */
	}
	return clause_of(comparison, negated ? get_negator(operator) : operator, bound);
}

/* Key and moment are each used twice: that must not change what they say. */
static bool
may_repeat(Comparison *comparison)
{
	return !contain_volatile_functions(comparison->id) && !contain_subplans(comparison->id) &&
		!contain_volatile_functions(comparison->moment) && !contain_subplans(comparison->moment);
}

typedef enum TimeOperator
{
	TIME_LT, TIME_LE, TIME_GE, TIME_GT, TIME_EQ, TIME_NE
} TimeOperator;

static Node *
rewrite(Comparison *comparison, TimeOperator operator)
{
	switch (operator)
	{
		case TIME_LT:
			return below(comparison, false, false);
		case TIME_LE:
			return below(comparison, true, false);
		case TIME_GT:
			return below(comparison, true, true);
		case TIME_GE:
			return below(comparison, false, true);
		case TIME_EQ:
			if (may_repeat(comparison))
				return (Node *) make_andclause(list_make2(below(comparison, false, true),
														  below(comparison, true, false)));
			break;
		case TIME_NE:
			if (may_repeat(comparison))
				return (Node *) make_orclause(list_make2(below(comparison, false, false),
														 below(comparison, true, true)));
			break;
	}
	return NULL;
}

/*
 * What the planner puts in the place of a call, or NULL to leave it.  The
 * operator is meant as with the key on its left; the caller has turned it
 * around where the moment is.
 */
static Node *
simplify(Node *request, TimeOperator operator)
{
	SupportRequestSimplify *simplify = (SupportRequestSimplify *) request;
	Comparison	comparison;
	Node	   *first;
	bool		id_first;

	if (!IsA(request, SupportRequestSimplify) || list_length(simplify->fcall->args) != 2)
		return NULL;
	first = linitial(simplify->fcall->args);
	id_first = exprType(first) != TIMESTAMPTZOID && exprType(first) != TSTZRANGEOID;

	comparison.root = simplify->root;
	comparison.namespace = get_func_namespace(simplify->fcall->funcid);
	comparison.id = id_first ? first : lsecond(simplify->fcall->args);
	comparison.moment = id_first ? lsecond(simplify->fcall->args) : first;
	comparison.id_type = exprType(comparison.id);
	comparison.less = lookup_type_cache(comparison.id_type, TYPECACHE_LT_OPR)->lt_opr;
	comparison.bound = bound_function(comparison.namespace, comparison.id_type,
									  exprType(comparison.moment) == TSTZRANGEOID);
	if (!OidIsValid(comparison.less) || !OidIsValid(comparison.bound))
		return NULL;
	return rewrite(&comparison, operator);
}

#define TIME_SUPPORT(name, operator) \
PG_FUNCTION_INFO_V1(uuid_time_##name##_support); \
Datum \
uuid_time_##name##_support(PG_FUNCTION_ARGS) \
{ \
	PG_RETURN_POINTER(simplify((Node *) PG_GETARG_POINTER(0), operator)); \
} \
extern int	no_such_variable

TIME_SUPPORT(lt, TIME_LT);
TIME_SUPPORT(le, TIME_LE);
TIME_SUPPORT(ge, TIME_GE);
TIME_SUPPORT(gt, TIME_GT);
TIME_SUPPORT(eq, TIME_EQ);		/* a range is an equality with two ends */
TIME_SUPPORT(ne, TIME_NE);
