"""The last stages of the long form: a standby is promoted under load, and a dump is restored on another server."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import psycopg
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster

from load.stress.delivery import Reader
from load.stress.readers import Applying, Plain, TwoStep
from load.stress.stateless import Stateless
from load.stress.tails import Tail
from set_clock import SetClock
from world.server import Standby, kill_all, run_program
from world.sql import numbers
from world.tables import CALM, TABLES, make_roles
from world.world import Prepared, World, fill

GENERATED = ("s_generated", "r_generated")
UNREAD_ROWS = 400


@dataclass
class Stage:
    primary: Cluster
    young: Cluster
    standby: Standby  # the standby to promote; readers use it if the edition can read on a standby
    clock: SetClock | None = None
    is_later: bool = False
    is_promoted: bool = False

    @property
    def clusters(self) -> list[Cluster]:
        return [self.primary, self.standby]

    def catch_up(self) -> None:
        if not self.is_promoted:
            with connect(self.primary.dsn) as connection:
                connection.execute("CHECKPOINT")  # logs the transactions that are still running after a crash
            self.standby.catch_up()

    def check_promotion(self, world: World, readers: list[Reader]) -> None:
        """Check that each stored position was refused once after the promotion."""
        for reader in readers:
            if isinstance(reader, Stateless) and not all(reader.asked.values()):
                silent = [table for table, times in reader.asked.items() if not times]
                world.problem(f"{reader.name}: positions of the old timeline were accepted: {silent}")


def promote(world: World, stage: Stage, seconds: float) -> None:
    rng = world.randomness("promotion")
    if world.broken.wait(seconds / 2):
        return
    safe = {table: set(world.ledger.committed[table]) for table in TABLES}
    stage.catch_up()
    if rng.random() < 0.7:
        stage.standby.stop_streaming()
        world.broken.wait(rng.random())
    kill_all(stage.primary)
    world.was_promoted = stage.is_promoted = True
    stage.standby.promote()
    keep_prepared(world, stage.standby)
    world.superuser = stage.standby.dsn
    world.done["promotion"] += 1
    world.broken.wait(seconds / 2)
    with connect(world.primary) as connection:
        for table in CALM:
            if not safe[table] <= set(numbers(connection, f"SELECT token FROM {table}")):
                world.problem(f"rows of {table} that the standby had are gone")


def keep_prepared(world: World, standby: Standby) -> None:
    """Record each transaction that is still prepared after a crash, so that it is committed or rolled back later."""
    with connect(standby.dsn) as connection:
        for (gid,) in connection.execute("SELECT gid FROM pg_prepared_xacts").fetchall():
            if rows := world.lanes_prepared.get(str(gid)):
                world.prepared.append(Prepared(str(gid), rows))


def restore(world: World, stage: Stage, readers: list[Reader], settings: dict[str, str]) -> list[Reader]:
    leave_unread(world, readers)
    stage.young.start(settings)
    copy_database(world, stage)
    world.superuser, world.was_restored = stage.young.dsn, True
    world.standby = world.primary
    with connect(world.primary) as connection:
        for table in TABLES:
            expect_refusal(world, connection, table)
            connection.execute("SELECT feed_rebase(%s, %s)", [table, highest(readers, table)])
    readers = [reader.again() for reader in readers if not isinstance(reader, Tail)]
    for reader in readers:
        settle(reader)
    world.done["restore"] += 1
    return readers


def leave_unread(world: World, readers: list[Reader]) -> None:
    world.begin_again()
    with connect(world.primary) as connection:
        fill(world, connection, UNREAD_ROWS)
    for reader in readers:
        if not isinstance(reader, Tail):
            reader.connect()
            for table in reader.tables:
                reader.timed(table)
            reader.close()


def copy_database(world: World, stage: Stage) -> None:
    world.edition.make_roles(stage.young.dsn)
    make_roles(stage.young.dsn)
    with tempfile.TemporaryDirectory(prefix="inorder-stress-") as folder:
        dump = Path(folder) / "dump"
        options = ["--format=custom", "--no-tablespaces", "-f", str(dump), "-d", world.superuser]
        dumped = run_program(stage.primary, "pg_dump", *options)
        assert dumped.returncode == 0, dumped.stderr
        options = ["--exit-on-error", "--no-tablespaces", "-d", stage.young.dsn]
        restored = run_program(stage.young, "pg_restore", *options, str(dump))
        assert restored.returncode == 0, restored.stderr


def expect_refusal(world: World, connection: Connection, table: str) -> None:
    """Check that no row can be read or written before feed_rebase() is called.

    Rows with generated numbers can still be written, because the restore computes these numbers again.
    """
    insert = f"INSERT INTO {table} (region, token) VALUES (0, 0)"
    for attempt in (f"SELECT FROM feed_read('all rows {table}', null::{table})", *[insert] * (table not in GENERATED)):
        try:
            connection.execute(attempt.encode())
        except psycopg.errors.ObjectNotInPrerequisiteState:
            continue
        world.problem(f"not refused after the restore: {attempt}")


def highest(readers: list[Reader], table: str) -> int:
    readers = [] if table in GENERATED else readers
    return max((reader.highest(table) for reader in readers if isinstance(reader, Stateless)), default=0)


def settle(reader: Reader) -> None:
    """Repair a reader after feed_rebase(), as the manual describes for each kind of reader.

    Readers of tables with generated numbers begin again, because these numbers have changed.
    """
    if isinstance(reader, Stateless):
        reader.servers = ["primary"]
        reader.connect()
        for table in TABLES:
            (reader.begin_anew if table in GENERATED else reader.set_origin_null)(table)
        reader.past.clear()
        reader.close()
    elif isinstance(reader, Plain) and not reader.joins:
        begin_generated(reader)


def begin_generated(reader: Plain) -> None:
    with connect(reader.world.primary) as connection:
        for table in set(GENERATED) & set(reader.tables):
            seek = "SELECT feed_seek(%s, 'beginning', owner => %s::regrole)"
            connection.execute(seek, [reader.feed(table), reader.owner])
            if isinstance(reader, Applying):
                connection.execute(f"TRUNCATE {table}_copy".encode())
            if isinstance(reader, TwoStep):
                reader.forgotten[table] += 1
    reader.delivery.events[:] = [event for event in reader.delivery.events if event.table not in GENERATED]
