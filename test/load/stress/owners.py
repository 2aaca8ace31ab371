"""Owners who continuously change their tables: files, columns, keys, indexes and privileges."""

import re
from collections.abc import Callable
from functools import partial

import psycopg
from inorder.connection.database import Connection, one_row

from world.role import Role, roll_back, transaction
from world.sql import run
from world.tables import RESTLESS, SPACE
from world.world import World

# An owner who does not get a lock in this time gives up, and tries another change.
LOCK_TIMEOUT = "700ms"
PATIENCE = "20s"
REPACK = 190000

# Statements for whole tables. Statements with {leaf} apply to a leaf partition or to a table without partitions.
REWRITES = (
    "ALTER TABLE {table} ALTER note TYPE {kind}",
    "ALTER TABLE {table} ALTER label TYPE varchar({length})",
    "ALTER TABLE {table} ADD IF NOT EXISTS extra float8 DEFAULT random()",
    "ALTER TABLE {table} DROP IF EXISTS extra",
    "VACUUM FULL {leaf}; ALTER TABLE {leaf} SET (fillfactor = {length})",
    "VACUUM FULL {leaf}",
    "CLUSTER {leaf} USING {index}",
    "ALTER TABLE {leaf} SET TABLESPACE {space}",
)
INDEXES = (
    "REINDEX TABLE {leaf}",
    "REINDEX TABLE CONCURRENTLY {leaf}",
    "REINDEX INDEX CONCURRENTLY {index}",
    "CREATE INDEX CONCURRENTLY IF NOT EXISTS {leaf}_more ON {leaf} (token)",
    "DROP INDEX CONCURRENTLY IF EXISTS {leaf}_more",
)
HARMLESS = (
    "GRANT SELECT ON {table} TO s_other",
    "REVOKE SELECT ON {table} FROM s_other",
    "BEGIN; ALTER TABLE {table} RENAME note TO noted; ALTER TABLE {table} RENAME noted TO note; COMMIT",
    "BEGIN; ALTER TABLE {leaf} RENAME TO r_moved; ALTER TABLE r_moved RENAME TO {leaf}; COMMIT",
    "ANALYZE {table}",
    "ALTER TABLE {table} ALTER note SET STATISTICS {length}",
    "ALTER TABLE {leaf} SET (autovacuum_enabled = off)",
    "SELECT feed_enable('{table}')",
)
REPACKS = (
    "REPACK {leaf}",
    "REPACK {leaf} USING INDEX {index}",
    "REPACK (CONCURRENTLY) {leaf}",
    "REPACK (CONCURRENTLY) {leaf} USING INDEX {index}",
)
GAVE_UP = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)
# GRANT takes no lock on the table. If another session changes the same row of pg_class, as CREATE TRIGGER and
# SET (fillfactor) do, one of the two commands fails with this message.
SAME_CATALOG_ROW = "tuple concurrently updated"
INVALID = """
SELECT n.relname FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indrelid JOIN pg_class AS n ON n.oid = i.indexrelid
WHERE NOT i.indisvalid AND c.relname ~ '^r_' AND c.relkind = 'r'
"""
PENDING = "SELECT FROM pg_inherits WHERE inhparent = 'r_parts'::regclass AND inhdetachpending"
# The index of a leaf on the transaction number.
INDEX = """
SELECT n.relname FROM pg_index AS i JOIN pg_class AS n ON n.oid = i.indexrelid
JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = %s::regclass AND i.indisvalid AND a.attname IN ('id', 'xact') ORDER BY a.attname DESC LIMIT 1
"""


def label(statement: str) -> str:
    """Return the short name of a statement.

    >>> label("ALTER TABLE {table} ALTER note TYPE {kind}"), label("VACUUM FULL {leaf}; ANALYZE")
    ('ALTER TABLE ALTER TYPE', 'VACUUM FULL')
    """
    return " ".join(re.findall(r"\b[A-Z]{2,}\b|feed_enable", statement.removeprefix("BEGIN; ").split(";")[0]))


def gave_up(error: psycopg.Error) -> bool:
    """Return True for errors after which the owner gives up: lock conflicts and REPACK errors.

    REPACK (CONCURRENTLY) fails without a key or with many transactions in progress.
    """
    return isinstance(error, GAVE_UP) or SAME_CATALOG_ROW in str(error) or "REPACK" in str(error)


class OwnerRole(Role):
    def begin(self) -> Connection:
        connection = self.session(self.world.primary)
        connection.prepare_threshold = None
        connection.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}'".encode())
        connection.execute("SET client_min_messages = error")
        return connection

    def run_all(self, connection: Connection, statements: str) -> None:
        run(connection, *statements.split("; "))

    def attempt(self, connection: Connection, change: str, step: Callable[[], object]) -> bool:
        """Run a change, and count it. Return False if the owner gave up."""
        try:
            step()
        except psycopg.Error as error:
            if not gave_up(error):
                raise
            roll_back(connection)
            self.world.done["gave up"] += 1
            return False
        self.world.done[change] += 1
        return True


class Owner(OwnerRole):
    """An owner who rewrites and renames tables, or rebuilds indexes."""

    def __init__(self, world: World, name: str, kinds: tuple[str, ...], repacks: tuple[str, ...] = ()) -> None:
        super().__init__(world, name)
        self.kinds, self.repacks = kinds, repacks

    def work(self) -> None:
        with self.begin() as connection:
            kinds = self.kinds + (self.repacks if connection.info.server_version >= REPACK else ())
            while not self.world.stop.is_set():
                table = self.rng.choice(RESTLESS)
                kind = self.rng.choice(kinds)
                self.attempt(connection, label(kind), partial(self.change, connection, table, kind))
                self.clean(connection)
                self.pause(0.2)

    def change(self, connection: Connection, table: str, kind: str) -> None:
        leaf = self.rng.choice(("r_parts_0", "r_parts_1a", "r_parts_1b")) if table == "r_parts" else table
        (index,) = one_row(connection, INDEX, [leaf])
        statement = kind.format(
            table=table, leaf=leaf, index=index, kind=self.rng.choice(("int", "bigint", "numeric", "float8")),
            length=self.rng.randint(10, 100), space=self.rng.choice((SPACE, "pg_default")),
        )  # fmt: skip
        if table == "r_parts" and "ALTER TABLE {table}" in kind:
            self.change_columns(connection, statement)
        else:
            self.run_all(connection, statement)

    def change_columns(self, connection: Connection, statements: str) -> None:
        """Change columns, unless a DETACH is pending.

        The server would skip the partition being detached, and refuse later writes to it.
        """
        with transaction(connection):
            connection.execute("LOCK TABLE r_parts IN ACCESS EXCLUSIVE MODE")
            if connection.execute(PENDING).fetchone() is None:
                self.run_all(connection, statements)

    def clean(self, connection: Connection) -> None:
        for (name,) in connection.execute(INVALID.encode()).fetchall():
            try:
                connection.execute(f"DROP INDEX {name}".encode())
            except psycopg.errors.UndefinedObject:
                continue
            except psycopg.Error as error:
                # Another owner drops indexes, too.
                if not gave_up(error):
                    raise


class Keys(OwnerRole):
    KEYS = ("(a, b)", "(b, a)", "(b)", "(token)", "(b, token)", "")

    def work(self) -> None:
        """Change the primary key, and call feed_enable() at once or later. Restore the key at the end."""
        with self.begin() as connection:
            while not self.world.stop.is_set():
                key, at_once = self.rng.choice(self.KEYS), self.rng.random() < 0.5
                if self.attempt(connection, "PRIMARY KEY", partial(self.change, connection, key, at_once)):
                    self.pause(0.5)
                    if not at_once:
                        self.enable(connection)
                self.pause(2)
            self.finish(connection)

    def change(self, connection: Connection, key: str, enable: bool) -> None:
        added = f", ADD CONSTRAINT r_keyed_pkey PRIMARY KEY {key}" if key else ""
        with transaction(connection):
            connection.execute(f"ALTER TABLE r_keyed DROP CONSTRAINT IF EXISTS r_keyed_pkey{added}".encode())
            if enable:
                connection.execute("SELECT feed_enable('r_keyed')")

    def enable(self, connection: Connection) -> None:
        while not self.attempt(connection, "feed_enable", partial(connection.execute, "SELECT feed_enable('r_keyed')")):
            self.pause(0.2)

    def finish(self, connection: Connection) -> None:
        connection.execute(f"SET lock_timeout = '{PATIENCE}'".encode())
        while not self.attempt(connection, "PRIMARY KEY", lambda: self.change(connection, self.KEYS[0], True)):
            continue


def owners(world: World) -> list[Role]:
    return [
        Owner(world, "owner", REWRITES * 2 + HARMLESS, REPACKS[:2] * 3),
        Owner(world, "owner of indexes", INDEXES, REPACKS[2:] * 3),
        Keys(world, "owner of a key"),
    ]
