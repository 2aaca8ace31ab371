"""The state that all threads of a run share: servers, the ledger, and the stages of the run."""

import itertools
import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from inorder.connection.database import Connection
from psycopg.conninfo import make_conninfo

from world.edition import EDITIONS, Edition
from world.ledger import Ledger, Rows, token_of
from world.tables import TABLES


def targets_of(tables: Sequence[str]) -> dict[str, list[tuple[str, int]]]:
    return {
        table: [(table, 0), (table, 1), (f"{table}_0", 0), (f"{table}_1", 1)] for table in tables if "parts" in table
    }


@dataclass
class Prepared:
    """A prepared transaction that is not yet committed or rolled back."""

    gid: str
    rows: Rows


@dataclass
class World:
    superuser: str  # connection string of the superuser
    seed: int
    standby: str = ""
    edition: Edition = EDITIONS["c"]
    was_promoted: bool = False
    was_restored: bool = False
    is_long: bool = False  # servers are killed, so roles must survive a lost connection
    pooler: int | None = None  # port of the pooler through which readers connect to the primary
    ledger: Ledger = field(default_factory=Ledger)
    # The stages of the round, set in this order. All of them are set at the end of a broken round.
    stop: threading.Event = field(default_factory=threading.Event)  # writers must end
    settled: threading.Event = field(default_factory=threading.Event)  # writers have ended; the standby has all rows
    released: threading.Event = field(default_factory=threading.Event)  # the transaction held open has committed
    broken: threading.Event = field(default_factory=threading.Event)  # a problem was found
    problems: list[str] = field(default_factory=list)
    # Targets of inserts into partitioned tables: the table or partition to insert into, and the region of the row.
    targets: dict[str, list[tuple[str, int]]] = field(default_factory=lambda: targets_of(TABLES))
    prepared: list[Prepared] = field(default_factory=list)
    lanes_prepared: dict[str, Rows] = field(default_factory=dict)  # all prepared transactions so far, by gid
    lanes: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    checks: int = 0
    done: Counter[str] = field(default_factory=Counter)  # number of events of each kind
    moves: int = 0  # odd while a partition of the restless table is being attached or detached

    @property
    def primary(self) -> str:
        return self.edition.dsn(self.superuser)

    def for_readers(self, dsn: str) -> str:
        through = self.pooler is not None and dsn == self.primary
        return make_conninfo(dsn, host="127.0.0.1", port=self.pooler) if through else dsn

    def begin_again(self) -> None:
        self.stop, self.settled, self.released = (threading.Event() for _ in range(3))

    def end(self) -> None:
        for event in (self.stop, self.settled, self.released):
            event.set()

    def randomness(self, role: str) -> random.Random:
        return random.Random(f"{self.seed} {role}")

    def problem(self, text: str) -> None:
        self.problems.append(text)
        self.broken.set()

    def target(self, table: str, rng: random.Random) -> tuple[str, int]:
        """Return the table or partition to insert a row into, and the region of the row."""
        return rng.choice(self.targets[table]) if table in self.targets else (table, rng.randrange(9))


def fill(world: World, connection: Connection, amount: int, tables: Sequence[str] = TABLES) -> None:
    """Insert ``amount`` rows into each table under a new lane, with one transaction per table."""
    lane = next(world.lanes)
    for number, table in enumerate(tables):
        first = token_of(lane, number, 0)
        statement = f"INSERT INTO {table} (region, token) SELECT 0, generate_series(%s::bigint, %s)"
        connection.execute(statement.encode(), [first, first + amount - 1])
        world.ledger.add({table: range(first, first + amount)})
