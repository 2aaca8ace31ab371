"""A role that creates, detaches, changes, reattaches and drops partitions of a table while it is read."""

from collections.abc import Callable
from functools import partial

import psycopg
from inorder.connection.database import Connection, one_row
from psycopg import sql

from load.stress.owners import OwnerRole
from world.ledger import ROW_BITS, token_of
from world.role import roll_back
from world.sql import numbers
from world.world import World

TABLE = "r_parts"
REGIONS = range(10, 14)
UNDONE = 0.15

STATE = """
SELECT c.oid IS NOT NULL, i.inhrelid IS NOT NULL, coalesce(i.inhdetachpending, false)
FROM (SELECT to_regclass(%s) AS oid) AS c LEFT JOIN pg_inherits AS i ON i.inhrelid = c.oid
"""
# The partition whose DETACH is pending, if any. Until it is detached, no other partition can be detached concurrently.
PENDING = """
SELECT substring(inhrelid::regclass::text FROM '\\d+$')::int
FROM pg_inherits WHERE inhparent = 'r_parts'::regclass AND inhdetachpending
"""
# A table must have the current column types and the current default before it is attached. feed_rebase() changes the
# default only of partitions that are attached at the time of the call.
COLUMNS = """
SELECT format('ALTER TABLE %%s ALTER %%I TYPE %%s', %s::text, attname, format_type(atttypid, atttypmod))
FROM pg_attribute WHERE attrelid = 'r_parts'::regclass AND attname IN ('note', 'label')
UNION ALL
SELECT format('ALTER TABLE %%s ALTER id SET DEFAULT %%s', %s::text, pg_get_expr(d.adbin, d.adrelid))
FROM pg_attrdef AS d JOIN pg_attribute AS a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
WHERE d.adrelid = 'r_parts'::regclass AND a.attname = 'id'
"""
RENUMBER = """
UPDATE {0} AS p SET id = DEFAULT, token = s.token
FROM (SELECT ctid, %s + row_number() OVER () - 1 AS token FROM {0}) AS s WHERE p.ctid = s.ctid
"""


class UndoneError(Exception):
    """Raised when a change was rolled back on purpose."""


class Partitions(OwnerRole):
    """Detaches, attaches, creates and drops partitions.

    Rows of a partition that was detached or attached need not be delivered, but must not be delivered twice.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world, "owner of partitions")
        self.lane, self.number = next(world.lanes), 0

    def work(self) -> None:
        with self.begin() as connection:
            while not self.world.stop.is_set():
                region = self.pending(connection) or self.rng.choice(REGIONS)
                self.world.moves |= 1
                self.one(connection, region)
                self.world.moves += 1
                self.pause(0.6)
            self.finish(connection)

    def pending(self, connection: Connection) -> int | None:
        """Return the region of the partition whose DETACH is pending, or None."""
        return next(iter(numbers(connection, PENDING)), None)

    def one(self, connection: Connection, region: int) -> None:
        name = f"{TABLE}_{region}"
        exists, attached, pending = one_row(connection, STATE, [name])
        steps: dict[str, Callable[[Connection, str, int], None]] = {
            "attach as is": self.attach, "attach renumbered": self.renumber, "attach empty": self.empty,
            "drop": self.drop,
        }  # fmt: skip
        if not exists:
            steps = {"create": self.create}
        elif pending:
            steps = {"finalize": self.finalize}
        elif attached:
            steps = {"detach": self.detach, "detach concurrently": self.detach_concurrently}
        change, step = self.rng.choice([*steps.items()])
        try:
            self.attempt(connection, change, partial(step, connection, name, region))
        except UndoneError:
            roll_back(connection)

    def finish(self, connection: Connection) -> None:
        for region in REGIONS:
            if one_row(connection, STATE, [f"{TABLE}_{region}"]) == (True, True, True):
                connection.execute("SET lock_timeout = 0")
                step = partial(self.finalize, connection, f"{TABLE}_{region}", region)
                # An earlier writer may block the DETACH and also wait for it: the server then cancels one of the two.
                while not self.attempt(connection, "finalize", step):
                    continue

    def commit(self, connection: Connection) -> None:
        if self.rng.random() < UNDONE:
            raise UndoneError
        connection.execute("COMMIT")

    def create(self, connection: Connection, name: str, region: int) -> None:
        """Create a partition, or attach an empty table."""
        connection.execute("BEGIN")
        if self.rng.random() < 0.5:
            connection.execute(f"CREATE TABLE {name} PARTITION OF {TABLE} FOR VALUES IN ({region})".encode())
        else:
            connection.execute(f"CREATE TABLE {name} (LIKE {TABLE} INCLUDING DEFAULTS)".encode())
            self.bring(connection, name, region)
        self.commit(connection)
        self.open(name, region)

    def open(self, name: str, region: int) -> None:
        for target in ((TABLE, region), (name, region)):
            if target not in self.world.targets[TABLE]:
                self.world.targets[TABLE] = [*self.world.targets[TABLE], target]

    def bring(self, connection: Connection, name: str, region: int) -> None:
        self.fit(connection, name)
        columns = {"r_parts": set[str](), name: set[str]()}
        for table, attributes in columns.items():
            query = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
            attributes.update(str(column) for (column,) in connection.execute(query.encode(), [table]))
        for column in columns["r_parts"] - columns[name]:
            connection.execute(f"ALTER TABLE {name} ADD {column} float8".encode())
        for column in columns[name] - columns["r_parts"]:
            connection.execute(f"ALTER TABLE {name} DROP {column}".encode())
        connection.execute(f"ALTER TABLE {TABLE} ATTACH PARTITION {name} FOR VALUES IN ({region})".encode())

    def fit(self, connection: Connection, name: str) -> None:
        """Adapt a table's column types and default to the partitioned table, which is locked until the ATTACH."""
        connection.execute(f"LOCK TABLE {TABLE} IN SHARE UPDATE EXCLUSIVE MODE".encode())
        for (statement,) in connection.execute(COLUMNS.encode(), [name, name]).fetchall():
            connection.execute(str(statement).encode())

    def note(self, connection: Connection, name: str) -> int:
        connection.execute(f"LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE".encode())
        return self.note_alone(connection, name)

    def detach(self, connection: Connection, name: str, _: int) -> None:
        connection.execute("BEGIN")
        connection.execute(f"ALTER TABLE {TABLE} DETACH PARTITION {name}".encode())
        if self.rng.random() < UNDONE:
            raise UndoneError
        self.note(connection, name)
        if self.rng.random() < 0.3:
            connection.execute(f"DROP TABLE {name}".encode())
        connection.execute("COMMIT")

    def detach_concurrently(self, connection: Connection, name: str, region: int) -> None:
        try:
            connection.execute(f"ALTER TABLE {TABLE} DETACH PARTITION {name} CONCURRENTLY".encode())
        finally:
            if not connection.closed:
                self.note_alone(connection, name)

    def finalize(self, connection: Connection, name: str, _: int) -> None:
        connection.execute(f"ALTER TABLE {TABLE} DETACH PARTITION {name} FINALIZE".encode())
        self.note_alone(connection, name)

    def note_alone(self, connection: Connection, name: str) -> int:
        """Record the rows of a partition without locking it. Return their number."""
        tokens = numbers(connection, f"SELECT token FROM {name}")
        self.world.ledger.leave(TABLE, tokens)
        return len(tokens)

    def drop(self, connection: Connection, name: str, _: int) -> None:
        connection.execute("BEGIN")
        self.note(connection, name)
        connection.execute(f"DROP TABLE {name}".encode())
        self.commit(connection)

    def attach(self, connection: Connection, name: str, region: int) -> None:
        connection.execute("BEGIN")
        self.note(connection, name)
        self.bring(connection, name, region)
        self.commit(connection)

    def empty(self, connection: Connection, name: str, region: int) -> None:
        connection.execute("BEGIN")
        self.note(connection, name)
        connection.execute(f"DROP TRIGGER IF EXISTS zz_inorder_truncate ON {name}".encode())
        connection.execute(f"TRUNCATE {name}".encode())
        self.bring(connection, name, region)
        self.commit(connection)

    def renumber(self, connection: Connection, name: str, region: int) -> None:
        connection.execute("BEGIN")
        amount = self.note(connection, name)
        self.fit(connection, name)
        self.number += 1
        first = token_of(self.lane, self.number, 0)
        self.number += amount >> ROW_BITS
        connection.execute(sql.SQL(RENUMBER).format(sql.Identifier(name)), [first])
        self.bring(connection, name, region)
        rows = {TABLE: list(range(first, first + amount))}
        try:
            self.commit(connection)
        except psycopg.OperationalError:
            self.world.ledger.doubt(rows)
            raise
        self.world.ledger.add(rows)
