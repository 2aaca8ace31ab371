"""What VACUUM VERBOSE says of a table's index."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from psycopg.errors import Diagnostic

from inorder.errors import InorderError

# Of a table with one index, which it reports.
VERBOSE = "VACUUM (VERBOSE, INDEX_CLEANUP ON) {table}"
PAGES = re.compile(
    r'index "[^"]*": pages: (\d+) in total, (\d+) newly deleted, (\d+) currently deleted, (\d+) reusable'
)


@dataclass(frozen=True)
class IndexPages:
    """Pages of the index: all, emptied by this VACUUM, deleted and not in use again, and of these for anyone to use."""

    total: int
    newly_deleted: int
    deleted: int
    reusable: int


def primary_message(notices: list[str]) -> Callable[[Diagnostic], None]:
    return lambda diagnostic: notices.append(diagnostic.message_primary or "")


def index_pages(notices: list[str]) -> IndexPages:
    """The figures in the notices of VACUUM (VERBOSE, INDEX_CLEANUP ON) of a table with one index.

    >>> index_pages(['finished\\nindex "t_pkey": pages: 30 in total, 3 newly deleted, 4 currently deleted, 0 reusable'])
    IndexPages(total=30, newly_deleted=3, deleted=4, reusable=0)
    >>> index_pages([])
    Traceback (most recent call last):
    inorder.errors.InorderError: VACUUM VERBOSE does not say how many index pages it freed: []
    """
    found = PAGES.findall("\n".join(notices))
    if len(found) != 1:
        raise InorderError(f"VACUUM VERBOSE does not say how many index pages it freed: {notices}")
    return IndexPages(*map(int, found[0]))
