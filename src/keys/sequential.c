/*
 * sequential.c
 *	  Keys in blocks: a wrapping block number, then random bits.
 *
 * All keys of a block are adjacent in the index, and at any time all inserts
 * write to one part of the index.  The block number wraps around.  A key
 * therefore does not show the age of its row, two keys do not show which row is
 * older, and index pages that deletes have emptied are reused.  Names,
 * arguments, defaults and prefix are the same as in the extension
 * sequential_uuids (study P3 in docs/keys.md).
 */
#include "postgres.h"

#include <time.h>

#include "catalog/pg_class.h"
#include "commands/sequence.h"
#include "utils/lsyscache.h"

#include "keys/entropy.h"
#include "keys/uuid_datum.h"

PG_FUNCTION_INFO_V1(uuid_sequence_nextval);
PG_FUNCTION_INFO_V1(uuid_time_nextval);

static void
check_positive(const char *name, int32 value)
{
	if (unlikely(value < 1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be between 1 and %d, not %d", name, PG_INT32_MAX, value)));
}

/*
 * Raise an error unless a relation is a sequence.  The function nextval() reports a missing relation as an internal
 * error, and its message for other relations differs between server versions.
 */
static void
check_sequence(Oid relation)
{
	char		kind = get_rel_relkind(relation);

	if (unlikely(kind == '\0'))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("sequence with OID %u does not exist", relation)));
	if (unlikely(kind != RELKIND_SEQUENCE))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a sequence", get_rel_name(relation))));
}

static Datum
block_datum(int64 position, int32 size, int32 count)
{
	UuidWords	random = {entropy_word(), entropy_word()};

	return uuid_datum(block_key(block_number(position, size, count),
								block_prefix_bytes(count), random));
}

/*
 * uuid_sequence_nextval(sequence regclass, block_size int, block_count int)
 *
 * Block number: (nextval / block_size) mod block_count.
 */
Datum
uuid_sequence_nextval(PG_FUNCTION_ARGS)
{
	Oid			sequence = PG_GETARG_OID(0);
	int32		block_size = PG_GETARG_INT32(1);
	int32		block_count = PG_GETARG_INT32(2);

	check_positive("block_size", block_size);
	check_positive("block_count", block_count);
	check_sequence(sequence);

	return block_datum(nextval_internal(sequence, true), block_size, block_count);
}

/*
 * uuid_time_nextval(interval_length int, interval_count int)
 *
 * Block number: (Unix seconds / interval_length) mod interval_count.  time()
 * returns whole seconds from the kernel's coarse clock in a few nanoseconds.
 */
Datum
uuid_time_nextval(PG_FUNCTION_ARGS)
{
	int32		interval_length = PG_GETARG_INT32(0);
	int32		interval_count = PG_GETARG_INT32(1);

	check_positive("interval_length", interval_length);
	check_positive("interval_count", interval_count);

	return block_datum((int64) time(NULL), interval_length, interval_count);
}
