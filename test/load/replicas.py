"""Two servers of different versions: rows written on one are replicated logically to the other."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster
from psycopg.conninfo import make_conninfo

from ground import FINISH
from sql_edition import create
from waiting import wait_for
from world.server import run_program
from world.sql import value

SETTINGS = {
    "wal_level": "logical", "max_replication_slots": "30", "max_wal_senders": "30", "max_worker_processes": "30",
    "max_logical_replication_workers": "20", "wal_retrieve_retry_interval": "100ms", "max_prepared_transactions": "20",
    "logical_decoding_work_mem": "64kB", "fsync": "off",
}  # fmt: skip
SCHEMA = """
CREATE TABLE keys (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n bigint, note text);
CREATE TABLE parts (id uuid DEFAULT uuid_xact_nextval(), n bigint, note text, PRIMARY KEY (id, n))
    PARTITION BY HASH (n);
CREATE TABLE parts_0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE numbers (id bigint PRIMARY KEY, n bigint, note text, xact bigint DEFAULT xact_id());
CREATE INDEX ON numbers (xact) WHERE xact > 0;
CREATE TABLE made (id bigint PRIMARY KEY, n bigint, note text,
                   xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED);
CREATE INDEX ON made (xact);
"""
NUMBERED = ("keys", "parts", "numbers")  # tables whose numbers are replicated; generated numbers are computed again
TABLES = (*NUMBERED, "made")


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
        # Version 15.20 stores an option for each column that 18.6 does not know.
        script = re.sub(r"ALTER TABLE [^;]* SET \(pg_attver=[^;]*;", "", dumped.stdout)
        done = run_program(self.subscriber, "psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-d", self.target, stdin=script)
        assert done.returncode == 0, done.stderr

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
            target.execute(f"DROP SUBSCRIPTION {self.name}".encode())

    def drop(self) -> None:
        with connect(self.target) as target:
            left = value(target, "SELECT count(*) FROM pg_stat_subscription WHERE subname = %s", self.name)
        if left:
            self.unsubscribe()
        for cluster in (self.subscriber, self.publisher):
            with connect(cluster.dsn) as admin:
                admin.execute(f"DROP DATABASE {self.name} WITH (FORCE)".encode())


def wait_until_confirmed(source: Connection, slot: str) -> None:
    end = value(source, "SELECT pg_current_wal_lsn()")
    confirmed = "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s"
    wait_for(lambda: value(source, confirmed, end, slot))


@dataclass
class Writer:
    lane: int
    used: int = 0
    committed: dict[str, list[int]] = field(default_factory=lambda: {table: [] for table in TABLES})

    def write(self, dsn: str, transactions: int) -> None:
        rng = random.Random(self.lane)
        with connect(dsn) as connection:
            for number in range(transactions):
                rows: dict[str, list[int]] = {}
                connection.execute("BEGIN")
                for table in rng.sample(TABLES, rng.randint(1, len(TABLES))):
                    rows[table] = self.insert(connection, table, 600 if rng.random() < 0.02 else rng.randint(1, 5))
                    connection.execute("SAVEPOINT s")
                    self.insert(connection, table, 1)
                    connection.execute("ROLLBACK TO s")
                if number % 9 == 8:
                    connection.execute("ROLLBACK")
                    continue
                if number % 3 == 2:
                    connection.execute("UPDATE keys SET note = 'changed' WHERE n = ANY (%s)", [self.committed["keys"]])
                connection.execute("COMMIT")
                for table, tokens in rows.items():
                    self.committed[table] += tokens

    def insert(self, connection: Connection, table: str, amount: int) -> list[int]:
        first = self.lane * 1_000_000 + self.used + 1
        self.used += amount
        columns, values = ("id, n", "g, g") if table in ("numbers", "made") else ("n", "g")
        connection.execute(
            f"INSERT INTO {table} ({columns}) SELECT {values} FROM generate_series(%s::bigint, %s) AS g".encode(),
            [first, first + amount - 1],
        )
        return list(range(first, first + amount))


class Consumer:
    def __init__(self, table: str) -> None:
        self.table = table
        self.moved: list[int] = []
        self.batches: dict[tuple[int, int], list[int]] = {}
        self.generation = 0  # how often the feed was created: its batches begin with 1 again
        self.kept: list[int] = []
        self.position = ""

    def create(self, connection: Connection, start: str) -> None:
        create_feed = "SELECT feed_create(%s || ' moved', %s, %s), feed_create(%s || ' steps', %s, %s)"
        connection.execute(create_feed.encode(), [self.table, self.table, start] * 2)
        self.position = str(value(connection, "SELECT reader_start(%s, %s)::text", self.table, start))

    def tokens(self, connection: Connection, call: str, *parameters: object) -> list[int]:
        query = f"SELECT n FROM {call.replace('TYPE', f'null::{self.table}')}"
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
        kept = self.tokens(connection, "reader_batch_rows(%s, %s::text::feed_batch, TYPE)", self.table, batch)
        self.kept += kept
        advance = "SELECT reader_advance(%s::text::feed_position, %s::text::feed_batch)::text"
        self.position = str(value(connection, advance, self.position, batch))
        return len(moved) + len(kept) + (number is not None)

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

    def check(self, tokens: Sequence[int]) -> None:
        wanted = sorted(tokens)
        stepped = [token for batch in self.batches.values() for token in batch]
        for kind, got in (("moved", self.moved), ("steps", stepped), ("kept", self.kept)):
            assert sorted(got) == wanted, (self.table, kind, len(got), len(set(got)), len(wanted))
