/*
 * origin.c
 *	  Identification of this server and its timeline.
 *
 * Transaction numbers are valid on one timeline of one server, because after a
 * promotion, or a recovery to an earlier point, the numbers of transactions
 * that were lost are reused.
 *
 * If two servers were restored from the same backup and promoted independently of
 * each other, they have the same system identifier and the same timeline.  The
 * functions below cannot distinguish such servers.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "fmgr.h"
#include "utils/builtins.h"

#include "ports/numbers.h"

PG_FUNCTION_INFO_V1(server_origin);
PG_FUNCTION_INFO_V1(server_system);
PG_FUNCTION_INFO_V1(expect_same_origin);

char *
system_of_server(void)
{
	return psprintf("%llu", (unsigned long long) GetSystemIdentifier());
}

TimeLineID
timeline_here(void)
{
	TimeLineID	timeline;

	if (!RecoveryInProgress())
		return GetWALInsertionTimeLine();
	(void) GetXLogReplayRecPtr(&timeline);
	return timeline;
}

/*
 * Raise an error if the timeline has changed since the start of a call.  If a standby is promoted during the call, the
 * checks were made for the old timeline, and the rows may belong to the new timeline.
 */
void
expect_timeline(TimeLineID timeline)
{
	TimeLineID	timeline_now = timeline_here();

	if (likely(timeline_now == timeline))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("the server was promoted during this call"),
			 errdetail("The call began on timeline %u, and the server is now on timeline %u.", timeline, timeline_now),
			 errhint("Call the function again. A position of the old timeline is then refused.")));
}

/* Return the system identifier and the timeline as one string */
Datum
origin_of_server(void)
{
	return CStringGetTextDatum(psprintf("%llu/%u", (unsigned long long) GetSystemIdentifier(), timeline_here()));
}

/* server_origin() -> text */
Datum
server_origin(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(origin_of_server());
}

/* expect_origin(origin text) */
Datum
expect_same_origin(PG_FUNCTION_ARGS)
{
	expect_timeline((TimeLineID) strtoul(strchr(text_to_cstring(PG_GETARG_TEXT_PP(0)), '/') + 1, NULL, 10));
	PG_RETURN_VOID();
}

/* server_system() -> text, the first part of the origin */
Datum
server_system(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(system_of_server()));
}
