/*
 * entropy.c
 *	  A pool of cryptographically strong random words in each backend.
 *
 * pg_strong_random() takes about as long for 4 KiB as for 16 bytes, because
 * most of the time is spent in the call itself (a system call, or OpenSSL's
 * locking).  gen_random_uuid() makes such a call for every value; the pool makes
 * one call for 512 words.
 *
 * Guarantees:
 *	- A word is handed out once and overwritten with zero at that moment, so
 *	  that a core file or a stray read shows no word that is already in a key.
 *	- A process never uses words that its parent process drew, because the pool
 *	  stores which process filled it.
 *	- A statement never uses words that were drawn more than a second before the
 *	  statement began.  Otherwise two clones of a virtual machine, which start
 *	  with the same pool, would use the same words.  As soon as the hypervisor
 *	  has told the kernel of a clone that the machine was cloned,
 *	  pg_strong_random() returns different words in each clone.  Reading the
 *	  start time of the statement requires no system call.  If the clock is set
 *	  forward or back, the pool is refilled.
 *	- If filling the pool fails, the pool is empty, and the next call fills it.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"

#include "keys/entropy.h"

/*
 * The size of the pool is 4 KiB.  A pool of twice this size would save less
 * than 1 ns per word, and a backend that generates a single key wastes the rest
 * of the pool.
 */
#define ENTROPY_POOL_WORDS 512

/* Maximum age of the pool, in microseconds */
#define ENTROPY_POOL_LIFE USECS_PER_SEC

static uint64 pool[ENTROPY_POOL_WORDS];
static int	pool_left = 0;		/* words not handed out: pool[0 .. pool_left - 1] */
static int	pool_owner = 0;		/* MyProcPid of the process that filled the pool */
static TimestampTz pool_filled = 0; /* start time of the statement that filled the pool */

static void
entropy_refill(void)
{
	pool_left = 0;
	if (!pg_strong_random(pool, sizeof(pool)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	pool_owner = MyProcPid;
	pool_filled = GetCurrentStatementStartTimestamp();
	pool_left = ENTROPY_POOL_WORDS;
}

uint64
entropy_word(void)
{
	uint64		word;

	/*
	 * The difference is unsigned, and is therefore very large if the statement
	 * began before the pool was filled.
	 */
	if (unlikely(pool_left == 0 || pool_owner != MyProcPid ||
				 (uint64) (GetCurrentStatementStartTimestamp() - pool_filled) > ENTROPY_POOL_LIFE))
		entropy_refill();

	word = pool[--pool_left];
	pool[pool_left] = 0;
	return word;
}
