/*
 * retention.c
 *	  What no feed of a table needs any more.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"

#include "feed/feed.h"
#include "ports/ground.h"

PG_FUNCTION_INFO_V1(feed_passed_partitions);

static StateCall open_latest = {
	"SELECT s.t, (s.t).ordered FROM (SELECT inorder_internal.open_latest($1, $2, $3) AS t OFFSET 0) AS s"
};
static StateCall parts_text = {"SELECT inorder_internal.passed_parts_query($1, $2)"};

/*
 * feed_passed_partitions(relation regclass) -> setof regclass
 *
 * What has been read is looked up first, the rows in a later snapshot: a row
 * that is committed in between counts as not read.
 */
Datum
feed_passed_partitions(PG_FUNCTION_ARGS)
{
	Table		table = {.oid = PG_ARGISNULL(0) ? InvalidOid : PG_GETARG_OID(0)};
	Value		found[2];
	Value		query;

	state_call(&open_latest, 3,
			   (Value[]) {caller_value(), argument_value(fcinfo, 0, REGCLASSOID),
			   value_of(CStringGetTextDatum("feed_passed_partitions"), TEXTOID)}, 2, found);
	table.description = found[0];
	table.ordered = DatumGetBool(found[1].value);
	prove_ground(&table);
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	state_call(&parts_text, 2, (Value[]) {table.description, caller_value()}, 1, &query);
	if (!query.null)
		(void) query_rows(&table, text_of(query), fcinfo);
	check_ground(&table);
	return (Datum) 0;
}
