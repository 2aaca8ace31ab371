/*
 * uuid_layout.h
 *	  The layout of the bits of every key.
 *
 * The functions of this file only compute: they allocate no memory, report no
 * error, read no clock and draw no random number.  Callers pass time and random
 * bits.  A key is two 64-bit words whose big-endian bytes are the UUID.  Comparing
 * (high, low) as numbers therefore gives the same order as the server's memcmp()
 * of the 16 bytes.
 *
 *	  high  bits 63..16  first 48 bits      low  bits 63..62  variant, 10
 *			bits 15..12  version				 bits 61..0   last 62 bits
 *			bits 11..0	 next 12 bits
 *
 * See RFC 9562, sections 4 (variant, version), 5.7 (version 7) and 5.8 (version 8).
 */
#ifndef INORDER_UUID_LAYOUT_H
#define INORDER_UUID_LAYOUT_H

#include "port/pg_bswap.h"
#include "utils/uuid.h"

#define LOW_BITS(n)			((UINT64CONST(1) << (n)) - 1)

#define UUID_FIELD48_MAX	LOW_BITS(48)
#define UUID_FIELD12_MAX	LOW_BITS(12)
#define UUID_FIELD62_MAX	LOW_BITS(62)
#define UUID_VARIANT_RFC	(UINT64CONST(2) << 62)

/* From the Unix epoch to the epoch of timestamptz, 2000-01-01: 10957 days */
#define POSTGRES_EPOCH_US	(INT64CONST(10957) * 86400 * 1000000)

#define UUID_VERSION_RANDOM 4
#define UUID_VERSION_TIME	7
#define UUID_VERSION_CUSTOM 8

typedef struct UuidWords
{
	uint64		high;
	uint64		low;
} UuidWords;

static inline void
uuid_store(pg_uuid_t *uuid, UuidWords words)
{
	uint64		high = pg_hton64(words.high);
	uint64		low = pg_hton64(words.low);

	memcpy(uuid->data, &high, sizeof(high));
	memcpy(uuid->data + sizeof(high), &low, sizeof(low));
}

static inline UuidWords
uuid_load(const pg_uuid_t *uuid)
{
	UuidWords	words;

	memcpy(&words.high, uuid->data, sizeof(words.high));
	memcpy(&words.low, uuid->data + sizeof(words.high), sizeof(words.low));
	words.high = pg_ntoh64(words.high);
	words.low = pg_ntoh64(words.low);
	return words;
}

/* Set the version bits and the variant bits. */
static inline UuidWords
uuid_stamp(UuidWords words, unsigned version)
{
	words.high = (words.high & ~UINT64CONST(0xF000)) | ((uint64) version << 12);
	words.low = (words.low & UUID_FIELD62_MAX) | UUID_VARIANT_RFC;
	return words;
}

static inline bool
uuid_is_version(UuidWords words, unsigned version)
{
	return ((words.high >> 12) & 0xF) == version &&
		(words.low & ~UUID_FIELD62_MAX) == UUID_VARIANT_RFC;
}

/* Compose a key from three fields of 48, 12 and 62 bits. */
static inline UuidWords
uuid_compose(uint64 field48, uint64 field12, uint64 field62, unsigned version)
{
	UuidWords	words = {field48 << 16 | field12, field62};

	return uuid_stamp(words, version);
}

/* ---------------------------------------------------------------------------
 * Blocks: a wrapping block number, then random bits (version 8)
 * ---------------------------------------------------------------------------
 */

/*
 * (position / size) mod count, where division and modulo round towards minus infinity.  If division and modulo rounded
 * towards 0, block 0 would contain the positions from 1 - size to size - 1, about twice as many as any other block.
 * Positions are negative for a descending sequence, and for a clock before 1970.
 */
static inline uint32
block_number(int64 position, int32 size, int32 count)
{
	int64		block = position / size - (position % size < 0);
	int64		wrapped = block % count;

	return (uint32) (wrapped < 0 ? wrapped + count : wrapped);
}

/*
 * Return the number of bytes that are needed for the numbers 0 .. count - 1:
 *
 *	  count		1	2..256	..65536  ..2^24  ..2^31-1
 *	  bytes		0	   1	   2	    3	    4
 *
 * The loop ends after at most four rounds, because each round removes eight bits
 * of a 31-bit number.
 */
static inline int
block_prefix_bytes(int32 count)
{
	int			bytes = 0;

	for (uint32 last = (uint32) count - 1; last > 0; last >>= 8)
		bytes++;
	return bytes;
}

static inline UuidWords
block_key(uint32 block, int prefix_bytes, UuidWords random)
{
	int			prefix_bits = 8 * prefix_bytes;

	if (prefix_bits > 0)
		random.high = (uint64) block << (64 - prefix_bits) | random.high >> prefix_bits;
	return uuid_stamp(random, UUID_VERSION_CUSTOM);
}

/* ---------------------------------------------------------------------------
 * Version 7: 48 bits of Unix milliseconds, 12 bits of fraction, 62 other bits
 * ---------------------------------------------------------------------------
 *
 * A tick is the number milliseconds * 4096 + fraction, which has 60 bits (RFC
 * 9562, section 6.2, method 3).
 */
#define V7_TICKS_PER_MS		4096
#define V7_US_MAX			((int64) (UUID_FIELD48_MAX * 1000 + 999))
#define V7_RANGE_TEXT		"1970-01-01 00:00:00+00 to 10889-08-02 05:31:50.655999+00"

/*
 * Convert microseconds since 1970 to a tick.
 *
 * The result is the first tick of the microsecond, and v7_tick_us() converts it to the same microsecond.  Each
 * microsecond contains 4 or 5 of the 4096 ticks of a millisecond.
 *
 *	  us in the ms	   0   1   2   3  ...  999
 *	  first tick	   0   5   9  13  ... 4092
 */
static inline uint64
v7_us_tick(int64 us)
{
	uint64		ms = (uint64) us / 1000;
	uint64		fraction = ((uint64) us % 1000 * V7_TICKS_PER_MS + 999) / 1000;

	return ms * V7_TICKS_PER_MS + fraction;
}

/* Convert a tick to microseconds since 1970, rounded down. */
static inline int64
v7_tick_us(uint64 tick)
{
	return (int64) (tick / V7_TICKS_PER_MS * 1000 +
					tick % V7_TICKS_PER_MS * 1000 / V7_TICKS_PER_MS);
}

/* Return the tick of a clock time, with a resolution of a quarter of a microsecond. */
static inline uint64
v7_clock_tick(int64 seconds, int32 nanoseconds)
{
	return v7_us_tick(seconds * 1000000 + nanoseconds / 1000) + nanoseconds % 1000 / 250;
}

/*
 * The last key of a session.  Tick 0, the first tick of 1970, means that there is
 * no key yet.
 */
typedef struct V7State
{
	uint64		tick;
	uint64		tail;			/* the last bits, 62 in version 7 */
} V7State;

/*
 * Compute the next key, which is always greater than the last key.
 *
 * A key that consists of the clock and random bits would not always be greater.  Several calls may share a tick (six
 * calls, at 25 million calls a second), and the clock may step back.  If the tick is not newer than the tick of the
 * last key, the last bits are therefore increased by a random step.  Version 7 has 62 such bits, and a step is at most
 * 2^48, so that the bits overflow after 2^14 steps at the earliest.  When they overflow, the tick is increased by one,
 * that is, by 244 ns.
 */
#define V7_TAIL_BITS 62
#define V7_STEPS_BITS 14

static inline void
v7_advance(V7State *last, uint64 tick, uint64 random, int tail_bits)
{
	if (likely(tick > last->tick))
	{
		last->tick = tick;
		last->tail = random & LOW_BITS(tail_bits);
		return;
	}

	last->tail += (random & LOW_BITS(tail_bits - V7_STEPS_BITS)) + 1;
	if (last->tail > LOW_BITS(tail_bits))
	{
		last->tick++;
		last->tail = random & LOW_BITS(tail_bits);
	}
}

static inline UuidWords
v7_key(uint64 tick, uint64 tail)
{
	return uuid_compose(tick / V7_TICKS_PER_MS, tick % V7_TICKS_PER_MS, tail, UUID_VERSION_TIME);
}

static inline uint64
v7_key_tick(UuidWords key)
{
	return (key.high >> 16) * V7_TICKS_PER_MS + (key.high & UUID_FIELD12_MAX);
}

/* ---------------------------------------------------------------------------
 * Keys that sort after random keys: bits that are 1, then 54 bits of a tick, then random bits (version 8)
 * ---------------------------------------------------------------------------
 *
 * "ones" is the number of leading bits that are 1.  The probability that a random key begins with "ones" bits that are
 * 1 is 2^-ones.  Ticks of 54 bits last until 2109.  The upper bits of the tick are in the first 60 bits of the key, and
 * the lower bits in the last 62.
 */
#define AFTER_ONES_MIN		16
#define AFTER_ONES_MAX		48
#define AFTER_TICK_BITS		54
#define AFTER_SECONDS_MAX	((int64) (LOW_BITS(AFTER_TICK_BITS) / V7_TICKS_PER_MS / 1000))

static inline int
after_tail_bits(int ones)
{
	return 122 - ones - AFTER_TICK_BITS;
}

static inline UuidWords
after_key(int ones, uint64 tick, uint64 tail)
{
	int			tick_low_bits = AFTER_TICK_BITS - (60 - ones);
	uint64		field60 = LOW_BITS(ones) << (60 - ones) | tick >> tick_low_bits;
	uint64		field62 = (tick & LOW_BITS(tick_low_bits)) << after_tail_bits(ones) | tail;

	return uuid_compose(field60 >> 12, field60 & UUID_FIELD12_MAX, field62, UUID_VERSION_CUSTOM);
}

/* ---------------------------------------------------------------------------
 * Transaction order: 48 bits of transaction number, then 74 bits (version 8)
 * ---------------------------------------------------------------------------
 *
 * The 74 bits start below 2^73 and grow by 1 ..  2^43 with each key.  At least
 * 2^30 keys fit into a transaction: 2^73 + 2^30 * 2^43 = 2^74.  If a key is
 * known, the next key can be guessed with probability 2^-43.
 */
#define XACT_NUMBER_MAX		UUID_FIELD48_MAX
#define XACT_STEP_BITS		43

typedef struct XactTail
{
	uint64		high;			/* 12 bits */
	uint64		low;			/* 62 bits */
} XactTail;

static inline XactTail
xact_tail_start(uint64 random_high, uint64 random_low)
{
	XactTail	tail = {random_high & LOW_BITS(11), random_low & UUID_FIELD62_MAX};

	return tail;
}

/*
 * Increase the 74 bits.  Return false when the bits are used up.  All later
 * calls also return false, because the high part only grows.
 */
static inline bool
xact_tail_advance(XactTail *tail, uint64 random)
{
	tail->low += (random & LOW_BITS(XACT_STEP_BITS)) + 1;
	tail->high += tail->low >> 62;
	tail->low &= UUID_FIELD62_MAX;
	return tail->high <= UUID_FIELD12_MAX;
}

static inline UuidWords
xact_key(uint64 number, XactTail tail)
{
	return uuid_compose(number, tail.high, tail.low, UUID_VERSION_CUSTOM);
}

static inline uint64
xact_key_number(UuidWords key)
{
	return key.high >> 16;
}

#endif							/* INORDER_UUID_LAYOUT_H */
