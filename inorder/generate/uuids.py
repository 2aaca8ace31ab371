"""The values of a data set, as arrays of 64-bit words, in chunks. The same data set always has the same values.

Every value takes the same number of draws from each stream, so the values do not depend on the chunk size. The streams
are raw PCG64 words, which numpy promises not to change.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import PCG64, SeedSequence

from inorder.generate.times import TICKS_TO_1970, Times, Words

KINDS = ("uuid-v1", "uuid-v7", "uuid-v4")
CHUNK = 1 << 15  # values; by measurement, 2^13 to 2^16 are equally fast, and 2^18 is 8 % slower

VARIANT = np.uint64(0b10 << 62)
LAST_62_BITS = np.uint64((1 << 62) - 1)
MULTICAST = 1 << 40  # set in node ids that are not MAC addresses (RFC 9562, section 6.10)
V7_TICKS_PER_MS = 4096


@dataclass(frozen=True)
class DataSet:
    """A data set. ``lag`` is the lag of the last node's clock in ticks; the first clock does not lag."""

    kind: str
    times: Times
    nodes: int = 9
    lag: int = 0
    seed: int = 1


@dataclass(frozen=True)
class Fleet:
    """The nodes. Each has the low word of its version-1 UUIDs, and the lag of its clock in ticks."""

    low: Words
    lag: Words

    def chosen(self, random: Words) -> Words:
        """Return the number of the node that generates each value: the upper half of a random word, scaled.

        >>> fleet = Fleet(np.zeros(9, np.uint64), np.zeros(9, np.uint64))
        >>> fleet.chosen(np.array([0, 2**63, 2**64 - 1], np.uint64)).tolist()
        [0, 4, 8]
        """
        numbers: Words = (random >> np.uint64(32)) * np.uint64(len(self.low)) >> np.uint64(32)
        return numbers


def draw_fleet(nodes: int, lag: int, random: PCG64) -> Fleet:
    """Create nodes with random clock sequences and distinct random ids. Each id has the multicast bit set."""
    clock_sequences: dict[int, int] = {}
    # A repeated id is drawn again. The probability of a repetition among 1,000 ids is 2^-28.
    while len(clock_sequences) < nodes:
        word = int(random.random_raw())
        clock_sequences[word & ((1 << 48) - 1) | MULTICAST] = word >> 50
    low = [int(VARIANT) | sequence << 48 | node for node, sequence in clock_sequences.items()]
    return Fleet(np.array(low, np.uint64), np.linspace(0, lag, nodes).round().astype(np.uint64))


def v1_high(times: Words) -> Words:
    """Return the high word of version 1: time_low, time_mid, version, time_high (RFC 9562, section 5.1).

    >>> hex(v1_high(np.array([0x1E8_9265_FB2893AE], np.uint64))[0])
    '0xfb2893ae926511e8'
    """
    time_mid: Words = times >> np.uint64(16) & np.uint64(0xFFFF0000)
    time_high: Words = times >> np.uint64(48)
    return times << np.uint64(32) | time_mid | time_high | np.uint64(0x1000)


def v7_high(times: Words) -> Words:
    """Return the high word of version 7: milliseconds, version, and the fraction of the millisecond in 4096ths.

    The fraction is computed as in the extension (``v7_clock_tick`` in uuid_layout.h): the first 4096th that begins in
    the microsecond, plus the elapsed quarters of the microsecond. uuid_v7_time() therefore returns exactly this
    microsecond.

    >>> moment = TICKS_TO_1970 + 0x0123456789AB * 10_000
    >>> [hex(word) for word in v7_high(np.array([moment, moment + 10, moment + 19, moment + 9999], np.uint64))]
    ['0x123456789ab7000', '0x123456789ab7005', '0x123456789ab7008', '0x123456789ab7fff']
    """
    since = times - np.uint64(TICKS_TO_1970)
    microseconds = since // np.uint64(10)
    quarters = (since - microseconds * np.uint64(10)) * np.uint64(2) // np.uint64(5)
    ms = microseconds // np.uint64(1000)
    within = microseconds - ms * np.uint64(1000)
    fraction = (within * np.uint64(V7_TICKS_PER_MS) + np.uint64(999)) // np.uint64(1000) + quarters
    return ms << np.uint64(16) | fraction | np.uint64(0x7000)


def random_low(random: Words) -> Words:
    return random & LAST_62_BITS | VARIANT


def v4_words(random: Words) -> tuple[Words, Words]:
    """Return the words of version 4, made from two random words.

    >>> [hex(word[0]) for word in v4_words(np.array([2**64 - 1, 0], np.uint64))]
    ['0xffffffffffff4fff', '0x8000000000000000']
    """
    pairs = random.reshape(-1, 2)
    return pairs[:, 0] & np.uint64(0xFFFFFFFFFFFF0FFF) | np.uint64(0x4000), random_low(pairs[:, 1])


def chunks(data_set: DataSet, size: int = CHUNK) -> Iterator[tuple[Words, Words]]:
    """Yield the high and low words of all values, in the order of generation (by true time).

    Times have their own stream. With the same seed, version 7 therefore has the same times as version 1.
    """
    streams = [PCG64(sequence) for sequence in SeedSequence(data_set.seed).spawn(4)]
    fleet = draw_fleet(data_set.nodes, data_set.lag, streams[0])
    for begin in range(0, data_set.times.count, size):
        length = min(size, data_set.times.count - begin)
        if data_set.kind == "uuid-v4":
            yield v4_words(streams[3].random_raw(2 * length))
            continue
        times = data_set.times.chunk(begin, streams[1].random_raw(length))
        nodes = fleet.chosen(streams[2].random_raw(length))
        times -= fleet.lag[nodes]
        if data_set.kind == "uuid-v7":
            yield v7_high(times), random_low(streams[3].random_raw(length))
        else:
            yield v1_high(times), fleet.low[nodes]
