"""The content of a position file, with checks for damaged files."""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

FORMAT = 1
NEW = b'{"format": 1, "new": true}\n'  # content of a file without a saved position

START = re.compile(r"(?:[0-9a-f]{2}){1,64}", re.ASCII)
DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)

Json = dict[str, Any]  # a position or a batch, as the server returned it
Kept = TypeVar("Kept")


@dataclass(frozen=True)
class Mark:
    """The end of the delivered rows in a regular file, or the last batch in a directory.

    A directory is recognized by its last batch. Its size here is 0, and its id is its path, for messages.

    A file is recognized by its content: its length, and the hash of the last bytes before the mark. A file that was
    copied, moved or restored, even to another file system or host, is therefore accepted. The id distinguishes a
    truncated file from a new file. It is stored in an extended attribute if the file system has attributes.
    """

    size: int
    last: str
    id: str | None = None

    @property
    def is_directory(self) -> bool:
        return self.size == 0 and (self.id is None or self.id.startswith("/"))


@dataclass(frozen=True)
class Pending:
    """A batch that is being written, the position after it and, for a file, its first bytes in hexadecimal."""

    batch: Json
    after: Json
    start: str | None = None


@dataclass(frozen=True)
class State:
    """The content of the file.

    Rows before the position are delivered. Rows of the pending batch may be delivered, too.
    """

    database: str
    table: str
    position: Json
    pending: Pending | None = None
    output: Mark | None = None  # end of the delivered rows in the last output file

    def without_origin(self) -> "State":
        position = self.position | {"origin": None}
        if self.pending is None:
            return replace(self, position=position)
        batch, after = self.pending.batch | {"origin": None}, self.pending.after | {"origin": None}
        return replace(self, position=position, pending=replace(self.pending, batch=batch, after=after))


def encode(state: State) -> bytes:
    """Return the content of the file.

    >>> empty = {"transactions": "{}"}
    >>> state = State("shop", "public.events", {"transactions": "{[0,9)}"}, Pending(empty, empty), Mark(0, "0" * 64))
    >>> decode(encode(state)) == state
    True
    """
    return (json.dumps({"format": FORMAT} | asdict(state), indent=1) + "\n").encode()


def decode(content: bytes) -> State:
    """Decode the content of a file. Raise ValueError with the reason if the content is invalid."""
    return decode_as(content, state_of)


def decode_as(content: bytes, made_of: Callable[[Json], Kept]) -> Kept:
    try:
        fields = json.loads(content, object_pairs_hook=without_repeats, parse_constant=refused)
        json.dumps(fields, ensure_ascii=False).encode()  # fails for half of a surrogate pair
        if (version := fields.pop("format")) != FORMAT:
            raise ValueError(f"its format is {version!r}, and this version of inorder reads {FORMAT}")
        return made_of(fields)
    except RecursionError:
        raise ValueError("it is damaged, or not a position file: it is nested too deeply") from None
    except (KeyError, TypeError, AttributeError, UnicodeError, json.JSONDecodeError) as error:
        raise ValueError(f"it is damaged, or not a position file: {type(error).__name__} {error}") from error


def without_repeats(pairs: list[tuple[str, Any]]) -> Json:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise TypeError("a name occurs twice")
    return fields


def refused(constant: str) -> None:
    raise TypeError(f"{constant} is not allowed in JSON")


def state_of(fields: Json) -> State:
    """Build the state from its fields.

    Raise TypeError if a field is missing or unknown, and ValueError if a field is invalid.
    """
    if "shards" in fields:
        raise ValueError("it is a position in the shards of a table: give --shards")
    pending, output = fields.pop("pending"), fields.pop("output", None)
    return checked(State(**fields, pending=pending_of(pending), output=mark_of(output)))


def pending_of(fields: Json | None) -> Pending | None:
    return None if fields is None else Pending(**fields)


def mark_of(fields: Json | None) -> Mark | None:
    return None if fields is None else Mark(**fields)


def checked(state: State) -> State:
    """Return the state if the fields used by this tool are valid. The server checks the other fields."""
    require(isinstance(state.database, str) and isinstance(state.table, str), "database or table")
    check_part(state.position, "position", "partial", "last_key")
    if state.pending is not None:
        check_part(state.pending.batch, "pending batch", "resumed", "resumed_after")
        check_part(state.pending.batch, "pending batch", "cut", "cut_after")
        check_part(state.pending.after, "position after the pending batch", "partial", "last_key")
        start = state.pending.start
        require(start is None or (matches(START, start) and state.output is not None), "start of the pending batch")
    if state.output is not None:
        mark = state.output
        require(type(mark.size) is int and 0 <= mark.size < 2**63, "size of the output")
        require(matches(DIGEST, mark.last), "end of the output")
        require(mark.id is None or isinstance(mark.id, str), "id of the output")
    return state


def require(holds: bool, subject: str) -> None:
    if not holds:
        raise TypeError(f"of the {subject}")


def matches(pattern: re.Pattern[str], text: object) -> bool:
    return isinstance(text, str) and pattern.fullmatch(text) is not None


def check_part(position: Json, subject: str, number: str, key: str) -> None:
    """Check a position or a batch.

    If it ends within a transaction, it must contain the last key that was read, without nulls.
    """
    require(isinstance(position, dict) and isinstance(position.get("transactions"), str), subject)
    columns = position.get(key)
    is_key = isinstance(columns, list) and len(columns) > 0 and all(isinstance(value, str) for value in columns)
    require(is_key if columns is not None else position.get(number) is None, f"{key} of the {subject}")


def order_of(position: Json) -> str | None:
    return (position.get("ordering") or {}).get("column_name")


def name_of(batch: Json) -> str:
    """Return a unique name for a batch. The name is the same whenever the batch is read, even on another server.

    >>> name_of({"transactions": "{}", "origin": "1/1"}) == name_of({"origin": None, "transactions": "{}"})
    True
    """
    text = json.dumps({name: value for name, value in batch.items() if name != "origin"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
