"""Read a distributed Citus table, shard by shard. The coordinator lists the shards.

An offset has a position in each shard. A shard that was moved or split is read to its end in its old place. The next
offset then has positions in the new places. Each new position is marked with the position at which the old shard ended.
The mark shows that no rows are missing between the two offsets.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import TypeVar

import psycopg

from inorder.arrow.types import Field
from inorder.citus.handover import Moves, NotReadableError, gone, is_frozen, unreadable
from inorder.citus.shards import Distributed, Node, Shard, ShardSession, node_of, successors
from inorder.connection.database import query
from inorder.connection.reading import LazySession, Reader
from inorder.connection.session import Session
from inorder.errors import InorderError, InputError
from inorder.spark.columns import fields_of
from inorder.spark.driver import Driver, Task
from inorder.spark.offsets import Kept, Offset, encoded, parts_of
from inorder.spark.options import Options
from inorder.text import quoted

Result = TypeVar("Result")

THREADS = 16  # maximum number of shards that are queried concurrently
IN_OFFSETS = ("id", "group", "low", "high")  # the coordinator supplies the name and the node of the shard


class ShardsDriver(Driver):
    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.coordinator = Reader(options.plan.dsn(), options.table)
        self.distributed: Distributed | None = None
        self.nodes: dict[int, tuple[str, int]] = {}
        self.sessions: dict[int, LazySession] = {}  # sessions on the nodes, keyed by group
        self.shards: dict[str, Shard] = {}
        self.moves = Moves()
        # the last offset without rows after it, and the transactions that had ended then
        self.idle: tuple[Offset, object] | None = None

    def close(self) -> None:
        for session in (*self.sessions.values(), self.coordinator.lazy):
            session.close()
        self.moves.close()

    def ask(self, step: Callable[[Distributed], Result]) -> Result:

        def asked(session: Session, _: object) -> Result:
            if self.distributed is None or self.distributed.session is not session:
                self.distributed = Distributed(session, self.options.table)
            return step(self.distributed)

        return self.coordinator.ask(asked)

    def find_shards(self) -> dict[str, Shard]:
        now, nodes = self.ask(lambda distributed: (distributed.shards(), distributed.nodes()))
        for group in [group for group in self.sessions if nodes.get(group) != self.nodes.get(group)]:
            self.sessions.pop(group).close()  # the node was replaced by another server
            self.readers = {key: reader for key, reader in self.readers.items() if self.shards[key].group != group}
        self.nodes = nodes
        self.shards |= {shard.key: shard for shard in now}
        for key, shard in self.shards.items():
            if shard.group in nodes:
                self.shards[key] = at(shard, *nodes[shard.group])
        return {shard.key: shard for shard in now}

    def lazy_session(self, shard: Shard) -> LazySession:
        if shard.group not in self.sessions:
            dsn = self.ask(lambda distributed: node_of(distributed.session, shard)).dsn(self.options.plan.dsn())
            self.sessions[shard.group] = LazySession(dsn, ShardSession)
        return self.sessions[shard.group]

    def session(self, shard: Shard) -> ShardSession:
        session = self.lazy_session(shard).open()
        assert isinstance(session, ShardSession)
        return session

    def reader(self, name: str) -> Reader:
        if name not in self.readers:
            shard = self.shards[name]
            self.readers[name] = Reader(self.lazy_session(shard), shard.table, self.options.accept_origin)
        return self.readers[name]

    def node(self, name: str) -> Node:
        return self.ask(lambda distributed: node_of(distributed.session, self.shards[name]))

    def all(self, ask: Callable[[str], Result]) -> dict[str, Result]:
        return self.each(self.find_shards(), ask)

    def each(self, names: Iterable[str], ask: Callable[[str], Result]) -> dict[str, Result]:

        def asked(name: str) -> Result:
            shard = self.shards[name]
            try:
                return ask(name)
            except NotReadableError:
                raise
            except InorderError as error:
                if isinstance(error.__cause__, psycopg.errors.UndefinedTable):
                    raise gone(shard) from error
                raise type(error)(f"{shard.place}: {error}") from error

        names = sorted(names)
        for shard in [self.shards[name] for name in names]:
            self.lazy_session(shard)  # create the session in this thread
        if len(names) < 2:
            return super().each(names, asked)
        with ThreadPoolExecutor(min(len(names), THREADS)) as pool:
            return dict(zip(names, pool.map(asked, names), strict=True))

    def fields(self) -> list[Field]:
        return fields_of(self.coordinator.columns(), self.options.table)

    def begin(self, name: str, where: str) -> str:
        try:
            return self.reader(name).start(where)
        except InorderError as error:
            if isinstance(error.__cause__, psycopg.errors.ObjectNotInPrerequisiteState):
                raise unreadable(self.shards[name], self.coordinator.table().quoted) from error
            raise

    def started(self, name: str) -> Kept:
        return self.kept(self.shards[name], self.begin(name, self.options.start))

    def kept(self, shard: Shard, position: str, follows: str | None = None) -> Kept:
        fields = asdict(shard)
        text = json.dumps({name: fields[name] for name in IN_OFFSETS})
        return Kept(self.coordinator.table().database, position, text, follows)

    def read(self, offset: object) -> dict[str, Kept]:
        positions = parts_of(offset)
        database = self.coordinator.table().database
        for entry in positions.values():
            if entry.database != database:
                former = quoted(entry.database)
                raise InputError(f"the offset belongs to the database {former}, and this is {quoted(database)}")
        self.find({key: shard_of(key, entry) for key, entry in positions.items() if key not in self.shards})
        return positions

    def find(self, unknown: Mapping[str, Shard]) -> None:
        """Locate the shards of an offset: list all shards, and look up moved shards by name."""
        if unknown:
            self.find_shards()
        for key in unknown.keys() - self.shards.keys():
            self.shards[key] = self.placed(unknown[key])

    def placed(self, shard: Shard) -> Shard:
        if shard.group not in self.nodes:
            raise gone(shard)
        name = self.ask(lambda distributed: distributed.shard_name(shard.id))
        return at(replace(shard, table=name), *self.nodes[shard.group])

    def next(self, start: Offset, max_rows: int | None, wait: float = 0) -> Offset:
        positions = self.read(start)
        moved = self.moved(positions)
        ended = self.ended(positions)
        if moved or self.idle != (start, ended):
            offset = encoded(self.positions_after(positions, moved, max_rows))
            if offset != start:
                return offset
            self.idle = (start, ended)
        time.sleep(wait)
        return start

    def positions_after(
        self, positions: Mapping[str, Kept], moved: Mapping[str, list[Shard]], max_rows: int | None
    ) -> dict[str, Kept]:
        """Return the positions after the next batch.

        A moved shard is first read to its end, even beyond the target of the run.
        """
        for key in moved:
            self.hold(key)
            (self.targets or {}).pop(key, None)
        # is_frozen() is called before has_rows(): no rows are added to a shard once it is frozen.
        frozen = {key for key in moved if self.is_frozen(key)}
        have_rows = self.each(positions, lambda key: self.reader(key).has_rows(positions[key].position))
        after = self.advanced(positions, have_rows, max_rows)
        for key, new_shards in moved.items():
            if not have_rows[key] and (entries := self.followed(key, positions[key], new_shards, key in frozen)):
                del after[key]
                after |= entries
        return after

    def ended(self, positions: Iterable[str]) -> dict[str, object]:
        one_of_each = {self.shards[key].group: key for key in positions}.values()
        return self.each(
            one_of_each, lambda key: self.reader(key).ask(lambda session, _: session.row(query("tail_ended")))
        )

    def stop_here(self) -> None:
        self.targets = self.all(lambda name: self.begin(name, "now"))

    def end(self, start: Offset) -> Offset:
        """Return the end offset of spark.read. Raise InputError if a shard was moved since the start offset."""
        for key in self.moved(self.read(start)):
            raise InputError(
                f"{self.shards[key].place} was moved or split since this offset\nHINT:  Continue with a stream, which "
                "follows the shard, or start again without an offset."
            )
        return super().end(start)

    def tasks(self, start: Offset, end: Offset) -> list[Task]:
        start_positions, end_positions = self.read(start), self.read(end)
        check_complete(start_positions, end_positions)
        present = self.find_shards()
        for key, entry in start_positions.items():
            if key in end_positions and key not in present and entry.position != end_positions[key].position:
                self.hold(key)
        return super().tasks(start, end)

    def moved(self, positions: Mapping[str, Kept]) -> dict[str, list[Shard]]:
        now = self.find_shards()
        return successors({key: self.shards[key] for key in positions}, list(now.values()))

    def hold(self, key: str) -> None:
        self.ask(lambda distributed: self.moves.keep(distributed.session, self.shards[key]))

    def is_frozen(self, key: str) -> bool:
        return self.reader(key).ask(lambda session, _: is_frozen(session, self.shards[key]))

    def followed(self, key: str, former_entry: Kept, new_shards: list[Shard], frozen: bool) -> dict[str, Kept]:
        """Return the positions in the shards that replace a shard, which was read to its end.

        The result is empty while the positions are unknown.
        """
        old_shard = self.shards[key]
        positions = self.ask(lambda distributed: self.moves.positions(
            distributed, self.session(old_shard), old_shard, [(shard, self.session(shard)) for shard in new_shards],
            is_frozen=frozen, ends=self.targets is not None,
        ))  # fmt: skip
        if positions is None:
            return {}
        self.readers.pop(key)
        self.moves.followed(old_shard, new_shards)
        follows = mark(key, former_entry.position)
        entries = {shard.key: self.kept(shard, json.dumps(position), follows)
                 for shard, position in zip(new_shards, positions, strict=True)}  # fmt: skip
        for name, entry in entries.items():
            if self.targets is not None:
                self.targets.setdefault(name, entry.position)
        return entries


def mark(key: str, position: str) -> str:
    """Return the mark of a shard that was read up to a position, and is continued by other shards.

    >>> mark("7@1", "{}")
    '7@1 44136fa355b3678a'
    """
    return f"{key} {hashlib.sha256(position.encode()).hexdigest()[:16]}"


def check_complete(first: Mapping[str, Kept], last: Mapping[str, Kept]) -> None:
    """Check that a batch has all rows between two offsets.

    Each shard in ``first`` must be in ``last``, or be continued there by other shards.

    >>> old, new = Kept("d", "{}", "…"), Kept("d", "{1}", "…", mark("7@1", "{}"))
    >>> check_complete({"7@1": old}, {"7@2": new})
    >>> check_complete({"7@1": new}, {"7@2": new})
    Traceback (most recent call last):
    inorder.errors.InputError: shard 7@1 was moved or split between these offsets: read up to an offset between them
    """
    ends = {mark(key, first[key].position): key for key in first.keys() - last.keys()}
    begins = {key: last[key].follows for key in last.keys() - first.keys()}
    broken = [key for key, follows in begins.items() if follows not in ends]
    broken += [key for follows, key in ends.items() if follows not in begins.values()]
    if broken:
        raise InputError(
            f"shard {min(broken)} was moved or split between these offsets: read up to an offset between them"
        )


def shard_of(key: str, entry: Kept) -> Shard:
    try:
        fields = json.loads(entry.shard or "null")
        shard = Shard(**fields, table="", host="", port=0) if fields.keys() == set(IN_OFFSETS) else None
    except (ValueError, AttributeError, RecursionError):
        shard = None
    if shard is None or shard.key != key or not has_numbers(shard):
        raise InputError(
            f"the offset has a position of {quoted(key)}, which is not a shard: leave out the option shards"
        )
    return shard


def has_numbers(shard: Shard) -> bool:
    """Return whether id, group and bounds of a shard are numbers. The bounds may be missing."""
    bounds = () if (shard.low, shard.high) == (None, None) else (shard.low, shard.high)
    return all(type(number) is int for number in (shard.id, shard.group, *bounds))


def at(shard: Shard, host: str, port: int) -> Shard:
    return replace(shard, host=host, port=port)
