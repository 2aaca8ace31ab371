/*
 * batch.c
 *	  Rows of batches that were made before (sql/feed/next.sql), with the rights of the reader.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "feed/batch.h"
#include "ports/ground.h"

static StateCall batch_text = {"SELECT inorder_internal.batch_text($1, $2, $3, $4)"};

/* The query for the rows of a batch that was made before, all of them: the same each time */
char *
rows_query(const Table *table, Value batch)
{
	Value		query;

	state_call(&batch_text, 4, (Value[]) {table->description, batch, table->members, caller_value()}, 1, &query);
	return text_of(query);
}

/* Its rows, as the result of the calling function */
void
read_batch(const Table *table, Value batch, FunctionCallInfo fcinfo)
{
	(void) query_rows(table, rows_query(table, batch), fcinfo);
	check_ground(table);
}

/* Whether rows of the table, as it is now, are what the executor of the query made itself ready for */
static bool
has_columns(Oid row_type, TupleDesc expected)
{
	TupleDesc	actual = lookup_rowtype_tupdesc(row_type, -1);
	bool		result = expected == NULL || expected->natts == actual->natts;

	for (int i = 0; result && expected != NULL && i < actual->natts; i++)
		result = TupleDescAttr(actual, i)->attisdropped || TupleDescAttr(expected, i)->attisdropped ?
			TupleDescAttr(actual, i)->attisdropped == TupleDescAttr(expected, i)->attisdropped :
			TupleDescAttr(actual, i)->atttypid == TupleDescAttr(expected, i)->atttypid;
	ReleaseTupleDesc(actual);
	return result;
}

/*
 * Rows are of the type of the table, which the caller names by null::table.
 * That locks nothing: the columns may have changed since, until we had the lock.
 */
void
check_row_type(const Table *table, FunctionCallInfo fcinfo, int argument)
{
	Oid			row_type = get_fn_expr_argtype(fcinfo->flinfo, argument);
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	if (row_type != get_rel_type_id(table->oid))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("row_type must be null::%s, not of type %s",
						quote_qualified_identifier(get_namespace_name(get_rel_namespace(table->oid)),
												   get_rel_name(table->oid)),
						format_type_extended(row_type, -1, FORMAT_TYPE_ALLOW_INVALID))));	/* it may be gone */
	if (result != NULL && IsA(result, ReturnSetInfo) && !has_columns(row_type, result->expectedDesc))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("columns of %s were changed after this query began", relation_name(table->oid)),
				 errhint("Try again.")));
}
