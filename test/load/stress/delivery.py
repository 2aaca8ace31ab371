"""A reader and the rows delivered to it. If a poll is refused, the reader continues as the manual describes."""

import copy
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Self

import psycopg
from inorder.connection.database import Connection, connect, one_row

from world.ledger import LANE_BITS, ROW_BITS
from world.refusals import GUARD, JOINED, KEY, ORIGIN, PASSED, cause_of, passes
from world.role import Role, is_lost, roll_back
from world.sql import numbers
from world.tables import CALM, ORDER, STREAMED, TABLES
from world.world import World

LONG_PAUSE = 0.3
DRAINING_TRIES = 10_000
KEYED = "r_keyed"


@dataclass(frozen=True)
class Event:
    """Rows that were delivered, or that must be delivered again. ``number`` identifies their poll in s_polls."""

    reader: str
    number: int | None
    table: str
    tokens: list[int]
    taken_back: frozenset[int] = frozenset()
    batch: int | None = None  # the number of the batch, which a sink stores


@dataclass
class Delivery:
    """Rows delivered to one reader, in order; readers that share a feed share one delivery."""

    kind: str
    tables: tuple[str, ...] = TABLES
    events: list[Event] = field(default_factory=list)
    waiting: int = 0
    whole: bool = False  # all rows of a transaction come in one batch
    by_column: bool = False  # rows come in the order of a column, if the table has one
    ordered: bool = True  # False if several readers share the delivery, or if a statement takes rows in any order
    keys: dict[int, int] = field(default_factory=dict)  # token -> value of the key by which workers divide a feed
    longest: float = 0.0
    polls: int = 0
    retries: Counter[str] = field(default_factory=Counter)
    busy: threading.RLock = field(default_factory=threading.RLock)

    def tokens(self, table: str) -> list[int]:
        tokens: list[int] = []
        for event in self.events:
            if event.table == table:
                if event.taken_back:
                    tokens = [token for token in tokens if token not in event.taken_back]
                tokens += event.tokens
        return tokens

    def disordered(self, versions: dict[int, tuple[int, int]]) -> int:
        """Count the rows that came after a row that the same writer committed later.

        With an order column, rows of the same stream are compared, too. In a divided feed, only rows with the same key
        are compared.
        """
        count = self.split() if self.whole else 0
        for table in self.tables if self.ordered or self.keys else ():
            last: dict[tuple[int, int], int] = {}
            for token in self.tokens(table):
                lane, number = (token >> LANE_BITS, self.keys.get(token, 0)), token >> ROW_BITS
                count += number < last.get(lane, 0)
                last[lane] = number
        return count + (self.disordered_streams(versions) if self.keys or (self.by_column and self.ordered) else 0)

    def split(self) -> int:
        """Count the transactions that came in more than one batch."""
        count, earlier = 0, set[tuple[str, int]]()
        for event in self.events:
            if event.table in CALM:
                transactions = {(event.table, token >> ROW_BITS) for token in event.tokens}
                count += len(transactions & earlier)
                earlier |= transactions
        return count

    def disordered_streams(self, versions: dict[int, tuple[int, int]]) -> int:
        count, last = 0, dict[int, int]()
        for stream, version in (versions[token] for token in self.tokens(STREAMED) if token in versions):
            count += version < last.get(stream, 0)
            last[stream] = max(version, last.get(stream, 0))
        return count


class Reader(Role):
    tables: tuple[str, ...] = TABLES
    needs = ""  # the capability that the edition must have for this reader

    def __init__(self, world: World, kind: str, delivery: Delivery | None = None) -> None:
        super().__init__(world, f"reader {kind} {'' if delivery is None else 2}".strip())
        self.kind = kind
        self.delivery = delivery or Delivery(kind)
        self.joins = delivery is not None  # shares the feeds of another reader
        self.delivery.ordered = not self.joins
        self.drained = threading.Event()
        self.number = 0  # number of the last poll that the database knows
        self.was_promoted = False
        self.unsure: Event | None = None  # the rows of the last poll, until it is known whether the poll committed

    def again(self) -> Self:
        twin = copy.copy(self)
        threading.Thread.__init__(twin, name=self.name, daemon=True)
        twin.drained = threading.Event()
        return twin

    def in_order(self) -> Self:
        self.delivery.by_column = True
        return self

    def by_transaction(self) -> Self:
        self.delivery.whole = True
        return self

    def order(self, table: str) -> str | None:
        return ORDER.get(table) if self.delivery.by_column else None

    def feed(self, table: str) -> str:
        return f"{self.kind} {table}"

    def make_feeds(self, connection: Connection) -> None:
        for table in () if self.joins else self.tables:
            connection.execute(
                "SELECT feed_create(%s, %s, order_column => %s, whole_transactions => %s)",
                [self.feed(table), table, self.order(table), self.delivery.whole],
            )

    def work(self) -> None:
        """Poll until the writers have ended, then drain. After the held transaction has committed, drain again."""
        self.connect()
        self.recover()
        while not self.world.settled.is_set():
            table = self.rng.choice(self.tables)
            for _ in range(self.rng.randint(1, 4)):
                self.timed(table)
            time.sleep(self.rng.random() * LONG_PAUSE)
        self.drain()
        self.drained.set()
        self.world.released.wait()
        self.drain()
        self.close()

    def drain(self) -> None:
        for table in self.tables:
            for _ in range(DRAINING_TRIES):
                if self.timed(table) == 0:
                    break
            else:
                raise AssertionError(f"{DRAINING_TRIES} polls of {table} did not return all rows")

    def timed(self, table: str) -> int | None:
        """Poll, and measure the time. Return the number of rows, or None if the poll has to be repeated."""
        began = time.monotonic()
        try:
            rows = self.poll(table)
        except psycopg.Error as error:
            self.refused(table, error)
            rows = None
        self.delivery.longest = max(self.delivery.longest, time.monotonic() - began)
        self.delivery.polls += 1
        return rows

    def open_connections(self) -> list[Connection]:
        return [self.connection]

    def refused(self, table: str, error: psycopg.Error) -> None:
        """Check that the manual documents the error, and continue as the manual describes."""
        if is_lost(error):
            raise error
        self.unsure = None
        for connection in self.open_connections():
            roll_back(connection)
        cause = cause_of(error, self.on_standby)
        if cause is None:
            raise error
        self.delivery.retries[cause] += 1
        if any(connection.closed for connection in self.open_connections()):
            self.close()
            self.connect()  # a standby ended the session because of a conflict with recovery
        try:
            self.go_on(table, cause)
        except psycopg.Error as another:
            if not passes(another, self.on_standby):
                raise
            self.delivery.retries[str(cause_of(another, self.on_standby))] += 1

    def go_on(self, table: str, cause: str) -> None:
        """Repair the position after a permanent error. If two readers share a position, only the first repairs it."""
        if cause in (PASSED, JOINED, KEY) and self.joins:
            time.sleep(self.rng.random() * LONG_PAUSE)
        elif cause in (PASSED, JOINED):
            self.accept_partitions(table)
        elif cause == KEY:
            self.accept_key(table)
        elif cause in (GUARD, ORIGIN):
            raise AssertionError(f"{self.name}: {cause} on {table}")

    def accept_partitions(self, table: str) -> None:
        raise NotImplementedError

    def accept_key(self, table: str) -> None:
        """Continue before or after the transaction that was read in part."""
        raise NotImplementedError

    def connect(self) -> None:
        self.connection = self.session(self.world.primary)

    def session(self, dsn: str) -> Connection:
        connection = super().session(self.world.for_readers(dsn))
        connection.prepare_threshold = None
        return connection

    def recover(self) -> None:
        """Find out if the last poll committed before the connection was lost, or which polls survived the promotion."""
        if self.world.was_promoted and not self.was_promoted:
            self.was_promoted = True
            self.deliver()  # removed again if the new primary does not know the poll
            self.follow_promotion()
        elif self.unsure is not None:
            event, self.unsure = self.unsure, None
            polled = "SELECT FROM s_polls WHERE reader = %s AND number = %s"
            if self.connection.execute(polled, [self.name, event.number]).rowcount:
                self.delivery.events.append(event)

    def follow_promotion(self) -> None:
        """Keep only rows of polls that the new primary knows, as a sink in the database would."""
        stored = set(numbers(self.connection, "SELECT number FROM s_polls WHERE reader = %s", self.name))
        with self.delivery.busy:
            self.delivery.events[:] = [event for event in self.delivery.events if self.stays(event, stored)]

    def stays(self, event: Event, stored: set[int]) -> bool:
        """Return True if another reader received the event, or if the new primary knows its poll."""
        return event.reader != self.name or event.number in stored

    def close(self) -> None:
        self.connection.close()

    def announce(self, connection: Connection) -> int | None:
        """Record a poll in its transaction, to find out later whether the poll committed. Return the poll's number."""
        if not self.world.is_long:
            return None
        self.number += 1
        connection.execute("INSERT INTO s_polls VALUES (%s, %s)", [self.name, self.number])
        return self.number

    def deliver(self, event: Event | None = None) -> None:
        event = event or self.unsure
        self.unsure = None
        if event is not None:
            self.delivery.events.append(event)

    def poll(self, table: str) -> int | None:
        raise NotImplementedError


@dataclass(frozen=True)
class Repair:
    again: frozenset[int]  # rows that were delivered and will be delivered again
    rest: tuple[int, ...]  # rows that were not delivered and are read by the repair


def of_transaction(connection: Connection, number: int) -> set[int]:
    return set(numbers(connection, f"SELECT token FROM {KEYED} WHERE xact = %s", number))


def leave_transaction(
    connection: Connection, reader: Reader, owner: str | None, delivered: set[int], skip: bool
) -> Repair:
    """Move a feed whose position is inside a transaction out of it, because the key has changed.

    With ``skip``, the feed moves to the end of the transaction, otherwise to its beginning.

    The first feed_seek(), in the caller's transaction, locks the feed; its committed state therefore stays unchanged.
    """
    name = reader.feed(KEYED)
    connection.execute("SELECT feed_seek(%s, 'beginning', %s::regrole)", [name, owner])
    query = (
        "SELECT position::text, partial, unfinished_batch FROM feeds "
        "WHERE name = %s AND owner = coalesce(%s, current_user)"
    )
    with connect(reader.world.primary) as other:
        position, partial, unfinished = one_row(other, query, [name, owner])
    missing: set[int] = set()
    # The rows of an unfinished batch are delivered again. The feed then moves to the beginning of the transaction in
    # which the batch ends.
    if skip and partial is not None and unfinished is None:
        missing = of_transaction(connection, partial) - delivered
        behind = "SELECT (%s::int8multirange + int8range(%s, %s, '[]')::int8multirange)::text"
        (position,) = one_row(connection, behind, [position, partial, partial])
    connection.execute("SELECT feed_seek(%s, %s::int8multirange, %s::regrole)", [name, position, owner])
    return Repair(outside(connection, delivered, position), tuple(missing))


def outside(connection: Connection, delivered: set[int], position: str) -> frozenset[int]:
    """Return the delivered rows that will be delivered again because their transaction is not in the position."""
    query = f"SELECT token FROM {KEYED} WHERE token = ANY (%s) AND NOT xact <@ %s::int8multirange"
    return frozenset(numbers(connection, query, list(delivered), position))
