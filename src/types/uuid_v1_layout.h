/*
 * uuid_v1_layout.h
 *	  The layout of version-1 UUIDs, with the time first, and their text form.
 *
 * The functions of this file only compute, like those of uuid_layout.h.  In memory
 * and on disk a value has the size of a uuid, and the server's functions for uuid
 * compare and hash it.  A value consists of two words:
 *
 *	  high	60 bits		ticks of 100 ns since 1582-10-15 00:00:00 UTC
 *	  low	14 bits		clock sequence, without the variant
 *			48 bits		node
 *
 * The standard form begins with the low half of the time (RFC 9562, section 5.1):
 *
 *	  high	32 time_low | 16 time_mid | 4 version, 1 | 12 time_high
 *	  low	2 variant, 10 | 14 clock sequence | 48 node
 */
#ifndef INORDER_UUID_V1_LAYOUT_H
#define INORDER_UUID_V1_LAYOUT_H

#include "keys/uuid_layout.h"

#define UUID_VERSION_TIME_LOW_FIRST 1

#define V1_TICKS_PER_US		10
#define V1_TICKS_PER_SECOND INT64CONST(10000000)
#define V1_TICK_MAX			LOW_BITS(60)
#define V1_REST_MAX			LOW_BITS(62)
#define V1_NODE_MAX			LOW_BITS(48)
#define V1_CLOCKSEQ_MAX		LOW_BITS(14)

/* 1582-10-15 to 1970-01-01: 141427 days (RFC 9562, section 5.1: 0x01B21DD213814000 ticks) */
#define V1_UNIX_EPOCH_US	(INT64CONST(141427) * 86400 * 1000000)
#define V1_POSTGRES_EPOCH_US (V1_UNIX_EPOCH_US + POSTGRES_EPOCH_US)

/* The last microsecond since 1582 that a value can hold: 5236-03-31 21:21:00.684697 UTC */
#define V1_US_MAX			((int64) (V1_TICK_MAX / V1_TICKS_PER_US))

#define V1_RANGE_TEXT "1582-10-15 00:00:00+00 to 5236-03-31 21:21:00.684697+00"

/*
 * A time that is later than the times of all values.  In the plan of a query,
 * this time is the bound for timestamps later than all values.  No input
 * function returns this time, and binary output and casts refuse it.
 */
#define V1_ABOVE_ALL		(V1_TICK_MAX + 1)

#define UUID_TEXT_LENGTH	36

static inline uint64
v1_rest(uint64 clockseq, uint64 node)
{
	return clockseq << 48 | node;
}

static inline UuidWords
v1_from_words(UuidWords words)
{
	UuidWords	value = {
		(words.high & UUID_FIELD12_MAX) << 48 | ((words.high >> 16) & 0xFFFF) << 32 | words.high >> 32,
		words.low & UUID_FIELD62_MAX
	};

	return value;
}

static inline UuidWords
v1_to_words(UuidWords value)
{
	UuidWords	words = {
		value.high << 32 | ((value.high >> 32) & 0xFFFF) << 16 | value.high >> 48,
		value.low
	};

	return uuid_stamp(words, UUID_VERSION_TIME_LOW_FIRST);
}

/* The last value of a session */
typedef struct V1State
{
	uint64		clock;			/* last reading of the clock */
	uint64		tick;			/* last tick used: equal to the clock, or ahead of it */
	uint64		clockseq;
	uint64		node;
} V1State;

/*
 * Compute the next value.
 *
 * If the session has already used the current tick, the value gets the next unused
 * tick.  At 25 million calls a second, 2.5 ticks are
 * used every 100 ns, and the ticks get ahead of the clock.  If the clock has
 * stepped back, a new clock sequence begins, in which the ticks have not been used
 * (RFC 9562, section 5.1).  The two cases are distinguished by the last reading of
 * the clock, not by the last tick that was used.
 */
static inline void
v1_advance(V1State *last, uint64 clock)
{
	if (unlikely(clock < last->clock))
	{
		last->clockseq = (last->clockseq + 1) & V1_CLOCKSEQ_MAX;
		last->tick = clock;
	}
	else
		last->tick = clock > last->tick ? clock : last->tick + 1;
	last->clock = clock;
}

/* ---------------------------------------------------------------------------
 * Hexadecimal digits, eight at a time in one word
 * ---------------------------------------------------------------------------
 *
 * Each byte of a word is one character; the first character is the most
 * significant byte.  No sum below carries into the next byte, since both addends
 * are at most 0x7F in each byte.
 */
#define EACH_BYTE(b)		(UINT64CONST(0x0101010101010101) * (b))

static inline uint64
load_characters(const char *text)
{
	uint64		word;

	memcpy(&word, text, sizeof(word));
	return pg_ntoh64(word);
}

/* Load two groups of four characters that are not adjacent */
static inline uint64
load_characters_around(const char *first, const char *second)
{
	uint32		halves[2];

	memcpy(&halves[0], first, sizeof(halves[0]));
	memcpy(&halves[1], second, sizeof(halves[1]));
	return (uint64) pg_ntoh32(halves[0]) << 32 | pg_ntoh32(halves[1]);
}

/*
 * Return the value of eight hexadecimal digits.  Bits of *bad are set if a character is not a digit.
 *
 *	  character		 c ^ '0'				 (c | 0x20) ^ 0x60
 *	  '0'..'9'		 0x00..0x09				 0x50..0x59
 *	  'A'..'F'		 0x71..0x76				 0x01..0x06
 *	  'a'..'f'		 0x51..0x56				 0x01..0x06
 *
 * No other character has 0x00..0x09 in the first column or 0x01..0x06 in the
 * second.
 */
static inline uint32
digits_value(uint64 characters, uint64 *bad)
{
	uint64		ascii = characters & EACH_BYTE(0x7F);
	uint64		as_digit = ascii ^ EACH_BYTE(0x30);
	uint64		as_letter = (ascii | EACH_BYTE(0x20)) ^ EACH_BYTE(0x60);
	uint64		no_digit = as_digit + EACH_BYTE(0x80 - 10);
	uint64		letter = (as_letter + EACH_BYTE(0x80 - 1)) & ~(as_letter + EACH_BYTE(0x80 - 7)) & EACH_BYTE(0x80);
	uint64		value;

	*bad |= (characters | (no_digit & ~letter)) & EACH_BYTE(0x80);
	value = (ascii & EACH_BYTE(0x0F)) + (letter >> 7) * 9;
	value = (value >> 4 | value) & UINT64CONST(0x00FF00FF00FF00FF);
	value = (value >> 8 | value) & UINT64CONST(0x0000FFFF0000FFFF);
	return (uint32) (value >> 16 | value);
}

/* Return the eight hexadecimal digits of a number, in lower case */
static inline uint64
value_digits(uint32 number)
{
	uint64		value = number;

	value = (value << 16 | value) & UINT64CONST(0x0000FFFF0000FFFF);
	value = (value << 8 | value) & UINT64CONST(0x00FF00FF00FF00FF);
	value = (value << 4 | value) & EACH_BYTE(0x0F);
	/* The digits of 10..15 need 39 more: 'a' - '0' - 10. */
	return value + EACH_BYTE('0') + ((value + EACH_BYTE(0x80 - 10)) >> 7 & EACH_BYTE(1)) * 39;
}

/* Convert 32 digits, given as pointers to their groups, to words.  Return false if a character is not a digit. */
static inline bool
words_from_digits(const char *low, const char *mid, const char *high, const char *clockseq, const char *node,
				  UuidWords *words)
{
	uint64		bad = 0;
	uint32		parts[4];

	parts[0] = digits_value(load_characters(low), &bad);
	parts[1] = digits_value(load_characters_around(mid, high), &bad);
	parts[2] = digits_value(load_characters_around(clockseq, node), &bad);
	parts[3] = digits_value(load_characters(node + 4), &bad);
	words->high = (uint64) parts[0] << 32 | parts[1];
	words->low = (uint64) parts[2] << 32 | parts[3];
	return bad == 0;
}

static inline void
store_characters(char *text, uint64 characters)
{
	characters = pg_hton64(characters);
	memcpy(text, &characters, sizeof(characters));
}

/* Write the standard text form: 36 characters, and a zero byte */
static inline void
words_to_text(UuidWords words, char *text)
{
	uint64		middle = value_digits((uint32) words.high);
	uint64		next = value_digits((uint32) (words.low >> 32));
	char		groups[16];

	store_characters(groups, middle);
	store_characters(groups + 8, next);
	store_characters(text, value_digits((uint32) (words.high >> 32)));
	text[8] = '-';
	memcpy(text + 9, groups, 4);
	text[13] = '-';
	memcpy(text + 14, groups + 4, 4);
	text[18] = '-';
	memcpy(text + 19, groups + 8, 4);
	text[23] = '-';
	memcpy(text + 24, groups + 12, 4);
	store_characters(text + 28, value_digits((uint32) words.low));
	text[UUID_TEXT_LENGTH] = '\0';
}

#endif							/* INORDER_UUID_V1_LAYOUT_H */
