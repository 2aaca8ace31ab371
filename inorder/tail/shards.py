"""Read all shards of a distributed Citus table as one stream, which takes a batch from each shard in turn."""

import collections
import json
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg

from inorder.citus.handover import Moves, gone, is_frozen, unreadable
from inorder.citus.shards import Distributed, Shard, ShardSession, on_node, successors
from inorder.connection.database import query
from inorder.connection.session import Session
from inorder.tail.formats import FORMATS
from inorder.tail.position import PositionFile
from inorder.tail.request import Request
from inorder.tail.rows import arrow_of, as_text
from inorder.tail.shards_state import Entry, ShardsState, decode, encode
from inorder.tail.source import Batch, Source
from inorder.tail.sources import TableSource, require_position_in
from inorder.tail.state import Mark, State

if TYPE_CHECKING:
    from inorder.arrow.reader import ArrowReader

CHECK_SECONDS = 0.1  # seconds between two checks for ended transactions on the nodes
CHECKS = 10


class ShardsFile:
    """A position file with a position in each shard.

    Each save writes the current positions of all shards. The positions of other shards, and the end of the output, may
    have moved since the last save.
    """

    def __init__(self, file: PositionFile) -> None:
        self.file = file
        self.state = file.read(decode)
        self.output = self.state.output if self.state else None
        self.readers: dict[str, TableSource] = {}

    @property
    def present(self) -> ShardsState:
        assert self.state is not None
        return self.state

    def now(self, states: dict[str, State] | None = None) -> ShardsState:
        """Return the current positions, or newer positions in ``states``. At most one shard has a pending batch."""
        all_states = {key: reader.present for key, reader in self.readers.items()} | (states or {})
        pending = {key: state.pending for key, state in all_states.items() if state.pending}
        (pending_in, batch) = next(iter(pending.items()), (None, None))
        moved = self.present.moved({key: state.position for key, state in all_states.items()})
        return replace(moved, pending_in=pending_in, pending=batch)

    def save(self, state: ShardsState, lasting: bool = True) -> None:
        """Save all positions.

        Each reader checks its saved position to decide whether the next batch must be saved before its rows are
        written.
        """
        state = replace(state, output=self.output)
        self.file.save(encode(state), lasting)
        self.state = state
        for key, reader in self.readers.items():
            reader.saved, reader.unsaved = state.of(key), False


class ShardSource(TableSource):
    def __init__(
        self, request: Request, whole: ShardsFile, key: str, sync_output: Callable[[], None],
        arrow: "ArrowReader | None",
    ) -> None:  # fmt: skip
        self.whole, self.key = whole, key
        state = whole.present.of(key)
        super().__init__(request, state.table, whole.file, state, sync_output)
        self.arrow = arrow

    def store(self, state: State, lasting: bool) -> None:
        self.whole.save(self.whole.now({self.key: state}), lasting)


class ShardsSource(Source):
    """The shards of a table. Each shard is read like a table on its node, in rounds: shards with rows take turns."""

    def __init__(self, request: Request, file: PositionFile, sync_output: Callable[[], None]) -> None:
        assert request.table is not None
        self.request, self.name, self.sync_output = request, request.table, sync_output
        self.max_rows = request.batch_rows
        self.form, self.arrow = FORMATS[request.output], arrow_of(request)
        self.file = ShardsFile(file)
        state = self.file.state
        self.begun = state.pending.start if state and state.pending else None
        self.nodes: dict[int, ShardSession] = {}
        self.round: collections.deque[str] = collections.deque()
        self.is_new = state is None
        self.current: str | None = None  # key of the shard of the last batch
        self.is_idle = True  # no round has begun since the last one ended
        self.count = self.full = 0  # rows in the last batch; rows in a full batch
        self.ended: dict[int, object] = {}  # for each node, the transactions that had ended before the round
        self.moves = Moves()
        self.frozen: set[str] = set()  # keys of moved shards that can no longer be written in their old place

    @property
    def readers(self) -> dict[str, TableSource]:
        return self.file.readers

    def lock(self) -> int:
        return self.file.file.descriptor

    def output(self) -> Mark | None:
        state = self.file.file.kept(decode)
        return state.output if state else None

    def attach(self, session: Session) -> None:
        self.close()
        self.session = self.coordinator = session
        session.table_acceptance = ""  # --accept-table cannot be used with --shards
        self.distributed = Distributed(session, self.name)
        self.table = self.distributed.table
        shards = self.distributed.shards()
        self.places = {shard.group: shard for shard in shards}
        if self.file.state is None:
            entries = {shard.key: Entry(shard, self.start(shard)) for shard in shards}
            self.file.save(ShardsState(self.table.database, self.table.quoted, entries))
        require_position_in(self.table, self.file.present, self.file.file)
        for key, entry in self.file.present.entries.items():
            self.attach_shard(key, entry.shard)
        self.round.clear()
        self.current, self.is_idle = None, True

    def close(self) -> None:
        super().close()
        for node in self.nodes.values():
            node.close()
        self.nodes.clear()
        self.moves.close()

    def node(self, shard: Shard) -> ShardSession:
        """Return a session on the node of a shard, at the current address of the node."""
        if shard.group not in self.nodes:
            self.nodes[shard.group] = on_node(self.coordinator, self.places.get(shard.group, shard))
        return self.nodes[shard.group]

    def start(self, shard: Shard) -> dict[str, object]:
        node = self.node(shard)
        try:
            (position,) = node.row(
                query("reader_start"), table=node.table(shard.table).oid, start=self.request.start, order_by=None
            )
        except psycopg.errors.ObjectNotInPrerequisiteState as error:
            raise unreadable(shard, self.name) from error
        return json.loads(position)  # type: ignore[no-any-return]

    def attach_shard(self, key: str, shard: Shard) -> None:
        if key not in self.readers:
            self.readers[key] = ShardSource(self.request, self.file, key, self.sync_output, self.arrow)
        try:
            self.readers[key].attach(self.node(shard))
        except psycopg.errors.UndefinedTable as error:
            raise gone(shard) from error

    @property
    def reader(self) -> TableSource:
        assert self.current is not None
        return self.readers[self.current]

    def next(self) -> Batch | None:
        """Return the unfinished or the next batch of a round. Return None at its end, unless shards were moved."""
        if self.is_idle:
            self.begin_round()
        while True:
            self.pass_on()
            if self.round:
                self.current = self.round[0]
                self.session, self.table = self.reader.session, self.reader.table
                self.reader.max_rows = self.max_rows
                batch = self.asked(self.current)
                self.count, self.full = 0, batch.full if batch else 1
                if batch is not None:
                    return replace(batch, is_part=True)  # this source decides if more rows follow, not the caller
            elif not self.renew():
                self.is_idle = True
                return None

    def begin_round(self) -> None:
        """Begin a round with all shards that have rows. A shard with an unfinished batch comes first."""
        self.is_idle = False
        self.ended = self.ended_now()
        unfinished = [key for key, reader in self.readers.items() if reader.present.pending]
        self.round = collections.deque(unfinished + [key for key in self.waiting() if key not in unfinished])
        self.current = None

    def waiting(self) -> list[str]:
        """Return the keys of the shards that have rows. Run one query per node.

        If the query fails, return all shards of the node: next() then reports the error.
        """
        of_nodes = collections.defaultdict(list)
        for key, reader in self.readers.items():
            of_nodes[reader.session].append(key)
        waiting = []
        for node, keys in of_nodes.items():
            readers = [self.readers[key] for key in keys]
            try:
                rows = node.rows(
                    query("shards_waiting"), tables=[reader.table.oid for reader in readers],
                    positions=[as_text(reader.present.position) for reader in readers],
                )  # fmt: skip
            except psycopg.Error:
                waiting += keys
            else:
                waiting += [keys[int(place) - 1] for (place,) in rows]
        return waiting

    def pass_on(self) -> None:
        """End the turn of the current shard. If its batch was full, it gets another turn in this round."""
        if self.current is not None and self.round:
            self.round.popleft()
            if self.count >= self.full:
                self.round.append(self.current)
        self.current = None

    def asked(self, key: str) -> Batch | None:
        try:
            return self.readers[key].next()
        except psycopg.errors.UndefinedTable as error:
            raise gone(self.file.present.entries[key].shard) from error

    def rows(self, batch: Batch) -> Generator[Any, None, None]:
        self.count = 0
        for rows in self.reader.rows(batch):
            self.count += len(rows)
            yield rows
        self.count -= self.form.frames

    def begin(self, batch: Batch, start: str | None, output: Mark | None) -> None:
        self.file.output = output or self.file.output
        self.reader.begin(batch, start, output)

    def finish(self, batch: Batch, output: Mark | None) -> None:
        self.file.output = output or self.file.output
        self.reader.is_behind = self.is_behind
        self.reader.finish(batch, output)

    def skip(self, batch: Batch) -> None:
        self.reader.skip(batch)

    def shrink(self, batch: Batch) -> int | None:
        self.count = self.full  # so that the shard gets another turn in this round
        return self.reader.shrink(batch)

    def flush(self) -> None:
        for reader in self.readers.values():
            reader.flush()

    def end(self) -> None:
        if any(reader.state != reader.saved for reader in self.readers.values()):
            self.sync_output()
            self.file.save(self.file.now())

    def ended_now(self) -> dict[int, object]:
        return {group: node.row(query("tail_ended")) for group, node in self.nodes.items()}

    def wait(self) -> None:
        """Wait at most a second until transactions have ended on any node since the start of the last round."""
        for _ in range(CHECKS):
            time.sleep(CHECK_SECONDS)  # without a pause, the first check would always succeed on a busy node
            if self.ended_now() != self.ended:
                return

    def renew(self) -> bool:
        """List the shards again, and follow moved shards. Return True if another round is needed."""
        shards = self.distributed.shards()
        self.places = {shard.group: shard for shard in shards}
        moved = successors({key: entry.shard for key, entry in self.file.present.entries.items()}, shards)
        need_a_round = [self.follow(key, new_shards) for key, new_shards in moved.items()]
        if any(need_a_round):
            self.begin_round()
        return any(need_a_round)

    def follow(self, key: str, shards: list[Shard]) -> bool:
        """Continue with the shards that replace a shard, which was read to its end.

        Return True if more rows may follow.
        """
        shard = self.file.present.entries[key].shard
        self.moves.keep(self.coordinator, shard)
        if key not in self.frozen and is_frozen(self.node(shard), shard):
            self.frozen.add(key)
            return True  # one more round reads the rows written before the shard was frozen
        positions = self.moves.positions(
            self.distributed, self.node(shard), shard, [(successor, self.node(successor)) for successor in shards],
            is_frozen=key in self.frozen, ends=not self.request.follow,
        )  # fmt: skip
        if positions is not None:
            self.take(key, shards, positions)
        return positions is not None

    def take(self, key: str, shards: list[Shard], positions: list[dict[str, object]]) -> None:
        self.sync_output()
        state = self.file.now()
        entries = dict(state.entries)
        former = entries.pop(key)
        del self.readers[key]
        self.frozen.discard(key)
        for shard, position in zip(shards, positions, strict=True):
            entries[shard.key] = Entry(shard, position)
        self.file.save(replace(state, entries=entries))
        for shard in shards:
            self.attach_shard(shard.key, shard)
        self.moves.followed(former.shard, shards)
