/*
 * bounds.c
 *	  A batch as ranges of keys.
 *
 * With keys of type uuid, the rows of a batch are in the order of the keys, and a part of a transaction is also a
 * range.  Numbers of type bigint do not distinguish the rows of a transaction; a range of such numbers always contains
 * whole transactions.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/multirangetypes.h"

#include "keys/uuid_datum.h"
#include "ports/bounds.h"

/* With the sign bit inverted, numbers of type bigint compare like unsigned words. */
#define SIGN_BIT (UINT64CONST(1) << 63)

UuidWords
key_of_datum(Datum key, bool is_uuid)
{
	if (is_uuid)
		return uuid_load(DatumGetUUIDP(key));
	return (UuidWords) {(uint64) DatumGetInt64(key) ^ SIGN_BIT, 0};
}

Datum
key_datum(UuidWords key, bool is_uuid)
{
	return is_uuid ? uuid_datum(key) : Int64GetDatum((int64) (key.high ^ SIGN_BIT));
}

int64
number_of_key(UuidWords key, bool is_uuid)
{
	return is_uuid ? (int64) xact_key_number(key) : (int64) (key.high ^ SIGN_BIT);
}

/* Return the smallest key that a transaction can have */
static UuidWords
first_key(int64 number, bool is_uuid)
{
	return is_uuid ? xact_key(number, (XactTail) {0, 0}) : key_of_datum(Int64GetDatum(number), false);
}

KeyRange
key_range(Range numbers, bool is_uuid)
{
	return (KeyRange) {
		first_key(numbers.low, is_uuid),
		numbers.high > (int64) XACT_NUMBER_MAX ? LAST_KEY : first_key(numbers.high, is_uuid)
	};
}

/*
 * Return the ranges of keys for a set of numbers, in the order of the numbers; the array has space for one more range
 */
KeyRange *
key_ranges(Numbers set, bool is_uuid)
{
	KeyRange   *ranges = palloc(sizeof(KeyRange) * (set.count + 1));

	for (int i = 0; i < set.count; i++)
		ranges[i] = key_range(set.ranges[i], is_uuid);
	return ranges;
}

/*
 * Find the successor of the key that a batch stores.  Return false if the stored key has several columns, or is the
 * greatest key.
 */
static bool
key_after(Datum stored_key, UuidWords *successor)
{
	Datum	   *keys;
	bool	   *is_null;
	int			count;

	deconstruct_array(DatumGetArrayTypeP(stored_key), TEXTOID, -1, false, TYPALIGN_INT, &keys, &is_null, &count);
	if (count != 1 || is_null[0])
		return false;
	*successor = key_of_datum(DirectFunctionCall1(uuid_in, CStringGetDatum(TextDatumGetCString(keys[0]))), true);
	successor->low++;
	successor->high += successor->low == 0;
	return successor->high != 0 || successor->low != 0;
}

/*
 * Append a range, or skip an empty range.  Return false if the range begins before the end of the previous range,
 * unless the previous range is the remaining part of a transaction.
 */
static bool
append_range(Bounds *bounds, UuidWords low, UuidWords high)
{
	KeyRange   *previous = bounds->count > 0 ? &bounds->ranges[bounds->count - 1] : NULL;

	if (compare_keys(low, high) >= 0)
		return true;
	if (previous != NULL && compare_keys(previous->high, low) == 0)
	{
		previous->high = high;
		return true;
	}
	if (previous != NULL && compare_keys(previous->high, low) > 0)
	{
		if (bounds->count > 1 || !bounds->rest_first)
			return false;
	}
	else if (bounds->count == 1)
		bounds->rest_first = false;
	bounds->ranges[bounds->count++] = (KeyRange) {low, high};
	return true;
}

/* Append the keys of a transaction that are greater than "above" and at most "up_to".  A bound that is 0 is ignored. */
static bool
append_part(Bounds *bounds, int64 number, Datum above, Datum up_to)
{
	UuidWords	low = first_key(number, true);
	UuidWords	high = first_key(number + 1, true);

	if (above != (Datum) 0 && !key_after(above, &low))
		return false;
	if (up_to != (Datum) 0 && !key_after(up_to, &high))
		return false;
	return append_range(bounds, low, high);
}

static Numbers
single_number(int64 number)
{
	Range	   *range = palloc(sizeof(Range));

	*range = (Range) {number, number + 1};
	return (Numbers) {1, range};
}

static bool
is_number(int64 number)
{
	return number >= 0 && number < (int64) XACT_NUMBER_MAX;
}

static bool
append_numbers(Bounds *bounds, Numbers whole, bool is_uuid)
{
	for (int i = 0; i < whole.count; i++)
		if (!append_range(bounds, first_key(whole.ranges[i].low, is_uuid), first_key(whole.ranges[i].high, is_uuid)))
			return false;
	return true;
}

/* Convert a batch to ranges of keys; false if no ranges of keys contain exactly the rows of the batch */
bool
bounds_of(const Table *table, HeapTupleHeader batch, Bounds *bounds)
{
	bool		is_uuid = table->proof->reading.is_uuid;
	Row			row = row_of(PointerGetDatum(batch), false, BATCH_COLUMNS);
	Row			order = row_of(row.values[BATCH_ORDERING], row.nulls[BATCH_ORDERING], ORDER_COLUMNS);
	bool		is_resumed = !row.nulls[BATCH_RESUMED];
	bool		is_cut = !row.nulls[BATCH_CUT];
	int64		resumed = DatumGetInt64(row.values[BATCH_RESUMED]);
	int64		cut = DatumGetInt64(row.values[BATCH_CUT]);
	Datum		resumed_after = row.nulls[BATCH_RESUMED_AFTER] ? (Datum) 0 : row.values[BATCH_RESUMED_AFTER];
	Datum		cut_after = row.nulls[BATCH_CUT_AFTER] ? (Datum) 0 : row.values[BATCH_CUT_AFTER];
	Numbers		whole;

	if (row.nulls[BATCH_TRANSACTIONS] || !is_bounded(DatumGetMultirangeTypeP(row.values[BATCH_TRANSACTIONS])) ||
		!order.nulls[ORDER_COLUMN_NAME])
		return false;
	whole = numbers_of(DatumGetMultirangeTypeP(row.values[BATCH_TRANSACTIONS]));
	*bounds = (Bounds) {0, palloc(sizeof(KeyRange) * (whole.count + 4)), is_resumed};
	if (!is_uuid)
		return !is_resumed && !is_cut && !(table->reading.is_partial && whole.count > 0 && whole.ranges[0].low <= 0) &&
			append_numbers(bounds, whole, false);
	if (!are_numbers(whole) || (is_resumed && !is_number(resumed)) || (is_cut && !is_number(cut)))
		return false;
	if (is_resumed)
		whole = difference(whole, single_number(resumed));
	if (is_cut)
		whole = difference(whole, single_number(cut));
	if (is_resumed && !append_part(bounds, resumed, resumed_after, is_cut && cut == resumed ? cut_after : (Datum) 0))
		return false;
	return append_numbers(bounds, whole, true) &&
		(!is_cut || (is_resumed && cut == resumed) || append_part(bounds, cut, (Datum) 0, cut_after));
}
