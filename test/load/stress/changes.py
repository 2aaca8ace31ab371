"""Changes of a table under load: copies that must equal the table.

Writers use every kind of statement, and an owner changes the table. Readers are killed: they read whole batches or
pieces, from a feed or a position of their own, also on a standby, and some write to another database. The copies of
workers compare versions. ``python -m load.stress.changes`` is the long form.
"""

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from threading import Event, Lock, Thread, get_ident

import psycopg
from inorder.connection.database import Connection, connect
from inorder.installations import Installation, find_installation
from inorder.lab.server.cluster import Cluster

from copies import NEXT, SNAPSHOT, Copy, KeptCopy
from ground import FINISH
from world import beside
from world.beside import AGAIN
from world.edition import EDITIONS, INSTALLER, STANDBY, Edition
from world.server import UNFLUSHED, Standby, kill_all

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
SELECT changes_enable('t');
"""
FEEDS = ("whole", "pieces", "outside", "workers")
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
# Changes by an owner, after which feeds are to read the whole table; each is followed by its inverse.
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
LAZY = SETTINGS | UNFLUSHED | {"synchronous_commit": "off"}
CYCLE_SECONDS, BETWEEN_SECONDS, PATIENCE_SECONDS = 1.0, 0.05, 300.0
Work = Callable[[random.Random], None]
CHECKED_KEYS = ("area", "id")
WHOLE = ("whole", "kept")  # ways of readers whose copy equals the table after each batch


@dataclass
class Run:
    """One run, and its findings."""

    dsn: str
    seed: int
    stop: Event = field(default_factory=Event)
    is_due: Event = field(default_factory=Event)  # a reader has requested a crash
    last: int | None = None  # the thread of the reader that the crash will cut off
    wanted: Event = field(default_factory=Event)
    seen: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)
    crashing: Cluster | None = None  # killed in the middle of reads; commits reach the disk much later

    def note(self, event: str) -> None:
        with self.lock:
            self.seen[event] += 1

    def begins(self, is_outside: bool) -> None:
        """Begin a step of a reader. If a crash is due, all readers but one stop, so no other flush saves its work."""
        if self.is_due.is_set() and not (is_outside and self.last in (None, get_ident())):
            self.stop.wait()
        elif self.is_due.is_set():
            self.last = get_ident()

    def has_batch(self) -> None:
        """Let writers continue before the rows of the batch are read."""
        if self.last == get_ident():
            time.sleep(BETWEEN_SECONDS)

    def has_rows(self) -> None:
        if self.last == get_ident():
            self.wanted.set()
            self.stop.wait()

    def wait_for(self, seconds: float, *events: str) -> None:
        """Wait for the seconds; on a slow machine also until each of the events has been noted."""
        self.stop.wait(seconds)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not all(self.seen[event] for event in events) and time.monotonic() < deadline:
            if self.stop.wait(0.1):
                return

    def wait(self, seconds: float) -> None:
        """Run until the end, or until a crash. The thread that starts a server must outlive it."""
        self.wait_for(seconds, "compared")
        if self.crashing is not None and not self.stop.is_set():
            self.is_due.set()
            self.wanted.wait(PATIENCE_SECONDS)
            kill_all(self.crashing)
            self.note("kill -9")
            self.stop.set()
            self.crashing.start(LAZY)
            self.is_due.clear()
            self.wanted.clear()
            self.last = None
        self.stop.set()

    def guarded(self, work: Callable[[random.Random], None], number: int) -> None:
        """Work until the end; any unexpected error is a fault, and ends the run."""
        rng = random.Random(self.seed * 100 + number)
        while not self.stop.is_set():
            try:
                work(rng)
            except psycopg.OperationalError:
                self.note("killed")  # the session was
                self.stop.wait(0.02)
            except Exception as error:
                self.faults.append(f"{type(work).__name__}: {type(error).__name__} {str(error)[:200]}")
                self.stop.set()


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


def own(run: Run, rng: random.Random) -> None:
    with connect(run.dsn) as connection:
        connection.execute(b"SET lock_timeout = '2s'")
        while not run.stop.wait(1 + rng.random() * 2):
            for statement in rng.choice(CHANGES):
                # A partition is not attached again if a deadlock ended DETACH, or a change of type.
                with suppress(*AGAIN, psycopg.errors.WrongObjectType, psycopg.errors.DatatypeMismatch):
                    connection.execute(statement.encode())
                run.stop.wait(rng.random() * 0.1)
            resync(connection)
            run.note("table changed")


def resync(connection: Connection) -> None:
    while True:
        with suppress(psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            connection.execute(b"SELECT changes_resync('t')")
            return


@dataclass
class Reader:
    """Keeps a copy in one of the ways; changes taken in a transaction that fails are forgotten."""

    run: Run
    feed: str
    way: str = "whole"
    dsn: str | None = None  # connection string of a standby
    copy: Copy = field(init=False)

    def __post_init__(self) -> None:
        self.copy = (KeptCopy if self.way == "kept" else Copy)(feed=self.feed, keys=CHECKED_KEYS)

    def __call__(self, rng: random.Random) -> None:
        with connect(self.dsn or self.run.dsn) as connection:
            while not self.run.stop.is_set():
                self.take(connection, rng)

    def take(self, connection: Connection, rng: random.Random) -> bool:
        self.run.begins(self.way == "outside")
        copy = deepcopy(self.copy)
        try:
            going_on = self.step(copy, connection, rng)
        except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
            self.run.note("to be tried again")
        except psycopg.errors.ObjectNotInPrerequisiteState as error:
            assert "changes_resync" in (error.diag.message_hint or ""), error
            self.run.note("refused")
            time.sleep(0.02)
        else:
            self.copy = copy
            return going_on
        finally:
            if not connection.closed:
                connection.execute(b"ROLLBACK")
        return True

    def step(self, copy: Copy, connection: Connection, rng: random.Random) -> bool:
        if self.way == "outside":
            (number,) = connection.execute(NEXT, [self.feed, rng.choice([None, 1, 30])]).fetchone() or (None,)
            self.run.has_batch()
            copy.apply(copy.changes(connection, number))
            self.copy = deepcopy(copy)  # the sink is elsewhere, and keeps the copy
            if number is not None:
                self.run.has_rows()
            if number is not None and rng.random() < 0.9:  # otherwise the batch comes again
                connection.execute(FINISH, [self.feed, number])
            return number is not None
        connection.execute(SNAPSHOT)
        going_on = copy.step(connection, None if self.way in WHOLE else rng.choice([1, 5, 50]))
        if self.way in WHOLE and going_on:
            assert copy.rows == copy.table_now(connection), "the copy differs from the table"
            self.run.note("compared" if self.dsn is None else "compared on the standby")
        connection.execute(b"COMMIT")
        if self.way == "kept":  # the copy is outside, with the position
            self.copy = deepcopy(copy)
        return going_on


@dataclass
class Worker(Reader):
    """One of several workers with one sink, which accepts no older version than it has."""

    sink_lock: Lock = field(default_factory=Lock)
    name: str = "w"

    def take(self, connection: Connection, rng: random.Random) -> bool:
        self.run.begins(is_outside=True)
        try:
            query = "SELECT number, token FROM feed_take_batch(%s, %s, %s)"
            row = connection.execute(query, [self.feed, self.name, rng.choice([None, 1, 20])]).fetchone()
            assert row is not None
            self.run.has_batch()
            changes = self.copy.changes(connection, row[0])
            time.sleep(rng.choice([0, 0.05]))
            with self.sink_lock:
                self.copy.apply(changes, by_version=True)
            if row[0] is not None:
                self.run.has_rows()
            if row[0] is not None:
                connection.execute("SELECT feed_finish_batch(%s, %s, %s)", [self.feed, *row])
            return row[0] is not None
        except psycopg.errors.ObjectNotInPrerequisiteState as error:
            assert "changes_resync" in (error.diag.message_hint or ""), error
            time.sleep(0.02)
        return True


def kill(run: Run, rng: random.Random) -> None:
    """End a session of a reader or writer, now and then."""
    with connect(run.dsn) as connection:
        while not run.stop.wait(rng.random()):
            connection.execute(
                b"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                b"AND pid <> pg_backend_pid() AND query ~ 'feed_|changes_batch' ORDER BY random() LIMIT 1"
            )


def readers_of(run: Run, standby: Standby | None) -> list[Reader]:
    sink = Worker(run, "workers", name="w0")
    more = [Worker(run, "workers", name=f"w{number}", sink_lock=sink.sink_lock) for number in (1, 2)]
    for each in more:
        each.copy = sink.copy
    return [
        Reader(run, "whole"),
        Reader(run, "none", "kept"),
        *([Reader(run, "none", "kept", standby.dsn)] if standby else []),
        Reader(run, "pieces", "pieces"),
        Reader(run, "outside", "outside"),
        sink,
        *more,
    ]


def settle(run: Run, readers: list[Reader]) -> None:
    """Read all changes, after which each copy must equal the table."""
    rng = random.Random(0)
    with connect(run.dsn) as connection:
        if not run.crashing:  # skipped after a crash: resync() would repair its damage to the copies
            for name in connection.execute(b"SELECT gid FROM pg_prepared_xacts").fetchall():
                connection.execute(f"ROLLBACK PREPARED '{name[0]}'".encode())
            resync(connection)
            connection.execute(b"DELETE FROM t WHERE id % 3 = 0")
        for reader in readers:
            while reader.take(connection, rng):
                pass
        for reader in readers:  # a worker may have had a batch of a copy that several workers share
            if reader.copy.rows != reader.copy.table_now(connection):
                run.faults.append(f"the copy of {reader.feed} differs from the table")


def play(run: Run, work: Sequence[Work], seconds: float) -> None:
    run.stop.clear()
    threads = [Thread(target=run.guarded, args=[each, number]) for number, each in enumerate(work)]
    for thread in threads:
        thread.start()
    run.wait(seconds)
    for thread in threads:
        thread.join()


def run_changes(
    server: Installation, seconds: float, seed: int, edition: Edition = EDITIONS["c"], asynchronous: bool = False
) -> Run:
    with Cluster(server) as cluster, ExitStack() as stack:
        cluster.start(LAZY if asynchronous else SETTINGS)
        edition.install(cluster.dsn)
        run = Run(edition.dsn(cluster.dsn), seed, crashing=cluster if asynchronous else None)
        if edition.user:  # the owner of the database owns the schema, and could replace the log
            with connect(cluster.dsn) as connection:
                connection.execute(f"GRANT {edition.user} TO {INSTALLER}".encode())
        with connect(run.dsn) as connection:
            connection.execute(TABLES.encode())
            for feed in FEEDS:
                connection.execute("SELECT feed_create(%s, 't_changes')", [feed])
        standby = stack.enter_context(Standby(cluster)) if edition.has(STANDBY) else None
        if standby:
            standby.start(SETTINGS)
        readers = readers_of(run, standby)
        work: list[Work] = [lambda rng: write(run, rng)] * 8 + [lambda rng: kill(run, rng), *readers]
        if not asynchronous:  # an owner's resync sets everything right
            work.append(lambda rng: own(run, rng))
        cycles = max(1, round(seconds / CYCLE_SECONDS)) if asynchronous else 1
        for _ in range(cycles):
            play(run, work, seconds / cycles)
            if not run.faults:
                settle(run, readers)
        return run


def main() -> None:
    edition, seconds = sys.argv[1], float(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(1_000_000)
    run = run_changes(find_installation(), seconds, seed, EDITIONS[edition])
    print(f"seed {seed}: {dict(run.seen)}", *run.faults, sep="\n")
    sys.exit(1 if run.faults else 0)


if __name__ == "__main__":
    main()
