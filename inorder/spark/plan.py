"""What the driver asks the servers: where batches end, and how they are divided."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from inorder.errors import InputError
from inorder.reading import Reader, Slice
from inorder.session import Table
from inorder.spark.columns import Field, fields_of
from inorder.spark.offsets import Kept, Offset, decoded, encoded, from_text
from inorder.spark.options import Options, Server

Result = TypeVar("Result")


@dataclass(frozen=True)
class Source:
    """A table, by the names that its server has for it."""

    database: str
    oid: int
    schema: str
    table: str


@dataclass(frozen=True)
class Task:
    """What one task reads: a part of a batch, of the server at a place in the options."""

    server: int
    source: Source
    slice: Slice


class Plan:
    """The servers of a query; a session with each, once it is asked."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.readers: dict[str, Reader] = {}
        self.targets: dict[str, str] | None = None  # where a run ends that reads what is available now

    def __enter__(self) -> "Plan":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the servers."""
        for reader in self.readers.values():
            reader.close()

    def reader(self, server: Server) -> Reader:
        """The one of a server."""
        if server.name not in self.readers:
            self.readers[server.name] = Reader(server.plan.dsn(), server.table, self.options.accept_origin)
        return self.readers[server.name]

    def each(self, ask: Callable[[Server], Result]) -> dict[str, Result]:
        """What all servers answer, at once."""
        servers = self.options.servers
        if len(servers) == 1:
            return {servers[0].name: ask(servers[0])}
        with ThreadPoolExecutor(len(servers)) as pool:
            return dict(zip(self.options.names, pool.map(ask, servers), strict=True))

    def fields(self) -> list[Field]:
        """The columns, which must be the same on all servers."""
        found = self.each(lambda server: fields_of(self.reader(server).columns(), server.table))
        (first, fields), *others = found.items()
        for name, other in others:
            if different := set(types(fields).items()) ^ set(types(other).items()):
                column, _ = min(different)
                raise InputError(
                    f"column {column!r} is {types(fields).get(column, 'missing')} on server {first!r}, and "
                    f"{types(other).get(column, 'missing')} on server {name!r}\n"
                    "HINT:  Name the columns that all of them have by schema()."
                )
        return fields

    def table(self, server: Server) -> Table:
        """The table of a server."""
        return self.reader(server).table()

    def start(self) -> Offset:
        """Where a new query begins."""
        if not self.options.start.startswith("{"):
            return encoded(self.each(self.started))
        return self.complete(self.read(from_text(self.options.start, "start")))

    def started(self, server: Server) -> Kept:
        """Where a server without a position begins."""
        where = self.options.start if not self.options.start.startswith("{") else "beginning"
        return Kept(self.table(server).database, self.reader(server).start(where))

    def read(self, offset: object) -> dict[str, Kept]:
        """The positions of an offset, if they are of these databases."""
        kept = decoded(offset, self.options.names)
        for server in self.options.servers:
            database = self.table(server).database
            if server.name in kept and kept[server.name].database != database:
                raise InputError(
                    f"the offset has a position in the database {kept[server.name].database!r} for server "
                    f"{server.name!r}, which is in {database!r}"
                )
        return kept

    def complete(self, kept: Mapping[str, Kept]) -> Offset:
        """With the servers that were added: they begin here, and their first rows are in the next batch."""
        return encoded(self.each(lambda server: kept.get(server.name) or self.started(server)))

    def next(self, start: Offset, max_rows: int | None, wait: float = 0) -> Offset:
        """The offset after the next batch, which has at most so many rows; the same if none come in a time."""
        kept = self.read(start)
        if len(kept) < len(self.options.servers):
            return self.complete(kept)
        have_rows = self.each(lambda server: self.reader(server).has_rows(kept[server.name].position, wait))
        share = None if max_rows is None else max(max_rows // max(sum(have_rows.values()), 1), 1)

        def advanced(server: Server) -> Kept:
            here = kept[server.name]
            if not have_rows[server.name]:
                return here
            until = None if self.targets is None else self.targets[server.name]
            reader, whole = self.reader(server), self.options.whole_transactions
            return Kept(here.database, reader.next(here.position, share, whole, until) or here.position)

        return encoded(self.each(advanced))

    def now(self) -> Offset:
        """The offset of all that has ended."""
        return encoded(self.each(lambda server: Kept(self.table(server).database, self.reader(server).start("now"))))

    def check(self, offset: Offset) -> None:
        """Error unless reading can go on from an offset."""
        kept = self.read(offset)
        self.each(lambda server: server.name in kept and self.reader(server).has_rows(kept[server.name].position))

    def end(self, start: Offset) -> Offset:
        """Where a batch read ends."""
        if self.options.end is None:
            return self.next(start, None)
        return encoded(self.read(from_text(self.options.end, "end")))

    def stop_here(self) -> None:
        """Read nothing that commits from now on."""
        self.targets = self.each(lambda server: self.reader(server).start("now"))

    def backlog(self, offset: Offset) -> dict[str, dict[str, int]]:
        """What follows an offset, for the progress of a query."""
        kept = self.read(offset)

        def of(server: Server) -> dict[str, int]:
            transactions, rows = self.reader(server).backlog(kept[server.name].position)
            found = {"backlog_transactions": transactions}
            return found if rows is None else found | {"backlog_rows_estimated": rows}

        return self.each(of)

    def tasks(self, start: Offset, end: Offset) -> list[Task]:
        """The parts of the batch between two offsets."""
        first, last = self.read(start), self.read(end)

        def parts_of(server: Server) -> list[Task]:
            if server.name not in first or server.name not in last or first[server.name] == last[server.name]:
                return []
            table = self.table(server)
            source = Source(table.database, table.oid, table.schema, table.name)
            slices = self.reader(server).slices(
                first[server.name].position, last[server.name].position, self.options.parts
            )
            return [Task(self.options.servers.index(server), source, part) for part in slices]

        return [task for tasks in self.each(parts_of).values() for task in tasks]


def types(fields: list[Field]) -> dict[str, str]:
    """The type of each column."""
    return {field.name: field.type for field in fields}
