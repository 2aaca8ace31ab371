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
 */
#include "postgres.h"

#include <sys/resource.h>

#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "compat.h"
#include "ports/state.h"
#include "feed/wait.h"

#define SHORTEST_MS 1
#define LONGEST_COUNTER_MS 5
#define LONGEST_CHECK_MS 100
#define PAUSE_PER_CPU 50
#define TIMEOUT_MAX_MS 1000

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

static double
timeout_of(FunctionCallInfo fcinfo, int argument)
{
	Interval   *timeout;
	double		duration;

	if (PG_ARGISNULL(argument))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("timeout must not be null")));
	timeout = PG_GETARG_INTERVAL_P(argument);
	duration = timeout->time / 1000.0 + (timeout->day + timeout->month * (double) DAYS_PER_MONTH) * SECS_PER_DAY * 1000.0;
	if (duration < 0 || duration > TIMEOUT_MAX_MS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("timeout must be between 0 and 1 second, not %s",
						DatumGetCString(DirectFunctionCall1(interval_out, PG_GETARG_DATUM(argument)))),
				 errhint("Call the function again: while it runs, its snapshot keeps VACUUM from removing rows.")));
	return duration;
}

/* Until it has come, or the timeout of the calling function has passed */
bool
wait_until(Look has_come, FunctionCallInfo fcinfo, int timeout_argument)
{
	double		start = now_ms();
	double		end = start + timeout_of(fcinfo, timeout_argument);

	require_read_committed("waiting for rows", "Rows that come later would not be seen.");
	for (;;)
	{
		uint64		count = ended_count();
		double		used = cpu_ms();
		double		now;
		double		next;

		if (without_locks(has_come, fcinfo))
			return true;
		now = now_ms();
		next = now + check_pause(cpu_ms() - used, now - start);
		do
		{
			if (now >= end)
				return false;
			pause_ms(Min(counter_pause(now - start), end - now));
			now = now_ms();
		} while (ended_count() == count || now < Min(next, end));
	}
}
