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
#include "access/relscan.h"
#include "miscadmin.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "ports/ground.h"
#include "ports/probe.h"
#include "feed/sample.h"

#define SAMPLES 4096			/* even, since it is halved */

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
	while (index_getnext_tid(scan, ForwardScanDirection) != NULL)
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
	uint64		left = ((const Share *) a)->number;
	uint64		right = ((const Share *) b)->number;

	return left < right ? -1 : left > right;
}

/* Sorted, and each number once */
static void
tidy(Sample *sample)
{
	int			last = 0;

	if (sample->count == 0)
		return;
	qsort(sample->shares, sample->count, sizeof(Share), compare_shares);
	for (int i = 1; i < sample->count; i++)
	{
		if (sample->shares[i].number == sample->shares[last].number)
			sample->shares[last].rows += sample->shares[i].rows;
		else
			sample->shares[++last] = sample->shares[i];
	}
	sample->count = last + 1;
}

static void
add_shares(Sample *sample, const int64 *numbers, int count, int64 rows_each)
{
	Size		size = sizeof(Share) * ((Size) sample->count + count + 1);

	sample->shares = sample->shares == NULL ? palloc(size) : repalloc_huge(sample->shares, size);
	for (int i = 0; i < count; i++)
		sample->shares[sample->count++] = (Share) {(uint64) numbers[i], rows_each};
}

/* Where the numbers of every so many rows are known */
Sample
sample_of(const int64 *numbers, int count, int64 rows_each)
{
	Sample		sample = {NULL, 0};

	add_shares(&sample, numbers, count, rows_each);
	tidy(&sample);
	return sample;
}

/* Of the rows of these transactions, by the index of each table */
Sample
sample_by_index(const Table *table, Value numbers)
{
	Numbers		set = numbers_of(DatumGetMultirangeTypeP(numbers.value));
	Sieve	   *sieve = palloc(sizeof(Sieve));
	Sample		sample = {NULL, 0};

	PushActiveSnapshot(GetTransactionSnapshot());
	for (int i = 0; i < table->ground->leaf_count; i++)
	{
		Opened		leaf = open_leaf(&table->ground->leaves[i]);

		sieve->passed = sieve->count = 0;
		sieve->stride = 1;
		sift(sieve, leaf, set.ranges, set.count);
		add_shares(&sample, sieve->kept, sieve->count, sieve->stride);
		close_leaf(leaf);
	}
	PopActiveSnapshot();
	tidy(&sample);
	return sample;
}
