"""The queries of the Spark driver, which determine where batches end and how they are divided into tasks."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from inorder.arrow.types import Field
from inorder.citus.shards import Node
from inorder.connection.reading import Reader, Slice
from inorder.connection.session import Table
from inorder.errors import InputError
from inorder.spark.columns import fields_of
from inorder.spark.offsets import SERVER, Kept, Offset, decoded, encoded, from_text
from inorder.spark.options import Options
from inorder.text import quoted

Result = TypeVar("Result")


@dataclass(frozen=True)
class Task:
    """A task that reads a slice of a batch, either from the server in the options or from ``node``."""

    table: Table
    slice: Slice
    node: Node | None = None  # the node with the shard, if the table is distributed


class Driver:
    def __init__(self, options: Options) -> None:
        self.options = options
        self.readers: dict[str, Reader] = {}  # one reader for the server, or one for each shard
        self.targets: dict[str, str] | None = None  # positions at which an AvailableNow run ends

    def __enter__(self) -> "Driver":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        for reader in self.readers.values():
            reader.close()

    def reader(self, name: str) -> Reader:
        if name not in self.readers:
            options = self.options
            self.readers[name] = Reader(options.plan.dsn(), options.table, options.accept_origin)
        return self.readers[name]

    def all(self, ask: Callable[[str], Result]) -> dict[str, Result]:
        return self.each([SERVER], ask)

    def each(self, names: Iterable[str], ask: Callable[[str], Result]) -> dict[str, Result]:
        return {name: ask(name) for name in names}

    def fields(self) -> list[Field]:
        return fields_of(self.reader(SERVER).columns(), self.options.table)

    def start(self) -> Offset:
        if not self.options.start.startswith("{"):
            return encoded(self.all(self.started))
        return encoded(self.read(from_text(self.options.start, "start")))

    def started(self, name: str) -> Kept:
        return Kept(self.reader(name).table().database, self.reader(name).start(self.options.start))

    def read(self, offset: object) -> dict[str, Kept]:
        positions = decoded(offset)
        former, database = positions[SERVER].database, self.reader(SERVER).table().database
        if former != database:
            raise InputError(f"the offset belongs to the database {quoted(former)}, and this is {quoted(database)}")
        return positions

    def next(self, start: Offset, max_rows: int | None, wait: float = 0) -> Offset:
        """Return the offset after the next batch of at most ``max_rows`` rows.

        Return ``start`` if no rows arrive within ``wait`` seconds.
        """
        positions = self.read(start)
        have_rows = self.each(positions, lambda name: self.reader(name).has_rows(positions[name].position, wait))
        return encoded(self.advanced(positions, have_rows, max_rows))

    def advanced(
        self, positions: Mapping[str, Kept], have_rows: Mapping[str, bool], max_rows: int | None
    ) -> dict[str, Kept]:
        """Return the positions after the next batch. The row limit is divided among the readers that have rows."""
        share = None if max_rows is None else max(max_rows // max(sum(have_rows.values()), 1), 1)

        def after(name: str) -> Kept:
            until = None if self.targets is None else self.targets.get(name)
            is_whole = self.options.whole_transactions
            entry = positions[name]
            position = self.reader(name).next(entry.position, share, is_whole, until) if have_rows[name] else None
            return entry if position is None else replace(entry, position=position, follows=None)

        return self.each(positions, after)

    def end(self, start: Offset) -> Offset:
        if self.options.end is None:
            return self.next(start, None)
        return encoded(self.read(from_text(self.options.end, "end")))

    def stop_here(self) -> None:
        """Exclude transactions that commit from now on."""
        self.targets = self.all(lambda name: self.reader(name).start("now"))

    def backlog(self, offset: Offset) -> dict[str, dict[str, int]]:
        """Return the backlog after an offset, for the progress report of a query."""
        positions = self.read(offset)

        def of(name: str) -> dict[str, int]:
            transactions, rows = self.reader(name).backlog(positions[name].position)
            counts = {"backlog_transactions": transactions}
            return counts if rows is None else counts | {"backlog_rows": rows}

        return self.each(positions, of)

    def tasks(self, start: Offset, end: Offset) -> list[Task]:
        start_positions, end_positions = self.read(start), self.read(end)
        spans = {
            name: (entry.position, end_positions[name].position)
            for name, entry in start_positions.items()
            if name in end_positions and entry.position != end_positions[name].position
        }
        by_reader = self.each(spans, lambda name: self.tasks_of(name, *spans[name]))
        return [task for tasks in by_reader.values() for task in tasks]

    def tasks_of(self, name: str, start: str, end: str) -> list[Task]:
        table = self.reader(name).table()
        slices = self.reader(name).slices(start, end, self.options.parts)
        return [Task(table, piece, self.node(name)) for piece in slices]

    def node(self, name: str) -> Node | None:
        """Return the node that executors read from. None stands for the server in the options."""
        return None
