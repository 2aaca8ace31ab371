"""Workers that share a feed, with concurrent batches, expiring leases, and dead batches."""

import time
from typing import Any

import psycopg
from inorder.connection.database import Connection

from load.stress.delivery import Event
from load.stress.readers import JUMP, Batched, Plain
from world.sql import numbers
from world.world import World

# Tables whose rows keep their numbers, and whose partitions are never detached.
SHARED = ("s_uuid", "s_number", "s_bare", "s_parts", "r_uuid")
SHORT_LEASE, TOO_LONG_SECONDS = "1 second", 1.05
LEASE = "5 minutes"
TRIES = 3
GIVEN_AWAY, RETURNED, DEAD, BY_HAND = "given away", "returned", "dead", "by hand"


class Worker(Batched):
    tables = SHARED
    crashes = 0.05

    def __init__(self, world: World, kind: str, other: "Worker | None" = None) -> None:
        super().__init__(world, kind, (1, 500), other)
        self.delivery.tables = SHARED
        self.delivery.ordered = False
        self.sink: dict[tuple[str, int], list[int]] = other.sink if other else {}

        self.workers: list[str] = other.workers if other else []
        self.workers.append(f"worker {len(self.workers) + 1}")
        self.worker = self.workers[-1]
        if other:
            self.name = f"reader {kind} {len(self.workers)}"
            self.rng = world.randomness(self.name)

    def poll(self, table: str) -> int | None:
        """Take, process and finish a batch, or stop at a simulated crash. Return zero if there is nothing to do."""
        is_short = self.rng.random() < 0.05
        batch = self.ask(table, SHORT_LEASE if is_short else LEASE)
        if batch is None:
            return None
        return self.process(table, *batch, is_short) if batch[0] else self.clear(table)

    def process(self, table: str, number: int, token: int, is_short: bool) -> int | None:
        """Process a batch. Return the number of rows if the batch was finished."""
        try:
            tokens = self.rows(table, number)
        except psycopg.errors.InvalidParameterValue:
            if not is_short:
                raise
            return None  # the lease has expired, and another worker has finished the batch
        if is_short:
            time.sleep(TOO_LONG_SECONDS)
        if self.crash():
            return None
        if self.rng.random() < 0.15:
            self.end(table, number, "SELECT feed_fail_batch(%s, %s, %s, 'no luck')", token, is_short)
            return None
        self.store(table, number, tokens)
        if self.crash():
            return None
        self.end(table, number, "SELECT feed_finish_batch(%s, %s, %s)", token, is_short)
        return len(tokens) or None  # as in TwoStep

    def ask(self, table: str, lease: str) -> tuple[int, int] | None:
        """Take a batch. Return its number and token: zeros if there is nothing new, None after a simulated crash."""
        take = "SELECT number, token FROM feed_take_batch(%s, %s, %s, %s::interval, %s)"
        row = self.asked(table, take, self.feed(table), self.worker, self.max_rows(), lease, TRIES)
        return (row[0] or 0, row[1] or 0) if row else None

    def end(self, table: str, number: int, statement: str, token: int, may_be_late: bool) -> None:
        """Finish or return a batch.

        A wrong token must be refused. ``token`` may be refused only if the batch was given to another worker.
        """
        for guess in (token + 1, token):
            try:
                row = self.connection.execute(statement.encode(), [self.feed(table), number, guess]).fetchone()
            except psycopg.errors.InvalidParameterValue as error:
                if guess == token:
                    self.delivery.retries[GIVEN_AWAY] += 1
                    if not may_be_late:
                        self.world.problem(f"{self.name}: batch {number} of {table} was given away: {error.diag}")
                continue
            if guess != token:
                self.world.problem(f"{self.name}: batch {number} of {table} was ended by a wrong token")
            if "fail" in statement:
                self.delivery.retries[DEAD if row == (True,) else RETURNED] += 1

    def store(self, table: str, number: int, tokens: list[int]) -> None:
        with self.delivery.busy:
            # The sink has noticed the promotion, but this worker has not: the batch does not exist on the new primary.
            if self.last and self.last[table] < number < self.last[table] + JUMP and not self.was_promoted:
                return
            stored = self.sink.setdefault((table, number), tokens)
            if stored is not tokens:
                if sorted(stored) != sorted(tokens):
                    self.world.problem(f"{self.name}: batch {number} of {table} came again with other rows")
                return
            if (table, number) in self.dropped and self.was_promoted:
                self.world.problem(f"{self.name}: batch {number} of {table} had other rows before the promotion")
            self.deliver(Event(self.name, None, table, tokens, batch=number))

    def clear(self, table: str) -> int | None:
        """Retry a dead batch, or process it by hand. Return zero if there is no dead batch."""
        dead = "SELECT number FROM feed_batches WHERE name = %s AND dead_since IS NOT NULL LIMIT 1"
        for number in numbers(self.connection, dead, self.feed(table)):
            self.clear_one(table, number)
            return None
        return 0

    def clear_one(self, table: str, number: int) -> None:
        try:
            if self.rng.random() < 0.5:
                self.connection.execute("SELECT feed_retry_batch(%s, %s)", [self.feed(table), number])
            else:
                self.store(table, number, self.rows(table, number))
                self.connection.execute("SELECT feed_finish_batch(%s, %s)", [self.feed(table), number])
                self.delivery.retries[BY_HAND] += 1
        except psycopg.errors.InvalidParameterValue:
            pass  # another worker was faster

    def forget_dropped(self) -> None:
        for key in self.dropped & self.sink.keys():
            del self.sink[key]


class Divided(Worker):
    def make_feeds(self, connection: Connection) -> None:
        self.in_order()
        for table in () if self.joins else self.tables:
            connection.execute(
                "SELECT feed_create(%s, %s, order_column => %s, partition_by => 'region', shares => %s)",
                [self.feed(table), table, self.order(table), self.rng.choice((2, 4, 16))],
            )

    def rows(self, table: str, number: int) -> list[int]:
        rows = f"SELECT token, region FROM feed_batch_rows(%s, %s, null::{table})"
        fetched: list[Any] = self.connection.execute(rows.encode(), [self.feed(table), number]).fetchall()
        self.delivery.keys.update(fetched)
        return [token for token, _ in fetched]


def workers(world: World) -> list[Plain]:
    roles: list[Plain] = []
    for kind, name in ((Worker, "at once"), (Divided, "divided")):
        first = kind(world, name)
        roles += [first, kind(world, name, first), kind(world, name, first)]
    return roles
