"""Yao's fringe analysis of how the leaf pages of a btree fill and split under random keys.

After N random keys, the next key falls into each of the N gaps with the same probability. A page with k entries
therefore receives the next key with probability k/N. The expected numbers of pages with k entries follow a linear
differential equation in ln N. docs/results/waves-18.md compares this analysis with measurements. The functions are
pure.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from inorder.lab.analysis.model import BTREE_PAGE_FIXED, LINE_POINTER, PAGE, index_tuple, leaf_capacity

Pages = npt.NDArray[np.float64]

STEPS = 3  # integration steps while a full page receives one entry on average
RANDOM = "random"


def density(entries: float) -> float:
    """Return the leaf density, in percent, of pages with an average of ``entries`` entries and a high key.

    >>> round(density(leaf_capacity(RANDOM)), 1)
    100.0
    """
    return 100 * (entries + 1) * (index_tuple(RANDOM) + LINE_POINTER) / (PAGE - BTREE_PAGE_FIXED)


def built_entries(fillfactor: int) -> int:
    """Return the number of entries in a leaf page that CREATE INDEX has filled up to ``fillfactor``.

    The last entry of a full page is moved to the next page, and a copy of it becomes the high key of the full page
    (_bt_buildadd in nbtsort.c).

    >>> [built_entries(fillfactor) for fillfactor in (70, 90, 100)]
    [203, 261, 290]
    """
    entry, free = index_tuple(RANDOM) + LINE_POINTER, PAGE * (100 - fillfactor) // 100
    return min(leaf_capacity(RANDOM), (PAGE - BTREE_PAGE_FIXED - LINE_POINTER - free) // entry)


def change(pages: Pages, capacity: int) -> Pages:
    """Return the change in the number of pages with 0 to ``capacity`` entries, per unit of ln N.

    A full page splits in the middle.
    """
    moving = pages * np.arange(capacity + 1)
    gain = -moving
    gain[1:] += moving[:-1]
    for half in ((capacity + 1) // 2, capacity + 1 - (capacity + 1) // 2):
        gain[half] += moving[capacity]
    return gain


@cache
def leaf_pages(start: int, rows: int, sizes: Sequence[int]) -> tuple[float, ...]:
    """Return the expected number of leaf pages at each size of the table in ``sizes``.

    Initially, the table has ``rows`` rows, with ``start`` entries in each leaf page.
    """
    capacity = leaf_capacity(RANDOM)
    pages = np.zeros(capacity + 1)
    pages[start] = rows / start
    expected, grown = [], float(np.log(rows))
    for size in sizes:
        remaining = float(np.log(size)) - grown
        steps = int(np.ceil(remaining * STEPS * capacity))
        for _ in range(steps):
            middle = pages + change(pages, capacity) * (remaining / steps / 2)
            pages = pages + change(middle, capacity) * (remaining / steps)
        grown += remaining
        expected.append(float(pages.sum()))
    return tuple(expected)
