"""Readers that keep their position in the database, one of every kind."""

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

# A snapshot of this age has been overtaken by changes of the table.
OLD_SECONDS = 0.4
TAKE = "SELECT number, token FROM feed_take_batch(%s, 'sink', %s, '1 hour', max_tries => NULL)"
# Numbers of batches of another timeline differ at least by this.
JUMP = 10**9


def feed_read(
    connection: Connection, name: str, table: str, max_rows: int | None, owner: str | None = None
) -> list[int]:
    return numbers(
        connection, f"SELECT token FROM feed_read(%s, null::{table}, %s, %s::regrole)", name, max_rows, owner
    )


class Plain(Reader):
    """feed_read in a separate transaction, for all rows or for a few."""

    owner: str | None = None  # owner of its feeds
    crashes = 0.0  # probability that its session ends between two steps

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
        """Take a snapshot, and keep it until it may have been overtaken."""
        self.connection.execute("SELECT count(*) FROM inorder_internal.feed")
        time.sleep(self.rng.random() * (OLD_SECONDS if table in RESTLESS else 0.02))

    def asked(self, table: str, statement: str, *parameters: object) -> Sequence[Any] | None:
        """The answer, sometimes in a transaction with an older snapshot; None if a crash has rolled that back."""
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
        """If two readers share a feed, a repair of its position must know which rows either of them has got."""
        if table == KEYED:
            with self.delivery.busy:
                return super().timed(table)
        return super().timed(table)

    def accept_partitions(self, table: str) -> None:
        self.connection.execute("SELECT feed_seek(%s, 'here', %s::regrole)", [self.feed(table), self.owner])

    def accept_key(self, _: str) -> None:
        """Move before or after the transaction; the reader gives back its rows of it, or gets the rest."""
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
    """Roles with SELECT only: one owns the feeds, and another reads them, because they were granted to it."""

    owner = OWNER

    def __init__(self, world: World, kind: str, user: str, delivery: Delivery | None = None) -> None:
        super().__init__(world, kind, (1, 2000), delivery)
        self.user = user

    def make_feeds(self, connection: Connection) -> None:
        if not self.joins:
            with self.session(self.world.primary) as own:
                super().make_feeds(own)
                for table in TABLES:
                    own.execute("SELECT feed_grant(%s, %s::regrole)", [self.feed(table), MOVER])


class Isolated(Plain):
    """feed_read at an isolation level, with a snapshot that is older than the call; retried if the hint says so."""

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
    """Rolls back at random, and must then get the rows again. Also writes to the tables that it reads."""

    def __init__(self, world: World, kind: str, max_rows: tuple[int, int] | None) -> None:
        super().__init__(world, kind, max_rows)
        self.lane = next(world.lanes)
        self.transactions = 0
        self.given_back: dict[str, set[int]] = {table: set() for table in TABLES}

    def poll(self, table: str) -> int:
        """feed_read between optional inserts; then commit, perhaps in two phases, or roll back, perhaps a savepoint."""
        connection, way, own = self.connection, self.rng.random(), list[int]()
        writes = not self.world.stop.is_set()
        self.transactions += 1
        connection.execute("BEGIN")
        number = self.announce(connection)
        if writes and self.rng.random() < 0.5:
            own.append(self.write(table, 0))
            time.sleep(self.rng.random() * 0.05)  # lets others end after this transaction began
        connection.execute("SAVEPOINT s")
        tokens = feed_read(connection, self.feed(table), table, self.max_rows())
        if writes and self.rng.random() < 0.7 and way < 0.5:
            own.append(self.write(table, 1))
        try:
            self.end(way, Event(self.name, number, table, tokens))
        except psycopg.OperationalError:
            self.world.ledger.doubt({table: own})
            raise
        if way < 0.75:
            self.world.ledger.add({table: own})
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
        """Without a limit, all rows that were given back must be among the next, unless their partition is gone."""
        missing = self.given_back[table] - set(tokens)
        if self.limits is None and missing and table != "r_parts":
            self.world.problem(f"{self.name}: rows of {table} that were rolled back did not come again at once")
        self.given_back[table].difference_update(tokens)

    def repaired(self, number: int | None, repaired: Repair) -> Event:
        """The feed does not return rows again that the repair has read, so they count as delivered."""
        self.given_back[KEYED].difference_update(repaired.rest)
        return super().repaired(number, repaired)


class Batched(Plain):
    """A sink that knows batches by number, shared by the workers of one feed."""

    def __init__(
        self, world: World, kind: str, max_rows: tuple[int, int] | None, other: "Batched | None" = None
    ) -> None:
        super().__init__(world, kind, max_rows, other.delivery if other else None)
        # After a promotion: the last batch of each feed that the new primary knows, and the batches that it does not
        # know.
        self.last: dict[str, int] = other.last if other else {}
        self.dropped: set[tuple[str, int]] = other.dropped if other else set()

    def rows(self, table: str, number: int) -> list[int]:
        rows = f"SELECT token FROM feed_batch_rows(%s, %s, null::{table})"
        return numbers(self.connection, rows, self.feed(table), number)

    def follow_promotion(self) -> None:
        """The sink forgets batches that the feed does not know any more: their rows come again, with other numbers."""
        with self.delivery.busy:
            if not self.last:  # another worker of the feed may have done this already
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
    """One worker: take, rows and finish, with crashes in between; the sink remembers a number."""

    crashes = 0.1

    def __init__(self, world: World, kind: str, max_rows: tuple[int, int] | None) -> None:
        super().__init__(world, kind, max_rows)
        self.sink: dict[str, tuple[int, list[int]]] = {table: (0, []) for table in TABLES}
        # Batches that were forgotten by feed_seek(), which leave gaps.
        self.forgotten: Counter[str] = Counter()

    def poll(self, table: str) -> int | None:
        """Run all three steps, or some of them before a crash."""
        taken = self.ask(table)
        if taken is None or taken[0] == 0:
            return taken and 0
        number, token = taken
        tokens = self.rows(table, number)
        if self.crash():
            return None
        self.take(table, number, tokens)
        if self.crash():
            return None
        self.finish(table, number, token)
        if self.crash():  # the answer may be lost
            with suppress(psycopg.errors.InvalidParameterValue):
                self.finish(table, number, token)
                self.world.problem(f"{self.name}: batch {number} of {table} was finished twice")
        # None: a batch that was handed out before its partition went has no rows, and others follow it.
        return len(tokens) or None

    def ask(self, table: str) -> tuple[int, int] | None:
        """Number and token; zeros if there is nothing new, None after a crash."""
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
        """Check in the sink that a known batch is the same, and an unknown one the next."""
        last, had = self.sink[table]
        if number == last:
            if set(had) ^ set(tokens) > self.world.ledger.gone[table]:
                self.world.problem(f"{self.name}: batch {number} of {table} came again with other rows")
            return
        # On another timeline, or another server, they go on in a new range.
        jumped = last == 0 or ((self.world.was_promoted or self.world.was_restored) and number > last)
        if (number < last or number > last + 1 + self.forgotten[table]) and not jumped:
            self.world.problem(f"{self.name}: batch {number} of {table} after {last}")
        if (table, number) in self.dropped:
            self.world.problem(f"{self.name}: batch {number} of {table} was another one before the promotion")
        self.sink[table] = (number, tokens)
        self.deliver(Event(self.name, None, table, tokens, batch=number))

    def forget_dropped(self) -> None:
        for table, (number, _) in self.sink.items():
            if number > self.last[table]:
                kept = [event for event in self.delivery.events if event.table == table and event.batch is not None]
                self.sink[table] = (kept[-1].batch or 0, kept[-1].tokens) if kept else (0, [])

    def accept_partitions(self, table: str) -> None:
        """Finish a batch that the sink has; otherwise forget it, and its rows come again."""
        if not self.finished(table):
            super().accept_partitions(table)
            self.forgotten[table] += 1

    def accept_key(self, table: str) -> None:
        if not self.finished(table):
            self.forgotten[table] += 1
            super().accept_key(table)

    def finished(self, table: str) -> bool:
        """Finish the batch that the sink has, if it is unfinished; True if there was one."""
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
        kept = self.rng.random() < 0.8
        self.connection.execute("COMMIT" if kept else "ROLLBACK")
        return rows or 0 if kept else None

    def accept_key(self, _: str) -> None:
        copy = f"{KEYED}_copy"
        with transaction(self.connection):
            had = set(numbers(self.connection, f"SELECT token FROM {copy}"))
            repaired = leave_transaction(self.connection, self, None, had, self.rng.random() < 0.5)
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
