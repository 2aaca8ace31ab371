/*
 * end.c
 *	  Use the indexes to find the end of a batch, which is the last row within a
 *	  limit.
 *
 * The entries of the indexes are counted first, up to one more than the limit.  If the entries do not exceed the
 * limit, the batch has all rows.  Otherwise many of the entries may belong to dead rows, and the rows that the active
 * snapshot sees are counted in the order of the batch.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "lib/binaryheap.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

#include "keys/uuid_datum.h"
#include "ports/cursor.h"
#include "ports/probe.h"

PG_FUNCTION_INFO_V1(end_by_index);

/* The rows counted so far */
typedef struct End
{
	int64		most;			/* the limit */
	bool		has_row;		/* a visible row was found */
	int64		rows;			/* number of rows or entries, at most one more than the limit */
	UuidWords	key;			/* key of the last row within the limit */
	int64		number;			/* transaction number of this row */
	int64		place;			/* place of this row among the rows of the transaction */
	bool		is_inside;		/* the next row is of the same transaction */
} End;

/* Count the entries of all indexes, and find out whether the row of any entry is visible. */
static void
count_entries(End *end, const TableProof *proof, const Stretch *stretch)
{
	for (int i = 0; i < proof->leaf_count && end->rows <= end->most; i++)
	{
		Cursor	   *cursor = open_cursor(proof, i, stretch, false);

		while (cursor->place != NULL && end->rows <= end->most)
		{
			if (!end->has_row)
				end->has_row = is_visible(cursor);
			end->rows++;
			next_entry(cursor);
		}
		close_cursor(cursor);
	}
}

/* Count the row at a cursor; false if the limit is exceeded */
static bool
count_row(End *end, const Cursor *cursor)
{
	UuidWords	key = key_of_row(cursor);
	int64		number = number_of_key(key, cursor->is_uuid);

	end->has_row = true;
	if (++end->rows > end->most)
	{
		end->is_inside = end->most > 0 && number == end->number;
		return false;
	}
	end->place = end->rows > 1 && number == end->number ? end->place + 1 : 1;
	end->number = number;
	end->key = key;
	return true;
}

/* Compare in reverse order of the keys, because a binaryheap returns its largest element first. */
static int
compare_cursors(Datum a, Datum b, void *unused)
{
	return compare_keys(key_of_row((Cursor *) DatumGetPointer(b)), key_of_row((Cursor *) DatumGetPointer(a)));
}

/* Count the rows of all partitions, merged in the order of their keys */
static void
count_rows(End *end, const TableProof *proof, const Stretch *stretch)
{
	binaryheap *heap = binaryheap_allocate(proof->leaf_count, compare_cursors, NULL);
	Cursor	   *cursor;

	for (int i = 0; i < proof->leaf_count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		cursor = open_cursor(proof, i, stretch, true);
		if (next_row(cursor))
			binaryheap_add_unordered(heap, PointerGetDatum(cursor));
		else
			close_cursor(cursor);
	}
	binaryheap_build(heap);
	while (!binaryheap_empty(heap) && count_row(end, (Cursor *) DatumGetPointer(binaryheap_first(heap))))
	{
		cursor = (Cursor *) DatumGetPointer(binaryheap_first(heap));
		if (next_row(cursor))
			binaryheap_replace_first(heap, PointerGetDatum(cursor));
		else
			close_cursor((Cursor *) DatumGetPointer(binaryheap_remove_first(heap)));
	}
	while (!binaryheap_empty(heap))
		close_cursor((Cursor *) DatumGetPointer(binaryheap_remove_first(heap)));
	binaryheap_free(heap);
}

/* Count the rows in all ranges, first in the range of a transaction that was read in part, if there is one. */
static void
count_in_bounds(End *end, const TableProof *proof, const Bounds *bounds,
				void (*count) (End *, const TableProof *, const Stretch *))
{
	int			rest_count = bounds->rest_first ? Min(bounds->count, 1) : 0;

	if (rest_count > 0)
		count(end, proof, &(Stretch) {bounds->ranges, rest_count});
	if (end->rows <= end->most && rest_count < bounds->count)
		count(end, proof, &(Stretch) {bounds->ranges + rest_count, bounds->count - rest_count});
}

static Datum
key_text(UuidWords key)
{
	Datum		text = CStringGetTextDatum(DatumGetCString(DirectFunctionCall1(uuid_out, key_datum(key, true))));

	return PointerGetDatum(construct_array(&text, 1, TEXTOID, -1, false, TYPALIGN_INT));
}

/*
 * Find the end of a batch that is limited to a number of rows.  Return false if no ranges of keys contain exactly the
 * rows of the batch.  The table must be locked and checked.
 */
bool
find_end(const Table *table, HeapTupleHeader batch, int most, BatchEnd *result)
{
	End			end = {.most = most};
	Bounds		bounds;

	if (!bounds_of(table, batch, &bounds))
		return false;
	count_in_bounds(&end, table->proof, &bounds, count_entries);
	if (end.rows > end.most)
	{
		end = (End) {.most = most};
		count_in_bounds(&end, table->proof, &bounds, count_rows);
	}
	*result = (BatchEnd) {.has_row = end.has_row, .is_all = end.rows <= end.most, .number = end.number};
	if (!result->is_all && end.is_inside)
	{
		result->place = end.place;
		result->last_key = table->proof->reading.is_uuid ? key_text(end.key) : (Datum) 0;
	}
	return true;
}

/* end_by_index(t feed_table, b feed_batch, max_rows integer) -> batch_end, or null */
Datum
end_by_index(PG_FUNCTION_ARGS)
{
	Table		table = described_table(fcinfo, -1);
	Row			row = empty_row();
	BatchEnd	end;

	if (!find_end(&table, PG_GETARG_HEAPTUPLEHEADER(1), PG_GETARG_INT32(2), &end))
		PG_RETURN_NULL();
	set_column(&row, 0, BoolGetDatum(end.has_row));
	if (!end.is_all)
		set_column(&row, 1, Int64GetDatum(end.number));
	if (end.place != 0)
		set_column(&row, 2, Int64GetDatum(end.place));
	if (end.last_key != (Datum) 0)
		set_column(&row, 3, end.last_key);
	PG_RETURN_DATUM(result_row(fcinfo, &row, 4));
}
