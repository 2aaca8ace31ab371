"""The content of a position file for a distributed Citus table: a position in each shard, and the output."""

import json
from dataclasses import asdict, dataclass, replace
from functools import cached_property

from inorder.citus.shards import Shard
from inorder.tail.state import FORMAT, Json, Mark, Pending, State, checked, decode_as, mark_of, pending_of, require

NUMBERS = ("id", "group", "port", "low", "high")


@dataclass(frozen=True)
class Entry:
    shard: Shard
    position: Json

    @cached_property
    def text(self) -> str:
        """The entry as JSON.

        The string is cached: a batch changes only one entry, and encoding a thousand entries takes 10 ms.
        """
        return json.dumps(asdict(self.shard) | {"position": self.position}, indent=1)


@dataclass(frozen=True)
class ShardsState:
    """The content of the file. At most one shard has a pending batch."""

    database: str
    table: str
    entries: dict[str, Entry]
    pending_in: str | None = None
    pending: Pending | None = None
    output: Mark | None = None

    def of(self, key: str) -> State:
        pending = self.pending if key == self.pending_in else None
        entry = self.entries[key]
        return State(self.database, entry.shard.table, entry.position, pending, self.output)

    def moved(self, positions: dict[str, Json]) -> "ShardsState":
        entries = self.entries | {
            key: replace(self.entries[key], position=position)
            for key, position in positions.items()
            if position is not self.entries[key].position
        }
        return replace(self, entries=entries)


def encode(state: ShardsState) -> bytes:
    """Return the content of the file.

    >>> entry = Entry(Shard(7, "public.t_7", 1, "w", 5432, 0, 9), {"transactions": "{[0,9)}"})
    >>> state = ShardsState("shop", "public.t", {"7@1": entry}, "7@1", Pending({"transactions": "{}"}, entry.position))
    >>> decode(encode(state)) == state
    True
    """
    pending = None if state.pending is None else {"shard": state.pending_in} | asdict(state.pending)
    output = None if state.output is None else asdict(state.output)
    fields = {"format": FORMAT, "database": state.database, "table": state.table, "pending": pending, "output": output}
    shards = ",\n".join(entry.text for entry in state.entries.values())
    return f'{json.dumps(fields, indent=1)[:-2]},\n "shards": [\n{shards}\n ]\n}}\n'.encode()


def decode(content: bytes) -> ShardsState:
    return decode_as(content, state_of)


def state_of(fields: Json) -> ShardsState:
    if "shards" not in fields:
        raise ValueError("it is a position in one table, not in shards: leave out --shards")
    entries = {entry.shard.key: entry for entry in map(entry_of, fields.pop("shards"))}
    pending, output = fields.pop("pending"), fields.pop("output", None)
    pending_in = None if pending is None else pending.pop("shard")
    require(pending_in is None or pending_in in entries, "shard of the pending batch")
    state = ShardsState(
        **fields, entries=entries, pending_in=pending_in, pending=pending_of(pending), output=mark_of(output)
    )
    require(len(entries) > 0 and isinstance(state.table, str), "shards or table")
    for key in entries:
        checked(state.of(key))
    return state


def entry_of(fields: Json) -> Entry:
    position = fields.pop("position")
    for name in NUMBERS:
        require(fields[name] is None or type(fields[name]) is int, f"{name} of a shard")
    require(isinstance(fields["table"], str) and isinstance(fields["host"], str), "table or host of a shard")
    return Entry(Shard(**fields), position)
