/*
 * changes.c
 *	  Return changes of a table to the caller.
 *
 * sql/changes/changes.sql describes which rows are read, and why a copy that applies the changes equals the table.  The
 * query string cannot name the table's type.  The query therefore returns the columns of the table separately, and the
 * functions below form a row of that type from these columns.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"
#include "utils/typcache.h"

#include "feed/caller.h"
#include "feed/feed.h"
#include "ports/numbers.h"

PG_FUNCTION_INFO_V1(changes_batch_rows);
PG_FUNCTION_INFO_V1(changes_read);

/* Columns of the result: op, version, changed.  The query returns the columns of the table in place of "changed". */
#define CHANGE_COLUMNS 3
#define CHANGED 2

/* A receiver of the rows of the query */
typedef struct Composing
{
	DestReceiver pub;
	ReturnSetInfo *result;
	TupleDesc	row;			/* row type of the table */
	MemoryContext memory;		/* for one row */
} Composing;

/*
 * Append a row to the result: op, version, and a value of the table's type,
 * formed from the columns that were not dropped.
 */
static bool
pass_change(TupleTableSlot *slot, DestReceiver *self)
{
	Composing  *composing = (Composing *) self;
	MemoryContext old = MemoryContextSwitchTo(composing->memory);
	TupleDesc	row = composing->row;
	Datum	   *columns = palloc(sizeof(Datum) * row->natts);
	bool	   *are_null = palloc(sizeof(bool) * row->natts);
	Datum		values[CHANGE_COLUMNS];
	bool		nulls[CHANGE_COLUMNS] = {false};
	int			place = CHANGED;

	slot_getallattrs(slot);
	for (int i = 0; i < row->natts; i++)
	{
		bool		dropped = TupleDescAttr(row, i)->attisdropped;

		are_null[i] = dropped || slot->tts_isnull[place];
		columns[i] = dropped ? (Datum) 0 : slot->tts_values[place];
		place += !dropped;
	}
	memcpy(values, slot->tts_values, sizeof(Datum) * CHANGED);
	values[CHANGED] = HeapTupleGetDatum(heap_form_tuple(row, columns, are_null));
	tuplestore_putvalues(composing->result->setResult, composing->result->setDesc, values, nulls);
	MemoryContextSwitchTo(old);
	MemoryContextReset(composing->memory);
	return true;
}

static void
begin_changes(DestReceiver *self, int operation, TupleDesc columns)
{
	Composing  *composing = (Composing *) self;
	int			place = CHANGED;

	for (int i = 0; i < composing->row->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(composing->row, i);

		if (!column->attisdropped &&
			(place == columns->natts || TupleDescAttr(columns, place++)->atttypid != column->atttypid))
			elog(ERROR, "column %d of a change does not have the type of the column of the table", i + 1);
	}
	composing->memory = AllocSetContextCreate(CurrentMemoryContext, "inorder: a change", ALLOCSET_DEFAULT_SIZES);
}

static void
end_changes(DestReceiver *self)
{
	MemoryContextDelete(((Composing *) self)->memory);
}

/* Return the rows of a query as the result of the calling function */
static void
return_changes(RowSource *source, HeapTupleHeader result, FunctionCallInfo fcinfo, Oid row_type)
{
	Composing	composing = {{pass_change, begin_changes, end_changes, NULL, DestTuplestore}};
	Value		query = result_column(result, "query", TEXTOID);

	InitMaterializedSRF(fcinfo, 0);
	if (!query.null)
	{
		composing.result = (ReturnSetInfo *) fcinfo->resultinfo;
		composing.row = lookup_rowtype_tupdesc_copy(row_type, -1);
		source->table.joined = DatumGetObjectId(result_column(result, "relation", OIDOID).value);
		query_into(&source->table, text_of(query), &composing.pub);
	}
	check_proof(&source->table);
}

/* changes_batch_rows(name text, number bigint, row_type anyelement, owner regrole) -> setof (op, version, changed) */
Datum
changes_batch_rows(PG_FUNCTION_ARGS)
{
	Oid			row_type = get_fn_expr_argtype(fcinfo->flinfo, 2);
	RowSource	source = {0};
	HeapTupleHeader result = look_up_rows(&source, "unfinished_changes", 6, (Value[]) {
		caller_value(), argument_value(fcinfo, 0, TEXTOID), argument_value(fcinfo, 1, INT8OID), owner_argument(fcinfo, 3),
			value_of(ObjectIdGetDatum(row_type), OIDOID), value_of(CStringGetTextDatum("%s"), TEXTOID)
	});

	return_changes(&source, result, fcinfo, row_type);
	make_seen_durable();
	return (Datum) 0;
}

/* changes_read(name text, row_type anyelement, max_rows int, owner regrole) -> setof (op, version, changed) */
Datum
changes_read(PG_FUNCTION_ARGS)
{
	Oid			row_type = get_fn_expr_argtype(fcinfo->flinfo, 1);
	RowSource	source = {0};
	HeapTupleHeader result;

	check_caller(fcinfo);
	result = look_up_rows(&source, "next_changes", 5, (Value[]) {
		caller_value(), argument_value(fcinfo, 0, TEXTOID), owner_argument(fcinfo, 3), argument_value(fcinfo, 2, INT4OID),
			value_of(ObjectIdGetDatum(row_type), OIDOID)
	});

	return_changes(&source, result, fcinfo, row_type);
	(void) make_commit_durable();
	return (Datum) 0;
}
