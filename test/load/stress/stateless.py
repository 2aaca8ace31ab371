"""Readers that keep their position themselves: on the primary, on a standby, or on both alternately."""

import time
from dataclasses import dataclass

from inorder.connection.database import Connection, one_row

from load.stress.delivery import KEYED, Event, Reader, of_transaction
from load.stress.readers import OLD_SECONDS
from world.edition import STANDBY as STANDBYS
from world.refusals import GUARD, ORIGIN
from world.role import ISOLATIONS, transaction
from world.sql import numbers
from world.tables import OWNER, RESTLESS, TABLES
from world.world import World

KEPT = 200
PRIMARY, STANDBY = "primary", "standby"


@dataclass
class PastBatch:
    table: str
    batch: str
    tokens: list[int]


def batch_rows(connection: Connection, table: str, batch: str) -> list[int]:
    rows = f"SELECT token FROM reader_batch_rows(%s, %s::text::feed_batch, null::{table})"
    return numbers(connection, rows, table, batch)


class Stateless(Reader):
    def __init__(
        self, world: World, kind: str, servers: list[str], max_rows: tuple[int, int] | None, user: str | None = None
    ) -> None:
        super().__init__(world, kind)
        self.user = user
        self.servers, self.limits = servers, max_rows
        self.on_standby = STANDBY in servers
        self.needs = STANDBYS if self.on_standby else ""
        self.connections: list[Connection] = []
        self.positions: dict[str, str] = {}
        self.past: list[PastBatch] = []
        self.seen = 0
        self.asked = dict.fromkeys(TABLES, 0)  # number of times that the reader had to accept another server

    def make_feeds(self, connection: Connection) -> None:
        """Choose the start positions. The reader needs no feeds; the feeds of other readers guard the tables."""
        for table in TABLES:
            self.positions[table] = self.beginning(connection, table)

    def beginning(self, connection: Connection, table: str) -> str:
        return self.text(connection, "SELECT reader_start(%s, 'beginning', %s)::text", table, self.order(table))

    def connect(self) -> None:
        self.connections = [self.session(getattr(self.world, server)) for server in self.servers]

    def recover(self) -> None:
        """Do nothing: the position is stored in this process."""

    def open_connections(self) -> list[Connection]:
        return self.connections

    def close(self) -> None:
        for connection in self.connections:
            connection.close()

    @staticmethod
    def text(connection: Connection, statement: str, *parameters: object) -> str:
        return str(one_row(connection, statement, parameters)[0])

    def poll(self, table: str) -> int | None:
        """Read one batch. The batch and its rows may come from different servers, one of which may have to catch up."""
        if len(self.connections) == 1 and self.rng.random() < 0.5:
            levels = ISOLATIONS[: 2 if self.on_standby else 3]
            with transaction(self.connections[0], self.rng.choice(levels)):
                self.connections[0].execute("SELECT 1")
                time.sleep(self.rng.random() * (OLD_SECONDS if table in RESTLESS else 0.02))
                answer = self.read(table)
        else:
            answer = self.read(table)
        batch, tokens, position = answer
        self.positions[table] = position
        self.deliver(Event(self.name, None, table, tokens))
        self.remember(PastBatch(table, batch, tokens))
        return len(tokens)

    def read(self, table: str) -> tuple[str, list[int], str]:
        limit = self.rng.randint(*self.limits) if self.limits and not self.world.settled.is_set() else None
        first_connection, second_connection, moving = (self.rng.choice(self.connections) for _ in range(3))
        if self.world.settled.is_set():
            first_connection = self.connections[0]  # the standby lags: its batches may lack the last rows
        query = "SELECT reader_next_batch(%s, %s::text::feed_position, %s, %s)::text"
        batch = self.text(first_connection, query, table, self.positions[table], limit, self.delivery.whole)
        if self.order(table) is None and self.rng.random() < 0.2:
            tokens = self.read_parts(first_connection, table, batch)
        else:
            tokens = batch_rows(second_connection if self.rng.random() < 0.5 else first_connection, table, batch)
        advance = "SELECT reader_advance(%s::text::feed_position, %s::text::feed_batch)::text"
        position = self.text(moving, advance, self.positions[table], batch)
        if self.rng.random() < 0.2:  # remember the batch between the two positions instead: it is read again at the end
            between = "reader_batch_between(%s::text::feed_position, %s::text::feed_position)::jsonb::feed_batch"
            batch = self.text(first_connection, f"SELECT {between}::text", self.positions[table], position)
        return batch, tokens, position

    def read_parts(self, connection: Connection, table: str, batch: str) -> list[int]:
        split = "SELECT p::text FROM reader_split(%s, %s::text::feed_batch, %s) AS p"
        parts = connection.execute(split.encode(), [table, batch, self.rng.randint(1, 5)]).fetchall()
        return [
            token for (piece,) in parts for token in batch_rows(self.rng.choice(self.connections), table, str(piece))
        ]

    def go_on(self, table: str, cause: str) -> None:
        """Repair the position. Unlike a feed, a stored position must be repaired after the guard was replaced."""
        if cause == GUARD:
            self.accept_partitions(table)
        elif cause == ORIGIN and self.world.was_promoted:
            self.accept_origin(table)
        else:
            super().go_on(table, cause)

    def accept_partitions(self, table: str) -> None:
        """Renew the partitions of a position, as feed_seek() with 'here' does for a feed.

        A position inside a transaction is first moved out of it, because the server would interpret the stored key as a
        value of the new primary key.
        """
        if table == KEYED:
            self.accept_key(table)
        self.change(table, members=f"(reader_start('{table}')).members")

    def accept_origin(self, table: str) -> None:
        """Accept the new origin if the reader only read on the promoted standby; otherwise begin again.

        A reader that used another server may have read rows that the promotion lost.
        """
        self.asked[table] += 1
        if self.servers == [STANDBY]:
            self.set_origin_null(table)
        else:
            self.begin_anew(table)

    def set_origin_null(self, table: str) -> None:
        self.change(table, origin="NULL")

    def change(self, table: str, **changes: str) -> None:
        fields = ("transactions", "partial", "last_key", "ordering", "members", "origin")
        row = ", ".join(changes.get(field, f"(p).{field}") for field in fields)
        statement = f"SELECT ROW(1, {row})::feed_position::text FROM (SELECT %s::text::feed_position) AS s(p)"
        self.positions[table] = self.text(self.rng.choice(self.connections), statement, self.positions[table])

    def highest(self, table: str) -> int:
        statement = """SELECT greatest(upper((p).transactions), (p).partial, upper((p).ordering.frozen))
                       FROM (SELECT %s::text::feed_position) AS s(p)"""
        with self.session(self.world.primary) as connection:
            return int(self.text(connection, statement, self.positions[table]))

    def begin_anew(self, table: str) -> None:
        self.positions[table] = self.beginning(self.connections[0], table)
        self.delivery.events[:] = [event for event in self.delivery.events if event.table != table]

    def accept_key(self, table: str) -> None:
        """Move the position to the beginning or end of the transaction that was read in part."""
        connection = self.connections[0]
        number = self.text(connection, "SELECT (%s::text::feed_position).partial", self.positions[table])
        if number == "None":
            return  # the position is not inside a transaction: only the batch was out of date
        tokens, skip = of_transaction(connection, int(number)), self.rng.random() < 0.5
        behind = f"+ int8multirange(int8range({number}, {number}, '[]'))" if skip else ""
        self.change(table, transactions=f"(p).transactions {behind}", partial="NULL", last_key="NULL", ordering="NULL")
        delivered = set(self.delivery.tokens(KEYED)) if skip else set()
        missing = list(tokens - delivered) if skip else []
        self.deliver(Event(self.name, None, KEYED, missing, frozenset() if skip else frozenset(tokens)))

    def remember(self, batch: PastBatch) -> None:
        if batch.tokens:
            self.seen += 1
            if len(self.past) < KEPT:
                self.past.append(batch)
            elif (place := self.rng.randrange(self.seen)) < KEPT:
                self.past[place] = batch


def stateless_readers(world: World) -> list[Stateless]:
    both = [PRIMARY, STANDBY]
    servers = both if world.standby else [PRIMARY]
    return [
        Stateless(world, "stateless", [PRIMARY], None),
        Stateless(world, "stateless, few rows", [PRIMARY], (1, 500)),
        Stateless(world, "stateless, standby", [STANDBY], None),
        Stateless(world, "stateless, standby, few", [STANDBY], (1, 500)),
        Stateless(world, "stateless, hopping", both, None),
        Stateless(world, "stateless, hopping, few", both, (1, 500)),
        Stateless(world, "stateless, plain role", servers, (1, 500), OWNER),
        Stateless(world, "whole, stateless", servers, (1, 300)).by_transaction(),
        Stateless(world, "ordered, stateless", [PRIMARY], (1, 500)).in_order(),
        Stateless(world, "ordered, stateless, hopping", both, (1, 500)).in_order(),
    ]
