/*
 * column.c
 *	  A column that a feed depends on, besides that of the number.
 *
 * Feeds are ordered by a column (order.c), or divided by one (shares.c).  It is
 * proved in the table and in each partition, which are locked: see ground.c.
 */
#include "postgres.h"

#include "access/relation.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "ports/column.h"
#include "compat.h"
#include "ports/ground.h"

void
refuse_column(const char *column, Oid relation, const char *fault, const char *use, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("column %s of table %s %s", quote_identifier(column), relation_name(relation), fault),
			 errdetail("%s", use),
			 errhint("%s", hint)));
}

/* Its number in the table; error if there is none of this name */
AttrNumber
existing_column(const Table *table, const char *column)
{
	AttrNumber	number = get_attnum(table->oid, column);

	if (number <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column %s of table %s does not exist", quote_identifier(column), relation_name(table->oid))));
	return number;
}

void
prove_not_null(Relation relation, AttrNumber number, const char *column, Oid root, const char *use)
{
	if (!is_not_null(RelationGetDescr(relation), number - 1))
		refuse_column(column, RelationGetRelid(relation), "may be null", use,
					  psprintf("ALTER TABLE %s ALTER COLUMN %s SET NOT NULL", relation_name(root), quote_identifier(column)));
}

/* In the table and each partition */
void
prove_in_tree(const Table *table, const char *column, ProveColumn prove)
{
	for (int i = 0; i < table->ground->tree_count; i++)
	{
		Oid			oid = table->ground->tree[i];
		Relation	relation = relation_open(oid, NoLock);

		CHECK_FOR_INTERRUPTS();
		prove(relation, get_attnum(oid, column), column, table->oid);
		relation_close(relation, NoLock);
	}
}
