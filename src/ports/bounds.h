/*
 * bounds.h
 *	  A batch as ranges of keys.
 */
#ifndef INORDER_BOUNDS_H
#define INORDER_BOUNDS_H

#include "keys/uuid_layout.h"
#include "ports/table.h"

/*
 * Keys that are at least low and less than high, in the order of the index on
 * the transaction number.  A number of type bigint is stored in the high word
 * of the key.
 */
typedef struct KeyRange
{
	UuidWords	low;
	UuidWords	high;
} KeyRange;

/* The end of a range without an upper bound */
#define LAST_KEY ((UuidWords) {PG_UINT64_MAX, PG_UINT64_MAX})

/*
 * Ranges in the order of the batch.  If the batch begins inside a transaction, the range of this transaction comes
 * first, even if other ranges have lower keys.  The other ranges ascend.
 */
typedef struct Bounds
{
	int			count;
	KeyRange   *ranges;
	bool		rest_first;		/* the batch begins inside a transaction; the first range may be above other ranges */
} Bounds;

static inline int
compare_keys(UuidWords a, UuidWords b)
{
	if (a.high != b.high)
		return a.high < b.high ? -1 : 1;
	return a.low < b.low ? -1 : a.low > b.low;
}

extern UuidWords key_of_datum(Datum key, bool is_uuid);
extern Datum key_datum(UuidWords key, bool is_uuid);
extern int64 number_of_key(UuidWords key, bool is_uuid);
extern KeyRange key_range(Range numbers, bool is_uuid);
extern KeyRange *key_ranges(Numbers set, bool is_uuid);
extern bool bounds_of(const Table *table, HeapTupleHeader batch, Bounds *bounds);

#endif							/* INORDER_BOUNDS_H */
