"""Workers that divide a feed by a column process each key's rows in order, whatever sessions do in between."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster

from conftest import copy_of
from restoring import copied
from sql_edition import create
from world.sql import value

pytestmark = pytest.mark.server

KEYS, WRITERS, WORKERS, STEPS = 6, 3, 4, 120
# Tables with every form of transaction number: in the primary key, or in a column with a full or a partial index. They
# exist with and without a primary key, and with partitions.
TABLES = {
    "uuid": "CREATE TABLE shared (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), {}); CREATE INDEX ON shared (seq)",
    "btree": "CREATE TABLE shared (xact bigint NOT NULL DEFAULT xact_id(), {}, PRIMARY KEY (seq));"
    "CREATE INDEX ON shared (xact)",
    "partial": "CREATE TABLE shared (xact bigint NOT NULL DEFAULT xact_id(), {}, PRIMARY KEY (seq));"
    "CREATE INDEX ON shared (xact) WHERE xact > 0",
    "bare": "CREATE TABLE shared (xact bigint NOT NULL DEFAULT xact_id(), {}); CREATE INDEX ON shared (xact);"
    "CREATE INDEX ON shared (seq)",
    "parts": "CREATE TABLE shared (id uuid DEFAULT uuid_xact_nextval(), {}, PRIMARY KEY (id, seq))"
    " PARTITION BY HASH (seq);"
    "CREATE INDEX ON shared (seq); CREATE TABLE shared_0 PARTITION OF shared FOR VALUES WITH (MODULUS 2, REMAINDER 0);"
    "CREATE TABLE shared_1 PARTITION OF shared FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
}
COLUMNS = "seq bigint GENERATED ALWAYS AS IDENTITY, key {} NOT NULL, version int"
TYPES = {"uuid": "text", "btree": "int", "partial": "varchar(40)", "bare": "uuid", "parts": "smallint"}
TAKE = "SELECT number, token FROM feed_take_batch('shared', %s, %s, '5 minutes', 3)"
ROWS = "SELECT key::text, version FROM feed_batch_rows('shared', %s, null::shared)"
FINISH = "SELECT feed_finish_batch('shared', %s, %s)"
DONE = """SELECT NOT feed_wait('shared', '0') AND worker_batches = 0 AND dead_batches = 0 FROM feeds
          WHERE name = 'shared'"""
EXPIRE = "UPDATE inorder_internal.worker_batch SET lease_end = now() WHERE number = %s"
Row = tuple[str, int]


@pytest.fixture
def db(cluster: Cluster) -> Iterator[Connection]:
    with connect(cluster.dsn) as connection:
        yield connection
        connection.execute("DROP TABLE IF EXISTS shared")


@pytest.fixture
def writers(db: Connection, cluster: Cluster) -> Iterator[list[Connection]]:
    with ExitStack() as stack:
        yield [stack.enter_context(connect(cluster.dsn)) for _ in range(WRITERS)]


def key_of(number: int, kind: str) -> str:
    return f"00000000-0000-0000-0000-{number:012}" if TYPES[kind] == "uuid" else str(number)


@dataclass
class Writer:
    session: Connection
    keys: set[str] = field(default_factory=set)
    rows: list[Row] = field(default_factory=list)
    began: int = 0  # when the transaction began


@dataclass
class Held:
    number: int
    token: int
    rows: list[Row]


class Course:
    def __init__(self, db: Connection, writers: list[Connection], kind: str, seed: int) -> None:
        self.db, self.rng, self.kind = db, random.Random(seed), kind
        self.writers = [Writer(session) for session in writers]
        self.clock = 0
        self.next_version = Counter[str]()
        self.began: dict[Row, int] = {}
        self.committed: dict[Row, int] = {}
        self.held: dict[str, Held] = {}
        self.late: set[int] = set()  # tokens of expired leases
        self.known: dict[int, list[Row]] = {}  # batches that were given to a worker, whose rows must not change
        self.processed: dict[str, list[Row]] = defaultdict(list)

    def write(self) -> None:
        """Let a writer begin, write versions of keys that no other writer has locked, or end."""
        writer = self.rng.choice(self.writers)
        self.clock += 1
        if writer.began and self.rng.random() < 0.3:
            return self.end(writer, commits=self.rng.random() < 0.8)
        if not writer.began:
            writer.session.execute("BEGIN")
            writer.session.execute("SELECT pg_current_xact_id()")  # the transaction gets its ID before the locks
            writer.began = self.clock
            return None
        locked_keys = set[str]().union(*(other.keys for other in self.writers if other is not writer))
        free = [key for key in (key_of(n, self.kind) for n in range(KEYS)) if key not in locked_keys]
        for key in self.rng.sample(free, min(2, len(free))):
            writer.keys.add(key)
            for _ in range(self.rng.choice((1, 1, 3, 12))):
                self.next_version[key] += 1
                writer.rows.append((key, self.next_version[key]))
                writer.session.execute("INSERT INTO shared (key, version) VALUES (%s, %s)", writer.rows[-1])
        return None

    def end(self, writer: Writer, commits: bool = True) -> None:
        """Commit or roll back, and release the locks."""
        writer.session.execute("COMMIT" if commits else "ROLLBACK")
        for row in writer.rows if commits else ():
            self.began[row], self.committed[row] = writer.began, self.clock
        writer.keys, writer.rows, writer.began = set(), [], 0

    def work(self) -> None:
        worker = f"worker {self.rng.randrange(WORKERS)}"
        held = self.held.get(worker)
        if held is None or self.rng.random() < 0.1:  # another process with this name may ask as well
            return self.take(worker)
        way = self.rng.random()
        if way < 0.2:  # the worker hangs until its lease has expired
            self.db.execute(EXPIRE, [held.number])
            self.late.add(held.token)
            return None
        del self.held[worker]
        try:
            if way < 0.4:
                self.db.execute("SELECT feed_fail_batch('shared', %s, %s, 'bad')", [held.number, held.token])
            else:
                assert value(self.db, FINISH, held.number, held.token) is True
                self.process(held)
        except psycopg.errors.InvalidParameterValue:
            assert held.token in self.late
        return None

    def take(self, worker: str) -> None:
        limit = self.rng.choice((None, 1, 4, 4, 10, 50))
        row: Any = self.db.execute(TAKE, [worker, limit]).fetchone()
        assert row is not None
        if row[0] is None:
            if worker in self.held:  # the worker's batch was tried too often
                self.lose(self.held.pop(worker), by_name=True)
            return
        rows: list[Any] = self.db.execute(ROWS, [row[0]]).fetchall()
        assert self.known.setdefault(row[0], rows) == rows != []
        for name, other in list(self.held.items()):
            if name == worker or other.number == row[0]:
                self.lose(self.held.pop(name), by_name=name == worker)
        held_batches = [held for held in self.held.values() if held.token not in self.late]
        assert not {key for key, _ in rows} & {key for held in held_batches for key, _ in held.rows}
        self.held[worker] = Held(row[0], row[1], rows)

    def lose(self, held: Held, by_name: bool) -> None:
        """Check that the token is invalid: the lease has expired, or a process with the same name has the batch."""
        assert by_name or held.token in self.late
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="does not belong to the worker"):
            self.db.execute(FINISH, [held.number, held.token])

    def process(self, held: Held) -> None:
        for row in held.rows:
            self.processed[row[0]].append(row)

    def clear(self) -> None:
        """Retry a dead batch, or process it without a worker.

        Later batches of its share have waited for it.
        """
        row: Any = self.db.execute("SELECT number FROM feed_batches WHERE dead_since IS NOT NULL LIMIT 1").fetchone()
        if row is None:
            return
        rows: list[Any] = self.db.execute(ROWS, [row[0]]).fetchall()
        if self.rng.random() < 0.5:
            self.db.execute("SELECT feed_retry_batch('shared', %s)", [row[0]])
        else:
            self.db.execute("SELECT feed_finish_batch('shared', %s)", [row[0]])
            self.process(Held(row[0], 0, rows))

    def run(self) -> None:
        for _ in range(STEPS):
            self.rng.choices((self.write, self.work, self.clear), (5, 5, 1))[0]()
        for writer in self.writers:
            if writer.began:
                self.end(writer)
        for _ in range(400 * KEYS):
            self.work()
            self.clear()
            if value(self.db, DONE):
                return
        raise AssertionError(self.db.execute("SELECT * FROM feed_batches").fetchall())

    def disordered(self, by_column: bool) -> list[tuple[Row, Row]]:
        return [
            (first, later)
            for rows in self.processed.values()
            for place, first in enumerate(rows)
            for later in rows[place + 1 :]
            if (later[1] < first[1] if by_column else self.committed[later] < self.began[first])
        ]


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("by_column", [True, False], ids=["ordered", "plain"])
def test_rows_of_a_key_are_processed_once_and_in_order(
    db: Connection, writers: list[Connection], kind: str, by_column: bool
) -> None:
    for shares in (4, 1) if kind == "uuid" else (4,):
        db.execute(TABLES[kind].format(COLUMNS.format(TYPES[kind])).encode())
        db.execute(
            "SELECT feed_create('shared', 'shared', order_column => %s, partition_by => 'key', shares => %s)",
            ["seq" if by_column else None, shares],
        )
        course = Course(db, writers, kind, shares)
        course.run()
        done = [row for rows in course.processed.values() for row in rows]
        assert Counter(done) == Counter(course.committed.keys())
        assert course.disordered(by_column) == []
        db.execute("DROP TABLE shared")


def divide_anew(db: Connection, batch: int) -> None:
    db.execute("UPDATE inorder_internal.feed SET shared_by.fingerprint = 'other'")
    for call, arguments in ((TAKE, ["one", 4]), (ROWS, [batch])):
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="divided by a hash function"):
            db.execute(call, arguments)
    db.execute("SELECT feed_seek('shared', 'beginning')")
    assert value(db, "SELECT count(*) FROM feed_batches") == 0


def processed(db: Connection, rows: dict[int, list[Any]]) -> tuple[dict[str, list[int]], list[int]]:
    done: dict[str, list[int]] = defaultdict(list)
    numbers: list[int] = []
    batch: Any
    while (batch := db.execute(TAKE, ["one", 4]).fetchone()) != (None, None):
        fetched: list[Any] = db.execute(ROWS, [batch[0]]).fetchall()
        numbers.append(batch[0])
        assert rows.get(batch[0], fetched) == fetched
        for key, version in fetched:
            done[key].append(version)
        db.execute(FINISH, [batch[0], batch[1]])
    return done, numbers


@pytest.mark.parametrize("same_hashes", [True, False])
def test_shares_keep_their_order_after_a_restore(cluster: Cluster, tmp_path: Path, same_hashes: bool) -> None:
    with copy_of("template1", cluster, "shares") as old:
        create(old)
        old.execute(TABLES["uuid"].format(COLUMNS.format("text")).encode())
        old.execute("SELECT feed_create('shared', 'shared', order_column => 'seq', partition_by => 'key', shares => 2)")
        old.execute(
            "INSERT INTO shared (key, version) SELECT k, v FROM generate_series(1, 6) v, unnest('{a,c}'::text[]) k"
        )
        first: Any = old.execute(TAKE, ["one", 4]).fetchone()
        second: Any = old.execute(TAKE, ["two", 4]).fetchone()
        old.execute(TAKE, ["three", 4])  # this call divides the remaining rows into shares
        rows = {number: old.execute(ROWS, [number]).fetchall() for number in (first[0], second[0])}
        with copied(cluster, "shares", cluster, "shares_again", "custom", tmp_path) as new:
            new.execute("SELECT feed_rebase('shared')")
            if not same_hashes:
                divide_anew(new, first[0])
            done, numbers = processed(new, rows)
            assert done == {"a": [1, 2, 3, 4, 5, 6], "c": [1, 2, 3, 4, 5, 6]}
            if same_hashes:
                assert set(rows) < set(numbers) and all(number > 1 << 40 for number in set(numbers) - set(rows))


def test_a_blocked_share_does_not_delay_the_other_share(db: Connection) -> None:
    db.execute(TABLES["uuid"].format(COLUMNS.format("int")).encode())
    db.execute("SELECT feed_create('shared', 'shared', order_column => 'seq', partition_by => 'key', shares => 2)")
    keys = {value(db, "SELECT (hashint8extended(%s, 0) & 1)::int", n): n for n in range(9)}
    dead = "SELECT feed_fail_batch('shared', number, token, '') FROM feed_take_batch('shared', 'w', 10, max_tries => 1)"
    db.execute("INSERT INTO shared (key, version) VALUES (%s, 0)", [keys[0]])
    assert value(db, dead) is True
    finished = 0
    for n in range(1, 61):
        db.execute("INSERT INTO shared (key, version) VALUES (%s, %s), (%s, %s)", [keys[0], n, keys[1], n])
        row: Any = db.execute(TAKE, ["w", 10]).fetchone()
        finished += value(db, FINISH, *row) is True
    assert finished == 60
    waiting = db.execute("SELECT rows FROM feed_batches WHERE dead_since IS NULL ORDER BY number").fetchall()
    assert waiting == [(10,)] * 6
    assert value(db, "SELECT blocked_shares FROM feeds WHERE name = 'shared'") == 1


def test_a_worker_keeps_its_share_and_takes_the_share_of_a_worker_that_is_gone(db: Connection) -> None:
    db.execute(TABLES["uuid"].format(COLUMNS.format("int")).encode())
    db.execute("SELECT feed_create('shared', 'shared', partition_by => 'key', shares => 2)")
    db.execute(
        "INSERT INTO shared (key, version) SELECT k, v FROM generate_series(1, 9) AS v, generate_series(0, 9) AS k"
    )
    first: list[Any] = [db.execute(TAKE, [worker, 4]).fetchone() for worker in ("gone", "stays", "late")]
    assert first[2] == (None, None)  # each share has an unfinished batch, and later batches wait for it
    share_of = "SELECT share FROM feed_batches WHERE number = %s"
    other_share, own_share = (value(db, share_of, batch) for batch, _ in first[:2])
    for row in first[:2]:
        db.execute(FINISH, row)
    turns = []
    for _ in range(8):
        next_batch: Any = db.execute(TAKE, ["stays", 4]).fetchone()
        turns.append(value(db, share_of, next_batch[0]))
        db.execute(FINISH, next_batch)
    assert turns[:3] == [own_share] * 3 and other_share in turns
