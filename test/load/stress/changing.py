"""A table that writers change with all kinds of statements and its owner alters, while sessions are killed."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Lock, Thread

import psycopg
from inorder.connection.database import Connection, connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from world import beside
from world.beside import AGAIN
from world.edition import INSTALLER, Edition
from world.sql import run as execute

SETTINGS = {"fsync": "off", "max_prepared_transactions": "40", "deadlock_timeout": "100ms", "max_connections": "60"}
TABLES = """
CREATE TABLE above (id int PRIMARY KEY);
INSERT INTO above SELECT generate_series(0, 9);
CREATE TABLE t (id int, area int, note text, owner int REFERENCES above ON DELETE CASCADE ON UPDATE SET NULL,
                PRIMARY KEY (area, id)) PARTITION BY LIST (area);
CREATE TABLE t_0 PARTITION OF t FOR VALUES IN (0);
CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1, 2) PARTITION BY LIST (area);
CREATE TABLE t_1_1 PARTITION OF t_1 FOR VALUES IN (1);
CREATE TABLE t_1_2 PARTITION OF t_1 FOR VALUES IN (2);
CREATE TABLE t_d PARTITION OF t DEFAULT;
"""
# Statements of writers; {i} and {j} are keys, {a} and {b} areas.
WRITES = (
    "INSERT INTO t VALUES ({i}, {a}, 'new', {i} % 10) ON CONFLICT (area, id) DO UPDATE SET note = 'again'",
    "INSERT INTO t SELECT n, {a}, 'many', n % 10 FROM generate_series({i}, {i} + 20) AS n ON CONFLICT DO NOTHING",
    "UPDATE t SET note = note || 'x' WHERE id = {i}",
    "UPDATE t SET note = left(note || {j}, 20) WHERE id BETWEEN {i} AND {i} + 10",
    "UPDATE t SET area = {b} WHERE id = {i} AND area = {a}",
    "UPDATE t SET id = {j} WHERE id = {i} AND area = {a}",
    "DELETE FROM t WHERE id = {i}",
    "DELETE FROM t WHERE id BETWEEN {i} AND {i} + 5 AND area = {a}",
    "MERGE INTO t USING (VALUES ({i}, {a}), ({j}, {b})) AS v(id, area) ON t.id = v.id AND t.area = v.area "
    "WHEN MATCHED AND v.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET note = 'merged' "
    "WHEN NOT MATCHED THEN INSERT VALUES (v.id, v.area, 'merged', NULL)",
    "WITH gone AS (DELETE FROM t WHERE id = {i} RETURNING *) INSERT INTO t SELECT id + 300, area, note FROM gone "
    "ON CONFLICT DO NOTHING",
    "UPDATE t_0 SET note = 'direct' WHERE id = {i}",
    "DELETE FROM t_1_2 WHERE id = {i}",
    "INSERT INTO t_1_1 VALUES ({i}, 1, 'direct') ON CONFLICT DO NOTHING",
    "COPY t (id, area, note) FROM stdin\n{j}\t3\tcopied\n",
    "UPDATE above SET id = id WHERE id = {i} % 10",
    "DELETE FROM above WHERE id = {i} % 10",
    "INSERT INTO above SELECT generate_series(0, 9) ON CONFLICT DO NOTHING",
)
TRUNCATES = ("TRUNCATE t", "TRUNCATE t_0", "TRUNCATE t_1", "TRUNCATE above CASCADE")
# Changes by an owner that force feeds to read the whole table. Each list ends with the inverse of the change.
CHANGES = (
    ("ALTER TABLE t ALTER note TYPE varchar(60)", "ALTER TABLE t ALTER note TYPE text USING note || '!'"),
    ("ALTER TABLE t ADD COLUMN more int DEFAULT 7", "ALTER TABLE t DROP COLUMN more"),
    ("ALTER TABLE t DETACH PARTITION t_0", "DELETE FROM t_0 WHERE id < 50",
     "ALTER TABLE t ATTACH PARTITION t_0 FOR VALUES IN (0)"),
    ("ALTER TABLE t_1_1 DISABLE TRIGGER USER", "DELETE FROM t_1_1 WHERE id > 90",
     "ALTER TABLE t_1_1 ENABLE TRIGGER USER"),
    ("CREATE TABLE t_9 PARTITION OF t FOR VALUES IN (9)", "INSERT INTO t_9 VALUES (1, 9, 'direct', NULL)",
     "DROP TABLE t_9"),
    ("VACUUM FULL t_0", "CREATE INDEX IF NOT EXISTS notes ON t (note)", "DROP INDEX notes"),
)  # fmt: skip
PATIENCE_SECONDS = 300.0
Work = Callable[[random.Random], None]


@dataclass
class Run:
    """A run and its results."""

    dsn: str
    seed: int
    stop: Event = field(default_factory=Event)
    seen: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)
    crashing: Cluster | None = None  # a server that is killed

    def note(self, event: str) -> None:
        with self.lock:
            self.seen[event] += 1

    def wait_for(self, seconds: float, *events: str) -> None:
        """Wait for the given time. On a slow machine, then wait until each event was seen."""
        self.stop.wait(seconds)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not all(self.seen[event] for event in events) and time.monotonic() < deadline:
            if self.stop.wait(0.1):
                return

    def start(self, work: Sequence[Work]) -> list[Thread]:
        self.stop.clear()
        threads = [Thread(target=self.guarded, args=[task, number]) for number, task in enumerate(work)]
        for thread in threads:
            thread.start()
        return threads

    def guarded(self, work: Callable[[random.Random], None], number: int) -> None:
        """Repeat the work until the run ends. An unexpected error is recorded as a fault, and ends the run."""
        rng = random.Random(self.seed * 100 + number)
        while not self.stop.is_set():
            try:
                work(rng)
            except psycopg.OperationalError:
                self.note("killed")  # the session was killed
                self.stop.wait(0.02)
            except Exception as error:
                self.faults.append(f"{type(work).__name__}: {type(error).__name__} {str(error)[:200]}")
                self.stop.set()


@contextmanager
def opened(server: Installation, edition: Edition, settings: dict[str, str]) -> Iterator[tuple[Cluster, str]]:
    """Yield a server with the tables, and the connection string of their owner."""
    with Cluster(server) as cluster:
        cluster.start(settings)
        edition.install(cluster.dsn)
        with connect(cluster.dsn) as connection:
            if edition.user:  # the owner of the schema could replace inorder's objects, and must be trusted
                execute(connection, f"GRANT {edition.user} TO {INSTALLER}")
        with connect(edition.dsn(cluster.dsn)) as connection:
            execute(connection, TABLES)
        yield cluster, edition.dsn(cluster.dsn)


def write(run: Run, rng: random.Random) -> None:
    with connect(run.dsn) as connection:
        while not run.stop.is_set():
            statements = [rng.choice(TRUNCATES) if rng.random() < 0.01 and not run.crashing else rng.choice(WRITES)
                          for _ in range(rng.choice([1, 1, 1, 2, 5]))]  # fmt: skip
            filled = [
                text.format(i=rng.randrange(200), j=rng.randrange(200), a=rng.randrange(4), b=rng.randrange(4))
                for text in statements
            ]
            if beside.write(connection, rng, filled, 0.0 if run.crashing else 0.05):
                run.note("written")


def own(run: Run, rng: random.Random, repair: Callable[[Connection], None]) -> None:
    """Change the table as its owner, and call ``repair`` after each change."""
    with connect(run.dsn) as connection:
        execute(connection, "SET lock_timeout = '2s'")
        while not run.stop.wait(0.5 + rng.random() * 2):
            for statement in rng.choice(CHANGES):
                # ATTACH PARTITION fails if a deadlock has rolled back DETACH or the change of a type.
                with suppress(*AGAIN, psycopg.errors.WrongObjectType, psycopg.errors.DatatypeMismatch):
                    execute(connection, statement)
                run.stop.wait(rng.random() * 0.1)
            repair(connection)
            run.note("table changed")


def kill(run: Run, rng: random.Random, which: str) -> None:
    """Terminate a random session that matches the condition, at random intervals."""
    with connect(run.dsn) as connection:
        while not run.stop.wait(rng.random()):
            execute(
                connection,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                f"AND pid <> pg_backend_pid() AND {which} ORDER BY random() LIMIT 1",
            )
