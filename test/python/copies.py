"""A copy of a table that is built from the table's changes and then compared with the table."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from inorder.connection.database import Connection

from ground import FINISH

NEXT = "SELECT (feed_take_batch(%s, 'w', %s)).number"
CHANGES = "SELECT op, version, to_jsonb(changed), {keys} FROM changes_batch_rows(%s, %s, null::{table})"
SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ"

# A key is compared as text, because equal keys may be written differently.
Key = tuple[str, ...]
Change = tuple[str, int, object, Key]  # op, version, row, key


@dataclass
class Copy:
    """The sink's copy of a table: a row for each key."""

    table: str = "t"
    feed: str = "copy"
    keys: tuple[str, ...] = ("id",)
    rows: dict[Key, object] = field(default_factory=dict)
    versions: dict[Key, int] = field(default_factory=dict)
    floor: int = 0  # version at which all rows last arrived

    def changes(self, connection: Connection, number: object) -> list[Change]:
        keys = f"ARRAY[{', '.join(f'(changed).{key}::text' for key in self.keys)}]"
        query = CHANGES.format(keys=keys, table=self.table)
        rows: list[Any] = connection.execute(query.encode(), [self.feed, number]).fetchall()
        return [(op, version, row, tuple(key)) for op, version, row, key in rows]

    def apply(self, changes: Iterable[Change], by_version: bool = False) -> None:
        """Apply changes. With ``by_version``, changes may come in any order, and older changes of a key are ignored."""
        for op, version, row, key in changes:
            if by_version and version < max(self.floor, self.versions.get(key, 0)):
                continue
            if op == "resync":
                self.floor = version
                self.rows = {key: row for key, row in self.rows.items() if by_version and self.versions[key] > version}
                continue
            if op == "upsert":
                self.rows[key] = row
            else:
                assert op == "delete"
                self.rows.pop(key, None)
            self.versions[key] = version

    def step(self, connection: Connection, max_rows: int | None = None) -> bool:
        """Apply the next batch in the current transaction. Return False if there is none."""
        (number,) = connection.execute(NEXT, [self.feed, max_rows]).fetchone() or (None,)
        self.apply(self.changes(connection, number))
        if number is None:
            return False
        connection.execute(FINISH, [self.feed, number])
        return True

    def table_now(self, connection: Connection) -> dict[Key, object]:
        keys = f"ARRAY[{', '.join(f'e.{key}::text' for key in self.keys)}]"
        query = f"SELECT {keys}, to_jsonb(e.*) FROM {self.table} AS e"
        rows: list[Any] = connection.execute(query.encode()).fetchall()
        return {tuple(key): row for key, row in rows}

    def follow(self, connection: Connection, max_rows: int | None = None) -> None:
        """Apply all batches, each in its own snapshot, and check that the copy equals the table after each batch.

        With ``max_rows``, the copy equals the table only after the last batch.
        """
        going_on = True
        while going_on:
            connection.execute(SNAPSHOT)
            going_on = self.step(connection, max_rows)
            if max_rows is None or not going_on:
                assert self.rows == self.table_now(connection)
            connection.execute("COMMIT")


KEPT_NEXT = (
    "SELECT b::text, reader_advance(p, b)::text, isempty(b.transactions) FROM (SELECT %s::text::feed_position AS p) "
    "AS k, LATERAL reader_next_batch(%s::regclass, p, %s) AS b"
)
KEPT = "SELECT reader_changes_query(%s::regclass, %s::text::feed_position, %s::text::feed_batch)"


@dataclass
class KeptCopy(Copy):
    """A copy that also stores the position."""

    position: str | None = None

    def step(self, connection: Connection, max_rows: int | None = None) -> bool:
        log = f"{self.table}_changes"
        connection.execute(f"LOCK TABLE {self.table} IN ACCESS SHARE MODE".encode())
        start = "SELECT coalesce(%s, reader_start(%s)::text)"
        (position,) = connection.execute(start, [self.position, log]).fetchone() or (None,)
        batch, after, is_empty = connection.execute(KEPT_NEXT, [position, log, max_rows]).fetchone() or (
            None,
            None,
            True,
        )
        (query,) = connection.execute(KEPT, [self.table, position, batch]).fetchone() or ("",)
        keys = f"ARRAY[{', '.join(f'{key}::text' for key in self.keys)}]"
        rows: list[Any] = connection.execute(
            f"SELECT op, version, to_jsonb(r) - '{{op,version}}'::text[], {keys} FROM ({query}) AS r".encode()
        ).fetchall()
        assert connection.execute(KEPT, [self.table, after, batch]).fetchone() == (query,)
        self.apply((op, version, row, tuple(key)) for op, version, row, key in rows)
        self.position = str(after)
        return not is_empty
