"""What the driver asks the servers: where batches end, and how they are divided."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from inorder.arrow.types import Field
from inorder.citus.shards import Node
from inorder.connection.reading import Reader, Slice
from inorder.connection.session import Table
from inorder.errors import InputError
from inorder.spark.columns import fields_of, types_of
from inorder.spark.offsets import Kept, Offset, decoded, encoded, from_text
from inorder.spark.options import Options

THREADS = 16  # more servers than that wait for each other

Result = TypeVar("Result")


@dataclass(frozen=True)
class Task:
    """What one task reads: a part of a batch, of the server at a place in the options, or of a node that it knows."""

    server: int
    table: Table
    slice: Slice
    node: Node | None = None  # of a shard


class Driver:
    def __init__(self, options: Options) -> None:
        self.options = options
        self.servers = {server.name: server for server in options.servers}
        self.readers: dict[str, Reader] = {}
        self.targets: dict[str, str] | None = None  # where a run ends that reads what is available now

    def __enter__(self) -> "Driver":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        for reader in self.readers.values():
            reader.close()

    def reader(self, name: str) -> Reader:
        if name not in self.readers:
            server = self.servers[name]
            self.readers[name] = Reader(server.plan.dsn(), server.table, self.options.accept_origin)
        return self.readers[name]

    def all(self, ask: Callable[[str], Result]) -> dict[str, Result]:
        return self.each(self.options.names, ask)

    def each(self, names: Iterable[str], ask: Callable[[str], Result]) -> dict[str, Result]:
        names = sorted(names)
        if len(names) < 2:
            return {name: ask(name) for name in names}
        with ThreadPoolExecutor(min(len(names), THREADS)) as pool:
            return dict(zip(names, pool.map(ask, names), strict=True))

    def fields(self) -> list[Field]:
        found = self.all(lambda name: fields_of(self.reader(name).columns(), self.servers[name].table))
        (first, fields), *others = found.items()
        for name, other in others:
            if different := set(types_of(fields).items()) ^ set(types_of(other).items()):
                column, _ = min(different)
                raise InputError(
                    f"column {column!r} is {types_of(fields).get(column, 'missing')} on server {first!r}, and "
                    f"{types_of(other).get(column, 'missing')} on server {name!r}\n"
                    "HINT:  Name the columns that all of them have by schema()."
                )
        return fields

    def start(self) -> Offset:
        if not self.options.start.startswith("{"):
            return encoded(self.all(self.started))
        return self.complete(self.read(from_text(self.options.start, "start")))

    def started(self, name: str) -> Kept:
        where = self.options.start if not self.options.start.startswith("{") else "beginning"
        return Kept(self.reader(name).table().database, self.reader(name).start(where))

    def read(self, offset: object) -> dict[str, Kept]:
        kept = decoded(offset, self.options.names)
        for name in self.options.names:
            database = self.reader(name).table().database
            if name in kept and kept[name].database != database:
                raise InputError(
                    f"the offset has a position in the database {kept[name].database!r} for server {name!r}, which is "
                    f"in {database!r}"
                )
        return kept

    def complete(self, kept: Mapping[str, Kept]) -> Offset:
        """With the servers that were added: they begin here, and their first rows are in the next batch."""
        return encoded(self.all(lambda name: kept.get(name) or self.started(name)))

    def next(self, start: Offset, max_rows: int | None, wait: float = 0) -> Offset:
        """The offset after the next batch, which has at most so many rows; the same if none come in a time."""
        kept = self.read(start)
        if len(kept) < len(self.servers):
            return self.complete(kept)
        have_rows = self.each(kept, lambda name: self.reader(name).has_rows(kept[name].position, wait))
        return encoded(self.advanced(kept, have_rows, max_rows))

    def advanced(
        self, kept: Mapping[str, Kept], have_rows: Mapping[str, bool], max_rows: int | None
    ) -> dict[str, Kept]:
        """The positions after the next batch, divided among those that have rows."""
        share = None if max_rows is None else max(max_rows // max(sum(have_rows.values()), 1), 1)

        def after(name: str) -> Kept:
            until = None if self.targets is None else self.targets.get(name)
            whole = self.options.whole_transactions
            position = self.reader(name).next(kept[name].position, share, whole, until) if have_rows[name] else None
            return kept[name] if position is None else replace(kept[name], position=position, follows=None)

        return self.each(kept, after)

    def end(self, start: Offset) -> Offset:
        if self.options.end is None:
            return self.next(start, None)
        kept = self.read(from_text(self.options.end, "end"))
        if missing := [name for name in self.options.names if name not in kept]:
            raise InputError(f"the option end has no position of server {missing[0]!r}: rows of it would be left out")
        return encoded(kept)

    def stop_here(self) -> None:
        """Read nothing that commits from now on."""
        self.targets = self.all(lambda name: self.reader(name).start("now"))

    def backlog(self, offset: Offset) -> dict[str, dict[str, int]]:
        """What follows an offset, for the progress of a query."""
        kept = self.read(offset)

        def of(name: str) -> dict[str, int]:
            transactions, rows = self.reader(name).backlog(kept[name].position)
            found = {"backlog_transactions": transactions}
            return found if rows is None else found | {"backlog_rows": rows}

        return self.each(kept, of)

    def tasks(self, start: Offset, end: Offset) -> list[Task]:
        first, last = self.read(start), self.read(end)
        moved = [name for name in first if name in last and first[name].position != last[name].position]
        found = self.each(moved, lambda name: self.tasks_of(name, first[name].position, last[name].position))
        return [task for tasks in found.values() for task in tasks]

    def tasks_of(self, name: str, start: str, end: str) -> list[Task]:
        table = self.reader(name).table()
        slices = self.reader(name).slices(start, end, self.options.parts)
        return [Task(self.place(name), table, part, self.node(name)) for part in slices]

    def place(self, name: str) -> int:
        return self.options.names.index(name)

    def node(self, name: str) -> Node | None:
        """Where executors read, if the options do not say it."""
        return None
