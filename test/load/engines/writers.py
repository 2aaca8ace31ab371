"""Sessions that write in every way there is, on any of the servers."""

import random
import threading
from collections.abc import Callable
from typing import Any

import psycopg
from inorder.connection.database import connect

TABLES = (
    # The three forms of numbers, and partitions.
    ("CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), writer int, token bigint, body text)",),
    (
        "CREATE TABLE events (token bigint, writer int, PRIMARY KEY (token, writer), body text, more int, "
        "xact bigint NOT NULL DEFAULT xact_id())",
        "CREATE INDEX ON events (xact) WHERE xact > 0",
    ),
    (
        "CREATE TABLE events (writer int, token bigint, body text, PRIMARY KEY (token, writer), "
        "xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED) PARTITION BY HASH (token, writer)",
        "CREATE INDEX ON events (xact)",
        "CREATE TABLE events_0 PARTITION OF events FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
        "CREATE TABLE events_1 PARTITION OF events FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
    ),
)
INSERT = "INSERT INTO events (writer, token, body) SELECT %s, t, 'row ' || t FROM generate_series(%s::bigint, %s) AS t"
LARGE = 1_000_000
PAUSE = 0.1


class Writer(threading.Thread):
    def __init__(self, dsn: str, number: int, seed: int, stop: threading.Event) -> None:
        super().__init__(name=f"writer {number}")
        self.dsn, self.number, self.stop = dsn, number, stop
        self.rng = random.Random(seed)
        self.used = 0
        self.prepared: list[str] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        kinds: list[Callable[[], None]] = [
            lambda: self.insert(1), lambda: self.insert(1), lambda: self.insert(self.rng.randint(2, 300)), self.undone,
            self.savepoints, self.two_phase, self.finish, self.long,
        ]  # fmt: skip
        try:
            with connect(self.dsn) as self.connection:
                while not self.stop.is_set():
                    self.rng.choice(kinds)()
                    self.stop.wait(self.rng.random() * PAUSE)
                while self.prepared:
                    self.finish()
        except psycopg.Error as error:
            self.error = error

    def insert(self, rows: int) -> None:
        self.connection.execute(INSERT.encode(), [self.number, self.used + 1, self.used + rows])
        self.used += rows

    def undone(self) -> None:
        with self.connection.transaction(force_rollback=True):
            self.insert(self.rng.randint(1, 100))

    def savepoints(self) -> None:
        with self.connection.transaction():
            for _ in range(self.rng.choice((3, 70))):
                self.connection.execute("SAVEPOINT s")
                self.insert(self.rng.randint(1, 5))
                if self.rng.random() < 0.4:
                    self.connection.execute("ROLLBACK TO s")

    def two_phase(self) -> None:
        gid = f"{self.name} {self.used}"
        self.connection.execute("BEGIN")
        self.insert(self.rng.randint(1, 50))
        self.connection.execute(f"PREPARE TRANSACTION '{gid}'".encode())
        self.prepared.append(gid)

    def finish(self) -> None:
        if self.prepared:
            gid = self.prepared.pop(self.rng.randrange(len(self.prepared)))
            how = "COMMIT" if self.rng.random() < 0.7 else "ROLLBACK"
            self.connection.execute(f"{how} PREPARED '{gid}'".encode())

    def long(self) -> None:
        """A transaction that stays open for seconds, and writes at both ends."""
        with self.connection.transaction():
            self.insert(5)
            self.stop.wait(self.rng.random() * 8)
            self.insert(5)


def write_large(dsn: str, number: int) -> None:
    with connect(dsn) as connection:
        connection.execute(INSERT.encode(), [number, 1, LARGE])


def committed(dsn: str) -> set[tuple[int, int]]:
    with connect(dsn) as connection:
        rows: list[Any] = connection.execute("SELECT writer, token FROM events").fetchall()
    return set(rows)
