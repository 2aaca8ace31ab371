"""The result file: every raw sample of an experiment and what it takes to judge and repeat it.

Written anew after every run, so that an interruption loses nothing that was measured.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, get_origin

from inorder.errors import InputError
from inorder.files import write_whole

SCHEMA_VERSION = 1
LONGEST_VALUE = 80  # in an error message
MOST = 1e18  # nothing that is counted or measured here comes near it: bytes, rows, nanoseconds

# max_wal_size while measuring. The server makes a checkpoint when 1 / (1 + checkpoint_completion_target) of it has been
# written since the last (CalculateCheckpointSegments, xlog.c): about 34 GB. Without a bound a disk could fill up.
MOST_WAL = 64 * 2**30
CHECKPOINT_WAL = int(MOST_WAL / 1.9)

# How "larger than memory" was made.
DIRECT_IO = "direct I/O"
CGROUP = "a memory control group"
EXACT_COUNTERS = "exact counters"
OWN_SERVER = "your own server"


@dataclass(frozen=True)
class Run:
    """One measurement: which step, of which key kind, with how many rows asked for, in which round.

    Metrics are plain numbers by name; series are numbers over time by name.
    """

    step: str
    kind: str
    rows: int
    round: int
    metrics: dict[str, float]
    series: dict[str, list[float]] = field(default_factory=dict)


@dataclass
class Result:
    """An experiment's file: what was asked, where it ran, what was measured."""

    experiment: str
    created: str
    inorder: str
    seed: int
    plan: dict[str, Any]
    server: dict[str, Any]
    machine: dict[str, Any]
    method: str
    notes: list[str] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    complete: bool = False
    schema: int = SCHEMA_VERSION

    @property
    def clients(self) -> tuple[int, ...]:
        """The numbers of sessions; a single number in files of the first version, and eight where there is none.

        >>> Result("writers", "now", "0", 1, {"clients": 16}, {}, {}, "").clients
        (16,)
        """
        clients = self.plan.get("clients", 8)
        return tuple(clients) if isinstance(clients, list | tuple) else (int(clients),)

    def select(self, step: str, kind: str | None = None, rows: int | None = None) -> list[Run]:
        """The runs of a step, in order of rounds."""
        chosen = (
            run
            for run in self.runs
            if run.step == step and kind in (None, run.kind) and rows in (None, run.rows)
        )
        return sorted(chosen, key=lambda run: run.round)

    def has(self, step: str, kind: str, rows: int, number: int) -> bool:
        """Whether this was measured in this round."""
        return any((run.step, run.kind, run.rows, run.round) == (step, kind, rows, number) for run in self.runs)

    def metric(self, name: str, runs: Iterable[Run]) -> list[float]:
        """One metric of the given runs; runs without it are left out."""
        return [run.metrics[name] for run in runs if name in run.metrics]

    def save(self, path: Path) -> None:
        """Write the whole file beside the old one, then put it in its place."""
        write_whole(path, json.dumps(asdict(self), indent=1) + "\n")


def load(path: Path) -> Result:
    """Read a result file; what is no such file, damaged or newer than this tool is an error that says so."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        json.dumps(content, ensure_ascii=False).encode()  # half a surrogate pair cannot be printed
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a result file: {shortened(error)}") from error
    if not isinstance(content, dict) or not isinstance(content.get("schema"), int):
        raise InputError(f"{path} is not a result file: it has no schema version")
    if content["schema"] > SCHEMA_VERSION:
        newer = shortened(content["schema"])
        raise InputError(f"{path} has schema version {newer}; this inorder reads up to {SCHEMA_VERSION}")
    try:
        content["runs"] = [checked(Run(**run)) for run in content["runs"]]
        return checked(Result(**{f.name: content[f.name] for f in fields(Result)}))
    except (KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged: {shortened(error)}") from error


def shortened(what: object, most: int = LONGEST_VALUE) -> str:
    """For a sentence, however long a damaged value is.

    >>> len(shortened(10**200))
    80
    """
    text = str(what)
    return text if len(text) <= most else text[: most - 1] + "…"


Part = TypeVar("Part", Run, Result)


def checked(found: Part) -> Part:
    """What was read, if every field is of the type that it is to be; a TypeError if not."""
    for f in fields(found):
        value = getattr(found, f.name)
        if not isinstance(value, get_origin(f.type) or f.type):  # type: ignore[arg-type]
            raise TypeError(f"{f.name} is {value!r}")
    numbers: list[object] = []
    if isinstance(found, Run):
        numbers = list(chain(found.metrics.values(), *found.series.values()))
    # JSON as Python reads it has NaN, Infinity and integers of any size, of which no median can be told.
    for number in numbers:
        if not isinstance(number, int | float) or not -MOST <= number <= MOST:
            raise TypeError(f"{shortened(repr(number), 40)} is not a number one can measure")
    return found
