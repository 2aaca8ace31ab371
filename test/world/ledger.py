"""Tokens that identify rows, and a ledger of the committed tokens."""

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from world.tables import STREAMED

# A token consists of the writer's number (the lane), the transaction's number, and the row's number.
TRANSACTION_BITS, ROW_BITS = 22, 14
LANE_BITS = TRANSACTION_BITS + ROW_BITS


def token_of(lane: int, transaction: int, row: int) -> int:
    """Return the token that identifies a row.

    >>> token_of(1, 2, 3) == (1 << 36) + (2 << 14) + 3
    True
    """
    assert row < 1 << ROW_BITS and transaction < 1 << TRANSACTION_BITS
    return ((lane << TRANSACTION_BITS) + transaction << ROW_BITS) + row


Rows = Mapping[str, Sequence[int]]


@dataclass
class Ledger:
    """The tokens of each table: committed, possibly committed, and in partitions that were detached or attached."""

    committed: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    # Rows that a partition had when it was detached or attached. A feed that had not read them by then need not read
    # them.
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
        """Record the rows of a partition that is being detached or attached."""
        with self.lock:
            self.gone[table].update(tokens)

    def due(self, table: str) -> set[int]:
        return self.committed[table] - self.gone[table]

    def forget(self, present: dict[str, set[int]]) -> None:
        """Forget the rows of a lost timeline: keep only committed rows that still exist."""
        for table, tokens in present.items():
            self.committed[table] &= tokens | self.gone[table]
        self.versions = {token: at for token, at in self.versions.items() if token in self.committed[STREAMED]}

    def resolve(self, present: dict[str, set[int]]) -> list[str]:
        """Find out which doubtful transactions committed. Return a message for each one that committed only in part."""
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
