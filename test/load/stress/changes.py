"""Feeds of changes under load: the copies that readers keep must equal the table.

Writers execute all kinds of statements, an owner alters the table, and the sessions of readers are killed. Readers read
whole batches or parts of batches, from a feed or from their own position. Some readers use a standby, and some keep the
copy outside the database. The copies of workers compare versions.
"""

import random
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Lock, get_ident

import psycopg
from inorder.connection.database import Connection, connect
from inorder.installations import Installation

from copies import NEXT, SNAPSHOT, Copy, KeptCopy
from ground import FINISH
from load.stress.changing import PATIENCE_SECONDS, SETTINGS, Run, Work, kill, opened, own, write
from world.edition import EDITIONS, STANDBY, Edition
from world.server import UNFLUSHED, Standby, kill_all
from world.sql import run as execute

FEEDS = ("whole", "pieces", "outside", "workers")
LAZY = SETTINGS | UNFLUSHED | {"synchronous_commit": "off"}
CYCLE_SECONDS, BETWEEN_SECONDS = 1.0, 0.05
CHECKED_KEYS = ("area", "id")
WHOLE = ("whole", "kept")  # methods with which the copy equals the table after each batch
READS = "query ~ 'feed_|changes_batch'"


@dataclass
class Reading(Run):
    """A run. If ``crashing`` is set, its server is killed between a batch and its rows, and loses the last commits."""

    is_due: Event = field(default_factory=Event)  # the server will be killed during the next batch
    last: int | None = None  # the thread of the reader whose batch the crash will interrupt
    wanted: Event = field(default_factory=Event)

    def begins(self, is_outside: bool) -> None:
        """Begin a reader's step. If a crash is due, stop all readers but one: no other reader may flush the WAL."""
        if self.is_due.is_set() and not (is_outside and self.last in (None, get_ident())):
            self.stop.wait()
        elif self.is_due.is_set():
            self.last = get_ident()

    def has_batch(self) -> None:
        """Give writers time to continue before the rows of the batch are read."""
        if self.last == get_ident():
            time.sleep(BETWEEN_SECONDS)

    def has_rows(self) -> None:
        if self.last == get_ident():
            self.wanted.set()
            self.stop.wait()

    def wait(self, seconds: float) -> None:
        """Wait for the end of the run. If the run has a crash, kill the server, and start it again.

        This thread starts the server, because a server ends with the thread that started it.
        """
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


def resync(connection: Connection) -> None:
    while True:
        with suppress(psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            connection.execute(b"SELECT changes_resync('t')")
            return


@dataclass
class Reader:
    """Keeps a copy with the method ``way``. If a transaction fails, the copy stays as it was before the transaction."""

    run: Reading
    feed: str
    way: str = "whole"
    dsn: str | None = None  # connection string of a standby, if the reader uses one
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
            self.copy = deepcopy(copy)  # the sink is outside the database, and keeps the copy
            if number is not None:
                self.run.has_rows()
            if number is not None and rng.random() < 0.9:  # otherwise the batch is delivered again
                connection.execute(FINISH, [self.feed, number])
            return number is not None
        connection.execute(SNAPSHOT)
        going_on = copy.step(connection, None if self.way in WHOLE else rng.choice([1, 5, 50]))
        if self.way in WHOLE and going_on:
            assert copy.rows == copy.table_now(connection), "the copy differs from the table"
            self.run.note("compared" if self.dsn is None else "compared on the standby")
        connection.execute(b"COMMIT")
        if self.way == "kept":  # the copy is outside the database, with the position
            self.copy = deepcopy(copy)
        return going_on


@dataclass
class Worker(Reader):
    """One of several workers with one sink. The sink ignores a row whose version is lower than the stored version."""

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


def readers_of(run: Reading, standby: Standby | None) -> list[Reader]:
    sink = Worker(run, "workers", name="w0")
    more = [Worker(run, "workers", name=f"w{number}", sink_lock=sink.sink_lock) for number in (1, 2)]
    for worker in more:
        worker.copy = sink.copy
    return [
        Reader(run, "whole"),
        Reader(run, "none", "kept"),
        *([Reader(run, "none", "kept", standby.dsn)] if standby else []),
        Reader(run, "pieces", "pieces"),
        Reader(run, "outside", "outside"),
        sink,
        *more,
    ]


def settle(run: Reading, readers: list[Reader]) -> None:
    """Read all remaining changes. Each copy must then equal the table."""
    rng = random.Random(0)
    with connect(run.dsn) as connection:
        if not run.crashing:  # after a crash, resync() would hide that the crash has damaged a copy
            for name in connection.execute(b"SELECT gid FROM pg_prepared_xacts").fetchall():
                connection.execute(f"ROLLBACK PREPARED '{name[0]}'".encode())
            resync(connection)
            connection.execute(b"DELETE FROM t WHERE id % 3 = 0")
        for reader in readers:
            while reader.take(connection, rng):
                pass
        for reader in readers:  # after all reads, because any worker may have received batches of a shared copy
            if reader.copy.rows != reader.copy.table_now(connection):
                run.faults.append(f"the copy of {reader.feed} differs from the table")


def play(run: Reading, work: Sequence[Work], seconds: float) -> None:
    threads = run.start(work)
    run.wait(seconds)
    for thread in threads:
        thread.join()


def run_changes(
    server: Installation, seconds: float, seed: int, edition: Edition = EDITIONS["c"], asynchronous: bool = False
) -> Run:
    with opened(server, edition, LAZY if asynchronous else SETTINGS) as (cluster, dsn), ExitStack() as stack:
        run = Reading(dsn, seed, crashing=cluster if asynchronous else None)
        with connect(run.dsn) as connection:
            execute(connection, "SELECT changes_enable('t')")
            for feed in FEEDS:
                connection.execute("SELECT feed_create(%s, 't_changes')", [feed])
        standby = stack.enter_context(Standby(cluster)) if edition.has(STANDBY) else None
        if standby:
            standby.start(SETTINGS)
        readers = readers_of(run, standby)
        work: list[Work] = [*[partial(write, run)] * 8, partial(kill, run, which=READS), *readers]
        if not asynchronous:  # resync() of an owner would hide that a crash has damaged a copy
            work.append(partial(own, run, repair=resync))
        cycles = max(1, round(seconds / CYCLE_SECONDS)) if asynchronous else 1
        for _ in range(cycles):
            play(run, work, seconds / cycles)
            if not run.faults:
                settle(run, readers)
        return run
