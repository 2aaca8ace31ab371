"""Roles that count, fold, disturb readers and writers, or check for waits."""

import time
from typing import Any

import psycopg
from inorder.connection.database import Connection, connect

from world.ledger import token_of
from world.refusals import cause_of, passes
from world.role import ISOLATIONS, Role, is_lost, transaction
from world.sql import numbers, run
from world.tables import TABLES
from world.world import World
from world.writers import check_count

HELD = "held open"
# The transaction that is held open has written to HELD_TABLES. Indexes are created on other tables, because CREATE
# INDEX CONCURRENTLY waits for writers of its table.
HELD_TABLES = ("s_generated", "s_number", "s_parts")
INDEXED_TABLES = ("s_uuid", "s_bare")
ANNOUNCE_SECONDS = 0.7
STATE_TABLES = tuple(f"inorder_internal.{name}" for name in ("feed", "feed_state", "worker_batch", "count_part"))


class Counter(Role):
    def __init__(self, world: World, name: str, server: str) -> None:
        super().__init__(world, name)
        self.server, self.on_standby = server, server == "standby"
        self.isolations = ISOLATIONS[: 2 if self.on_standby else 3]

    def work(self) -> None:
        """Compare counts until the end of the round, even if a recovery conflict ends the session on a standby."""
        while not self.world.settled.is_set():
            with self.session(getattr(self.world, self.server)) as connection:
                while not self.world.settled.is_set() and not connection.closed:
                    self.count(connection)

    def count(self, connection: Connection) -> None:
        """Compare one or more counts in one transaction, and sometimes read the view feeds."""
        try:
            with transaction(connection, self.rng.choice(self.isolations)):
                for _ in range(self.rng.randint(1, 3)):
                    check_count(self.world, connection, self.rng.choice(TABLES), self.name)
                    time.sleep(self.rng.random() * 0.05)
            if self.rng.random() < 0.1:
                connection.execute("SELECT * FROM feeds")
        except psycopg.errors.UndefinedTable:
            pass  # a partition was dropped
        except psycopg.Error as error:
            if not passes(error, self.on_standby):
                raise


class Folder(Role):
    def work(self) -> None:
        with self.session(self.world.primary) as connection:
            while not self.world.settled.is_set():
                level = self.rng.choice(("READ COMMITTED", "READ COMMITTED", "REPEATABLE READ"))
                try:
                    with transaction(connection, level):
                        connection.execute("SELECT exact_count_fold(%s)", [self.rng.choice(TABLES)])
                        if self.rng.random() < 0.2:
                            connection.execute("ROLLBACK; BEGIN")
                except psycopg.Error as error:
                    if not passes(error):
                        raise
                self.pause(0.3)


# VACUUM locks a table exclusively for a moment while it truncates empty pages at the end.
TRUNCATING = "vacuum, truncating"


class Vacuum(Role):
    """Runs VACUUM and ANALYZE, including on the extension's tables."""

    def work(self) -> None:
        commands = (
            "VACUUM (SKIP_LOCKED)", "VACUUM (SKIP_LOCKED, TRUNCATE false)",
            "VACUUM (FREEZE, ANALYZE, SKIP_LOCKED, TRUNCATE false)", "ANALYZE (SKIP_LOCKED)",
        )  # fmt: skip
        with self.session(self.world.superuser) as connection:
            connection.execute("SET client_min_messages = error")
            while not self.world.stop.is_set():
                table = self.rng.choice((*TABLES, *STATE_TABLES, "pg_inherits", "pg_class"))
                command = self.rng.choice(commands)
                name = TRUNCATING if command == commands[0] else self.name
                connection.execute("SELECT set_config('application_name', %s, false)", [name])
                connection.execute(f"{command} {table}".encode())
                self.pause(0.5)


class Indexer(Role):
    def work(self) -> None:
        """Create and drop indexes concurrently. The commands wait for writers, but no session may wait for them."""
        with self.session(self.world.primary) as connection:
            while not self.world.stop.is_set():
                name, table = f"i{next(self.world.lanes)}", self.rng.choice(INDEXED_TABLES)
                connection.execute(f"CREATE INDEX CONCURRENTLY {name} ON {table} (token)".encode())
                if self.rng.random() < 0.7:
                    connection.execute(f"DROP INDEX CONCURRENTLY {name}".encode())
                self.pause(2)


class Partitioner(Role):
    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.lane, self.region = next(world.lanes), 1

    def work(self) -> None:
        """Create a partition about every second. Writers use it 0.7 s later, when all running plans contain it."""
        with self.session(self.world.primary) as connection:
            while not self.world.stop.wait(ANNOUNCE_SECONDS):
                name = self.next_one(connection)
                self.world.stop.wait(ANNOUNCE_SECONDS)
                self.world.targets["s_parts"] += [("s_parts", self.region), (name, self.region)]

    def next_one(self, connection: Connection) -> str:
        self.region += 1
        name, filled = f"s_parts_{self.region}", self.region % 3 == 0
        tokens = [token_of(self.lane, self.region, row) for row in ((0, 1) if filled else (1,))]
        try:
            self.make(connection, name, filled)
        except psycopg.OperationalError:
            self.world.ledger.doubt({"s_parts": tokens})
            raise
        self.world.ledger.add({"s_parts": tokens})
        return name

    def make(self, connection: Connection, name: str, filled: bool) -> None:
        with transaction(connection):
            run(connection, *self.statements(name))
            if filled:
                self.fill(connection, name, 0)
            connection.execute(f"ALTER TABLE s_parts ATTACH PARTITION {name} FOR VALUES IN ({self.region})".encode())
            self.fill(connection, name, 1)

    def statements(self, name: str) -> list[str]:
        if self.region % 2:
            return [f"CREATE TABLE {name} (LIKE s_parts INCLUDING DEFAULTS INCLUDING INDEXES)"]
        return [
            f"CREATE TABLE {name} (LIKE s_parts INCLUDING DEFAULTS INCLUDING INDEXES) PARTITION BY HASH (id)",
            f"CREATE TABLE {name}a PARTITION OF {name} FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
            f"CREATE TABLE {name}b PARTITION OF {name} FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
        ]

    def fill(self, connection: Connection, name: str, row: int) -> None:
        token = token_of(self.lane, self.region, row)
        connection.execute(f"INSERT INTO {name} (region, token) VALUES (%s, %s)".encode(), [self.region, token])


WAITS = r"""
SELECT a.application_name, coalesce(nullif(b.application_name, ''), b.backend_type, 'prepared transaction'),
       a.wait_event, a.query
FROM pg_stat_activity AS a CROSS JOIN LATERAL unnest(pg_blocking_pids(a.pid)) AS p(pid)
LEFT JOIN pg_stat_activity AS b ON b.pid = p.pid
WHERE a.wait_event_type = 'Lock' AND a.wait_event <> 'extend' AND (p.pid = 0 OR b.pid IS NOT NULL)
  AND a.backend_type = 'client backend'  -- REPACK (CONCURRENTLY) has a process that waits for transactions to end
  AND a.query NOT LIKE '%FROM s\_streams%'  -- not read by a feed; SKIP LOCKED may wait for a row that is being updated
"""
# The statements of these roles wait by design, for writers or for each other.
MAY_WAIT = ("indexer", "vacuum", "partitioner", "folder", "owner")
# The partitioner locks a new partition for a moment; the other sessions lock tables exclusively.
MAY_HOLD = ("partitioner", "owner", TRUNCATING, "autovacuum worker")


class Watcher(Role):
    """Checks that no reader, writer or counter waits for another, except for two readers of the same feed."""

    def work(self) -> None:
        with self.session(self.world.superuser) as connection:
            while not self.world.released.wait(0.1):
                for waiting, holding, event, statement in connection.execute(WAITS):
                    taking_turns = str(waiting).rstrip(" 23") == str(holding).rstrip(" 23")
                    expected = str(waiting).startswith(MAY_WAIT) or str(holding).startswith(MAY_HOLD)
                    if not (taking_turns or expected):
                        self.world.problem(f"{waiting} waited for {holding} ({event}): {statement}")


OBSERVED = 8  # number of feeds that are compared in one snapshot
# Feeds that are divided between workers are left out, because no other role may read them.
KNOWN = """SELECT name, owner, relation::oid::regclass::text, caught_up FROM feeds
           WHERE caught_up IS NOT NULL AND partition_by IS NULL"""


class Observer(Role):
    """Checks in one snapshot that the view shows a feed as caught up if and only if feed_peek() finds no row."""

    def work(self) -> None:
        with self.session(self.world.primary) as connection:
            while not self.world.released.is_set():
                try:
                    with transaction(connection, "REPEATABLE READ"):
                        feeds: list[Any] = connection.execute(KNOWN.encode()).fetchall()
                        for feed in self.rng.sample(feeds, min(OBSERVED, len(feeds))):
                            self.compare(connection, *feed)
                except psycopg.Error as error:
                    if is_lost(error) or cause_of(error) is None:
                        raise
                self.pause(0.1)

    def compare(self, connection: Connection, name: str, owner: str, table: str, caught_up: bool) -> None:
        peek = f"SELECT count(*) FROM feed_peek(%s, null::{table}, NULL, %s::regrole)"
        connection.execute("SAVEPOINT peek")
        try:
            (unread,) = numbers(connection, peek, name, owner)
        except psycopg.errors.ObjectNotInPrerequisiteState as error:
            if "unfinished batch" not in str(error) or caught_up:
                raise
            connection.execute("ROLLBACK TO peek")
            return
        self.world.done[f"seen as {'caught up' if caught_up else 'behind'}"] += 1
        if caught_up != (unread == 0):
            self.world.problem(f"feed {name} has {unread} unread rows, and caught_up is {caught_up}")


def hold_open(world: World) -> dict[str, list[int]]:
    lane = next(world.lanes)
    rows = {table: [token_of(lane, 1, row) for row in range(3)] for table in HELD_TABLES}
    with connect(world.primary) as connection:
        connection.execute("BEGIN")
        for table, tokens in rows.items():
            for token in tokens:
                connection.execute(f"INSERT INTO {table} (region, token) VALUES (0, %s)".encode(), [token])
        connection.execute(f"PREPARE TRANSACTION '{HELD}'".encode())
    return rows


def others(world: World, later: bool) -> list[Role]:
    counter = Counter(world, "counter", "primary")
    if later:
        return [counter]
    return [
        counter,
        Counter(world, "counter 2", "primary"),
        *([Counter(world, "counter on the standby", "standby")] if world.standby else []),
        Folder(world, "folder"),
        Folder(world, "folder 2"),
        Vacuum(world, "vacuum"),
        Indexer(world, "indexer"),
        Partitioner(world, "partitioner"),
        Watcher(world, "watcher"),
        Observer(world, "observer"),
    ]
