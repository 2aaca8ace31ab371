"""A finding as data: evidence, cost, remedy, risk of the remedy, and how to verify and measure its effect."""

import shlex
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from inorder.advise.cost import Cost
from inorder.connection.database import identifier, literal

WORDS = tomllib.loads(files("inorder").joinpath("advise/findings.toml").read_text(encoding="utf-8"))
IDS = tuple(WORDS)


@dataclass(frozen=True)
class Evidence:
    what: str
    source: str


@dataclass(frozen=True)
class Finding:
    """A finding. Findings are ordered by ``saves``, the bytes of WAL per day or of storage that the remedy saves.

    ``caution`` says why the rates may not be the usual ones.
    ``costs`` has the cost of each kind of key. ``instead`` is an alternative remedy. ``choice`` explains how to choose
    between the two remedies.
    """

    id: str
    table: str
    what: str
    cost: str
    risk: str
    verify: str
    measure: str
    page: str
    evidence: tuple[Evidence, ...]
    remedy: tuple[str, ...]
    instead: tuple[str, ...] = ()
    choice: str = ""
    caution: str = ""
    saves: float = 0.0
    costs: tuple[Cost, ...] = ()


@dataclass(frozen=True)
class Unadvised:
    """A table with random keys for which nothing is recommended, and the reason."""

    table: str
    why: str
    undecided: bool = False


def finding(
    id: str, table: str, evidence: Sequence[Evidence], remedy: Sequence[str], saves: float = 0.0,
    costs: tuple[Cost, ...] = (), instead: Sequence[str] = (), caution: str = "",
    **values: object,
) -> Finding:  # fmt: skip
    values |= {"table": table, "shell": shlex.quote(table), "literal": literal(table)}
    texts = {name: text.format(**values) for name, text in WORDS[id].items()} | {"page": f"docs/advice.md#{id}"}
    return Finding(id, table, **texts, evidence=tuple(evidence), remedy=tuple(remedy), instead=tuple(instead),
                   caution=caution, saves=saves, costs=costs)  # fmt: skip


HOME = "inorder"  # the default schema of ``inorder install``
INSTALL = (
    f"/* From a shell: inorder install. Or: */ CREATE SCHEMA {HOME}; GRANT USAGE ON SCHEMA {HOME} TO PUBLIC; "
    f"CREATE EXTENSION inorder SCHEMA {HOME}"
)


UNTRUSTED = "/* inorder is installed, but belongs to a role that this role does not trust: see Not seen */"


def function(home: str | None, name: str) -> str:
    return identifier(home or HOME, name)


def with_inorder(home: str | None, *statements: str) -> list[str]:
    """Return statements that call inorder, after the statements that create the extension if it is missing.

    The extension gets its own schema, because ``public`` may belong to a role that a superuser does not trust. If the
    role does not trust the owner of inorder, it must not call the functions: return only a comment.
    """
    if home == "":
        return [UNTRUSTED]
    return [*([INSTALL] if home is None else []), *statements]


def prepared(home: str | None, table: str, name: str, first: str = "") -> list[str]:
    shell = f"/* From a shell: inorder prepare {shlex.quote(table)}. Or run the statements that the SELECT returns: */"
    prepare = f"{shell} SELECT {function(home, 'feed_prepare')}({literal(table)})"
    return with_inorder(home, prepare, f"SELECT {function(home, name)}({first}{literal(table)})")


def logged(home: str | None, table: str) -> list[str]:
    shell = f"/* From a shell: inorder prepare {shlex.quote(table)} --changes --feed reader. Or: */"
    log = f"{function(home, 'changes_enable')}({literal(table)})"
    return with_inorder(home, f"{shell} SELECT {function(home, 'feed_create')}('reader', {log})")
