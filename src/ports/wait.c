/*
 * wait.c
 *	  Waiting for rows that others commit.
 *
 * The server counts the transactions that ended, and moves the counter at the
 * moment when a new snapshot sees them, on a primary and on a standby.  (The
 * end of the WAL moves earlier, when the record of a commit is written: who
 * looks then finds nothing, and has no reason to look again.)  So the counter
 * is read first, then the feed is checked; if there is nothing, it is checked
 * again when the counter has moved.
 *
 * Nothing announces that to us, so the counter is read every few milliseconds:
 * that takes 0.6 % of a core at 5 ms.  It counts transactions of all tables
 * and databases, so after a check in vain the next one waits so long that all
 * of them together take a fiftieth of a core; at most 100 ms, since the first
 * one of a session has to plan its queries.
 *
 * Under load the next row comes soon: both pauses are shorter at the beginning
 * of a call, that of the counter a quarter of what was waited, that of the
 * checks as long as that.
 *
 * And so is a call that found nothing not made again while the counter stands:
 * positions, tables and privileges change by transactions, too.
 */
#include "postgres.h"

#include <sys/resource.h>

#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "compat.h"

PG_FUNCTION_INFO_V1(begin_look);
PG_FUNCTION_INFO_V1(await_more);
PG_FUNCTION_INFO_V1(ended_until_now);
PG_FUNCTION_INFO_V1(found_empty);
PG_FUNCTION_INFO_V1(note_empty);

#define SHORTEST_MS 1
#define LONGEST_COUNTER_MS 5
#define LONGEST_CHECK_MS 100
#define PAUSE_PER_CPU 50
#define REMEMBERED_MS 10000		/* less than the minute after which a poll is recorded */

/* When the last look began: transactions that had ended, and CPU that this session had used */
static uint64 ended_before;
static double used_before;

static uint64
ended_count(void)
{
	uint64		count;

	LWLockAcquire(ProcArrayLock, LW_SHARED);
	count = transam_variables->xactCompletionCount;
	LWLockRelease(ProcArrayLock);
	return count;
}

static double
now_ms(void)
{
	return GetCurrentTimestamp() / 1000.0;
}

static double
cpu_ms(void)
{
	struct rusage usage;

	(void) getrusage(RUSAGE_SELF, &usage);
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000.0 + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000.0;
}

static void
pause_ms(double duration)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, (long) Max(duration, 1), PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/* Between two looks at the counter, after a call has waited so long */
static double
counter_pause(double waited)
{
	return Min(Max(waited / 4, SHORTEST_MS), LONGEST_COUNTER_MS);
}

/* Between two checks, of which the last took so much CPU */
static double
check_pause(double used, double waited)
{
	return Min(Min(used * PAUSE_PER_CPU, LONGEST_CHECK_MS), Max(waited, SHORTEST_MS));
}

/* begin_look(): before a look for rows */
Datum
begin_look(PG_FUNCTION_ARGS)
{
	ended_before = ended_count();
	used_before = cpu_ms();
	PG_RETURN_VOID();
}

/* await_more(since timestamptz, ends timestamptz) -> boolean: after a look in vain, until another is worth it; false if the time is over */
Datum
await_more(PG_FUNCTION_ARGS)
{
	double		start = PG_GETARG_TIMESTAMPTZ(0) / 1000.0;
	double		end = PG_GETARG_TIMESTAMPTZ(1) / 1000.0;
	double		now = now_ms();
	double		next = now + check_pause(cpu_ms() - used_before, now - start);

	do
	{
		if (now >= end)
			PG_RETURN_BOOL(false);
		pause_ms(Min(counter_pause(now - start), end - now));
		now = now_ms();
	} while (ended_count() == ended_before || now < Min(next, end));
	PG_RETURN_BOOL(true);
}

/* The last call that found nothing */
static struct
{
	uint64		ended;
	char	   *asked;			/* who called, and with which arguments; null if none found nothing */
	Oid			relation;
	double		at_ms;
}			empty;

/* ended_count() -> bigint: null in a transaction that keeps its snapshot, or has changed something itself */
Datum
ended_until_now(PG_FUNCTION_ARGS)
{
	if (IsolationUsesXactSnapshot() || TransactionIdIsValid(GetTopTransactionIdIfAny()))
		PG_RETURN_NULL();
	PG_RETURN_INT64((int64) ended_count());
}

/* found_empty(ended bigint, asked text) -> oid */
Datum
found_empty(PG_FUNCTION_ARGS)
{
	if (empty.asked == NULL || empty.ended != (uint64) PG_GETARG_INT64(0) || now_ms() - empty.at_ms > REMEMBERED_MS ||
		strcmp(empty.asked, text_to_cstring(PG_GETARG_TEXT_PP(1))) != 0)
		PG_RETURN_NULL();
	PG_RETURN_OID(empty.relation);
}

/* note_empty(ended bigint, asked text, relation oid) -> boolean */
Datum
note_empty(PG_FUNCTION_ARGS)
{
	char	   *asked;

	if (PG_ARGISNULL(0))
		PG_RETURN_BOOL(false);
	asked = MemoryContextStrdup(TopMemoryContext, text_to_cstring(PG_GETARG_TEXT_PP(1)));
	if (empty.asked != NULL)
		pfree(empty.asked);
	empty.asked = asked;
	empty.ended = (uint64) PG_GETARG_INT64(0);
	empty.relation = PG_GETARG_OID(2);
	empty.at_ms = now_ms();
	PG_RETURN_BOOL(false);
}
