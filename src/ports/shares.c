/*
 * shares.c
 *	  Whether rows are in shares by a column: how workers divide a feed is said in sql/feed/shares.sql.
 *
 * The column is proved before each use, since a key that changed its share would
 * be lost or repeated.  What is proved is kept with the ground, as for an order
 * column.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "ports/column.h"
#include "ports/ground.h"

PG_FUNCTION_INFO_V1(prove_share_column);

#define USE "Workers divide its feed by the hash of that column."

/* What must hold for the column of the table and of each partition: then a row is in one share, always the same */
static void
prove_column(Relation relation, AttrNumber number, const char *column, Oid root)
{
	Form_pg_attribute attribute = TupleDescAttr(RelationGetDescr(relation), number - 1);
	Oid			oid = RelationGetRelid(relation);

	if (attribute->attgenerated != '\0')
		refuse_column(column, oid, "is generated", USE,
					  "Choose a column whose values are stored as they are inserted.");
	prove_not_null(relation, number, column, root, USE);
	if (OidIsValid(attribute->attcollation) && !get_collation_isdeterministic(attribute->attcollation))
		refuse_column(column, oid, "has a nondeterministic collation", USE,
					  "Keys that are equal by it may be in different shares. Choose a column whose equal values have equal bytes.");
}

/* prove_share_column(t feed_table, column_name name) */
Datum
prove_share_column(PG_FUNCTION_ARGS)
{
	Table		table = described_table(fcinfo, -1);
	const char *column = NameStr(*PG_GETARG_NAME(1));
	AttrNumber	number = existing_column(&table, column);

	if (!table.ground->stands || table.ground->share_column != number)
		prove_in_tree(&table, column, prove_column);
	table.ground->share_column = number;
	PG_RETURN_VOID();
}
