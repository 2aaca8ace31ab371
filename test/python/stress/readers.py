"""Readers that keep their position in the database, one of every kind."""

import threading
import time
from dataclasses import dataclass, field

import psycopg
from inorder.database import Connection
from psycopg import sql

from stress.world import MOVER, OWNER, ROW_BITS, TABLES, TRANSACTION_BITS, Role, World, token_of, transaction

LONG_PAUSE = 0.3
BUSY_PAUSE = 0.005
DRAINING_TRIES = 10_000


@dataclass
class Delivery:
    """What one reader got, in its order; two readers that share a feed share one of these."""

    kind: str
    tokens: dict[str, list[int]] = field(default_factory=lambda: {table: [] for table in TABLES})
    waiting: int = 0
    ordered: bool = True  # not where two readers share it, nor where a statement takes rows as they come
    longest: float = 0.0
    polls: int = 0

    def add(self, table: str, tokens: list[int]) -> None:
        """Rows whose position has moved for good."""
        self.tokens[table].extend(tokens)

    def disordered(self) -> int:
        """How often a row came before one that its writer had committed earlier."""
        found = 0
        for tokens in self.tokens.values() if self.ordered else ():
            last: dict[int, int] = {}
            for token in tokens:
                lane, number = token >> TRANSACTION_BITS + ROW_BITS, token >> ROW_BITS
                found += number < last.get(lane, 0)
                last[lane] = number
        return found


class Reader(Role):
    """Polls all tables at random, then drains them when the writers are done, and again after the last commit."""

    def __init__(self, world: World, kind: str, delivery: Delivery | None = None) -> None:
        super().__init__(world, f"reader {kind} {'' if delivery is None else 2}".strip())
        self.kind = kind
        self.delivery = delivery or Delivery(kind)
        self.joins = delivery is not None  # the feeds of another reader
        self.delivery.ordered = not self.joins
        self.drained = threading.Event()

    def feed(self, table: str) -> str:
        """The name of its feed on a table."""
        return f"{self.kind} {table}"

    def make_feeds(self, connection: Connection) -> None:
        """One feed on each table, of the role whose session this is."""
        for table in () if self.joins else TABLES:
            connection.execute("SELECT feed_create(%s, %s)", [self.feed(table), table])

    def work(self) -> None:
        """Poll, drain, wait for the release, drain."""
        self.connect()
        while not self.world.settled.is_set():
            table = self.rng.choice(TABLES)
            for _ in range(self.rng.randint(1, 4)):
                self.timed(table)
            time.sleep(self.rng.random() * LONG_PAUSE)
        self.drain()
        self.drained.set()
        self.world.released.wait()
        self.drain()
        self.close()

    def drain(self) -> None:
        """Until a poll finds nothing."""
        for table in TABLES:
            for _ in range(DRAINING_TRIES):
                if self.timed(table) == 0:
                    break
            else:
                raise AssertionError(f"{table} never ran dry")

    def timed(self, table: str) -> int | None:
        """A poll and how long it took. Number of rows there were, or None if it has to be tried again."""
        began = time.monotonic()
        found = self.poll(table)
        self.delivery.longest = max(self.delivery.longest, time.monotonic() - began)
        self.delivery.polls += 1
        return found

    def connect(self) -> None:
        """Open what it needs."""
        self.connection = self.session(self.world.primary)

    def close(self) -> None:
        """Close that."""
        self.connection.close()

    def poll(self, table: str) -> int | None:
        """Read once."""
        raise NotImplementedError


def feed_read(
    connection: Connection, name: str, table: str, max_rows: int | None, owner: str | None = None
) -> list[int]:
    """The tokens of the rows that are new."""
    statement = sql.SQL("SELECT token FROM feed_read(%s, null::{}, %s, %s::regrole)").format(sql.Identifier(table))
    return [int(str(token)) for (token,) in connection.execute(statement, [name, max_rows, owner])]


class Plain(Reader):
    """feed_read in a transaction of its own, of all rows or of a few."""

    def __init__(
        self, world: World, kind: str, max_rows: tuple[int, int] | None, delivery: Delivery | None = None
    ) -> None:
        super().__init__(world, kind, delivery)
        self.limits = max_rows

    def max_rows(self) -> int | None:
        """Another number each time."""
        return self.rng.randint(*self.limits) if self.limits and not self.world.settled.is_set() else None

    def poll(self, table: str) -> int | None:
        """Autocommit."""
        tokens = feed_read(self.connection, self.feed(table), table, self.max_rows())
        self.delivery.add(table, tokens)
        return len(tokens)


class Granted(Plain):
    """As roles with SELECT and nothing else: one has the feeds, and another reads them, too, since it was granted."""

    def __init__(self, world: World, kind: str, user: str, delivery: Delivery | None = None) -> None:
        super().__init__(world, kind, (1, 2000), delivery)
        self.user = user

    def make_feeds(self, connection: Connection) -> None:
        """As their owner, who grants them."""
        if not self.joins:
            with self.session(self.world.primary) as own:
                super().make_feeds(own)
                for table in TABLES:
                    own.execute("SELECT feed_grant(%s, %s::regrole)", [self.feed(table), MOVER])

    def poll(self, table: str) -> int | None:
        """Both name the owner."""
        tokens = feed_read(self.connection, self.feed(table), table, self.max_rows(), OWNER)
        self.delivery.add(table, tokens)
        return len(tokens)


class Isolated(Plain):
    """feed_read under an isolation level, its snapshot older than its turn; tried again when the server says so."""

    def __init__(self, world: World, kind: str, isolation: str, delivery: Delivery | None = None) -> None:
        super().__init__(world, kind, (1, 2000), delivery)
        self.isolation = isolation

    def poll(self, table: str) -> int | None:
        """Look first, which takes the snapshot, then wait, then read."""
        try:
            with transaction(self.connection, self.isolation):
                self.connection.execute("SELECT count(*) FROM inorder_internal.feed")
                time.sleep(self.rng.random() * 0.02)
                tokens = feed_read(self.connection, self.feed(table), table, self.max_rows())
        except psycopg.errors.SerializationFailure:
            return None
        self.delivery.add(table, tokens)
        return len(tokens)


class Fickle(Plain):
    """Rolls back at random, and must get those rows again; and writes to the tables it reads, in that transaction."""

    def __init__(self, world: World, kind: str, max_rows: tuple[int, int] | None) -> None:
        super().__init__(world, kind, max_rows)
        self.lane = next(world.lanes)
        self.transactions = 0
        self.refused: dict[str, set[int]] = {table: set() for table in TABLES}

    def poll(self, table: str) -> int:
        """Perhaps a row, feed_read, perhaps a row; COMMIT, also in two phases, or ROLLBACK, also of a savepoint."""
        connection, way, own = self.connection, self.rng.random(), []
        writes = not self.world.stop.is_set()
        connection.execute("BEGIN")
        if writes and self.rng.random() < 0.5:
            own.append(self.write(table, 0))
            time.sleep(self.rng.random() * 0.05)  # for others to end after this one began
        connection.execute("SAVEPOINT s")
        tokens = feed_read(connection, self.feed(table), table, self.max_rows())
        if writes and self.rng.random() < 0.7 and way < 0.5:
            own.append(self.write(table, 1))
        self.transactions += 1
        if way < 0.5:
            if way < 0.1:
                connection.execute(f"PREPARE TRANSACTION '{self.name}'".encode())
            connection.execute(f"COMMIT PREPARED '{self.name}'".encode() if way < 0.1 else b"COMMIT")
            self.accept(table, tokens)
        elif way < 0.75:
            connection.execute("ROLLBACK TO SAVEPOINT s; COMMIT")
        else:
            connection.execute("ROLLBACK")
            own = []
        if way >= 0.5:
            self.refused[table].update(tokens)
        if own:
            self.world.ledger.add({table: own})
        return len(tokens)

    def write(self, table: str, row: int) -> int:
        """A row of its own."""
        token = token_of(self.lane, self.transactions, row)
        target, region = self.world.target(table, self.rng)
        statement = sql.SQL("INSERT INTO {} (region, token) VALUES (%s, %s)").format(sql.Identifier(target))
        self.connection.execute(statement, [region, token])
        return token

    def accept(self, table: str, tokens: list[int]) -> None:
        """Without a limit, everything that was given back must be among what comes next."""
        if self.limits is None and not self.refused[table] <= set(tokens):
            self.world.problem(f"{self.name}: rows of {table} that were rolled back did not come again at once")
        self.refused[table].difference_update(tokens)
        self.delivery.add(table, tokens)


class TwoStep(Plain):
    """feed_next_batch, feed_batch_rows, feed_finish_batch, with crashes in between; the sink remembers a number.

    Workers that share a feed have one sink. A batch is in the hands of one of them, or of a session that crashed and is
    not gone yet.
    """

    def __init__(
        self, world: World, kind: str, max_rows: tuple[int, int] | None, other: "TwoStep | None" = None
    ) -> None:
        super().__init__(world, kind, max_rows, other and other.delivery)
        self.sink: dict[str, tuple[int, list[int]]] = other.sink if other else {table: (0, []) for table in TABLES}

    def crash(self) -> bool:
        """Now and then the connection is gone."""
        if self.rng.random() < 0.1:
            self.connection.close()
            self.connect()
            return True
        return False

    def poll(self, table: str) -> int | None:
        """All three steps, or as far as it gets."""
        name = self.feed(table)
        if self.rng.random() < 0.1:
            self.connection.execute("BEGIN")  # so that a crash takes the batch back
        try:
            row = self.connection.execute("SELECT feed_next_batch(%s, %s)", [name, self.max_rows()]).fetchone()
        except psycopg.errors.ObjectInUse:
            self.connection.execute("ROLLBACK")
            time.sleep(BUSY_PAUSE)
            return None
        if self.crash():
            return None
        if self.connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            self.connection.execute("COMMIT")
        assert row is not None
        if row[0] is None:
            return 0
        number = int(str(row[0]))
        statement = sql.SQL("SELECT token FROM feed_batch_rows(%s, %s, null::{})").format(sql.Identifier(table))
        tokens = [int(str(token)) for (token,) in self.connection.execute(statement, [name, number])]
        if self.crash():
            return None
        self.take(table, number, tokens)
        if self.crash():
            return None
        self.connection.execute("SELECT feed_finish_batch(%s, %s)", [name, number])
        if self.crash():  # its answer may be lost
            self.connection.execute("SELECT feed_finish_batch(%s, %s)", [name, number])
        return len(tokens)

    def take(self, table: str, number: int, tokens: list[int]) -> None:
        """The sink: a batch that it has already must be the same, otherwise be the next one."""
        last, had = self.sink[table]
        if number == last:
            if sorted(had) != sorted(tokens):
                self.world.problem(f"{self.name}: batch {number} of {table} came again with other rows")
            return
        if number != last + 1:
            self.world.problem(f"{self.name}: batch {number} of {table} after {last}")
        self.sink[table] = (number, tokens)
        self.delivery.add(table, tokens)


class Applying(Plain):
    """feed_apply into a table of copies, rolled back at random. What is in that table is what was delivered."""

    def make_feeds(self, connection: Connection) -> None:
        """And the tables of copies."""
        super().make_feeds(connection)
        self.delivery.ordered = False
        for table in TABLES:
            connection.execute(f"CREATE TABLE {table}_copy (n bigserial, token bigint)".encode())

    def poll(self, table: str) -> int | None:
        """Rows that were copied."""
        statement = f"INSERT INTO {table}_copy (token) SELECT token FROM batch"
        self.connection.execute("BEGIN")
        row = self.connection.execute(
            "SELECT feed_apply(%s, %s, %s)", [self.feed(table), statement, self.max_rows()]
        ).fetchone()
        assert row is not None
        kept = self.rng.random() < 0.8
        self.connection.execute("COMMIT" if kept else "ROLLBACK")
        return int(str(row[0] or 0)) if kept else None

    def drain(self) -> None:
        """Then look what there is."""
        super().drain()
        for table in TABLES:
            copies = self.connection.execute(f"SELECT token FROM {table}_copy ORDER BY n".encode())
            self.delivery.tokens[table] = [int(str(token)) for (token,) in copies]


def database_readers(world: World) -> list[Reader]:
    """One of every kind; two where they share a feed."""
    readers: list[Reader] = [
        Plain(world, "all rows", None),
        Plain(world, "few rows", (1, 300)),
        Fickle(world, "rolls back", None),
        Fickle(world, "rolls back, few rows", (1, 900)),
        TwoStep(world, "two steps", None),
        TwoStep(world, "two steps, few rows", (1, 500)),
        Applying(world, "apply", (1, 3000)),
    ]
    for isolation in ("REPEATABLE READ", "SERIALIZABLE"):
        first = Isolated(world, isolation.lower(), isolation)
        readers += [first, Isolated(world, first.kind, isolation, first.delivery)]
    owner = Granted(world, "two roles", OWNER)
    readers += [owner, Granted(world, owner.kind, MOVER, owner.delivery)]
    shared = Plain(world, "two readers", (1, 2000))
    readers += [shared, Plain(world, shared.kind, (1, 2000), shared.delivery)]
    worker = TwoStep(world, "workers", (1, 500))
    readers += [worker, TwoStep(world, worker.kind, (1, 500), worker)]
    return readers
