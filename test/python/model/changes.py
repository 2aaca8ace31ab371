"""Random steps of a table's writers and of a reader of its changes, executed on a server."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from inorder.connection.database import Connection, connect, execute, one_row

from copies import NEXT, SNAPSHOT, Copy
from ground import FINISH
from model.checks import changes
from model.trace import braced, replay_as

KEYS, STATEMENTS = 3, 3  # number of keys in the table, and of statements in a transaction
ENDED = "SELECT coalesce(array_agg(x), '{}') FROM unnest(%s::int8[]) AS x WHERE ended_transactions() @> x"
STATEMENT = {
    "put": "INSERT INTO t VALUES ({key}, {made}) ON CONFLICT (id) DO UPDATE SET made = excluded.made",
    "delete": "DELETE FROM t WHERE id = {key}",
    "move": "UPDATE t SET id = {to}, made = {made} WHERE id = {key} AND NOT EXISTS (SELECT FROM t WHERE id = {to})",
}


@dataclass
class Session:
    connection: Connection
    id: int = 0
    statements: int = 0
    has_locked: bool = False  # even a statement that finds no row locks the table
    touched: set[int] = field(default_factory=set)


class Schedule:
    """Executes random steps one after another. The steps are chosen so that none of them has to wait."""

    def __init__(self, dsn: str, rng: random.Random, writers: int) -> None:
        self.rng, self.steps = rng, list[str]()
        self.writers = [Session(connect(f"{dsn} options=-clock_timeout=1min")) for _ in range(writers)]
        self.reader, self.copy = connect(dsn), Copy()
        self.numbers = list[int]()  # transaction IDs in order: the model counts transactions from 1
        self.made = 1  # number of statements, including the statement that filled the table
        self.batch: object = None  # the batch that the sink has not finished
        execute(self.reader, "CREATE TABLE t (id int PRIMARY KEY, made int)", "INSERT INTO t VALUES (1, 0)")
        execute(self.reader, "SELECT changes_enable('t')", "SELECT feed_create('copy', 't_changes')")

    def say(self, do: str, **facts: object) -> None:
        self.steps.append(", ".join([f'do |-> "{do}"', *(f"{name} |-> {value}" for name, value in facts.items())]))

    def write(self) -> None:
        writer = self.rng.choice(self.writers)
        if not writer.id:
            writer.connection.execute("BEGIN")
            (number,) = one_row(writer.connection, "SELECT pg_current_xact_id()::text::int8")
            self.numbers.append(number)
            writer.id = len(self.numbers)
            self.say("begin", id=writer.id)
        elif writer.statements == STATEMENTS or self.rng.random() < 0.3:
            self.end(writer)
        elif self.rng.random() < 0.2:
            self.truncate(writer)
        else:
            self.change(writer)

    def change(self, writer: Session) -> None:
        locked_keys = set[int]().union(*(other.touched for other in self.writers if other is not writer))
        free = [key for key in range(1, KEYS + 1) if key not in locked_keys]
        self.rng.shuffle(free)
        do = self.rng.choice([*STATEMENT])
        names = ("key", "to") if do == "move" else ("key",)
        if len(free) < len(names):
            return
        keys = dict(zip(names, free, strict=False))
        writer.has_locked = True
        if writer.connection.execute(STATEMENT[do].format(made=self.made, **keys).encode()).rowcount:
            self.did(writer, do, **keys)
            writer.touched |= set(keys.values())

    def truncate(self, writer: Session) -> None:
        """Run TRUNCATE in a separate transaction, because all other writers would have to wait for it."""
        if any(other.has_locked for other in self.writers if other is not writer):
            return
        writer.connection.execute("TRUNCATE t")
        self.did(writer, "truncate")
        self.end(writer)

    def did(self, writer: Session, do: str, **keys: int) -> None:
        self.say(do, id=writer.id, **keys)
        writer.statements += 1
        self.made += 1

    def end(self, writer: Session) -> None:
        how = self.rng.choice(["committed", "committed", "aborted"])
        writer.connection.execute(b"COMMIT" if how == "committed" else b"ROLLBACK")
        self.say(how, id=writer.id)
        writer.id, writer.statements, writer.has_locked, writer.touched = 0, 0, False, set()

    def looks(self) -> bool:
        return self.reader.info.transaction_status.name != "IDLE"

    def read(self) -> None:
        if self.batch:
            self.store(again=True)
            if self.rng.random() < 0.7:
                self.finish()
        elif self.looks():
            self.follow()
        else:
            self.look()

    def look(self) -> None:
        """Take the snapshot of a batch.

        The batch is applied in the same transaction, or after it in a sink outside the database.
        """
        is_outside = self.rng.random() < 0.5
        self.reader.execute(SNAPSHOT.encode())
        (ended,) = one_row(self.reader, ENDED, [self.numbers])
        self.say("look", ended=braced({0} | {self.numbers.index(number) + 1 for number in ended}))
        if is_outside:
            self.take()
            self.reader.execute("COMMIT")

    def follow(self) -> None:
        try:
            self.take()
            if self.batch:
                self.store(again=False)
                self.finish()
        except psycopg.errors.SerializationFailure:  # the table was emptied since the snapshot was taken
            while self.steps[-1].startswith('do |-> "take"'):
                self.steps.pop()  # the take is rolled back with the transaction
            self.batch = None
            self.say("refused")
        self.reader.execute("COMMIT")

    def take(self) -> None:
        (self.batch,) = one_row(self.reader, NEXT, [self.copy.feed, None])
        if self.batch:
            self.say("take")

    def store(self, again: bool) -> None:
        self.copy.apply(self.copy.changes(self.reader, self.batch))
        rows: list[Any] = [row for _, row in sorted(self.copy.rows.items())]
        listed = ", ".join(f"<<{row['id']}, {row['made']}>>" for row in rows)
        self.say("store", again=str(again).upper(), rows=f"{{{listed}}}")

    def finish(self) -> None:
        self.reader.execute(FINISH, [self.copy.feed, self.batch])
        self.batch = None
        self.say("finish")

    def run(self, transactions: int) -> list[str]:
        while len(self.numbers) < transactions:
            self.rng.choice([self.write, self.write, self.write, self.read])()
        for writer in self.writers:
            if writer.id:
                self.end(writer)
        for _ in range(9):
            self.read()
        for connection in (self.reader, *(writer.connection for writer in self.writers)):
            connection.close()
        return self.steps


def replay(steps: Sequence[str]) -> tuple[int, str]:
    """Return the number of steps that the model can take, and the violated invariant, if any."""
    highest = sum('"begin"' in step for step in steps)
    constants = changes("changes", "", "truncate", "abort", ids=highest, keys=KEYS, statements=STATEMENTS, most=99)
    return replay_as("ReplayChanges", steps, constants.constants, constants.invariants)
