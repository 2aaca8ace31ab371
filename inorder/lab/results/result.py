"""A result: all raw samples of an experiment, and the facts needed to judge and repeat it. See also journal.py."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

LONGEST_VALUE = 80  # characters of a value in an error message

# max_wal_size while measuring. After a checkpoint, the server writes max_wal_size / (1 + checkpoint_completion_target)
# bytes of WAL, here about 34 GB, before it starts the next checkpoint (CalculateCheckpointSegments in xlog.c). Without
# a limit, the disk could fill up.
MOST_WAL = 64 * 2**30
CHECKPOINT_WAL = int(MOST_WAL / 1.9)


def checkpoint_wal(max_wal_size: int | None) -> int:
    return int(max_wal_size / 1.9) if max_wal_size else CHECKPOINT_WAL


# The values of Result.method. The first two methods limit memory, so that tables can be larger than memory.
DIRECT_IO = "direct I/O"
CGROUP = "a memory control group"
EXACT_COUNTERS = "exact counters"
OWN_SERVER = "your own server"


LOAD = "load"  # a metric of each measurement: the machine's load average over the last minute

Key = tuple[str, str, int, int]  # step, kind, rows, round


@dataclass(frozen=True)
class Run:
    step: str
    kind: str
    rows: int
    round: int
    metrics: dict[str, float]
    series: dict[str, list[float]] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        return self.step, self.kind, self.rows, self.round


@dataclass
class Head:
    experiment: str
    created: str
    inorder: str
    seed: int
    plan: dict[str, Any]
    server: dict[str, Any]
    machine: dict[str, Any]
    method: str


@dataclass
class Result(Head):
    notes: list[str] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    complete: bool = False

    @property
    def clients(self) -> tuple[int, ...]:
        clients = self.plan.get("clients", 8)
        return tuple(clients) if isinstance(clients, list | tuple) else (int(clients),)

    def select(self, step: str, kind: str | None = None, rows: int | None = None) -> list[Run]:
        chosen = (
            run for run in self.runs if run.step == step and kind in (None, run.kind) and rows in (None, run.rows)
        )
        return sorted(chosen, key=lambda run: run.round)

    def metric(self, name: str, runs: Iterable[Run]) -> list[float]:
        return [run.metrics[name] for run in runs if name in run.metrics]


def shortened(value: object, most: int = LONGEST_VALUE) -> str:
    """Return a value for an error message, shortened because a damaged value may be long.

    >>> len(shortened(10**200))
    80
    """
    text = str(value)
    return text if len(text) <= most else text[: most - 1] + "…"
