"""One round: start everybody, stop them, compare what was delivered with what was committed."""

import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from inorder.cluster import Cluster
from inorder.database import connect
from inorder.servers import Server

from standby import Standby
from stress.others import HELD, hold_open, others
from stress.readers import Delivery, Reader, database_readers
from stress.stateless import PastBatch, Stateless, batch_rows, stateless_readers
from stress.world import ROW_BITS, ROWS_BEFORE, SETUP, TABLES, Role, World, token_of
from stress.writers import WRITERS, Writer, finish_prepared

SETTINGS = {
    "fsync": "off",
    "shared_buffers": "256MB",
    "max_wal_size": "8GB",
    "max_prepared_transactions": "40",
    "max_connections": "120",
    "deadlock_timeout": "200ms",
    # SERIALIZABLE remembers every page that a reader looked at.
    "max_pred_locks_per_transaction": "2000",
}
# The standby is behind, as real ones are.
LAG = {"recovery_min_apply_delay": "500ms"}
REREAD = 50
PATIENCE_SECONDS = 300


@dataclass(frozen=True)
class Line:
    """What became of one reader."""

    reader: str
    polls: int
    committed: int
    delivered: int
    lost: int
    repeated: int
    phantom: int
    disordered: int
    waiting: int
    longest_ms: float

    @property
    def wrong(self) -> int:
        """Rows that are not as they must be."""
        return self.lost + self.repeated + self.phantom + self.disordered + self.waiting


@dataclass(frozen=True)
class Result:
    """What a round found."""

    seed: int
    seconds: float
    server: str
    lines: list[Line]
    checks: int
    reread: int
    partitions: int
    problems: list[str]

    @property
    def failed(self) -> bool:
        """Whether anything is wrong."""
        return bool(self.problems) or any(line.wrong for line in self.lines)


def same_rows(table: str, a: Sequence[int], b: Sequence[int]) -> bool:
    """The same rows in the same order; where nothing tells rows of a transaction apart, theirs is open."""
    if table != "s_bare":
        return list(a) == list(b)
    return [x >> ROW_BITS for x in a] == [x >> ROW_BITS for x in b] and sorted(a) == sorted(b)


def prepare(world: World, readers: Sequence[Reader]) -> None:
    """Tables with some rows, counts and feeds."""
    lane = next(world.lanes)
    with connect(world.primary) as connection:
        connection.execute(SETUP.encode())
        for number, table in enumerate(TABLES):
            tokens = range(token_of(lane, number, 0), token_of(lane, number, ROWS_BEFORE))
            statement = f"INSERT INTO {table} (region, token) SELECT 0, generate_series(%s::bigint, %s)"
            connection.execute(statement.encode(), [tokens[0], tokens[-1]])
            world.ledger.add({table: list(tokens)})
            connection.execute("SELECT exact_count_start(%s)", [table])
        for reader in readers:
            reader.make_feeds(connection)


def wait_for(world: World, threads: Sequence[Role]) -> None:
    """Until these have ended; not for ever."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            world.problem(f"{thread.name} does not end")


def wait_until_drained(world: World, readers: Sequence[Reader]) -> None:
    """Until no reader finds anything more, with one transaction still open."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    for reader in readers:
        while reader.is_alive() and not reader.drained.wait(0.1):
            if world.broken.is_set():
                return
            if time.monotonic() > deadline:
                world.problem(f"{reader.name} does not run dry")
                return


def note_waiting(world: World, readers: Sequence[Reader]) -> None:
    """Rows that did not come though only a transaction that has nothing to do with them is open."""
    for delivery in {id(reader.delivery): reader.delivery for reader in readers}.values():
        delivery.waiting = sum(len(world.ledger.committed[table] - set(delivery.tokens[table])) for table in TABLES)


def finish_all(world: World) -> None:
    """The second phase of whatever waits for it, but for the one that is held."""
    with connect(world.primary) as connection, suppress(IndexError):  # somebody else was faster
        while world.prepared:
            finish_prepared(world, connection, world.prepared.pop(), world.seed % 2 == 0)


def wait_for_writers(world: World, writers: Sequence[Role], held: dict[str, list[int]]) -> None:
    """As wait_for; in a broken round somebody may wait for a prepared transaction: finish those."""
    while world.broken.is_set() and any(writer.is_alive() for writer in writers):
        if held:
            release(world, held)
        finish_all(world)
        time.sleep(0.1)
    wait_for(world, writers)


def release(world: World, held: dict[str, list[int]]) -> None:
    """Commit the transaction that is held open."""
    with connect(world.primary) as connection:
        connection.execute(f"COMMIT PREPARED '{HELD}'".encode())
    world.ledger.add(held)
    held.clear()


def play(world: World, standby: Standby, readers: Sequence[Reader], seconds: float) -> None:
    """Everybody at once; then the writers end, the readers drain, and the held transaction commits."""
    held = hold_open(world)
    writers = [Writer(world, number) for number in range(WRITERS)]
    background = others(world)
    try:
        for thread in [*readers, *writers, *background]:
            thread.start()
        world.broken.wait(seconds)
        world.stop.set()
        wait_for_writers(world, writers, held)
        wait_for(world, [thread for thread in background if thread.name == "partitioner"])
        finish_all(world)
        standby.catch_up()
        world.settled.set()
        wait_until_drained(world, readers)
        note_waiting(world, readers)
        if held:
            release(world, held)
        standby.catch_up()
    finally:
        for event in (world.stop, world.settled, world.released):
            event.set()
        wait_for(world, [*readers, *background])


def line_of(world: World, delivery: Delivery) -> Line:
    """Compare one delivery with the ledger."""
    committed, tokens = world.ledger.committed, delivery.tokens
    return Line(
        reader=delivery.kind,
        polls=delivery.polls,
        committed=sum(len(committed[table]) for table in TABLES),
        delivered=sum(len(tokens[table]) for table in TABLES),
        lost=sum(len(committed[table] - set(tokens[table])) for table in TABLES),
        repeated=sum(len(tokens[table]) - len(set(tokens[table])) for table in TABLES),
        phantom=sum(len(set(tokens[table]) - committed[table]) for table in TABLES),
        disordered=delivery.disordered(),
        waiting=delivery.waiting,
        longest_ms=delivery.longest * 1000,
    )


def read_again(world: World, readers: Sequence[Reader]) -> int:
    """Batches of the past, chosen at random, on both servers. How many."""
    past: list[PastBatch] = [batch for reader in readers if isinstance(reader, Stateless) for batch in reader.past]
    chosen = random.Random(world.seed).sample(past, min(REREAD, len(past)))
    for dsn in (world.primary, world.standby):
        with connect(dsn) as connection:
            for batch in chosen:
                if not same_rows(batch.table, batch_rows(connection, batch.table, batch.batch), batch.tokens):
                    world.problem(f"a past batch of {batch.table} has other rows now: {batch.batch}")
    return len(chosen)


def check_tables(world: World) -> int:
    """The ledger against the tables themselves, and the last counts. Number of partitions."""
    with connect(world.primary) as connection:
        for table in TABLES:
            there = {int(str(token)) for (token,) in connection.execute(f"SELECT token FROM {table}".encode())}
            if there != world.ledger.committed[table]:
                world.problem(
                    f"{table} has {len(there)} rows, its writers committed {len(world.ledger.committed[table])}"
                )
            row = connection.execute("SELECT exact_count(%s)", [table]).fetchone()
            if row != (len(there),):
                world.problem(f"exact_count({table}) is {row} at the end, not {len(there)}")
        leaves = connection.execute("SELECT count(*) FROM pg_partition_tree('s_parts') WHERE isleaf").fetchone()
    assert leaves is not None
    return int(str(leaves[0]))


def run_round(server: Server, seconds: float, seed: int) -> Result:
    """A round on a server and a standby of its own."""
    with Cluster(server) as primary:
        primary.start(SETTINGS)
        with Standby(primary) as standby:
            standby.start(SETTINGS | LAG)
            world = World(primary.dsn, standby.dsn, seed)
            readers = [*database_readers(world), *stateless_readers(world)]
            prepare(world, readers)
            standby.catch_up()
            play(world, standby, readers, seconds)
            deliveries = {id(reader.delivery): reader.delivery for reader in readers}.values()
            lines = [line_of(world, delivery) for delivery in deliveries]
            if world.problems:
                return Result(seed, seconds, server.name, lines, next(world.checks), 0, 0, world.problems)
            reread, partitions = read_again(world, readers), check_tables(world)
            return Result(seed, seconds, server.name, lines, next(world.checks), reread, partitions, world.problems)
