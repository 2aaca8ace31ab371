"""The SQL edition under load: each committed row once, whatever writers, readers and owners do at the same time."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from inorder.database import Connection, connect
from inorder.lab.server.cluster import Cluster
from inorder.lab.server.servers import Server

from sql_edition import install, write_edition

Act = Callable[[Connection, random.Random], None]

SECONDS = 6
PARTS = [
    f"CREATE TABLE parts_{n} PARTITION OF parts FOR VALUES FROM ({n}000000000) TO ({n + 1}000000000)" for n in range(4)
]
TABLES = {
    "keys": ["CREATE TABLE keys (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), token bigint UNIQUE)"],
    "numbers": [
        "CREATE TABLE numbers (token bigint PRIMARY KEY, xact bigint DEFAULT xact_id())",
        "CREATE INDEX ON numbers USING brin (xact)",
    ],
    "parts": [
        "CREATE TABLE parts (token bigint PRIMARY KEY, xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED) "
        "PARTITION BY RANGE (token)",
        "CREATE INDEX ON parts (xact)",
        *PARTS,
    ],
}
# Owners change tables in these ways. What is new in each read is then proved again.
CHANGES = (
    "VACUUM FULL keys", "VACUUM FULL numbers", "VACUUM FULL parts_2", "CLUSTER keys USING keys_pkey",
    "ALTER TABLE numbers SET (fillfactor = 90)", "SELECT exact_count_fold('keys')", "SELECT exact_count_fold('parts')",
    "ALTER TABLE keys ALTER COLUMN token TYPE bigint USING token + 0",
    "CREATE TABLE IF NOT EXISTS parts_9 PARTITION OF parts FOR VALUES FROM (9000000000) TO (9000000001)",
    "DROP TABLE IF EXISTS parts_9",
)  # fmt: skip
# After these a reader tries again: another reader, DDL since the snapshot, and locks in another order than the DDL's.
AGAIN = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)


class Load:
    """Sessions that do something again and again until the time is over."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.until = time.monotonic() + SECONDS
        self.failed: list[BaseException] = []
        self.committed: dict[str, set[int]] = {table: set() for table in TABLES}
        self.delivered: dict[tuple[str, str], Counter[int]] = {}
        self.done: Counter[str] = Counter()

    def session(self, act: Act, seed: int) -> threading.Thread:
        """One more session."""

        def work() -> None:
            chance = random.Random(seed)
            with connect(self.dsn) as connection:
                while time.monotonic() < self.until and not self.failed:
                    try:
                        act(connection, chance)
                    except AGAIN:
                        self.done["again"] += 1
                    except BaseException as error:
                        self.failed.append(error)
                    if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                        connection.execute("ROLLBACK")

        return threading.Thread(target=work)

    def writer(self, table: str) -> Act:
        """Transactions of rows, some rolled back in whole or in part, some long in coming."""

        def act(connection: Connection, chance: random.Random) -> None:
            tokens: list[int] = []
            connection.execute("BEGIN")
            for _ in range(chance.randint(1, 4)):
                new = chance.sample(range(4_000_000_000), chance.choice((1, 3, 40)))
                kept = chance.random() < 0.8
                connection.execute("SAVEPOINT s")
                connection.execute(f"INSERT INTO {table} (token) SELECT unnest(%s::bigint[])".encode(), [new])
                if kept:
                    tokens += new
                else:
                    connection.execute("ROLLBACK TO s")
                time.sleep(chance.choice((0, 0, 0.001, 0.05)))
            if chance.random() < 0.1:
                connection.execute("ROLLBACK")
            elif chance.random() < 0.1:
                name = f"load {chance.random()}"
                connection.execute(f"PREPARE TRANSACTION '{name}'".encode())
                time.sleep(0.05)
                connection.execute(f"COMMIT PREPARED '{name}'".encode())
                self.committed[table].update(tokens)
            else:
                connection.execute("COMMIT")
                self.committed[table].update(tokens)

        return act

    def reader(self, table: str, isolation: str) -> Act:
        """Of a feed that several read at once, at different isolation levels; some roll back."""
        got = self.delivered.setdefault((table, "feed_read"), Counter())

        def act(connection: Connection, chance: random.Random) -> None:
            limit = chance.choice(("NULL", "1", "7", "100"))
            connection.execute(f"BEGIN ISOLATION LEVEL {isolation}".encode())
            rows = connection.execute(f"SELECT token FROM feed_read('{table}', null::{table}, {limit})".encode())
            found: list[Any] = [token for (token,) in rows]
            if chance.random() < 0.1:
                connection.execute("ROLLBACK")
                return
            connection.execute("COMMIT")
            got.update(found)

        return act

    def stepper(self, table: str) -> Act:
        """A sink outside of the database, which knows the last batch that it has stored."""
        got = self.delivered.setdefault((table, "feed_next_batch"), Counter())
        stored = [0]

        def act(connection: Connection, chance: random.Random) -> None:
            name = f"steps {table}"
            number = one(connection, f"SELECT feed_next_batch('{name}', {chance.choice((5, 50))})")
            if number is None:
                time.sleep(0.001)
                return
            rows = connection.execute(f"SELECT token FROM feed_batch_rows('{name}', {number}, null::{table})".encode())
            found: list[Any] = [token for (token,) in rows]
            if number > stored[0]:
                got.update(found)
                stored[0] = number
            if chance.random() < 0.9:
                one(connection, f"SELECT feed_finish_batch('{name}', {number})")

        return act

    def keeper(self, table: str) -> Act:
        """A reader that keeps its position, as text."""
        got = self.delivered.setdefault((table, "feed_rows"), Counter())
        position: list[str] = []

        def act(connection: Connection, chance: random.Random) -> None:
            if not position:
                position.append(one(connection, f"SELECT feed_start('{table}')::text"))
            limit = chance.choice(("NULL", "3", "60"))
            batch, after = row(
                connection,
                f"SELECT b::text, feed_advance(p, b)::text FROM (SELECT %s::feed_position AS p) AS p, "
                f"LATERAL feed_batch_after('{table}', p, {limit}) AS b",
                position,
            )
            rows = connection.execute(
                f"SELECT token FROM feed_rows('{table}', %s::feed_batch, null::{table})".encode(), [batch]
            )
            found: list[Any] = [token for (token,) in rows]
            got.update(found)
            position[0] = after
            one(connection, f"SELECT feed_wait_after('{table}', %s::feed_position, '0.01 s')", [after])

        return act

    def counter(self, table: str) -> Act:
        """In one snapshot, an exact count is count(*)."""

        def act(connection: Connection, chance: random.Random) -> None:
            level = chance.choice(("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"))
            connection.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
            same = one(connection, f"SELECT exact_count('{table}') = count(*) FROM {table}")
            connection.execute("COMMIT")
            assert same, table
            self.done["counts"] += 1

        return act

    def owner(self, connection: Connection, chance: random.Random) -> None:
        """Who changes the tables meanwhile."""
        connection.execute("SET lock_timeout = '200 ms'")
        try:
            connection.execute(chance.choice(CHANGES).encode())
            self.done["changes"] += 1
        except (psycopg.errors.LockNotAvailable, psycopg.errors.ObjectNotInPrerequisiteState):
            pass
        time.sleep(0.1)


def one(connection: Connection, statement: str, values: list[str] | None = None) -> Any:
    """The value of a query of one."""
    return row(connection, statement, values)[0]


def row(connection: Connection, statement: str, values: list[str] | None = None) -> Any:
    """The row of a query of one."""
    found = connection.execute(statement.encode(), values).fetchone()
    assert found is not None
    return found


def prepared(server: Server, cluster: Cluster, folder: Path) -> Load:
    """A database with the edition, and tables of each form, read in each form and counted."""
    with connect(cluster.dsn) as admin:
        admin.execute("DROP DATABASE IF EXISTS sql_edition_load WITH (FORCE)")
        admin.execute("CREATE DATABASE sql_edition_load")
    install(server, cluster, write_edition(folder), "sql_edition_load")
    load = Load(f"{cluster.dsn} dbname=sql_edition_load")
    with connect(load.dsn) as connection:
        for table, statements in TABLES.items():
            for statement in statements:
                connection.execute(statement.encode())
            for made in (f"feed_create('{table}', '{table}')", f"feed_create('steps {table}', '{table}')",
                         f"exact_count_start('{table}')"):  # fmt: skip
                one(connection, f"SELECT {made}")
    return load


def drained(load: Load, ends: dict[str, dict[str, Act]]) -> None:
    """Read what is left, in quiet."""
    load.until = time.monotonic() + 600
    chance = random.Random(0)
    with connect(load.dsn) as connection:
        for table, forms in ends.items():
            for form, act in forms.items():
                for _ in range(300):
                    if set(load.delivered[table, form]) == load.committed[table]:
                        break
                    act(connection, chance)
                act(connection, chance)


@pytest.mark.server
def test_each_row_is_delivered_once(server: Server, cluster: Cluster, shared_folder: Path) -> None:
    """By each form of reading, of each form of table; and counts are exact."""
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    load = prepared(server, cluster, shared_folder)
    acts: list[Act] = [load.owner]
    ends: dict[str, dict[str, Act]] = {}
    for table in TABLES:
        ends[table] = {"feed_next_batch": load.stepper(table), "feed_rows": load.keeper(table)}
        acts += [load.writer(table), load.writer(table), load.reader(table, "READ COMMITTED")]
        acts += [load.reader(table, "REPEATABLE READ"), load.counter(table), *ends[table].values()]
        ends[table]["feed_read"] = load.reader(table, "READ COMMITTED")
    sessions = [load.session(act, seed + place) for place, act in enumerate(acts)]
    for session in sessions:
        session.start()
    for session in sessions:
        session.join()
    assert not load.failed, load.failed
    drained(load, ends)
    for (table, form), got in load.delivered.items():
        lost, strange = load.committed[table] - set(got), set(got) - load.committed[table]
        assert (len(lost), len(strange), max(got.values(), default=1)) == (0, 0, 1), (table, form)
