/*
 * retention.c
 *	  What no feed of a table needs any more.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "fmgr.h"
#include "funcapi.h"

#include "feed.h"
#include "ground.h"

PG_FUNCTION_INFO_V1(feed_passed);
PG_FUNCTION_INFO_V1(feed_passed_partitions);

static StateCall passed = {"SELECT inorder_internal.passed($1)"};
static StateCall parts_text = {"SELECT inorder_internal.passed_parts_query($1, $2)"};

/* What was passed may be dropped: so there must be no newer rows or feeds than those that are seen. */
static Table
open_latest(FunctionCallInfo fcinfo, const char *function)
{
	require_read_committed(function, "Rows and feeds that came since this transaction began would not be seen.");
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("%s needs the primary", function),
				 errdetail("Rows and feeds that have not come to this standby would not be seen.")));
	return open_table(readable_argument(fcinfo, 0));
}

/* feed_passed(relation regclass) -> bigint */
Datum
feed_passed(PG_FUNCTION_ARGS)
{
	Table		table = open_latest(fcinfo, "feed_passed");
	Value		number;

	state_call(&passed, 1, &table.description, 1, &number);
	PG_RETURN_DATUM(number.value);
}

/*
 * feed_passed_partitions(relation regclass) -> setof regclass
 *
 * What has been read is looked up first, the rows in a later snapshot: a row
 * that is committed in between counts as not read.
 */
Datum
feed_passed_partitions(PG_FUNCTION_ARGS)
{
	Table		table = open_latest(fcinfo, "feed_passed_partitions");
	Value		query;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	state_call(&parts_text, 2, (Value[]) {table.description, caller_value()}, 1, &query);
	if (!query.null)
		(void) query_rows(&table, text_of(query), fcinfo);
	check_ground(&table);
	return (Datum) 0;
}
