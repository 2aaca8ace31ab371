"""Tokens, which identify rows, and a ledger of the tokens that were committed."""

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from world.tables import STREAMED

# A token consists of the number of the writer (the lane), the number of the transaction, and the number of the row.
TRANSACTION_BITS, ROW_BITS = 22, 14
LANE_BITS = TRANSACTION_BITS + ROW_BITS


def token_of(lane: int, transaction: int, row: int) -> int:
    """The token of a row.

    >>> token_of(1, 2, 3) == (1 << 36) + (2 << 14) + 3
    True
    """
    assert row < 1 << ROW_BITS and transaction < 1 << TRANSACTION_BITS
    return ((lane << TRANSACTION_BITS) + transaction << ROW_BITS) + row


Rows = Mapping[str, Sequence[int]]


@dataclass
class Ledger:
    """Tokens of rows by table: committed, possibly committed, and in partitions that were detached or attached."""

    committed: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    # Rows of a partition when it was detached or attached: a feed that has not read them by then need not read them.
    gone: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    versions: dict[int, tuple[int, int]] = field(default_factory=dict)  # token -> stream, and version in the stream
    doubtful: list[Rows] = field(default_factory=list)  # the connection was lost during the commit
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, rows: Rows) -> None:
        with self.lock:
            for table, tokens in rows.items():
                self.committed[table].update(tokens)

    def doubt(self, rows: Rows) -> None:
        with self.lock:
            self.doubtful.append(rows)

    def leave(self, table: str, tokens: Iterable[int]) -> None:
        """Record that a partition with these rows is detached, or attached again."""
        with self.lock:
            self.gone[table].update(tokens)

    def due(self, table: str) -> set[int]:
        return self.committed[table] - self.gone[table]

    def forget(self, present: dict[str, set[int]]) -> None:
        """Forget rows of a lost timeline: rows that no longer exist count as never committed."""
        for table, tokens in present.items():
            self.committed[table] &= tokens | self.gone[table]
        self.versions = {token: at for token, at in self.versions.items() if token in self.committed[STREAMED]}

    def resolve(self, present: dict[str, set[int]]) -> list[str]:
        """Decide for each doubtful transaction whether it committed; return those of which only some rows exist."""
        halves = []
        for rows in self.doubtful:
            existing = {table: present[table] | self.gone[table] for table in rows}
            count = sum(len(existing[table].intersection(tokens)) for table, tokens in rows.items())
            if count == sum(map(len, rows.values())):
                self.add(rows)
            elif count:
                halves.append(f"{count} rows of a transaction that has more: {rows}")
        self.doubtful.clear()
        return halves
