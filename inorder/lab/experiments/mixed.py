"""A table full of random keys is switched to another generator: what the index, the WAL and the speed make of it.

Every kind starts from the same table, whose index has grown by the same random keys in the same order, as it does in
earnest: one that CREATE INDEX has built would be packed. Each kind goes through all steps before the next begins;
kinds take turns in shuffled order within a round.
"""

import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from inorder.lab.keys import KeyKind
from inorder.lab.legacy import forget_cut_off
from inorder.lab.machine import available_cores
from inorder.lab.progress import Progress
from inorder.lab.results import Result, Run

NAME = "mixed"
BASELINE = "random"

# What the column's default becomes once the table is full. Keys of ``after`` are of version 8: 48 one bits, which no
# random key has at its beginning (one in 2^48 would), then a counter; so they sort behind every random key.
GENERATORS = {
    "random": "gen_random_uuid()",
    "v7": "uuid_v7_nextval()",
    "time": "uuid_time_nextval(1)",
    "after": "('ffffffff-ffff-8000-8000-' || lpad(to_hex(nextval('{schema}.after_keys')), 12, '0'))::uuid",
}

KINDS = {
    kind.name: kind
    for kind in (
        KeyKind("random", "random as before", "uuid"),
        KeyKind("v7", "version 7", "uuid"),
        KeyKind("time", "time-prefixed", "uuid"),
        KeyKind("after", "after all random", "uuid", "CREATE SEQUENCE IF NOT EXISTS {schema}.after_keys"),
    )
}

# In this order. Each ends with a look at the index.
FILL = "fill"
SWITCH = "switch"
REINDEX = "reindex"
AGAIN = "again"

STEPS = {
    FILL: "filling with random keys",
    SWITCH: "inserts with the new generator",
    REINDEX: "REINDEX",
    AGAIN: "further inserts",
}
INSERTING = (SWITCH, AGAIN)


@dataclass(frozen=True)
class MixedPlan:
    """How many random keys there are, how many come before and again after REINDEX, and with how much memory."""

    kinds: tuple[str, ...] = tuple(KINDS)
    rows: int = 2_000_000
    more: int | None = None
    rounds: int = 1
    clients: int = 8
    threads: int = field(default_factory=available_cores)
    memory_bytes: int = 32 * 1024 * 1024
    seed: int = 1

    @property
    def inserts(self) -> int:
        """The rows that come: as asked, or a fifth of those there are; the same number for each client."""
        return max(1, (self.rows // 5 if self.more is None else self.more) // self.clients) * self.clients

    def as_dict(self) -> dict[str, Any]:
        """For the result file."""
        return asdict(self)


class MixedBench(Protocol):
    """What the experiment needs done."""

    def measure(self, kind: str, step: str, seed: int) -> dict[str, float]:
        """Do one step and say what it took, and how large the index is then."""

    def drop(self, kind: str) -> None:
        """Remove the table."""


def run_mixed(
    plan: MixedPlan, bench: MixedBench, result: Result, progress: Progress, save: Callable[[], None]
) -> None:
    """Every kind through all steps, once a round. Saved after each step; a round that was cut off begins anew."""
    progress.total(plan.rounds * len(plan.kinds) * len(STEPS))
    for number in range(1, plan.rounds + 1):
        order = random.Random(repr((plan.seed, NAME, number)))
        forget_cut_off([(step, kind, plan.rows) for kind in plan.kinds for step in STEPS], number, result)
        for kind in order.sample(plan.kinds, len(plan.kinds)):
            if all(result.has(step, kind, plan.rows, number) for step in STEPS):
                for _ in STEPS:
                    progress.done("in the file already")
                continue
            for step, label in STEPS.items():
                progress.step(f"round {number} of {plan.rounds}: {KINDS[kind].label}: {label}")
                metrics = bench.measure(kind, step, plan.seed + number)
                result.runs.append(Run(step, kind, plan.rows, number, metrics))
                save()
                progress.done(f"index {metrics['index_bytes'] / 2**20:,.1f} MB")
            bench.drop(kind)
    result.complete = True
    save()
