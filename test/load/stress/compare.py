"""Compare the delivered rows with the committed rows, and both with the tables and their counts."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import psycopg
from inorder.connection.database import Connection, connect

from load.stress.delivery import Delivery, Reader
from load.stress.stateless import PastBatch, Stateless, batch_rows
from world.ledger import ROW_BITS
from world.refusals import cause_of
from world.sql import numbers
from world.tables import RESTLESS, TABLES, UNORDERED
from world.world import World

REREAD = 50
PARTITIONS_OUTSIDE = """
SELECT oid::regclass::text FROM pg_class
WHERE relname ~ '^r_parts_[0-9]+$' AND NOT relispartition AND relnamespace = 'public'::regnamespace
"""


@dataclass(frozen=True)
class Line:
    reader: str
    polls: int
    due: int
    delivered: int
    lost: int
    repeated: int
    phantom: int
    disordered: int
    waiting: int
    longest_ms: float
    retries: str

    @property
    def wrong(self) -> int:
        return self.lost + self.repeated + self.phantom + self.disordered + self.waiting


@dataclass(frozen=True)
class Result:
    seed: int
    seconds: float
    server: str
    lines: list[Line]
    checks: int
    reread: int
    partitions: int
    done: str
    problems: list[str]

    @property
    def failed(self) -> bool:
        return bool(self.problems) or any(line.wrong for line in self.lines)


def deliveries(readers: Iterable[Reader]) -> list[Delivery]:
    return list({id(reader.delivery): reader.delivery for reader in readers}.values())


def same_rows(world: World, table: str, a: Sequence[int], b: Sequence[int]) -> bool:
    """Return True if two reads have the same rows in the same order.

    Rows of partitions that were detached or attached do not count. In a table of UNORDERED, the order of the rows of
    one transaction does not matter.
    """
    detached = world.ledger.gone[table]
    first, second = [x for x in a if x not in detached], [x for x in b if x not in detached]
    if table not in UNORDERED:
        return first == second
    return [x >> ROW_BITS for x in first] == [x >> ROW_BITS for x in second] and sorted(first) == sorted(second)


def rows_there(connection: Connection, table: str) -> set[int]:
    return set(numbers(connection, f"SELECT token FROM {table}"))


def close_books(world: World) -> None:
    with connect(world.primary) as connection:
        for (name,) in connection.execute(PARTITIONS_OUTSIDE.encode()).fetchall():
            world.ledger.leave("r_parts", rows_there(connection, str(name)))
        stored = {table: rows_there(connection, table) for table in TABLES}
    for half in world.ledger.resolve(stored):
        world.problem(half)
    if world.was_promoted:
        world.ledger.forget(stored)


def note_waiting(world: World, readers: Sequence[Reader]) -> None:
    for delivery in deliveries(readers):
        rows = (world.ledger.due(table) - set(delivery.tokens(table)) for table in delivery.tables)
        delivery.waiting = sum(map(len, rows))
        if delivery.waiting:
            world.problem(f"{delivery.kind} has not got committed rows: {missing(world, delivery)}")


def line_of(world: World, delivery: Delivery) -> Line:
    due = {table: world.ledger.due(table) for table in delivery.tables}
    tokens = {table: delivery.tokens(table) for table in delivery.tables}
    return Line(
        reader=delivery.kind,
        polls=delivery.polls,
        due=sum(map(len, due.values())),
        delivered=sum(map(len, tokens.values())),
        lost=sum(len(due[table] - set(tokens[table])) for table in due),
        repeated=sum(len(tokens[table]) - len(set(tokens[table])) for table in due),
        phantom=sum(len(set(tokens[table]) - world.ledger.committed[table]) for table in due),
        disordered=delivery.disordered(world.ledger.versions),
        waiting=delivery.waiting,
        longest_ms=delivery.longest * 1000,
        retries=counted(delivery.retries),
    )


def missing(world: World, delivery: Delivery) -> str:
    lost = {table: sorted(world.ledger.due(table) - set(delivery.tokens(table))) for table in delivery.tables}
    return ", ".join(f"{len(tokens)} of {table}, the first {tokens[0]:#x}" for table, tokens in lost.items() if tokens)


def counted(things: Counter[str]) -> str:
    return ", ".join(f"{amount} {noun}" for noun, amount in things.most_common())


def read_again(world: World, readers: Sequence[Reader]) -> int:
    past: list[PastBatch] = [batch for reader in readers if isinstance(reader, Stateless) for batch in reader.past]
    chosen = random.Random(world.seed).sample(past, min(REREAD, len(past)))
    read = 0
    for dsn in filter(None, (world.primary, world.standby)):
        with connect(dsn) as connection:
            for batch in chosen:
                try:
                    tokens = batch_rows(connection, batch.table, batch.batch)
                except psycopg.errors.ObjectNotInPrerequisiteState as error:
                    if batch.table not in RESTLESS or cause_of(error) is None:
                        raise
                    continue
                read += 1
                if not same_rows(world, batch.table, tokens, batch.tokens):
                    world.problem(f"a past batch of {batch.table} has other rows now: {batch.batch}")
    return read


def check_tables(world: World) -> int:
    with connect(world.primary) as connection:
        for table in TABLES:
            stored, committed = rows_there(connection, table), world.ledger.committed[table]
            if not world.ledger.due(table) <= stored <= committed:
                world.problem(f"{table} has {len(stored)} rows, its writers committed {len(committed)}")
            (counted,) = numbers(connection, "SELECT exact_count(%s)", table)
            if counted != len(stored):
                world.problem(f"exact_count({table}) is {counted} at the end, not {len(stored)}")
        return numbers(connection, "SELECT count(*) FROM pg_partition_tree('s_parts') WHERE isleaf")[0]
