/*
 * written.c
 *	  Sets of numbers as text.
 *
 * As the server writes and reads them, but in one piece.  The server takes a
 * kilobyte for the text of each range: 17 ms for 10,000, most of it in the
 * kernel, and 4 ms to read them.  Here both take a quarter of a millisecond.
 * What is not written as the server writes it is left to the server.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/multirangetypes.h"

#include "compat.h"
#include "ports/numbers.h"

PG_FUNCTION_INFO_V1(numbers_text);
PG_FUNCTION_INFO_V1(bounds_text);
PG_FUNCTION_INFO_V1(text_numbers);

/* "[", two numbers, "," between them, ")" and the "," before the next range */
#define RANGE_TEXT_MAX (2 * MAXINT8LEN + 4)
#define RANGE_TEXT_MIN 6

/* More of them are left to the server, too. */
#define RANGES_MAX (MaxAllocSize / 2 / RANGE_TEXT_MAX)

/* No number of 18 digits overflows. */
#define DIGITS_MAX 18

static bool
is_writable(const MultirangeType *set)
{
	return is_bounded(set) && set->rangeCount <= RANGES_MAX;
}

static Size
text_size(Numbers set)
{
	return 2 + (Size) set.count * RANGE_TEXT_MAX;
}

/* Write a set, and return where it ends */
static char *
write_numbers(char *at, Numbers set)
{
	*at++ = '{';
	for (int i = 0; i < set.count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (i > 0)
			*at++ = ',';
		*at++ = '[';
		at += pg_lltoa(set.ranges[i].low, at);
		*at++ = ',';
		at += pg_lltoa(set.ranges[i].high, at);
		*at++ = ')';
	}
	*at++ = '}';
	return at;
}

/* Read a number that is not negative, and the character after it */
static bool
read_number(const char **at, char after, int64 *number)
{
	const char *begin = *at;

	*number = 0;
	while (**at >= '0' && **at <= '9' && *at - begin < DIGITS_MAX)
		*number = *number * 10 + (*(*at)++ - '0');
	return *at > begin && *(*at)++ == after;
}

/* A range above those before it, and not adjacent to them */
static bool
read_range(const char **at, Numbers *set)
{
	Range	   *range = &set->ranges[set->count];

	if (*(*at)++ != '[' || !read_number(at, ',', &range->low) || !read_number(at, ')', &range->high))
		return false;
	if (range->low >= range->high || (set->count > 0 && range->low <= range[-1].high))
		return false;
	set->count++;
	return true;
}

/* Read a set as write_numbers() writes one that has numbers, none of them negative; and where it ends */
static bool
read_numbers(const char **at, Numbers *set)
{
	Size		most = strcspn(*at, "}") / RANGE_TEXT_MIN + 1;

	if (*(*at)++ != '{' || most > MaxAllocSize / sizeof(Range))
		return false;
	*set = (Numbers) {0, palloc(sizeof(Range) * most)};
	do
	{
		CHECK_FOR_INTERRUPTS();
		if ((Size) set->count == most || !read_range(at, set))
			return false;
	} while (*(*at)++ == ',');
	return (*at)[-1] == '}';
}

/* numbers_text(numbers int8multirange) -> text */
Datum
numbers_text(PG_FUNCTION_ARGS)
{
	MultirangeType *numbers = PG_GETARG_MULTIRANGE_P(0);
	Numbers		set;
	char	   *text;

	if (!is_writable(numbers))
		PG_RETURN_TEXT_P(cstring_to_text(OidOutputFunctionCall(F_MULTIRANGE_OUT, MultirangeTypePGetDatum(numbers))));
	set = numbers_of(numbers);
	text = palloc(text_size(set));
	PG_RETURN_TEXT_P(cstring_to_text_with_len(text, write_numbers(text, set) - text));
}

/* bounds_text(numbers int8multirange) -> text: of an array of both bounds of each range */
Datum
bounds_text(PG_FUNCTION_ARGS)
{
	Numbers		set = bounded_argument(fcinfo);
	char	   *written = palloc(text_size(set));
	char	   *at = written;

	*at++ = '{';
	for (int i = 0; i < set.count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (i > 0)
			*at++ = ',';
		at += pg_lltoa(set.ranges[i].low, at);
		*at++ = ',';
		at += pg_lltoa(set.ranges[i].high, at);
	}
	*at++ = '}';
	PG_RETURN_TEXT_P(cstring_to_text_with_len(written, at - written));
}

/* text_numbers(written text) -> int8multirange */
Datum
text_numbers(PG_FUNCTION_ARGS)
{
	char	   *string = text_to_cstring(PG_GETARG_TEXT_PP(0));
	const char *at = string;
	Numbers		set;

	if (read_numbers(&at, &set) && *at == '\0')
		return numbers_datum(set);
	return OidInputFunctionCall(F_MULTIRANGE_IN, string, INT8MULTIRANGEOID, -1);
}
