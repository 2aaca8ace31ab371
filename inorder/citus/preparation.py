"""Prepare all shards of a table, one after another, each on its node."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import psycopg

from inorder.citus.shards import Distributed, Shard, ShardSession, node_dsn, on_node
from inorder.connection.database import query
from inorder.connection.reconnect import forever, once, report
from inorder.connection.session import Session, first_line
from inorder.errors import InputError
from inorder.prepare import steps
from inorder.text import one_line

Say = Callable[[str], None]

GENERATED = "bigint GENERATED ALWAYS AS (xact_id_generated()) STORED"


@dataclass(frozen=True)
class Request:
    table: str
    column: str | None
    lock_timeout: float  # seconds
    tries: int
    undo: bool
    dry_run: bool
    dsn: str


class Preparation:
    """The preparation of all shards. If ``repeats`` is true, shards that are already readable are not reported."""

    def __init__(self, request: Request, say: Say, repeats: bool = False) -> None:
        self.request, self.say, self.repeats = request, say, repeats

    def attach(self, session: Session) -> None:
        self.session = session
        self.distributed = Distributed(session, self.request.table)

    def run(self) -> int:
        """Prepare all shards, including shards that are moved in the meantime. Return the number of shards."""
        shards = self.distributed.shards()
        column = "" if self.request.undo else self.column()
        for shard in {(shard.host, shard.port): shard for shard in shards}.values():
            on_node(self.session, shard).close()  # raise an error early if a node has no extension
        prepared: set[Shard] = set()
        while waiting := [shard for shard in shards if shard not in prepared]:
            for place, shard in enumerate(waiting, 1):
                self.prepare(shard, column, f"{place} of {len(waiting)}")
            prepared.update(waiting)
            shards = self.distributed.shards()
        return len(shards)

    def prepare(self, shard: Shard, column: str, place: str) -> None:
        outer, dsn = self.request, node_dsn(self.session, shard)
        # Citus creates the index on each shard.
        request = steps.Request(
            shard.table, column, outer.lock_timeout, outer.tries, outer.undo, False, dsn, insert_only=True
        )
        if not outer.undo and self.is_readable(shard):
            if not self.repeats:
                self.say(f"{'-- ' if outer.dry_run else ''}{shard.place} ({place}) is readable")
        elif outer.dry_run:
            for statement in steps.listed(request, self.say, ShardSession):
                self.say(f"{statement};  -- {shard.node}")
        else:
            self.say(f"{shard.place} ({place})")
            steps.prepare(request, lambda text: self.say(f"  {text}"), ShardSession)

    def is_readable(self, shard: Shard) -> bool:
        session = on_node(self.session, shard)
        try:
            session.row(query("reader_start"), table=session.table(shard.table).oid, start="now", order_by=None)
        except psycopg.errors.ObjectNotInPrerequisiteState:
            return False
        finally:
            session.close()
        return True

    def column(self) -> str:
        """Return the name of the column with the transaction number.

        Raise InputError unless the nodes generate the number, and the column has an index.
        """
        table = self.distributed.table
        rows = self.session.rows(
            query("citus_column"), table=table.oid, schema=self.session.schema_name, column=self.request.column
        )
        generated = [(str(name), indexed) for name, is_generated, indexed in rows if is_generated]
        if len(generated) > 1:
            raise InputError(
                f"table {table.shown} has several columns with transaction numbers: choose one with --column"
            )
        if not generated:
            evaluated = one_line(str(rows[0][0])) if rows else None
            raise InputError(missing(table.shown, evaluated, self.request.column or "xact"))
        ((name, indexed),) = generated
        if not indexed:
            raise InputError(
                f"table {table.shown} has no index that begins with column {one_line(name)}\n"
                f"HINT:  On the coordinator: CREATE INDEX CONCURRENTLY ON {table.shown} ({one_line(name)})"
            )
        return name


def missing(table: str, evaluated: str | None, name: str) -> str:
    if evaluated is not None:
        return (
            f"the coordinator evaluates the default of column {evaluated} of {table}: the result is not the number of "
            f"the node's transaction\nHINT:  Add another column: {GENERATED}. This rewrites the shards."
        )
    return (
        f"table {table} has no column {name} with the transaction number\n"
        f"HINT:  On the coordinator: ALTER TABLE {table} ADD COLUMN {name} {GENERATED}, which rewrites the shards; "
        f"then CREATE INDEX CONCURRENTLY ON {table} ({name})"
    )


def run(request: Request, say: Say) -> int:
    preparation = Preparation(request, say)
    return once(request.dsn, preparation.attach, preparation.run)


def repeat(request: Request, seconds: float) -> NoReturn:
    """Repeat the preparation at an interval, even after restarts of the coordinator. Report only changes."""
    preparation = Preparation(request, report, repeats=True)

    def work() -> None:
        try:
            preparation.run()
        except psycopg.errors.UndefinedTable as error:
            report(f"trying again: {first_line(error)}")  # a shard was moved meanwhile

    forever(request.dsn, preparation.attach, work, lambda: time.sleep(seconds))
