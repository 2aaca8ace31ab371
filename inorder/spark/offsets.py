"""Offsets, which are the only state that Spark stores for the source. An offset contains positions as JSON strings.

An offset has no connection string: a checkpoint contains numbers, table names and server identifiers. The offset of a
distributed Citus table has a position in each shard, keyed by the shard's id and the group of its node.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from inorder.errors import InputError
from inorder.text import quoted

Offset = dict[str, dict[str, str]]  # an offset as Spark stores it
SERVER = "server"  # key of the position if there are no shards


@dataclass(frozen=True)
class Kept:
    """A position in an offset."""

    database: str
    position: str
    shard: str | None = None  # the shard as JSON, if the table is distributed
    follows: str | None = None  # mark of the old shard that this shard continues

    @property
    def fields(self) -> dict[str, str]:
        return {name: value for name, value in asdict(self).items() if value is not None}


def encoded(positions: Mapping[str, Kept]) -> Offset:
    """Encode positions as an offset. Equal positions result in the same JSON.

    >>> encoded({"a": Kept("shop", "{}")})
    {'a': {'database': 'shop', 'position': '{}'}}
    """
    return {name: positions[name].fields for name in sorted(positions)}


def decoded(offset: object) -> dict[str, Kept]:
    """Decode the positions in an offset, and check its format.

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
    """Return whether a value has the fields of a position. The server checks the position itself."""
    return (
        isinstance(entry, dict)
        and {"database", "position"} <= entry.keys() <= {"database", "position", "shard", "follows"}
        and all(isinstance(value, str) for value in entry.values())
        and is_object(entry["position"])
    )


def is_object(text: str) -> bool:
    """Return whether the string is a JSON object.

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
