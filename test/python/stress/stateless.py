"""Readers that keep their position themselves: on the primary, on a standby, and now here, now there."""

from dataclasses import dataclass

import psycopg
from inorder.database import Connection
from psycopg import sql

from stress.readers import Reader
from stress.world import OWNER, TABLES, World

KEPT = 200

# On a standby that waits for us while we wait for it the server cancels one: then ask again.
TRY_AGAIN = (psycopg.errors.QueryCanceled, psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)


@dataclass
class PastBatch:
    """A batch as its reader got it."""

    table: str
    batch: str
    tokens: list[int]


def batch_rows(connection: Connection, table: str, batch: str) -> list[int]:
    """The tokens of a batch's rows, in their order."""
    statement = sql.SQL("SELECT token FROM feed_rows(%s, %s::feed_batch, null::{})").format(sql.Identifier(table))
    return [int(str(token)) for (token,) in connection.execute(statement, [table, batch])]


class Stateless(Reader):
    """feed_start, feed_batch_after, feed_rows, feed_advance: the position is text in the reader's hands."""

    def __init__(
        self, world: World, kind: str, servers: list[str], max_rows: tuple[int, int] | None, user: str | None = None
    ) -> None:
        super().__init__(world, kind)
        self.user = user
        self.servers, self.limits = servers, max_rows
        self.connections: list[Connection] = []
        self.positions: dict[str, str] = {}
        self.past: list[PastBatch] = []
        self.seen = 0

    def make_feeds(self, connection: Connection) -> None:
        """It needs none, just the beginning; the tables are guarded by the feeds of others."""
        for table in TABLES:
            self.positions[table] = self.text(connection, "SELECT feed_start(%s)::text", table)

    def connect(self) -> None:
        """One connection to each server."""
        self.connections = [self.session(server) for server in self.servers]

    def close(self) -> None:
        """All of them."""
        for connection in self.connections:
            connection.close()

    @staticmethod
    def text(connection: Connection, statement: str, *parameters: object) -> str:
        """The one value of a query."""
        row = connection.execute(statement.encode(), parameters).fetchone()
        assert row is not None
        return str(row[0])

    def poll(self, table: str) -> int | None:
        """One batch: named by one server, and now and then read on another, which may have to come so far first."""
        limit = self.rng.randint(*self.limits) if self.limits and not self.world.settled.is_set() else None
        asked, reading, moving = (self.rng.choice(self.connections) for _ in range(3))
        try:
            batch = self.text(
                asked, "SELECT feed_batch_after(%s, %s::feed_position, %s)::text", table, self.positions[table], limit
            )
            tokens = batch_rows(reading if self.rng.random() < 0.5 else asked, table, batch)
            position = self.text(
                moving, "SELECT feed_advance(%s::feed_position, %s::feed_batch)::text", self.positions[table], batch
            )
        except TRY_AGAIN:
            return None
        except psycopg.errors.ObjectNotInPrerequisiteState as error:
            if "newer than what this transaction sees" not in str(error):
                raise
            return None
        self.positions[table] = position
        self.delivery.add(table, tokens)
        self.remember(PastBatch(table, batch, tokens))
        return len(tokens)

    def remember(self, batch: PastBatch) -> None:
        """Each batch that there was has the same chance to be kept."""
        if batch.tokens:
            self.seen += 1
            if len(self.past) < KEPT:
                self.past.append(batch)
            elif (place := self.rng.randrange(self.seen)) < KEPT:
                self.past[place] = batch


def stateless_readers(world: World) -> list[Stateless]:
    """On each server, on both; with all rows and with a few."""
    both = [world.primary, world.standby]
    return [
        Stateless(world, "stateless", [world.primary], None),
        Stateless(world, "stateless, few rows", [world.primary], (1, 500)),
        Stateless(world, "stateless, standby", [world.standby], None),
        Stateless(world, "stateless, standby, few", [world.standby], (1, 500)),
        Stateless(world, "stateless, hopping", both, None),
        Stateless(world, "stateless, hopping, few", both, (1, 500)),
        Stateless(world, "stateless, plain role", both, (1, 500), OWNER),
    ]
