"""One round: start all roles, stop them, and compare delivered rows with committed rows; then promote and restore."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from inorder.connection.database import connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from load.stress.acts import Stage, promote, restore
from load.stress.around import NOTHING, Around, Stepper, pooled_readers, settable_clock
from load.stress.compare import (
    Line,
    Result,
    check_tables,
    close_books,
    counted,
    deliveries,
    line_of,
    missing,
    note_waiting,
    read_again,
)
from load.stress.delivery import Reader
from load.stress.others import HELD, hold_open, others
from load.stress.owners import owners
from load.stress.partitions import Partitions
from load.stress.readers import database_readers
from load.stress.stateless import stateless_readers
from load.stress.tails import Tail
from load.stress.workers import workers
from world.edition import EDITIONS, STANDBY, Edition
from world.role import Role
from world.server import Standby, crash, other_crashes
from world.tables import MOVER, OWNER, ROWS_BEFORE, SETUP, STREAMS, TABLES, make_roles
from world.world import World, fill
from world.writers import WRITERS, Writer, finish_all

SETTINGS = {
    "fsync": "off",
    "shared_buffers": "256MB",
    "max_wal_size": "8GB",
    "wal_keep_size": "4GB",  # keeps the WAL for a standby that starts late
    "max_prepared_transactions": "40",
    "max_connections": "120",
    "deadlock_timeout": "200ms",
    # SERIALIZABLE takes a predicate lock on each page that a reader has read.
    "max_pred_locks_per_transaction": "2000",
    "allow_in_place_tablespaces": "on",
    "restart_after_crash": "on",
}
# The standby lags, as real standbys do. Replay waits at most 5 s for conflicting sessions, which may wait for replay.
LAG = {"recovery_min_apply_delay": "500ms", "max_standby_streaming_delay": "5s"}
PATIENCE_SECONDS = 300
# In the long form, the server is killed after these fractions of the time.
CRASHES = (0.35, 0.7)
LATER_SECONDS = 5.0
LEAST_CHECKS = 20  # minimum number of count comparisons in a round


def prepare(world: World, readers: Sequence[Reader]) -> None:
    world.edition.install(world.superuser)
    make_roles(world.superuser)
    world.edition.admit(world.superuser, OWNER, MOVER)
    with connect(world.primary) as connection:
        connection.execute(SETUP.encode())
        connection.execute("INSERT INTO s_streams SELECT generate_series(1::int, %s), 0", [STREAMS])
        fill(world, connection, ROWS_BEFORE)
        for table in TABLES:
            connection.execute("SELECT exact_count_start(%s)", [table])
        for reader in readers:
            reader.make_feeds(connection)


def wait_for(world: World, threads: Sequence[Role]) -> None:
    """Wait for the roles that were started. After an interrupt, some may not have been started."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    for thread in filter(Role.is_alive, threads):
        thread.join(max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            world.problem(f"{thread.name} did not end within {PATIENCE_SECONDS} s")


def wait_until_drained(world: World, readers: Sequence[Reader]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    for reader in readers:
        while reader.is_alive() and not reader.drained.wait(0.1):
            if world.broken.is_set():
                return
            if time.monotonic() > deadline:
                world.problem(f"{reader.name} did not read all rows within {PATIENCE_SECONDS} s")
                return


def wait_for_writers(world: World, writers: Sequence[Role], held: dict[str, list[int]]) -> None:
    """Wait for the writers. In a broken round, first finish prepared transactions, for which a role may wait."""
    while world.broken.is_set() and any(writer.is_alive() for writer in writers):
        if held:
            release(world, held)
        finish_all(world)
        time.sleep(0.1)
    wait_for(world, writers)


def release(world: World, held: dict[str, list[int]]) -> None:
    with connect(world.primary) as connection:
        connection.execute(f"COMMIT PREPARED '{HELD}'".encode())
    world.ledger.add(held)
    held.clear()


def play(
    world: World, stage: Stage, readers: Sequence[Reader], disturb: Callable[[dict[str, list[int]]], None]
) -> None:
    """Run all roles, end the writers, drain the readers, and commit the held transaction, if any."""
    world.begin_again()
    held = dict[str, list[int]]()
    writers = [Writer(world, number) for number in range(WRITERS)]
    changing, background = [*owners(world), Partitions(world)], others(world, stage.is_later)
    if stage.clock is not None:
        background.append(Stepper(world, stage.clock))
    try:
        for thread in [*readers, *writers, *background, *changing]:
            thread.start()
        disturb(held)
        world.stop.set()
        wait_for_writers(world, writers, held)
        finish_all(world)  # an owner may wait for a prepared transaction that a crash left behind
        wait_for(world, [*changing, *(thread for thread in background if thread.name == "partitioner")])
        close_books(world)
        stage.catch_up()
        world.settled.set()
        wait_until_drained(world, readers)
        note_waiting(world, readers)
        if held:
            release(world, held)
        stage.catch_up()
    finally:
        world.end()
        wait_for(world, [*readers, *background, *changing])


def time_passes(world: World, stage: Stage, seconds: float, held: dict[str, list[int]]) -> None:
    """Wait for the given time. In the long form, kill the server twice, then hold a transaction open.

    The transaction begins after the crashes, because it is prepared: while a transaction is prepared, a standby keeps
    the locks of later transactions that a crash of the primary has aborted.
    """
    rng, began = world.randomness("crash"), time.monotonic()
    for share in CRASHES if world.is_long else ():
        if world.broken.wait(max(0.0, began + share * seconds - time.monotonic())):
            return
        crash(stage.primary, SETTINGS, rng)
        world.done["kill -9"] += 1
    held.update(hold_open(world))
    world.broken.wait(max(0.0, began + seconds - time.monotonic()))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while world.checks < LEAST_CHECKS and time.monotonic() < deadline and not world.broken.wait(0.1):
        continue  # a slow machine needs more time for the checks


def compare_all(world: World, readers: Sequence[Reader]) -> None:
    for delivery in deliveries(readers):
        line = line_of(world, delivery)
        if line.wrong:
            world.problem(f"after an act: {line}; lost: {missing(world, delivery) or 'none'}")


def later_acts(world: World, stage: Stage, readers: Sequence[Reader]) -> tuple[list[Reader], list[Line]]:
    """Promote the standby under load, then restore a dump on a server with lower transaction IDs.

    Return the readers that continue, and the results of the readers that end with the promoted server.
    """
    stage.is_later = True
    readers = [reader.again() for reader in readers]
    play(world, stage, readers, lambda _: promote(world, stage, LATER_SECONDS))
    if world.problems:
        return readers, []
    stage.check_promotion(world, readers)
    check_tables(world)
    compare_all(world, readers)
    if world.problems:
        return readers, []
    ended_lines = [line_of(world, reader.delivery) for reader in readers if isinstance(reader, Tail)]
    readers = restore(world, stage, readers, SETTINGS)
    play(world, stage, readers, lambda _: time.sleep(LATER_SECONDS))
    return readers, ended_lines


def started(stack: ExitStack, server: Installation, edition: Edition, around: Around) -> Stage:
    clock = stack.enter_context(settable_clock()) if around.has_clock else None
    primary, young = (stack.enter_context(Cluster(server, () if edition.user is None else None)) for _ in range(2))
    primary.start(SETTINGS)
    standby = stack.enter_context(Standby(primary))
    standby.start(SETTINGS | LAG | around.settings)
    return Stage(primary, young, standby, clock)


def all_readers(world: World) -> list[Reader]:
    readers: list[Reader] = [*database_readers(world), *workers(world), *stateless_readers(world)]
    if world.is_long:
        readers += [Tail(world, "primary", "r_uuid"), Tail(world, "standby" if world.standby else "primary", "s_parts")]
    return [reader for reader in readers if world.edition.has(reader.needs)]


def run_round(
    server: Installation, seconds: float, seed: int, is_long: bool = False, edition: Edition = EDITIONS["c"],
    around: Around = NOTHING,
) -> Result:  # fmt: skip
    with ExitStack() as stack:
        stage = started(stack, server, edition, around)
        standby = stage.standby.dsn if edition.has(STANDBY) else ""
        world = World(stage.primary.dsn, seed, standby, edition, is_long=is_long)
        readers = all_readers(world)
        for reader in readers:
            if isinstance(reader, Tail):
                stack.callback(reader.remove)
        prepare(world, readers)
        if around.pooler is not None:
            stack.enter_context(pooled_readers(world, stage.primary, around.pooler))
        stage.catch_up()
        play(world, stage, readers, lambda held: time_passes(world, stage, seconds, held))
        reread, partitions, ended_lines = 0, 0, list[Line]()
        if not world.problems:
            stage.catch_up()
            reread, partitions = read_again(world, readers), check_tables(world)
        if is_long and not world.problems:
            readers, ended_lines = later_acts(world, stage, readers)
            partitions = 0 if world.problems else check_tables(world)
        for cluster in stage.clusters:
            world.problems += other_crashes(cluster)
        lines = [line_of(world, delivery) for delivery in deliveries(readers)] + ended_lines
        for delivery in deliveries(readers) if not world.problems else []:
            if lost := missing(world, delivery):
                world.problem(f"{delivery.kind} lost {lost}")
        done, checks = counted(world.done), world.checks
        name = f"{server.name}, edition {edition.name}"
        return Result(seed, seconds, name, lines, checks, reread, partitions, done, world.problems)
