"""Find the positions at which a reader continues after Citus has moved or split a shard.

Citus copies the rows to the new place, where their transaction numbers are computed again. The old table stays for a
while without further writes, so the reader can read all of its rows. Then the reader finds out which transactions in
the new place contain copied rows. A transaction contains either only copied rows or only new rows. One row of each
transaction is therefore looked up in the old table by its primary key. If the old table does not have the row, the
transaction has new rows, and the reader must still read it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import psycopg
from psycopg import sql

from inorder.citus.shards import ANEW, Distributed, Shard, ShardSession, on_node
from inorder.connection.database import ServerRow, query
from inorder.connection.patience import patiently
from inorder.connection.reconnect import report
from inorder.connection.session import Session, Table
from inorder.errors import InorderError, InputError, on_error

LOOKED_UP = 100_000  # number of transactions looked up per query

Opened = list[tuple[Shard, ShardSession]]  # shards with a session on their node


class NotReadableError(InputError):
    """A shard is not readable yet."""


@dataclass(frozen=True)
class ShardTransaction:
    """A transaction with rows in a shard: its number, its number of rows, and the primary key of one row as text."""

    number: int
    rows: int
    key: str


@dataclass(frozen=True)
class ShardTable:
    """A shard as a table on its node. The extension checks that the name still belongs to this table."""

    node: ShardSession
    table: Table
    key: list[str]

    def rows(self, name: str, **parts: object) -> list[ServerRow]:
        """Run a query, and return its rows. Keys are compared as text, so the time zone is the same on each server."""
        key = sql.SQL(", ").join(sql.Identifier("e", column) for column in self.key)
        statement = self.node.statement(query(name), table=self.table.oid, name=self.table.identifier, key=key, **parts)

        def once() -> list[ServerRow]:
            with self.node.transaction():
                self.node.connection.execute("SET LOCAL timezone = 'UTC'")
                return self.node.connection.execute(statement).fetchall()

        return patiently(self.node.connection, once)


def is_frozen(node: Session, shard: Shard) -> bool:
    """Return whether no open transaction has written to the old table of a moved shard."""
    (writers,) = node.row(query("shard_writers"), table=node.table(shard.table).oid)
    return not writers


def handed_over(
    coordinator: Session, table: Table, old: ShardSession, old_shard: Shard, new_shards: Opened
) -> list[dict[str, object]]:
    """Return positions in the new shards that exclude all rows of the old shard, which was read to its end."""
    try:
        return positions_in(coordinator, table, old, old_shard, new_shards)
    except psycopg.errors.UndefinedTable as error:
        raise gone(old_shard) from error
    except psycopg.errors.ObjectNotInPrerequisiteState as error:
        raise unreadable(new_shards[0][0], table.shown) from error


def positions_in(
    coordinator: Session, table: Table, old: ShardSession, old_shard: Shard, new_shards: Opened
) -> list[dict[str, object]]:
    column = number_column(coordinator, table)
    key = [str(name) for (name,) in old.rows(query("shard_key_columns"), table=old.table(old_shard.table).oid)]
    if not key:
        raise InputError(
            f"{old_shard.place} was moved or split, and without a primary key it is unknown which rows were read\n"
            f"{ANEW}"
        )
    old_table = ShardTable(old, old.table(old_shard.table), key)
    positions, copied = [], 0
    for shard, node in new_shards:
        new_table = ShardTable(node, node.table(shard.table), key)
        (text,) = node.row(query("reader_start"), table=new_table.table.oid, start="now", order_by=None)
        position = json.loads(text)
        candidates = transactions(new_table, column, position["transactions"])
        new_transactions = list(not_in(old_table, candidates))
        copied += sum(transaction.rows for transaction in candidates) - sum(
            transaction.rows for transaction in new_transactions
        )
        (unread,) = node.row(
            query("shard_without"),
            transactions=position["transactions"],
            numbers=[transaction.number for transaction in new_transactions],
        )
        positions.append(position | {"transactions": unread})
    check_copied(old_table, old_shard, copied)
    return positions


def number_column(coordinator: Session, table: Table) -> str:
    rows = coordinator.rows(query("citus_column"), table=table.oid, schema=coordinator.schema_name, column=None)
    names = [str(name) for name, is_generated, _ in rows if is_generated]
    if len(names) != 1:
        columns = f"{len(names)} generated columns with transaction numbers"
        raise InputError(f"table {table.shown} has {columns} instead of 1")
    return names[0]


def transactions(place: ShardTable, column: str, ended: object) -> list[ShardTransaction]:
    rows = place.rows("shard_numbers", column=sql.Identifier(column), transactions=ended)
    return [ShardTransaction(*row) for row in rows]


def not_in(old: ShardTable, candidates: list[ShardTransaction]) -> Iterator[ShardTransaction]:
    remaining = iter(candidates)
    while chunk := list(islice(remaining, LOOKED_UP)):
        copied_keys = {str(key) for (key,) in old.rows("shard_has", keys=[transaction.key for transaction in chunk])}
        yield from (transaction for transaction in chunk if transaction.key not in copied_keys)


def check_copied(old: ShardTable, old_shard: Shard, copied: int) -> None:
    ((rows,),) = old.rows("shard_rows")
    if rows != copied:
        raise InputError(
            f"{old_shard.place} has {rows:,} rows, but {copied:,} rows were copied from it: the shard was moved again "
            "before it was read, or rows were deleted before the new shard had a guard\n"
            "HINT:  Start with a new position, or read the shards as tables of their nodes."
        )


def unreadable(shard: Shard, table: str) -> NotReadableError:
    return NotReadableError(
        f"{shard.place} is not readable\nHINT:  Run inorder citus {table}, which is needed again after a move."
    )


def gone(shard: Shard) -> InputError:
    return InputError(
        f"{shard.place} is gone, and some of its rows may not have been read\n{ANEW} To keep moved shards until they "
        "are read, set citus.defer_shard_delete_interval to -1, and call "
        "citus_cleanup_orphaned_resources() afterwards."
    )


class Moves:
    """Locks on old shards, by group and key. Each node has one session with one open transaction."""

    def __init__(self) -> None:
        self.sessions: dict[int, ShardSession] = {}
        self.keys: dict[int, set[str]] = {}
        self.reported: set[str] = set()

    def positions(
        self, distributed: Distributed, old: ShardSession, old_shard: Shard, new_shards: Opened, *,
        is_frozen: bool, ends: bool,
    ) -> list[dict[str, object]] | None:  # fmt: skip
        """Return positions in the new places of a shard that was read to its end, or None while they are unknown.

        ``ends`` is true if the run is about to end. The run then fails if the positions are unknown. Otherwise, the
        reason is reported once.
        """
        problem = InorderError(f"{old_shard.place} was moved, and is still written to: try again")
        if is_frozen:
            try:
                return handed_over(distributed.session, distributed.table, old, old_shard, new_shards)
            except NotReadableError as error:
                problem = error
        if ends:
            raise problem
        if old_shard.key not in self.reported:
            report(str(problem))
            self.reported.add(old_shard.key)
        return None

    def followed(self, old_shard: Shard, new_shards: list[Shard]) -> None:
        self.release(old_shard)
        self.reported.discard(old_shard.key)  # a shard that is moved back is a new table
        report(f"{old_shard.place} was read to its end; continuing in {', '.join(shard.place for shard in new_shards)}")

    def keep(self, coordinator: Session, shard: Shard) -> None:
        """Lock a shard unless it is already locked. Raise an error if the shard no longer exists."""
        session = self.session(coordinator, shard)
        if shard.key in self.keys[shard.group]:
            return
        try:
            with session.connection.transaction():  # a savepoint: an error must not release the other locks
                table = session.table(shard.table)
                session.connection.execute(session.statement(query("hold_type"), table=table.identifier))
        except psycopg.errors.UndefinedTable as error:
            raise gone(shard) from error
        self.keys[shard.group].add(shard.key)

    def session(self, coordinator: Session, shard: Shard) -> ShardSession:
        """Return the session on the node of a shard, in a transaction. A lost session is replaced without its locks."""
        if shard.group in self.sessions:
            try:
                self.sessions[shard.group].connection.execute("SELECT")
            except psycopg.Error:
                self.leave(shard.group)
            else:
                return self.sessions[shard.group]
        session = on_node(coordinator, shard)
        with on_error(session.close):
            session.enter()
        self.sessions[shard.group], self.keys[shard.group] = session, set()
        return session

    def release(self, shard: Shard) -> None:
        """Forget a shard that was read. All locks on a node are released together, after its last shard."""
        keys = self.keys.get(shard.group, set())
        keys.discard(shard.key)
        if not keys:
            self.leave(shard.group)

    def leave(self, group: int) -> None:
        self.keys.pop(group, None)
        session = self.sessions.pop(group, None)
        if session is not None:
            session.close()

    def close(self) -> None:
        for group in list(self.sessions):
            self.leave(group)
