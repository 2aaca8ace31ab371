/*
 * xact.c
 *	  Keys and numbers that contain the id of the inserting transaction.
 *
 * The number is the top-level 64-bit transaction id, as pg_current_xact_id() returns it, plus a base.  Savepoints and
 * EXCEPTION blocks have ids of their own, but their rows carry the number of the top-level transaction, because a
 * reader needs to know which transaction commits.  The functions that generate keys and numbers assign an id to a
 * transaction that has no id yet, and therefore fail on a standby.  These functions are PARALLEL UNSAFE, because the
 * keys of a parallel worker would not continue the keys of the leader.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/proc.h"

#include "keys/entropy.h"
#include "keys/uuid_datum.h"

PG_FUNCTION_INFO_V1(uuid_xact_nextval);
PG_FUNCTION_INFO_V1(xact_id);
PG_FUNCTION_INFO_V1(xact_id_generated);
PG_FUNCTION_INFO_V1(uuid_xact_id);
PG_FUNCTION_INFO_V1(uuid_xact_floor);

/*
 * The last key of this session: its transaction id, and its last 74 bits.  No two
 * transactions have the same 64-bit id.
 */
static uint64 tail_xact = 0;	/* InvalidTransactionId */
static XactTail tail;

static void
check_xact_number(const char *name, int64 number)
{
	if (unlikely(number < 0 || number > (int64) XACT_NUMBER_MAX))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("%s must be between 0 and %llu, not %lld", name,
						(unsigned long long) XACT_NUMBER_MAX, (long long) number)));
}

/*
 * Return the number of a transaction id in a table with this base.  Raise an error if the number has more than 48 bits.
 */
uint64
xact_plus_base(uint64 xact, int64 base)
{
	check_xact_number("base", base);
	if (unlikely(xact > XACT_NUMBER_MAX - (uint64) base))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("transaction id %llu plus base %lld exceeds %llu",
						(unsigned long long) xact, (long long) base,
						(unsigned long long) XACT_NUMBER_MAX),
				 errdetail("A key holds 48 bits of transaction number.")));
	return xact + (uint64) base;
}

/*
 * Raise an error during VACUUM and logical decoding.  Snapshots do not list the transactions of VACUUM and of logical
 * decoding, and readers would treat these transactions as ended.  VACUUM executes functions of users when it summarizes
 * a BRIN index.
 */
static void
refuse_vacuum(const char *function_name)
{
	if (unlikely(MyProc->statusFlags & (PROC_IN_VACUUM | PROC_IN_LOGICAL_DECODING)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot execute %s during VACUUM", function_name),
				 errdetail("Snapshots do not list the transaction of VACUUM as in progress, and readers would miss its rows.")));
}

static uint64
current_xact(const char *function_name)
{
	PreventCommandDuringRecovery(function_name);
	refuse_vacuum(function_name);
	return U64FromFullTransactionId(GetTopFullTransactionId());
}

uint64
current_xact_number(int64 base, const char *function_name)
{
	return xact_plus_base(current_xact(function_name), base);
}

static void
advance_tail(uint64 xact)
{
	if (unlikely(xact != tail_xact))
	{
		tail = xact_tail_start(entropy_word(), entropy_word());
		tail_xact = xact;
	}
	else if (unlikely(!xact_tail_advance(&tail, entropy_word())))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("transaction %llu has used up its keys", (unsigned long long) xact),
				 errdetail("At least 2^30 keys fit into one transaction.")));
}

UuidWords
next_xact_key(int64 base)
{
	uint64		xact = current_xact("uuid_xact_nextval()");
	uint64		number = xact_plus_base(xact, base);

	advance_tail(xact);
	return xact_key(number, tail);
}

/* uuid_xact_nextval(base bigint) */
Datum
uuid_xact_nextval(PG_FUNCTION_ARGS)
{
	return uuid_datum(next_xact_key(PG_GETARG_INT64(0)));
}

/* xact_id(base bigint) -> bigint */
Datum
xact_id(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64((int64) current_xact_number(PG_GETARG_INT64(0), "xact_id()"));
}

/*
 * xact_id_generated(base bigint) -> bigint
 *
 * Returns the same number as xact_id(), but is declared IMMUTABLE, as a
 * generated column requires.  The executor evaluates the call in a generated
 * column when it starts a statement, and the result is not stored in a cached
 * plan.  Each row therefore gets the number of its transaction.  In any other
 * expression the declaration would be wrong.  xact_id(), which can be called
 * anywhere, is therefore STABLE.
 */
Datum
xact_id_generated(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64((int64) current_xact_number(PG_GETARG_INT64(0), "xact_id_generated()"));
}

/* uuid_xact_id(uuid) -> the transaction number in a key */
Datum
uuid_xact_id(PG_FUNCTION_ARGS)
{
	UuidWords	key = uuid_arg_of_version(PG_GETARG_DATUM(0), UUID_VERSION_CUSTOM);

	PG_RETURN_INT64((int64) xact_key_number(key));
}

/* uuid_xact_floor(bigint) -> the smallest key with that transaction number */
Datum
uuid_xact_floor(PG_FUNCTION_ARGS)
{
	int64		number = PG_GETARG_INT64(0);
	XactTail	lowest = {0, 0};

	check_xact_number("transaction number", number);
	return uuid_datum(xact_key((uint64) number, lowest));
}
