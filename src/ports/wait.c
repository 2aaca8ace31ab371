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
 * one of a session has to plan its queries.  Those that follow in a call are
 * cheaper than the first one: they come no sooner, and take less of the core.
 *
 * Under load the next row comes soon: both pauses are shorter at the beginning
 * of a call, that of the counter a quarter of what was waited, that of the
 * checks as long as that.
 *
 * All of it is measured by a clock that nobody sets.
 */
#include "postgres.h"

#include <sys/resource.h>

#include "access/transam.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "utils/wait_event.h"

#include "compat.h"
#include "ports/numbers.h"

PG_FUNCTION_INFO_V1(await_look);

#define SHORTEST_MS 1
#define LONGEST_COUNTER_MS 5
#define LONGEST_CHECK_MS 100
#define PAUSE_PER_CPU 50
#define USUAL_CHECK_MS 0.4		/* CPU of the first one, once its queries are planned */

/* When the last look began: transactions that had ended, and CPU that this session had used */
static uint64 ended_before;
static double used_before;
static double began;			/* this call, in milliseconds of the clock below */
static double used_most;		/* CPU of the dearest look of this call, at most that of a usual one */

uint64
ended_count(void)
{
	uint64		count;

	LWLockAcquire(ProcArrayLock, LW_SHARED);
	count = transam_variables->xactCompletionCount;
	LWLockRelease(ProcArrayLock);
	return count;
}

static double
monotonic_ms(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return INSTR_TIME_GET_MILLISEC(now);
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

/* Until another look is worth it, after one in vain; false if the time is over */
static bool
wait_for_look(double duration)
{
	double		end = began + duration;
	double		now = monotonic_ms();
	double		used = cpu_ms() - used_before;
	double		next;

	used_most = Max(used_most, Min(used, USUAL_CHECK_MS));
	next = now + check_pause(Max(used, used_most), now - began);
	do
	{
		if (now >= end)
			return false;
		pause_ms(Min(Max(counter_pause(now - began), next - now), end - now));
		now = monotonic_ms();
	} while (ended_count() == ended_before || now < Min(next, end));
	return true;
}

/* await_look(seconds float8, is_first boolean) -> boolean: before each look of a call, which waits so long at most */
Datum
await_look(PG_FUNCTION_ARGS)
{
	if (PG_GETARG_BOOL(1))
	{
		began = monotonic_ms();
		used_most = 0;
	}
	else if (!wait_for_look(PG_GETARG_FLOAT8(0) * 1000.0))
		PG_RETURN_BOOL(false);
	ended_before = ended_count();
	used_before = cpu_ms();
	PG_RETURN_BOOL(true);
}
