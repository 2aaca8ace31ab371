/*
 * wait.c
 *	  Wait for rows that other transactions commit.
 *
 * The server, primary or standby, counts the transactions that have ended.  The
 * server increments the counter when new snapshots begin to see a transaction as
 * ended.  (The end of the WAL advances earlier, when the record of a commit is
 * written.  A call that waited for this event would check the feed too early,
 * and would not check it again.)  A call reads the counter, then checks the feed.
 * If there are no rows, the call checks the feed again when the counter has
 * changed.
 *
 * The server sends no signal when the counter changes.  The counter is therefore
 * read every few milliseconds; reading it every 5 ms takes 0.6 % of a core.  The
 * counter includes transactions of all tables and databases.  The pause after a
 * check that found nothing is therefore 50 times as long as the CPU time of the
 * check.  The pause is at most 100 ms, because the first check of a session,
 * which has to plan its queries, is expensive.
 *
 * On a busy table the next row comes soon.  Both pauses, between readings and
 * between checks, are therefore shorter at the beginning of a call.  The pause
 * between readings of the counter is at most a quarter of the time waited so
 * far, and the pause between checks is at most the time waited so far.  Each
 * pause is at least 1 ms.
 *
 * Times are measured with a monotonic clock.
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

/*
 * State at the start of the last check: the number of ended transactions, and
 * the CPU time of this session
 */
static uint64 ended_before;
static double cpu_before;
static double began;			/* value of monotonic_ms() at the start of this call */

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

/* Return the pause between two readings of the counter, which grows with the time that the call has waited so far. */
static double
counter_pause(double waited)
{
	return Min(Max(waited / 4, SHORTEST_MS), LONGEST_COUNTER_MS);
}

/* Return the pause between two checks.  It depends on the CPU time of the last check, and on the time waited so far. */
static double
check_pause(double used, double waited)
{
	return Min(Min(used * PAUSE_PER_CPU, LONGEST_CHECK_MS), Max(waited, SHORTEST_MS));
}

/*
 * After a check that found nothing, wait until it is time for the next check;
 * false if the call has waited for "duration" milliseconds
 */
static bool
wait_for_check(double duration)
{
	double		end = began + duration;
	double		now = monotonic_ms();
	double		next_check = now + check_pause(cpu_ms() - cpu_before, now - began);

	do
	{
		if (now >= end)
			return false;
		pause_ms(Min(Max(counter_pause(now - began), next_check - now), end - now));
		now = monotonic_ms();
	} while (ended_count() == ended_before || now < Min(next_check, end));
	return true;
}

/*
 * await_look(seconds float8, is_first boolean) -> boolean
 *
 * A call that waits for at most "seconds" seconds calls this function before
 * each check.  False if there is no time for another check.
 */
Datum
await_look(PG_FUNCTION_ARGS)
{
	if (PG_GETARG_BOOL(1))
		began = monotonic_ms();
	else if (!wait_for_check(PG_GETARG_FLOAT8(0) * 1000.0))
		PG_RETURN_BOOL(false);
	ended_before = ended_count();
	cpu_before = cpu_ms();
	PG_RETURN_BOOL(true);
}
