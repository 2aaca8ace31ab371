"""What the order of version-1 UUIDs is worth: the life of a table, from its first COPY to REINDEX.

Four kinds of primary key for the same moments, from 9 nodes over a year. Each
kind goes through all steps before the next begins; kinds take turns in
shuffled order within a round.
"""

import random
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from inorder.lab.keys import KeyKind
from inorder.lab.legacy import forget_cut_off
from inorder.lab.progress import Progress
from inorder.lab.results import Result, Run

NAME = "uuid-v1"
SUBJECT = "uuid_v1"
BASELINE = "uuid"

KINDS = {
    kind.name: kind
    for kind in (
        KeyKind("uuid_v1", "uuid_v1", "uuid_v1"),
        KeyKind("uuid", "uuid v1", "uuid"),
        KeyKind("uuid_v7", "uuid v7", "uuid"),
        KeyKind("bigint", "bigint", "bigint"),
    )
}

# In this order. SIZES and SIZES_AFTER look at the index; the others are timed and counted.
COPY_FROM = "copy_from"
COPY_MORE = "copy_more"
COPY_TO = "copy_to"
ANALYZE = "analyze"
SIZES = "sizes"
VACUUM_OLDEST = "vacuum_oldest"
VACUUM_RANDOM = "vacuum_random"
REINDEX = "reindex"
SIZES_AFTER = "sizes_after"

STEPS = {
    COPY_FROM: "COPY FROM",
    COPY_MORE: "COPY FROM of the next 10 %",
    COPY_TO: "COPY TO",
    ANALYZE: "ANALYZE",
    SIZES: "index size",
    VACUUM_OLDEST: "VACUUM after deleting the oldest 10 %",
    VACUUM_RANDOM: "VACUUM after deleting a random 10 %",
    REINDEX: "REINDEX",
    SIZES_AFTER: "index size afterwards",
}


@dataclass(frozen=True)
class UuidV1Plan:
    """How many rows the first COPY brings, how often everything is done, and with how much memory."""

    rows: int = 10_000_000
    rounds: int = 1
    memory_bytes: int = 128 * 1024 * 1024
    seed: int = 1

    @property
    def more_rows(self) -> int:
        """The rows of the second COPY."""
        return self.rows // 10

    def as_dict(self) -> dict[str, Any]:
        """For the result file."""
        return asdict(self)


class UuidV1Bench(Protocol):
    """What the experiment needs done."""

    def prepare(self) -> None:
        """Make the files that COPY reads."""

    def create(self, kind: str) -> None:
        """An empty table with a primary key."""

    def measure(self, kind: str, step: str) -> dict[str, float]:
        """Do one step and say what it took."""

    def drop(self, kind: str) -> None:
        """Remove the table."""


def run_uuid_v1(
    plan: UuidV1Plan, bench: UuidV1Bench, result: Result, progress: Progress, save: Callable[[], None]
) -> None:
    """Make the data once; then every kind through all steps, once a round. Saved after each step."""
    shuffler = random.Random(plan.seed)
    progress.total(1 + plan.rounds * len(KINDS) * len(STEPS))
    progress.step(f"writing {plan.rows + plan.more_rows:,} keys of each kind to files")
    bench.prepare()
    progress.done()
    for number in range(1, plan.rounds + 1):
        forget_cut_off([(step, kind, plan.rows) for kind in KINDS for step in STEPS], number, result)
        for kind in shuffler.sample(list(KINDS), len(KINDS)):
            if all(result.has(step, kind, plan.rows, number) for step in STEPS):
                for _ in STEPS:
                    progress.done()
                continue
            bench.create(kind)
            for step, label in STEPS.items():
                progress.step(f"round {number} of {plan.rounds}: {KINDS[kind].label}: {label}")
                metrics = bench.measure(kind, step)
                result.runs.append(Run(step, kind, plan.rows, number, metrics))
                save()
                progress.done(f"{metrics['seconds']:.2f} s" if "seconds" in metrics else "")
            bench.drop(kind)
    result.complete = True
    save()
