"""Sixteen sessions that write in all kinds of transactions, and record the rows that they committed."""

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from functools import partial
from typing import Any

import psycopg
from inorder.connection.database import Connection, connect, one_row

from world.ledger import token_of
from world.refusals import passes
from world.role import Role, is_lost, roll_back, transaction
from world.tables import CALM, STREAMED, TABLES
from world.world import Prepared, World

WRITERS = 16
MOST_ROWS = 600
# A snapshot does not list the subtransactions of a transaction that has more than 64 of them ("overflow").
OVERFLOWING = (65, 150)
MOST_PREPARED = 20
ISOLATIONS = ("READ COMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")


# Errors that are raised if a partition was detached while the writer waited for the table's lock.
NO_PARTITION = ("no partition of relation", "violates partition constraint")


class UndoError(Exception):
    """Raised by a writer to roll back its own transaction."""


def may_fail(error: psycopg.Error) -> bool:
    """Return True if the manual documents the error for writers, whose transaction is then rolled back."""
    if isinstance(error, psycopg.errors.CheckViolation):
        return any(text in str(error) for text in NO_PARTITION)
    return isinstance(error, psycopg.errors.UndefinedTable) or passes(error)


class Draft:
    def __init__(self, lane: int, number: int) -> None:
        self.lane, self.number, self.used = lane, number, 0
        self.rows: dict[str, list[int]] = {}

    def take(self, amount: int) -> range:
        first = token_of(self.lane, self.number, self.used)
        self.used += amount
        return range(first, first + amount)

    def keep(self, table: str, tokens: list[int] | range) -> None:
        self.rows.setdefault(table, []).extend(tokens)


class Writer(Role):
    """A session whose transactions run one after another. Readers must deliver the rows in this order."""

    tables: tuple[str, ...] = TABLES
    calm: tuple[str, ...] = CALM
    most_rows = MOST_ROWS
    counting = 0.3  # probability of a count within a transaction

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, f"writer {number}")
        self.lane = next(world.lanes)
        self.transactions = 0

    def work(self) -> None:
        with self.session(self.world.primary) as self.connection:
            while not self.world.stop.is_set():
                self.rng.choice(self.kinds())()
                self.wait()

    def kinds(self) -> list[Callable[[], None]]:
        brief = [self.row, self.row, self.several, self.savepoints, self.undone, self.finish]
        return [*brief, self.blocks, self.two_phase, self.long, self.stream]

    def wait(self) -> None:
        self.pause(0.05)

    def draft(self, lane: int | None = None) -> Draft:
        self.transactions += 1
        return Draft(self.lane if lane is None else lane, self.transactions)

    def insert(self, draft: Draft, amount: int, tables: tuple[str, ...] = ()) -> None:
        """Insert rows into one table, with one INSERT statement or with COPY."""
        table = self.rng.choice(tables or self.tables)
        target, region = self.world.target(table, self.rng)
        tokens = draft.take(amount)
        # Record the tokens before the statement: the server may commit the statement, and be killed before it answers.
        draft.keep(table, tokens)
        if self.rng.random() < 0.3:
            with self.connection.cursor().copy(f"COPY {target} (region, token) FROM STDIN".encode()) as copy:
                for token in tokens:
                    copy.write_row((region, token))
        else:
            statement = f"INSERT INTO {target} (region, token) SELECT %s, generate_series(%s::bigint, %s)"
            self.connection.execute(statement.encode(), [region, tokens[0], tokens[-1]])

    def commit(self, draft: Draft, *steps: object) -> None:
        try:
            with transaction(self.connection, self.rng.choice(ISOLATIONS)):
                for step in steps:
                    assert callable(step)
                    step()
        except UndoError:
            return
        except psycopg.Error as error:
            self.failed(draft, error)
            return
        self.world.ledger.add(draft.rows)

    def failed(self, draft: Draft, error: psycopg.Error) -> None:
        if is_lost(error):
            self.world.ledger.doubt(draft.rows)
        if not may_fail(error):
            raise error

    def row(self) -> None:
        draft = self.draft()
        try:
            self.insert(draft, 1)
        except psycopg.Error as error:
            self.failed(draft, error)
            return
        self.world.ledger.add(draft.rows)

    def several(self) -> None:
        """Insert rows into one or more tables, and sometimes check a count within the transaction."""
        draft = self.draft()
        batch = [lambda: self.insert(draft, self.rng.randint(1, self.most_rows))] * self.rng.randint(1, 3)
        self.commit(draft, *batch, self.count)

    def count(self) -> None:
        if self.rng.random() < self.counting:
            check_count(self.world, self.connection, self.rng.choice(self.tables), self.name)

    def savepoints(self) -> None:
        draft = self.draft()

        def nest() -> None:
            for depth in range(self.rng.randint(1, 8)):
                before = deepcopy(draft.rows)
                self.connection.execute(f"SAVEPOINT s{depth}".encode())
                self.insert(draft, self.rng.randint(1, 20))
                if self.rng.random() < 0.4:
                    self.connection.execute(f"ROLLBACK TO SAVEPOINT s{depth}".encode())
                    draft.rows = before
                if self.rng.random() < 0.5:
                    self.connection.execute(f"RELEASE SAVEPOINT s{depth}".encode())

        self.commit(draft, nest, self.count)

    def blocks(self) -> None:
        """Insert rows in more EXCEPTION blocks than a snapshot lists, and keep the transaction open for up to 0.5 s."""
        draft = self.draft()
        table = self.rng.choice(self.tables)
        target, region = self.world.target(table, self.rng)
        amount, undone = self.rng.randint(*OVERFLOWING), self.rng.randint(2, 9)

        def fill() -> None:
            tokens = draft.take(amount)
            self.connection.execute("SELECT s_blocks(%s, %s, %s, %s, %s)", [target, region, tokens[0], amount, undone])
            draft.keep(table, [token for i, token in enumerate(tokens) if i % undone != 0])

        self.commit(draft, fill, lambda: self.pause(0.5), lambda: self.insert(draft, 2))

    def undone(self) -> None:
        draft = self.draft()

        def undo() -> None:
            raise UndoError

        self.commit(draft, lambda: self.insert(draft, self.rng.randint(1, 100)), undo)

    def long(self) -> None:
        """Sometimes run a transaction that stays open for up to 4 s, with inserts at its beginning and end."""
        if self.rng.random() < 0.3:
            draft, tables = self.draft(), self.tables if self.rng.random() < 0.1 else self.calm
            insert = partial(self.insert, draft, 10, tables)
            self.commit(draft, insert, lambda: self.pause(4), insert)

    def stream(self) -> None:
        draft = self.draft()
        versions: dict[int, tuple[int, int]] = {}
        try:
            with transaction(self.connection):
                self.insert(draft, 1, (STREAMED,))
                for _ in range(self.rng.randint(1, 4)):
                    self.pause(0.05)
                    self.write_version(draft, versions)
        except psycopg.Error as error:
            self.failed(draft, error)
            return
        self.world.ledger.versions |= versions
        self.world.ledger.add(draft.rows)

    def write_version(self, draft: Draft, versions: dict[int, tuple[int, int]]) -> None:
        chosen = "SELECT stream, version FROM s_streams ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED"
        streams: list[Any] = self.connection.execute(chosen.encode()).fetchall()
        for stream, before in streams:
            version, token = before + 1, draft.take(1)[0]
            self.connection.execute("UPDATE s_streams SET version = %s WHERE stream = %s", [version, stream])
            self.connection.execute(f"INSERT INTO {STREAMED} (region, token) VALUES ({stream}, {token})".encode())
            draft.keep(STREAMED, [token])
            versions[token] = (stream, version)

    def two_phase(self) -> None:
        """Prepare a transaction in a new lane, because it may be committed much later.

        The transaction is committed or rolled back at once if it may have written to tables that owners change.
        """
        if len(self.world.prepared) >= MOST_PREPARED:
            return
        draft, late = self.draft(next(self.world.lanes)), self.rng.random() < 0.7
        try:
            self.connection.execute("BEGIN")
            self.insert(draft, self.rng.randint(1, 50), self.calm if late else self.tables)
            if self.rng.random() < 0.3:
                block = [self.rng.choice(self.calm), draft.take(70)[0]]
                self.connection.execute("SELECT s_blocks(%s, 0, %s, 70, 1)", block)
            prepared = Prepared(f"lane {draft.lane}", draft.rows)
            self.world.lanes_prepared[prepared.gid] = prepared.rows
            self.connection.execute(f"PREPARE TRANSACTION '{prepared.gid}'".encode())
        except psycopg.Error as error:
            if is_lost(error):
                self.world.prepared.append(Prepared(f"lane {draft.lane}", draft.rows))  # it may have been prepared
            roll_back(self.connection)
            if not may_fail(error):
                raise
            return
        if late:
            self.world.prepared.append(prepared)
        else:
            finish_prepared(self.world, self.connection, prepared, self.rng.random() < 0.7)

    def finish(self) -> None:
        if self.world.prepared and self.rng.random() < 0.7:
            try:
                chosen = self.world.prepared.pop(self.rng.randrange(len(self.world.prepared)))
            except (IndexError, ValueError):
                return  # another session was faster
            finish_prepared(self.world, self.connection, chosen, self.rng.random() < 0.7)


def finish_prepared(world: World, connection: Connection, prepared: Prepared, commit: bool) -> None:
    """Execute COMMIT PREPARED and record the rows, or execute ROLLBACK PREPARED.

    If the server is killed in the meantime, the transaction may or may not exist afterwards.
    """
    try:
        connection.execute(f"{'COMMIT' if commit else 'ROLLBACK'} PREPARED '{prepared.gid}'".encode())
    except psycopg.errors.UndefinedObject:
        if not world.is_long:
            raise
        world.ledger.doubt(prepared.rows)
        return
    except psycopg.OperationalError:
        world.prepared.append(prepared)
        raise
    if commit:
        world.ledger.add(prepared.rows)


def finish_all(world: World) -> None:
    """Commit all prepared transactions, or roll them all back. The transaction that is held open is not among them."""
    with connect(world.primary) as connection, suppress(IndexError):  # another session was faster
        while world.prepared:
            finish_prepared(world, connection, world.prepared.pop(), world.seed % 2 == 0)


def check_count(world: World, connection: Connection, table: str, role: str) -> None:
    """Compare exact_count() with count(*) in one statement, so that both use the same snapshot.

    The rows of partitions are counted leaf by leaf: count(*) of the table would miss a partition that was attached
    after the statement was planned, or after the transaction first used the table. A difference is ignored if
    partitions were attached or detached in the meantime.
    """
    moves, leaves = world.moves, leaves_of(connection, table)
    counts = " + ".join(f"(SELECT count(*) FROM ONLY {leaf})" for leaf in leaves)
    exact, plain = one_row(connection, f"SELECT exact_count('{table}'), {counts}")
    if exact == plain:
        world.checks += 1
    elif leaves == leaves_of(connection, table) and moves == world.moves and moves % 2 == 0:
        world.problem(f"{role}: exact_count({table}) is {exact}, count(*) {plain}")


def leaves_of(connection: Connection, table: str) -> list[str]:
    if "parts" not in table:
        return [table]
    rows = connection.execute("SELECT relid::text FROM pg_partition_tree(%s) WHERE isleaf ORDER BY relid", [table])
    return [str(name) for (name,) in rows]
