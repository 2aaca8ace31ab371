/*
 * sample.c
 *	  How the rows of a table are distributed over transactions.
 *
 * The statistics of ANALYZE do not know it: the rows that a reader asks for are
 * mostly newer.  An index entry is passed in 30 to 50 ns, without a look at its
 * row, so all of them are; of each index SAMPLES numbers at most are kept, at
 * even distances.  Entries of rows that are dead are counted, too.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relscan.h"
#include "catalog/pg_type_d.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "ports/probe.h"
#include "ports/table.h"

PG_FUNCTION_INFO_V1(sample_numbers);

#define SAMPLES 4096			/* of an index; even, since it is halved */
#define SHARES_MAX 65536		/* about so many of all indexes */

/* About so many rows are of this transaction, or of it and those before it */
typedef struct Share
{
	int64		number;
	int64		rows;
} Share;

typedef struct Sample
{
	Share	   *shares;			/* at last ascending, each number once */
	int			count;
	int64		rows;
} Sample;

/* Every stride-th of the numbers that have passed */
typedef struct Sieve
{
	int64		passed;
	int64		stride;
	int			count;
	int64		kept[SAMPLES];
} Sieve;

static void
keep(Sieve *sieve, int64 number)
{
	if (++sieve->passed % sieve->stride != 0)
		return;
	if (sieve->count == SAMPLES)
	{
		sieve->count /= 2;
		for (int i = 0; i < sieve->count; i++)
			sieve->kept[i] = sieve->kept[2 * i + 1];
		sieve->stride *= 2;
		if (sieve->passed % sieve->stride != 0)
			return;
	}
	sieve->kept[sieve->count++] = number;
}

/* From a range on, up to a gap that has entries; returns the range after it */
static int
sift_to_gap(Sieve *sieve, IndexScanDesc scan, const Range *ranges, int range, int count)
{
	while (index_getnext_tid(scan, ascending(scan)) != NULL)
	{
		int64		number = entry_number(scan);

		CHECK_FOR_INTERRUPTS();
		while (range < count && ranges[range].high <= number)
			range++;
		if (range == count || number < ranges[range].low)
			return range;
		keep(sieve, number);
	}
	return count;
}

/* As many descents as there are gaps with entries of this index: of 1,000 partitions each has few */
static void
sift(Sieve *sieve, Opened leaf, const Range *ranges, int count)
{
	for (int range = 0; range < count;)
	{
		IndexScanDesc scan = scan_numbers(leaf, (Range) {ranges[range].low, PG_INT64_MAX}, true);

		range = sift_to_gap(sieve, scan, ranges, range, count);
		index_endscan(scan);
	}
}

static int
compare_shares(const void *a, const void *b)
{
	int64		left = ((const Share *) a)->number;
	int64		right = ((const Share *) b)->number;

	return left < right ? -1 : left > right;
}

/* Sorted, and each number once; small ones are part of what follows, so that a thousand indexes make no more shares than one */
static void
tidy(Sample *sample)
{
	int			last = 0;

	if (sample->count == 0)
		return;
	qsort(sample->shares, sample->count, sizeof(Share), compare_shares);
	for (int i = 1; i < sample->count; i++)
	{
		Share		next = sample->shares[i];

		if (next.number == sample->shares[last].number || sample->shares[last].rows + next.rows <= sample->rows / SHARES_MAX)
			sample->shares[last] = (Share) {next.number, sample->shares[last].rows + next.rows};
		else
			sample->shares[++last] = next;
	}
	sample->count = last + 1;
}

static void
add_shares(Sample *sample, const Sieve *sieve)
{
	Size		size = sizeof(Share) * ((Size) sample->count + sieve->count + 1);

	sample->shares = sample->shares == NULL ? palloc(size) : repalloc_huge(sample->shares, size);
	for (int i = 0; i < sieve->count; i++)
		sample->shares[sample->count++] = (Share) {sieve->kept[i], sieve->stride};
	sample->rows += sieve->count * sieve->stride;
}

/* Of the rows of these transactions, by the index of each table */
static Sample
sample_by_index(const Table *table, Numbers set)
{
	Sieve	   *sieve = palloc(sizeof(Sieve));
	Sample		sample = {NULL, 0, 0};

	for (int i = 0; i < table->ground->leaf_count; i++)
	{
		Opened		leaf = open_leaf(&table->ground->leaves[i]);

		sieve->passed = sieve->count = 0;
		sieve->stride = 1;
		sift(sieve, leaf, set.ranges, set.count);
		add_shares(&sample, sieve);
		close_leaf(leaf);
	}
	tidy(&sample);
	return sample;
}

static Datum
array_of(const Sample *sample, bool of_rows)
{
	Datum	   *values = palloc(sizeof(Datum) * (sample->count + 1));

	for (int i = 0; i < sample->count; i++)
		values[i] = Int64GetDatum(of_rows ? sample->shares[i].rows : sample->shares[i].number);
	return PointerGetDatum(construct_array(values, sample->count, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

/* sample(t feed_table, transactions int8multirange, OUT numbers bigint[], OUT rows bigint[]) */
Datum
sample_numbers(PG_FUNCTION_ARGS)
{
	Table		table = described_table(fcinfo, -1);
	TupleDesc	columns;
	Sample		sample;

	if (!table.ordered)
		PG_RETURN_NULL();
	if (get_call_result_type(fcinfo, NULL, &columns) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "sample() returns no row");
	sample = sample_by_index(&table, numbers_of(PG_GETARG_MULTIRANGE_P(1)));
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(columns, (Datum[]) {array_of(&sample, false), array_of(&sample, true)},
													  (bool[]) {false, false})));
}
