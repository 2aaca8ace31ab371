"""Two servers of different versions, with logical replication from one to the other."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster
from psycopg.conninfo import make_conninfo

from ground import FINISH
from sql_edition import create
from waiting import wait_for
from world import writers
from world.ledger import LANE_BITS
from world.server import run_program
from world.sql import run, value
from world.tables import table

SETTINGS = {
    "wal_level": "logical", "max_replication_slots": "30", "max_wal_senders": "30", "max_worker_processes": "30",
    "max_logical_replication_workers": "20", "wal_retrieve_retry_interval": "100ms", "max_prepared_transactions": "20",
    "logical_decoding_work_mem": "64kB", "fsync": "off",
    "wal_writer_delay": "10ms",  # a subscriber confirms only WAL that its WAL writer has flushed
}  # fmt: skip
FORMS = {"keys": "uuid", "parts": "parts", "numbers": "number", "made": "generated"}
SCHEMA = "".join(table(form, name, ", note text") for name, form in FORMS.items())
SCHEMA += "ALTER TABLE numbers ALTER xact DROP NOT NULL;"
# Tables whose transaction numbers are replicated. For other tables, the subscriber generates the numbers.
NUMBERED = ("keys", "parts", "numbers")
TABLES = tuple(FORMS)


@dataclass
class Pair:
    publisher: Cluster
    subscriber: Cluster
    name: str

    @property
    def source(self) -> str:
        return make_conninfo(self.publisher.dsn, dbname=self.name)

    @property
    def target(self) -> str:
        return make_conninfo(self.subscriber.dsn, dbname=self.name)

    def make(self, edition: str) -> None:
        with connect(self.source) as connection:
            create(connection, edition)
            connection.execute(SCHEMA.encode())

    def copy_schema(self) -> None:
        options = ("--schema-only", "--no-publications", "--no-toast-compression")
        dumped = run_program(self.subscriber, "pg_dump", *options, "-d", self.source)
        assert dumped.returncode == 0, dumped.stderr
        # PostgreSQL 15.20 stores an option for each column that version 18.6 does not know.
        script = re.sub(r"ALTER TABLE [^;]* SET \(pg_attver=[^;]*;", "", dumped.stdout)
        restored = run_program(self.subscriber, "psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-d", self.target, stdin=script)
        assert restored.returncode == 0, restored.stderr

    def subscribe(self, tables: str, options: str = "") -> None:
        with connect(self.source) as source, connect(self.target) as target:
            source.execute(f"CREATE PUBLICATION p FOR {tables}".encode())
            connection = f"CREATE SUBSCRIPTION {self.name} CONNECTION '{self.source}' PUBLICATION p"
            target.execute((connection + (f" WITH ({options})" if options else "")).encode())

    def wait(self) -> None:
        with connect(self.source) as source, connect(self.target) as target:
            wait_for(
                lambda: value(target, "SELECT NOT EXISTS (SELECT FROM pg_subscription_rel WHERE srsubstate <> 'r')")
            )
            wait_until_confirmed(source, self.name)

    def unsubscribe(self) -> None:
        with connect(self.target) as target:
            run(target, f"DROP SUBSCRIPTION {self.name}")
            advance_sequences(target)

    def drop(self) -> None:
        with connect(self.target) as target:
            subscriptions = value(target, "SELECT count(*) FROM pg_stat_subscription WHERE subname = %s", self.name)
        if subscriptions:
            self.unsubscribe()
        for cluster in (self.subscriber, self.publisher):
            with connect(cluster.dsn) as admin:
                admin.execute(f"DROP DATABASE {self.name} WITH (FORCE)".encode())


def advance_sequences(target: Connection) -> None:
    """Advance the sequences of a former subscriber past the replicated rows, because sequences are not replicated."""
    run(target, "SELECT setval('numbers_id_seq', 1 << 30), setval('made_id_seq', 1 << 30)")


def wait_until_confirmed(source: Connection, slot: str) -> None:
    end = value(source, "SELECT pg_current_wal_lsn()")
    confirmed = "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s"
    wait_for(lambda: value(source, confirmed, end, slot))


class Writer(writers.Writer):
    """A writer that runs a given number of transactions on the current primary."""

    tables = calm = TABLES
    most_rows, counting = 100, 0.0

    def kinds(self) -> list[Callable[[], None]]:
        return [self.row, self.several, self.savepoints, self.undone]

    def write(self, transactions: int) -> None:
        with self.session(self.world.primary) as self.connection:
            for _ in range(transactions):
                self.rng.choice(self.kinds())()
            changed = "UPDATE keys SET note = 'changed' WHERE token >> %s = %s"
            self.connection.execute(changed, [LANE_BITS, self.lane])

    def write_late(self, connection: Connection) -> None:
        """Insert rows into each table in a transaction that was begun earlier, and commit it."""
        self.connection, draft = connection, self.draft()
        for name in TABLES:
            self.insert(draft, 3, (name,))
        connection.execute("COMMIT")
        self.world.ledger.add(draft.rows)


class Consumer:
    def __init__(self, table: str) -> None:
        self.table = table
        self.moved: list[int] = []
        self.batches: dict[tuple[int, int], list[int]] = {}
        self.generation = 0  # increased when the feed is created again
        self.kept: list[int] = []
        self.position = ""

    def create(self, connection: Connection, start: str) -> None:
        create_feed = "SELECT feed_create(%s || ' moved', %s, %s), feed_create(%s || ' steps', %s, %s)"
        connection.execute(create_feed.encode(), [self.table, self.table, start] * 2)
        self.position = str(value(connection, "SELECT reader_start(%s, %s)::text", self.table, start))

    def tokens(self, connection: Connection, call: str, *parameters: object) -> list[int]:
        query = f"SELECT token FROM {call.replace('TYPE', f'null::{self.table}')}"
        return [int(str(row[0])) for row in connection.execute(query.encode(), parameters)]

    def read(self, connection: Connection, rows: int | None) -> int:
        moved = self.tokens(connection, "feed_read(%s || ' moved', TYPE, %s)", self.table, rows)
        self.moved += moved
        number = self.take(connection, rows)
        if number is not None:
            connection.execute(FINISH, [f"{self.table} steps", number])
        batch = value(
            connection,
            "SELECT reader_next_batch(%s, %s::text::feed_position, %s)::text",
            self.table,
            self.position,
            rows,
        )
        batch_tokens = self.tokens(connection, "reader_batch_rows(%s, %s::text::feed_batch, TYPE)", self.table, batch)
        self.kept += batch_tokens
        advance = "SELECT reader_advance(%s::text::feed_position, %s::text::feed_batch)::text"
        self.position = str(value(connection, advance, self.position, batch))
        return len(moved) + len(batch_tokens) + (number is not None)

    def take(self, connection: Connection, rows: int | None) -> int | None:
        number = value(connection, "SELECT (feed_take_batch(%s || ' steps', 'w', %s)).number", self.table, rows)
        if number is None:
            return None
        read = self.tokens(connection, "feed_batch_rows(%s || ' steps', %s, TYPE)", self.table, number)
        assert self.batches.setdefault((self.generation, int(str(number))), read) == read
        return int(str(number))

    def drain(self, connection: Connection) -> None:
        while self.read(connection, None):
            pass

    def check(self, tokens: Iterable[int]) -> None:
        expected = sorted(tokens)
        stepped = [token for batch in self.batches.values() for token in batch]
        for kind, delivered in (("moved", self.moved), ("steps", stepped), ("kept", self.kept)):
            counts = len(delivered), len(set(delivered)), len(expected)
            assert sorted(delivered) == expected, (self.table, kind, counts)
