"""Readers whose position is kept in the database."""

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psycopg
from inorder.connection.database import Connection, one_row

from load.stress.delivery import KEYED, Delivery, Event, Reader, Repair, leave_transaction
from world.ledger import token_of
from world.role import ISOLATIONS, transaction
from world.sql import numbers
from world.tables import MOVER, OWNER, RESTLESS, TABLES
from world.world import World

# A table is usually changed within this many seconds after a snapshot was taken.
OLD_SECONDS = 0.4
TAKE = "SELECT number, token FROM feed_take_batch(%s, 'sink', %s, '1 hour', max_tries => NULL)"
# Batch numbers of another timeline differ by at least this number.
JUMP = 10**9


def feed_read(
    connection: Connection, name: str, table: str, max_rows: int | None, owner: str | None = None
) -> list[int]:
    return numbers(
        connection, f"SELECT token FROM feed_read(%s, null::{table}, %s, %s::regrole)", name, max_rows, owner
    )


class Plain(Reader):
    """Calls feed_read() in a separate transaction, for all rows or with a row limit."""

    owner: str | None = None  # owner of the feeds
    crashes = 0.0  # probability that the session ends between two steps

    def __init__(
        self, world: World, kind: str, max_rows: tuple[int, int] | None, delivery: Delivery | None = None
    ) -> None:
        super().__init__(world, kind, delivery)
        self.limits = max_rows

    def max_rows(self) -> int | None:
        return self.rng.randint(*self.limits) if self.limits and not self.world.settled.is_set() else None

    def crash(self) -> bool:
        if self.rng.random() < self.crashes:
            self.connection.close()
            self.connect()
            self.recover()
            return True
        return False

    def grow_old(self, table: str) -> None:
        """Take a snapshot, and wait until the table may have been changed."""
        self.connection.execute("SELECT count(*) FROM inorder_internal.feed")
        time.sleep(self.rng.random() * (OLD_SECONDS if table in RESTLESS else 0.02))

    def asked(self, table: str, statement: str, *parameters: object) -> Sequence[Any] | None:
        """Execute a statement, sometimes with an older snapshot. Return None if a simulated crash rolled it back."""
        in_block = self.rng.random() < 0.35
        if in_block:
            self.connection.execute(f"BEGIN ISOLATION LEVEL {self.rng.choice(ISOLATIONS)}".encode())
            self.grow_old(table)
        row = one_row(self.connection, statement, parameters)
        if self.crash():
            return None
        if in_block:
            self.connection.execute("COMMIT")
        return row

    def last_batches(self) -> dict[str, int]:
        query = (
            "SELECT f.relation::regclass::text, coalesce(s.batch, 0) FROM inorder_internal.feed AS f "
            "JOIN inorder_internal.feed_state AS s ON s.feed = f.id WHERE f.name LIKE %s || ' %%'"
        )
        batches: list[Any] = self.connection.execute(query.encode(), [self.kind]).fetchall()
        return dict(batches)

    def poll(self, table: str) -> int | None:
        if not self.world.is_long:
            tokens = feed_read(self.connection, self.feed(table), table, self.max_rows(), self.owner)
            self.deliver(Event(self.name, None, table, tokens))
            return len(tokens)
        with transaction(self.connection):
            number = self.announce(self.connection)
            tokens = feed_read(self.connection, self.feed(table), table, self.max_rows(), self.owner)
            self.unsure = Event(self.name, number, table, tokens)
        self.deliver()
        return len(tokens)

    def timed(self, table: str) -> int | None:
        """Poll. Only one reader at a time polls the table whose key changes.

        A repair of a shared position must know the rows that both readers have received.
        """
        if table == KEYED:
            with self.delivery.busy:
                return super().timed(table)
        return super().timed(table)

    def accept_partitions(self, table: str) -> None:
        self.connection.execute("SELECT feed_seek(%s, 'here', %s::regrole)", [self.feed(table), self.owner])

    def accept_key(self, _: str) -> None:
        """Move the feed to the beginning or end of the transaction that was read in part.

        In the first case, the rows of this transaction are delivered again. In the second case, the repair reads the
        remaining rows.
        """
        with self.repairing() as connection, transaction(connection):
            number = self.announce(connection)
            skip = self.rng.random() < 0.5
            repaired = leave_transaction(connection, self, self.owner, set(self.delivery.tokens(KEYED)), skip)
            self.unsure = self.repaired(number, repaired)
        self.deliver()

    def repairing(self) -> Connection:
        user, self.user = self.user, None
        try:
            return self.session(self.world.primary)
        finally:
            self.user = user

    def repaired(self, number: int | None, repaired: Repair) -> Event:
        return Event(self.name, number, KEYED, list(repaired.rest), repaired.again)


class Granted(Plain):
    """Reads as a role with only the SELECT privilege: the owner of the feeds, or a role to which they were granted."""

    owner = OWNER

    def __init__(self, world: World, kind: str, user: str, delivery: Delivery | None = None) -> None:
        super().__init__(world, kind, (1, 2000), delivery)
        self.user = user

    def make_feeds(self, connection: Connection) -> None:
        if not self.joins:
            with self.session(self.world.primary) as session:
                super().make_feeds(session)
                for table in TABLES:
                    session.execute("SELECT feed_grant(%s, %s::regrole)", [self.feed(table), MOVER])


class Isolated(Plain):
    """Calls feed_read() at a given isolation level, with a snapshot that is older than the call."""

    def __init__(self, world: World, kind: str, isolation: str, delivery: Delivery | None = None) -> None:
        super().__init__(world, kind, (1, 2000), delivery)
        self.isolation = isolation

    def poll(self, table: str) -> int | None:
        with transaction(self.connection, self.isolation):
            self.grow_old(table)
            number = self.announce(self.connection)
            tokens = feed_read(self.connection, self.feed(table), table, self.max_rows())
            self.unsure = Event(self.name, number, table, tokens)
        self.deliver()
        return len(tokens)


class Fickle(Plain):
    """Rolls back some reads. The rows must then be delivered again. It also writes to the tables that it reads."""

    def __init__(self, world: World, kind: str, max_rows: tuple[int, int] | None) -> None:
        super().__init__(world, kind, max_rows)
        self.lane = next(world.lanes)
        self.transactions = 0
        self.given_back: dict[str, set[int]] = {table: set() for table in TABLES}

    def poll(self, table: str) -> int:
        """Call feed_read() between two optional inserts, then commit or roll back.

        The commit may have two phases. A rollback may be to a savepoint.
        """
        connection, way, own_tokens = self.connection, self.rng.random(), list[int]()
        writes = not self.world.stop.is_set()
        self.transactions += 1
        connection.execute("BEGIN")
        number = self.announce(connection)
        if writes and self.rng.random() < 0.5:
            own_tokens.append(self.write(table, 0))
            time.sleep(self.rng.random() * 0.05)  # lets other transactions end after this one began
        connection.execute("SAVEPOINT s")
        tokens = feed_read(connection, self.feed(table), table, self.max_rows())
        if writes and self.rng.random() < 0.7 and way < 0.5:
            own_tokens.append(self.write(table, 1))
        try:
            self.end(way, Event(self.name, number, table, tokens))
        except psycopg.OperationalError:
            self.world.ledger.doubt({table: own_tokens})
            raise
        if way < 0.75:
            self.world.ledger.add({table: own_tokens})
        return len(tokens)

    def end(self, way: float, event: Event) -> None:
        if way < 0.5:
            self.unsure = event
            if way < 0.1:
                self.connection.execute(f"PREPARE TRANSACTION '{self.name}'".encode())
            self.connection.execute(f"COMMIT PREPARED '{self.name}'".encode() if way < 0.1 else b"COMMIT")
            self.accept(event.table, event.tokens)
            self.deliver()
        else:
            self.connection.execute("ROLLBACK TO SAVEPOINT s; COMMIT" if way < 0.75 else "ROLLBACK")
            self.given_back[event.table].update(event.tokens)

    def recover(self) -> None:
        if self.connection.execute("SELECT FROM pg_prepared_xacts WHERE gid = %s", [self.name]).rowcount:
            self.connection.execute(f"COMMIT PREPARED '{self.name}'".encode())
        super().recover()
        self.given_back = {table: set() for table in TABLES}

    def write(self, table: str, row: int) -> int:
        token = token_of(self.lane, self.transactions, row)
        target, region = (table, 0) if table in RESTLESS else self.world.target(table, self.rng)
        self.connection.execute(f"INSERT INTO {target} (region, token) VALUES (%s, %s)".encode(), [region, token])
        return token

    def accept(self, table: str, tokens: list[int]) -> None:
        """Check that rows of a rolled-back read are delivered again.

        Without a limit, all these rows must be in the next read, unless their partition was detached.
        """
        missing = self.given_back[table] - set(tokens)
        if self.limits is None and missing and table != "r_parts":
            self.world.problem(f"{self.name}: the next read of {table} lacks rows of a read that was rolled back")
        self.given_back[table].difference_update(tokens)

    def repaired(self, number: int | None, repaired: Repair) -> Event:
        """Treat rows of the repair as delivered, because the feed does not return them again."""
        self.given_back[KEYED].difference_update(repaired.rest)
        return super().repaired(number, repaired)


class Batched(Plain):
    """A reader of batches, whose sink stores their numbers. Workers of one feed share the sink."""

    def __init__(
        self, world: World, kind: str, max_rows: tuple[int, int] | None, other: "Batched | None" = None
    ) -> None:
        super().__init__(world, kind, max_rows, other.delivery if other else None)
        # After a promotion: the number of each feed's last batch that the new primary knows, and the batches that it
        # does not know.
        self.last: dict[str, int] = other.last if other else {}
        self.dropped: set[tuple[str, int]] = other.dropped if other else set()

    def rows(self, table: str, number: int) -> list[int]:
        rows = f"SELECT token FROM feed_batch_rows(%s, %s, null::{table})"
        return numbers(self.connection, rows, self.feed(table), number)

    def follow_promotion(self) -> None:
        """Remove from the sink batches that the feed no longer knows: their rows come again in other batches."""
        with self.delivery.busy:
            if not self.last:  # otherwise another worker of the feed has done this already
                self.last.update(self.last_batches())
            super().follow_promotion()
            self.forget_dropped()

    def stays(self, event: Event, stored: set[int]) -> bool:
        if event.batch is None:
            return super().stays(event, stored)
        if self.last[event.table] < event.batch < self.last[event.table] + JUMP:
            self.dropped.add((event.table, event.batch))
            return False
        return True

    def forget_dropped(self) -> None:
        raise NotImplementedError


class TwoStep(Batched):
    """A worker that takes, reads and finishes batches, with simulated crashes. The sink stores the last number."""

    crashes = 0.1

    def __init__(self, world: World, kind: str, max_rows: tuple[int, int] | None) -> None:
        super().__init__(world, kind, max_rows)
        self.sink: dict[str, tuple[int, list[int]]] = {table: (0, []) for table in TABLES}
        # The number of batches that feed_seek() discarded. Their numbers are missing in the sink.
        self.forgotten: Counter[str] = Counter()

    def poll(self, table: str) -> int | None:
        """Run all three steps, or only those before a simulated crash."""
        batch = self.ask(table)
        if batch is None or batch[0] == 0:
            return batch and 0
        number, token = batch
        tokens = self.rows(table, number)
        if self.crash():
            return None
        self.take(table, number, tokens)
        if self.crash():
            return None
        self.finish(table, number, token)
        if self.crash():  # as if the answer was lost
            with suppress(psycopg.errors.InvalidParameterValue):
                self.finish(table, number, token)
                self.world.problem(f"{self.name}: batch {number} of {table} was finished twice")
        # A batch has no rows if its partition was detached after the batch was handed out: other batches may follow.
        return len(tokens) or None

    def ask(self, table: str) -> tuple[int, int] | None:
        """Take a batch. Return its number and token: zeros if there is nothing new, None after a simulated crash."""
        row = self.asked(table, TAKE, self.feed(table), self.max_rows())
        return (row[0] or 0, row[1] or 0) if row else None

    def rows(self, table: str, number: int) -> list[int]:
        with transaction(self.connection, self.rng.choice(ISOLATIONS)):
            if self.rng.random() < 0.3:
                self.grow_old(table)
            return super().rows(table, number)

    def finish(self, table: str, number: int, token: int) -> None:
        self.connection.execute("SELECT feed_finish_batch(%s, %s, %s)", [self.feed(table), number, token])

    def take(self, table: str, number: int, tokens: list[int]) -> None:
        """Store a batch. Check that a known batch has the same rows, and that an unknown batch has the next number."""
        last, stored = self.sink[table]
        if number == last:
            if set(stored) ^ set(tokens) > self.world.ledger.gone[table]:
                self.world.problem(f"{self.name}: batch {number} of {table} came again with other rows")
            return
        # On another timeline or server, numbers continue in a new range.
        jumped = last == 0 or ((self.world.was_promoted or self.world.was_restored) and number > last)
        if (number < last or number > last + 1 + self.forgotten[table]) and not jumped:
            self.world.problem(f"{self.name}: batch {number} of {table} after {last}")
        if (table, number) in self.dropped:
            self.world.problem(f"{self.name}: batch {number} of {table} had other rows before the promotion")
        self.sink[table] = (number, tokens)
        self.deliver(Event(self.name, None, table, tokens, batch=number))

    def forget_dropped(self) -> None:
        for table, (number, _) in self.sink.items():
            if number > self.last[table]:
                events = [event for event in self.delivery.events if event.table == table and event.batch is not None]
                self.sink[table] = (events[-1].batch or 0, events[-1].tokens) if events else (0, [])

    def accept_partitions(self, table: str) -> None:
        """Finish the unfinished batch if the sink has it. Otherwise discard it, so that its rows are repeated."""
        if not self.finished(table):
            super().accept_partitions(table)
            self.forgotten[table] += 1

    def accept_key(self, table: str) -> None:
        if not self.finished(table):
            self.forgotten[table] += 1
            super().accept_key(table)

    def finished(self, table: str) -> bool:
        """Finish the unfinished batch if the sink has it. Return True if it was finished."""
        query = "SELECT unfinished_batch FROM feeds WHERE name = %s"
        (number,) = one_row(self.connection, query, [self.feed(table)])
        if number is None or number != self.sink[table][0]:
            return False
        number, token = one_row(self.connection, TAKE, [self.feed(table), None])
        self.finish(table, number, token)
        return True


class Applying(Plain):
    def make_feeds(self, connection: Connection) -> None:
        super().make_feeds(connection)
        self.delivery.ordered = False
        for table in TABLES:
            connection.execute(f"CREATE TABLE {table}_copy (n bigserial, token bigint)".encode())

    def poll(self, table: str) -> int | None:
        statement = f"INSERT INTO {table}_copy (token) SELECT token FROM batch"
        self.connection.execute(f"BEGIN ISOLATION LEVEL {self.rng.choice(ISOLATIONS)}".encode())
        if self.rng.random() < 0.5:
            self.grow_old(table)
        (rows,) = numbers(
            self.connection, "SELECT feed_apply(%s, %s, %s)", self.feed(table), statement, self.max_rows()
        )
        commits = self.rng.random() < 0.8
        self.connection.execute("COMMIT" if commits else "ROLLBACK")
        return rows or 0 if commits else None

    def accept_key(self, _: str) -> None:
        copy = f"{KEYED}_copy"
        with transaction(self.connection):
            copied = set(numbers(self.connection, f"SELECT token FROM {copy}"))
            repaired = leave_transaction(self.connection, self, None, copied, self.rng.random() < 0.5)
            self.connection.execute(f"DELETE FROM {copy} WHERE token = ANY (%s)".encode(), [list(repaired.again)])
            insert = f"INSERT INTO {copy} (token) SELECT unnest(%s::bigint[])"
            self.connection.execute(insert.encode(), [list(repaired.rest)])

    def drain(self) -> None:
        super().drain()
        self.delivery.events.clear()
        for table in TABLES:
            copies = numbers(self.connection, f"SELECT token FROM {table}_copy ORDER BY n")
            self.deliver(Event(self.name, None, table, copies))


def database_readers(world: World) -> list[Reader]:
    readers: list[Reader] = [
        Plain(world, "all rows", None),
        Plain(world, "few rows", (1, 300)),
        Fickle(world, "rolls back", None),
        Fickle(world, "rolls back, few rows", (1, 900)),
        TwoStep(world, "two steps", None),
        TwoStep(world, "two steps, few rows", (1, 500)),
        Applying(world, "apply", (1, 3000)),
        Plain(world, "whole transactions", (1, 300)).by_transaction(),
        TwoStep(world, "whole, two steps", (1, 300)).by_transaction(),
        Plain(world, "ordered", None).in_order(),
        Plain(world, "ordered, few rows", (1, 300)).in_order(),
        TwoStep(world, "ordered, two steps", (1, 500)).in_order(),
    ]
    for isolation in ("REPEATABLE READ", "SERIALIZABLE"):
        first = Isolated(world, isolation.lower(), isolation)
        readers += [first, Isolated(world, first.kind, isolation, first.delivery)]
    owner = Granted(world, "two roles", OWNER)
    readers += [owner, Granted(world, owner.kind, MOVER, owner.delivery)]
    shared = Plain(world, "two readers", (1, 2000))
    readers += [shared, Plain(world, shared.kind, (1, 2000), shared.delivery)]
    return readers
