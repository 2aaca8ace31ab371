/*
 * uuid_v1_nextval.c
 *	  Version-1 UUIDs whose ticks never repeat within a session.
 *
 * A session makes up a node and a clock sequence when it first needs them, as
 * RFC 9562 asks of those who do not want to show a network address: the node
 * is random with the multicast bit, which no network card has (section 6.10).
 */
#include "postgres.h"

#include <time.h>

#include "miscadmin.h"

#include "keys/entropy.h"
#include "keys/uuid_datum.h"
#include "types/uuid_v1_layout.h"

PG_FUNCTION_INFO_V1(uuid_v1_nextval);

#define NODE_MULTICAST (UINT64CONST(1) << 40)	/* lowest bit of the first byte */

static int	owner = 0;			/* MyProcPid of the process whose these are */
static V1State state;

static void
begin_session(void)
{
	uint64		random = entropy_word();

	state.node = (random & V1_NODE_MAX) | NODE_MULTICAST;
	state.clockseq = random >> 48 & V1_CLOCKSEQ_MAX;
	owner = MyProcPid;
}

static uint64
current_tick(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64) (now.tv_sec * 1000000 + V1_UNIX_EPOCH_US) * V1_TICKS_PER_US + (uint64) now.tv_nsec / 100;
}

/* uuid_v1_nextval() */
Datum
uuid_v1_nextval(PG_FUNCTION_ARGS)
{
	if (unlikely(owner != MyProcPid))
		begin_session();
	v1_advance(&state, current_tick());
	if (unlikely(state.tick > V1_TICK_MAX))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("the system clock shows a time that no version-1 UUID holds"),
				 errdetail("They hold %s.", V1_RANGE_TEXT)));
	return uuid_datum((UuidWords) {state.tick, v1_rest(state.clockseq, state.node)});
}
