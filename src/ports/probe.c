/*
 * probe.c
 *	  Use the indexes of a table to find out whether it has rows of some
 *	  transactions.
 *
 * Most polls find nothing.  Even a query that finds nothing has to be planned
 * over all partitions, which takes 75 ms for 1,000 partitions.  A descent in
 * each index takes a few microseconds (cursor.c).
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/skey.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/multirangetypes.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "keys/uuid_datum.h"
#include "ports/cursor.h"
#include "ports/probe.h"

PG_FUNCTION_INFO_V1(probe_numbers);
PG_FUNCTION_INFO_V1(leaves_with_numbers);
PG_FUNCTION_INFO_V1(parts_with_rows);
PG_FUNCTION_INFO_V1(count_by_index);

/* Maximum number of index searches for one count.  More searches would take longer than a query. */
#define PROBES_MAX 4096

/*
 * Return the number of rows with number 0 in a leaf, up to a limit.  These rows are older than the column that
 * feed_prepare() added.  A partial index lacks these rows, but they are at the beginning of the table.
 */
static int64
count_old(const Table *table, int leaf, int64 most)
{
	OpenLeaf	opened = open_leaf(&table->proof->leaves[leaf]);
	ScanKeyData key;
	TableScanDesc scan;
	int64		rows = 0;

	ScanKeyInit(&key, opened.index->rd_index->indkey.values[0], BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(0));
	scan = table_beginscan_strat(opened.table, GetActiveSnapshot(), 1, &key, true, false);
	while (rows < most && table_scan_getnextslot(scan, ForwardScanDirection, opened.slot))
	{
		CHECK_FOR_INTERRUPTS();
		rows++;
	}
	table_endscan(scan);
	close_leaf(opened);
	return rows;
}

static Stretch
stretch_of(const Table *table, Numbers set)
{
	return (Stretch) {key_ranges(set, table->proof->reading.is_uuid), set.count};
}

/* Return the number of rows of a leaf in some ranges, up to a limit */
static int64
count_rows(const Table *table, int leaf, const Stretch *stretch, int64 most)
{
	Cursor	   *cursor;
	int64		rows = 0;

	if (stretch->count == 0)
		return 0;
	cursor = open_cursor(table->proof, leaf, stretch, true);
	for (; rows < most && find_visible(cursor); rows++)
		next_entry(cursor);
	close_cursor(cursor);
	return rows;
}

static Numbers
value_numbers(Value numbers)
{
	return numbers_of(DatumGetMultirangeTypeP(numbers.value));
}

/* Return true if a set includes number 0, and the index is partial and lacks the rows with this number */
static bool
has_old(const Table *table, Numbers set)
{
	return table->reading.is_partial && set.count > 0 && set.ranges[0].low <= 0;
}

static bool
has_all(const Table *table, const MultirangeType *numbers)
{
	return is_bounded(numbers) && !has_old(table, numbers_of(numbers));
}

static bool
can_count(const Table *table, const MultirangeType *numbers)
{
	return is_bounded(numbers) && ((uint64) numbers->rangeCount + 1) * table->proof->leaf_count <= PROBES_MAX;
}

/*
 * Return true if one leaf has rows of these transactions that the active snapshot sees.  Callers pass leaves in about
 * the order of proof->leaves.  The search for a leaf therefore starts after the previous match.  A leaf that is not
 * found is assumed to have rows.
 */
static bool
leaf_has(const Table *table, Oid oid, int *last_match, Datum numbers)
{
	const TableProof *proof = table->proof;
	MultirangeType *set = DatumGetMultirangeTypeP(numbers);

	if (!has_all(table, set))
		return true;
	for (int i = 0; i < proof->leaf_count; i++)
	{
		*last_match = (*last_match + 1) % proof->leaf_count;
		if (proof->leaves[*last_match].oid == oid)
		{
			Stretch		stretch = stretch_of(table, numbers_of(set));

			return count_rows(table, *last_match, &stretch, 1) > 0;
		}
	}
	return true;
}

/* Return an array with an element for each leaf, which is true if the leaf has rows of these transactions */
static bool *
leaves_with(const Table *table, Value numbers)
{
	Stretch		stretch = stretch_of(table, value_numbers(numbers));
	bool	   *has_rows = palloc0(sizeof(bool) * table->proof->leaf_count);

	PushActiveSnapshot(GetTransactionSnapshot());
	for (int i = 0; i < table->proof->leaf_count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		has_rows[i] = count_rows(table, i, &stretch, 1) > 0;
	}
	PopActiveSnapshot();
	return has_rows;
}

/* leaves_with(t feed_table, leaves oid[], numbers int8multirange[]) -> boolean[] */
Datum
leaves_with_numbers(PG_FUNCTION_ARGS)
{
	Table		table = described_table(fcinfo, -1);
	Datum	   *leaves;
	Datum	   *sets;
	bool	   *is_null;
	int			count;
	int			last_match = 0;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(1), OIDOID, sizeof(Oid), true, TYPALIGN_INT, &leaves, NULL, &count);
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(2), INT8MULTIRANGEOID, -1, false, TYPALIGN_DOUBLE, &sets, &is_null, &count);
	for (int i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		leaves[i] = BoolGetDatum(is_null[i] || leaf_has(&table, DatumGetObjectId(leaves[i]), &last_match, sets[i]));
	}
	PG_RETURN_ARRAYTYPE_P(construct_array(leaves, count, BOOLOID, 1, true, TYPALIGN_CHAR));
}

/*
 * parts_with_rows(t feed_table, numbers int8multirange) -> text
 *
 * Derive from partition bounds a condition that all rows of these transactions satisfy; null to read all partitions.
 * The transactions must have ended.
 */
Datum
parts_with_rows(PG_FUNCTION_ARGS)
{
	Table		table = described_table(fcinfo, -1);
	Value		numbers = argument_value(fcinfo, 1, INT8MULTIRANGEOID);
	Parts	   *parts = &table.proof->parts;

	if (table.proof->leaf_count < MANY_LEAVES || !has_all(&table, DatumGetMultirangeTypeP(numbers.value)))
		PG_RETURN_NULL();
	if (!parts_are_known(parts, numbers_of(DatumGetMultirangeTypeP(numbers.value))))
		keep_parts(&table, numbers, leaves_with(&table, numbers));
	if (parts->condition == NULL)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(CStringGetTextDatum(parts->condition));
}

/*
 * Return the number of rows of these transactions in the indexes, up to a limit.  If "counts_old" is true, the function
 * instead counts the rows with number 0, which partial indexes lack.
 */
static int64
sum_of_leaves(const Table *table, Numbers set, bool counts_old, int64 most)
{
	Stretch		stretch = stretch_of(table, set);
	int64		rows = 0;

	PushActiveSnapshot(GetTransactionSnapshot());
	for (int i = 0; i < table->proof->leaf_count && rows < most; i++)
		rows += counts_old ? count_old(table, i, most - rows) : count_rows(table, i, &stretch, most - rows);
	PopActiveSnapshot();
	return rows;
}

/*
 * Find out whether a table has rows of these transactions, and whether it has
 * rows with numbers that no transaction has had yet.  If the table has many
 * partitions, store which of them have rows of these transactions.
 */
ProbeResult
probe_table(const Table *table, Value numbers)
{
	Numbers		set = value_numbers(numbers);
	uint64		next_id = U64FromFullTransactionId(ReadNextFullTransactionId());
	Range		beyond = {(int64) xact_plus_base(next_id, table->proof->reading.base), PG_INT64_MAX};
	bool		is_uuid = table->proof->reading.is_uuid;
	KeyRange   *ranges = key_ranges(set, is_uuid);
	ProbeResult probe = {false, false};
	bool		has_old_rows = has_old(table, set);
	bool		keeps_parts = !has_old_rows && table->proof->leaf_count >= MANY_LEAVES;
	bool	   *has_rows = palloc0(sizeof(bool) * table->proof->leaf_count);

	ranges[set.count] = key_range(beyond, is_uuid); /* all numbers of the set are below this range */
	for (int i = 0; i < table->proof->leaf_count; i++)
	{
		int			skipped = keeps_parts || !probe.has_rows ? 0 : set.count;
		Cursor	   *cursor = open_cursor(table->proof, i, &(Stretch) {ranges + skipped, set.count - skipped + 1}, true);

		has_rows[i] = find_visible(cursor) && cursor->range_count > 1;
		if (has_rows[i])
		{
			skip_ranges(cursor, cursor->range_count - 1);
			(void) find_visible(cursor);
		}
		probe.has_rows = probe.has_rows || has_rows[i];
		probe.has_beyond = probe.has_beyond || cursor->place != NULL;
		close_cursor(cursor);
	}
	if (keeps_parts && probe.has_rows)
		keep_parts(table, numbers, has_rows);
	probe.has_rows = probe.has_rows || (has_old_rows && sum_of_leaves(table, set, true, 1) > 0);
	return probe;
}

/* probe(t feed_table, numbers int8multirange) -> boolean[] */
Datum
probe_numbers(PG_FUNCTION_ARGS)
{
	Table		table = described_table(fcinfo, -1);
	Value		numbers = argument_value(fcinfo, 1, INT8MULTIRANGEOID);
	ProbeResult	probe;

	if (!is_bounded(DatumGetMultirangeTypeP(numbers.value)))
		PG_RETURN_NULL();
	probe = probe_table(&table, numbers);
	PG_RETURN_ARRAYTYPE_P(construct_array((Datum[]) {BoolGetDatum(probe.has_rows), BoolGetDatum(probe.has_beyond)}, 2,
										  BOOLOID, 1, true, TYPALIGN_CHAR));
}

/*
 * Return the number of rows of these transactions, up to a limit.  The rows in the indexes are counted first.  If these
 * rows are fewer than the limit, the rows at the beginning of the table, which partial indexes lack, are also counted.
 */
static int64
probe_count(const Table *table, Numbers set, int64 most)
{
	int64		rows = sum_of_leaves(table, set, false, most);

	return has_old(table, set) ? rows + sum_of_leaves(table, set, true, most - rows) : rows;
}

/*
 * Return the number of rows of these transactions that the active snapshot sees in a table without partitions, up to a
 * limit.  If the index does not contain all of these rows, the result is the limit.
 */
int64
count_seen(const Table *table, Numbers set, int64 most)
{
	Stretch		stretch = stretch_of(table, set);

	return has_old(table, set) ? most : count_rows(table, 0, &stretch, most);
}

/* count_by_index(t feed_table, numbers int8multirange, most bigint) -> bigint */
Datum
count_by_index(PG_FUNCTION_ARGS)
{
	Table		table = described_table(fcinfo, -1);
	MultirangeType *numbers = PG_GETARG_MULTIRANGE_P(1);

	if (!can_count(&table, numbers))
		PG_RETURN_NULL();
	PG_RETURN_INT64(probe_count(&table, numbers_of(numbers), PG_GETARG_INT64(2)));
}
