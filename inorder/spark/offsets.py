"""Offsets. Spark stores nothing else about the source. An offset is a position on a server, as text.

An offset has no connection string: a checkpoint contains numbers, names of tables and server identifiers. For a
table that Citus has distributed, an offset has a position in each shard, by the shard's id and the group of its node.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from inorder.errors import InputError
from inorder.text import quoted

Offset = dict[str, dict[str, str]]  # an offset in the form that Spark stores
SERVER = "server"  # the name of the position if there are no shards


@dataclass(frozen=True)
class Kept:
    """A position in an offset."""

    database: str
    position: str
    shard: str | None = None  # the shard as JSON, if the position is in a shard
    follows: str | None = None  # mark of the former shard that this shard continues

    @property
    def fields(self) -> dict[str, str]:
        return {name: value for name, value in asdict(self).items() if value is not None}


def encoded(positions: Mapping[str, Kept]) -> Offset:
    """Positions as an offset. Equal positions give the same text.

    >>> encoded({"a": Kept("shop", "{}")})
    {'a': {'database': 'shop', 'position': '{}'}}
    """
    return {name: positions[name].fields for name in sorted(positions)}


def decoded(offset: object) -> dict[str, Kept]:
    """The positions in an offset, after checking its format.

    >>> decoded({"server": {"database": "shop", "position": "{}"}}) == {"server": Kept("shop", "{}")}
    True
    """
    positions = parts_of(offset)
    if positions.keys() != {SERVER}:
        raise InputError(
            f"the offset has positions of {', '.join(map(quoted, positions)) or 'nothing'}, not of one server\n"
            "HINT:  Begin with a new checkpoint, or give the option shards if the table is distributed."
        )
    return positions


def parts_of(offset: object) -> dict[str, Kept]:
    if not isinstance(offset, dict) or not all(map(is_kept, offset.values())):
        raise InputError(f"invalid offset: {str(offset)[:200]}")
    return {name: Kept(**entry) for name, entry in offset.items()}


def is_kept(entry: object) -> bool:
    """True if a value has the fields of a position on a server; the server checks the position itself."""
    return (
        isinstance(entry, dict)
        and {"database", "position"} <= entry.keys() <= {"database", "position", "shard", "follows"}
        and all(isinstance(value, str) for value in entry.values())
        and is_object(entry["position"])
    )


def is_object(text: str) -> bool:
    """True if the text is a JSON object.

    >>> [is_object(text) for text in ('{}', '[]', '{')]
    [True, False, False]
    """
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def from_text(text: str, option: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the option {option} is not valid JSON: {error}") from error
