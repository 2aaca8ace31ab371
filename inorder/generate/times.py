"""Times as ticks, and the increasing times of a data set. This module reads no clock and draws no random numbers.

A tick is the time unit of a version-1 UUID: 100 ns, counted from the start of the Gregorian calendar, 1582-10-15.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
EPOCH = datetime(1582, 10, 15, tzinfo=UTC)
TICKS_PER_MICROSECOND = 10
TICKS_PER_SECOND = 10**7
TICKS_PER_DAY = 86400 * TICKS_PER_SECOND
TICKS_TO_1970 = 0x01B21DD213814000  # RFC 9562, section 6.1


def ticks_of(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1) * TICKS_PER_MICROSECOND


@dataclass(frozen=True)
class Times:
    """A number of increasing times, spread evenly over a span of ticks, with jitter.

    The span is divided into ``count`` cells, and a random tick is drawn from each cell. The times increase strictly if
    no cell is empty (span >= count), and are consecutive ticks if span == count.
    """

    first: int
    span: int
    count: int

    def borders(self, begin: int, size: int) -> Words:
        """Return the first time of each cell of the chunk that starts at ``begin``, and the end of the last cell.

        Cell i starts at first + i * span // count. The product i * span needs up to 100 bits. The part that all cells
        of the chunk have in common is computed with Python's integers. The remainder fits into 64 bits.
        """
        ordinals = np.arange(size + 1, dtype=np.uint64)
        base, begun = divmod(begin * self.span, self.count)
        quotient, remainder = divmod(self.span, self.count)
        shares = (ordinals * np.uint64(remainder) + np.uint64(begun)) // np.uint64(self.count)
        return ordinals * np.uint64(quotient) + shares + np.uint64(self.first + base)

    def chunk(self, begin: int, random: Words) -> Words:
        """Return the times from ``begin`` on, one for each random word.

        The upper 53 bits of a word are a fraction of at most 1 - 2^-53. The product of the fraction and a width is less
        than the width, even after rounding: the difference is at least half a unit in the last place.
        """
        borders = self.borders(begin, len(random))
        widths = np.diff(borders)
        return borders[:-1] + ((random >> np.uint64(11)) * 2.0**-53 * widths).astype(np.uint64)
