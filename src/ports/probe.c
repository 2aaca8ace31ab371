/*
 * probe.c
 *	  Whether a table has rows of some numbers, by its indexes.
 *
 * Most polls find nothing.  A query that finds nothing has to be planned
 * all the same, over all partitions, which takes 75 ms where there are 1,000:
 * a descent in each index takes a few microseconds.  It runs no code of the
 * owner's: the first column of the index is a uuid or a bigint, compared as
 * the server does (index_of()), and of the row only its visibility is looked at.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/skey.h"
#include "access/table.h"
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
#include "ports/probe.h"
#include "keys/uuid_datum.h"
#include "ports/table.h"

PG_FUNCTION_INFO_V1(probe_numbers);
PG_FUNCTION_INFO_V1(leaves_with_numbers);
PG_FUNCTION_INFO_V1(parts_with_rows);
PG_FUNCTION_INFO_V1(ranges_with_rows);
PG_FUNCTION_INFO_V1(count_by_index);

/* A query is about as fast as counts in so many indexes */
#define PROBES_MAX 4096

static Datum
smallest_key(int64 number, Oid type)
{
	return type == UUIDOID ? uuid_datum(xact_key(number, (XactTail) {0, 0})) : Int64GetDatum(number);
}

static int
scan_keys(ScanKey keys, Range numbers, Oid type)
{
	bool		is_uuid = type == UUIDOID;

	ScanKeyInit(&keys[0], 1, BTGreaterEqualStrategyNumber, is_uuid ? F_UUID_GE : F_INT8GE,
				smallest_key(numbers.low, type));
	if (numbers.high > (int64) XACT_NUMBER_MAX)
		return 1;
	ScanKeyInit(&keys[1], 1, BTLessStrategyNumber, is_uuid ? F_UUID_LT : F_INT8LT, smallest_key(numbers.high, type));
	return 2;
}

/* The table is locked: see lock_tree() in table_proof.c. */
Opened
open_leaf(const Leaf *leaf)
{
	Relation	table = table_open(leaf->oid, NoLock);

	return (Opened) {table, index_open(leaf->index, AccessShareLock), table_slot_create(table, NULL)};
}

void
close_leaf(Opened leaf)
{
	ExecDropSingleTupleTableSlot(leaf.slot);
	index_close(leaf.index, NoLock);
	table_close(leaf.table, NoLock);
}

/* The number of rows of these numbers, at most so many */
static int64
index_count(Opened leaf, Range numbers, int64 most)
{
	ScanKeyData keys[2];
	int			count = scan_keys(keys, numbers, leaf.index->rd_opcintype[0]);
	IndexScanDesc scan = begin_index_scan(leaf.table, leaf.index, GetActiveSnapshot(), count);
	int64		rows = 0;

	index_rescan(scan, keys, count, NULL, 0);
	while (rows < most && index_getnext_slot(scan, ascending(scan), leaf.slot))
	{
		CHECK_FOR_INTERRUPTS();
		rows++;
	}
	index_endscan(scan);
	return rows;
}

/*
 * The number of rows of number 0, which a partial index lacks, up to a limit.
 * Rows that existed before feed_prepare() are at the beginning of the table.
 */
static int64
count_old(Opened leaf, int64 most)
{
	ScanKeyData key;
	TableScanDesc scan;
	int64		rows = 0;

	ScanKeyInit(&key, leaf.index->rd_index->indkey.values[0], BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(0));
	scan = table_beginscan_strat(leaf.table, GetActiveSnapshot(), 1, &key, true, false);
	while (rows < most && table_scan_getnextslot(scan, ForwardScanDirection, leaf.slot))
	{
		CHECK_FOR_INTERRUPTS();
		rows++;
	}
	table_endscan(scan);
	return rows;
}

/* Add the number of rows of one more table */
static int64
count_leaf(Opened leaf, Numbers set, int64 most)
{
	int64		rows = 0;

	for (int i = 0; i < set.count && rows < most; i++)
	{
		CHECK_FOR_INTERRUPTS();
		rows += index_count(leaf, set.ranges[i], most - rows);
	}
	return rows;
}

/*
 * The first range, starting at one, that ends above a number, and is not known
 * to have rows
 */
static int
next_range(Numbers set, const bool *has, int from, int64 number)
{
	while (from < set.count && (has[from] || set.ranges[from].high <= number))
		from++;
	return from;
}

/* The number in the current index entry of a scan */
static int64
entry_number(IndexScanDesc scan)
{
	bool		is_null;
	Datum		key = index_getattr(scan->xs_itup, 1, scan->xs_itupdesc, &is_null);

	if (scan->indexRelation->rd_opcintype[0] == UUIDOID)
		return (int64) xact_key_number(uuid_load(DatumGetUUIDP(key)));
	return DatumGetInt64(key);
}

static void
descend(IndexScanDesc scan, int64 number)
{
	ScanKeyData keys[2];
	int			count = scan_keys(keys, (Range) {number, PG_INT64_MAX}, scan->indexRelation->rd_opcintype[0]);

	index_rescan(scan, keys, count, NULL, 0);
}

/*
 * Which ranges have rows, so many of those that were not known to.  An entry of
 * the index, visible or not, says that there is none below it: most ranges of a
 * set of thousands are passed without a look.  *ended: there is no entry above
 * those that were looked at.
 */
static int64
mark_ranges(IndexScanDesc scan, TupleTableSlot *slot, Numbers set, bool *has, int64 most, bool *ended)
{
	int			at = next_range(set, has, 0, PG_INT64_MIN);
	int			steps = STEPS_MAX;
	int64		marked = 0;

	*ended = false;
	while (at < set.count && marked < most)
	{
		int64		number;

		CHECK_FOR_INTERRUPTS();
		if (steps++ == STEPS_MAX)
		{
			descend(scan, set.ranges[at].low);
			steps = 1;
		}
		if (index_getnext_tid(scan, ascending(scan)) == NULL)
		{
			*ended = true;
			break;
		}
		number = entry_number(scan);
		at = next_range(set, has, at, number);
		if (at == set.count || number < set.ranges[at].low)
			continue;
		has[at] = index_fetch_heap(scan, slot);
		marked += has[at];
		steps = 0;
	}
	return marked;
}

static int64
mark_leaf(Opened leaf, Numbers set, bool *has, int64 most, bool *ended)
{
	int64		marked;
	IndexScanDesc scan = begin_index_scan(leaf.table, leaf.index, GetActiveSnapshot(), 1);

	scan->xs_want_itup = true;
	marked = mark_ranges(scan, leaf.slot, set, has, most, ended);
	index_endscan(scan);
	return marked;
}

/* Ranges of a set, and which of them are known to have rows */
typedef struct RangeSearch
{
	Numbers		set;
	bool	   *has;
	int64		count;
	int64		most;			/* enough ranges were found */
} RangeSearch;

static RangeSearch
new_search(Numbers set, int64 most)
{
	return (RangeSearch) {set, palloc0(sizeof(bool) * (set.count + 1)), 0, most};
}

/*
 * Search one more table.  Once enough ranges are known, those above them are
 * of no use, whatever other tables have.
 */
static void
search_leaf(RangeSearch *search, Opened leaf)
{
	int			enough = 0;
	bool		ended;

	search->count += mark_leaf(leaf, search->set, search->has, search->most, &ended);
	if (search->count < search->most)
		return;
	search->count = 0;
	while (search->count < search->most)
		search->count += search->has[enough++];
	search->set.count = enough;
}

static Numbers
value_numbers(Value numbers)
{
	return numbers_of(DatumGetMultirangeTypeP(numbers.value));
}

/* True if a set has number 0, whose rows a partial index lacks */
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

static bool
has_any(Opened leaf, Numbers set, bool *ended)
{
	bool	   *has = palloc0(sizeof(bool) * (set.count + 1));
	bool		result = mark_leaf(leaf, set, has, 1, ended) > 0;

	pfree(has);
	return result;
}

/*
 * True if one leaf has rows of these transactions that the active snapshot
 * sees.  Callers ask in about the order of proof->leaves, so the search
 * starts after the last hit.  A leaf that is not found is assumed to have
 * rows.
 */
static bool
leaf_has(const Table *table, Oid oid, int *at, Datum numbers)
{
	const TableProof *proof = table->proof;
	MultirangeType *set = DatumGetMultirangeTypeP(numbers);

	if (!has_all(table, set))
		return true;
	for (int i = 0; i < proof->leaf_count; i++)
	{
		Opened		leaf;
		bool		result;
		bool		ended;

		*at = (*at + 1) % proof->leaf_count;
		if (proof->leaves[*at].oid != oid)
			continue;
		leaf = open_leaf(&proof->leaves[*at]);
		result = has_any(leaf, numbers_of(set), &ended);
		close_leaf(leaf);
		return result;
	}
	return true;
}

/* Which leaves have rows of these transactions */
static bool *
leaves_with(const Table *table, Value numbers)
{
	Numbers		set = value_numbers(numbers);
	bool	   *has = palloc0(sizeof(bool) * table->proof->leaf_count);

	PushActiveSnapshot(GetTransactionSnapshot());
	for (int i = 0; i < table->proof->leaf_count; i++)
	{
		Opened		leaf;
		bool		ended;

		CHECK_FOR_INTERRUPTS();
		leaf = open_leaf(&table->proof->leaves[i]);
		has[i] = has_any(leaf, set, &ended);
		close_leaf(leaf);
	}
	PopActiveSnapshot();
	return has;
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
	int			at = 0;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(1), OIDOID, sizeof(Oid), true, TYPALIGN_INT, &leaves, NULL, &count);
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(2), INT8MULTIRANGEOID, -1, false, TYPALIGN_DOUBLE, &sets, &is_null, &count);
	for (int i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		leaves[i] = BoolGetDatum(is_null[i] || leaf_has(&table, DatumGetObjectId(leaves[i]), &at, sets[i]));
	}
	PG_RETURN_ARRAYTYPE_P(construct_array(leaves, count, BOOLOID, 1, true, TYPALIGN_CHAR));
}

/* parts_with_rows(t feed_table, numbers int8multirange) -> text: of transactions that have ended; null for all partitions */
Datum
parts_with_rows(PG_FUNCTION_ARGS)
{
	Table		table = described_table(fcinfo, -1);
	Value		numbers = argument_value(fcinfo, 1, INT8MULTIRANGEOID);
	Parts	   *parts = &table.proof->parts;

	if (table.proof->leaf_count < MANY_LEAVES || !has_all(&table, DatumGetMultirangeTypeP(numbers.value)))
		PG_RETURN_NULL();
	if (!parts_are_known(parts, numbers_of(DatumGetMultirangeTypeP(numbers.value))))
		note_parts(&table, numbers, leaves_with(&table, numbers));
	if (parts->condition == NULL)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(CStringGetTextDatum(parts->condition));
}

/* The number of rows of these transactions in the indexes or, if these are old ones, besides, at most so many */
static int64
sum_of_leaves(const Table *table, Numbers set, bool old, int64 most)
{
	int64		rows = 0;

	PushActiveSnapshot(GetTransactionSnapshot());
	for (int i = 0; i < table->proof->leaf_count && rows < most; i++)
	{
		Opened		leaf = open_leaf(&table->proof->leaves[i]);

		rows += old ? count_old(leaf, most - rows) : count_leaf(leaf, set, most - rows);
		close_leaf(leaf);
	}
	PopActiveSnapshot();
	return rows;
}

/*
 * True if there are rows of these transactions (in which partitions, if there
 * are many), and if there are rows beyond all
 */
ProbeResult
probe_table(const Table *table, Value numbers)
{
	Numbers		set = value_numbers(numbers);
	uint64		next = U64FromFullTransactionId(ReadNextFullTransactionId());
	Range		beyond = {(int64) xact_plus_base(next, table->proof->reading.base), PG_INT64_MAX};
	ProbeResult	probe = {false, false};
	bool		old = has_old(table, set);
	bool		all = !old && table->proof->leaf_count >= MANY_LEAVES;
	bool	   *has = palloc0(sizeof(bool) * table->proof->leaf_count);

	for (int i = 0; i < table->proof->leaf_count; i++)
	{
		Opened		leaf;
		bool		ended = false;

		CHECK_FOR_INTERRUPTS();
		leaf = open_leaf(&table->proof->leaves[i]);
		has[i] = (all || !probe.has_rows) && has_any(leaf, set, &ended);
		probe.has_rows = probe.has_rows || has[i];
		/* All numbers of the set are below those. */
		probe.has_beyond = probe.has_beyond || (!ended && index_count(leaf, beyond, 1) > 0);
		close_leaf(leaf);
	}
	if (all && probe.has_rows)
		note_parts(table, numbers, has);
	probe.has_rows = probe.has_rows || (old && sum_of_leaves(table, set, true, 1) > 0);
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
 * ranges_with_rows(t feed_table, numbers int8multirange, most bigint) -> int8multirange
 *
 * Of a set of transactions that have ended, if an index shows quickly which ranges have rows.
 */
Datum
ranges_with_rows(PG_FUNCTION_ARGS)
{
	Table		table = described_table(fcinfo, -1);
	MultirangeType *ranges = PG_GETARG_MULTIRANGE_P(1);
	RangeSearch search;
	int			count = 0;

	if (ranges->rangeCount < MANY_RANGES || !has_all(&table, ranges))
		PG_RETURN_NULL();
	search = new_search(numbers_of(ranges), PG_GETARG_INT64(2));
	PushActiveSnapshot(GetTransactionSnapshot());
	for (int i = 0; i < table.proof->leaf_count; i++)
	{
		Opened		leaf;

		CHECK_FOR_INTERRUPTS();
		leaf = open_leaf(&table.proof->leaves[i]);
		search_leaf(&search, leaf);
		close_leaf(leaf);
	}
	PopActiveSnapshot();
	for (int i = 0; i < search.set.count; i++)
		if (search.has[i])
			search.set.ranges[count++] = search.set.ranges[i];
	PG_RETURN_DATUM(numbers_datum((Numbers) {count, search.set.ranges}));
}

/*
 * The indexes are counted first: a table that has few rows there has no
 * others, or begins with them.
 */
static int64
probe_count(const Table *table, Numbers set, int64 most)
{
	int64		rows = sum_of_leaves(table, set, false, most);

	return has_old(table, set) ? rows + sum_of_leaves(table, set, true, most - rows) : rows;
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
