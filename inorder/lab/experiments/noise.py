"""What this machine can resolve: the insert experiment with every table twice or more (A/A).

Tables of one kind of key are the same but for their names, so whatever
difference is found between them is noise, and calling it one is wrong.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from string import ascii_uppercase
from typing import Any

from inorder.lab.experiments.insert import INSERT, InsertBench, InsertPlan, speed_text
from inorder.lab.keys import KEY_KINDS, KeyKind
from inorder.lab.legacy import Turn, run_rounds
from inorder.lab.machine import available_cores
from inorder.lab.progress import Progress
from inorder.lab.results import Result

NAME = "noise"
STEP = "insert"
MOST_TABLES = len(ascii_uppercase)


@dataclass(frozen=True)
class NoisePlan:
    """What to run: how many equal tables of each kind of key, and the turns of the insert experiment.

    Many short turns: those of 3 s scattered hardly less than those of 1 s (paired ratios by 13 to 20 % and by
    15 to 25 %), and 99 rounds find a difference of 10 % in such noise 80 times in 100, also where turns have two
    speeds, as they may; 15 rounds not even 20 times.
    """

    kinds: tuple[str, ...] = ("bigint", "random")
    tables: int = 3
    rows: int = 1_000_000
    rounds: int = 99
    seconds: int = 1
    inserts: int | None = None
    clients: int = 8
    threads: int = field(default_factory=available_cores)
    memory_bytes: int = 128 * 1024 * 1024
    fill_workers: int = field(default_factory=available_cores)
    seed: int = 1

    def as_dict(self) -> dict[str, Any]:
        """For the result file."""
        return asdict(self)

    def copies(self) -> dict[str, KeyKind]:
        """Every table as a kind of its own, by name.

        >>> list(NoisePlan(kinds=("v7",), tables=2).copies())
        ['v7_a', 'v7_b']
        """
        copies = [copy_of(KEY_KINDS[kind], letter) for kind in self.kinds for letter in ascii_uppercase[: self.tables]]
        return {copy.name: copy for copy in copies}

    def pairs(self) -> list[tuple[str, str, str]]:
        """What is compared: the kind of key, and two of its tables.

        >>> NoisePlan(kinds=("v7",), tables=3).pairs()
        [('v7', 'v7_a', 'v7_b'), ('v7', 'v7_a', 'v7_c'), ('v7', 'v7_b', 'v7_c')]
        """
        return [
            (kind, copy_of(KEY_KINDS[kind], one).name, copy_of(KEY_KINDS[kind], other).name)
            for kind in self.kinds
            for one, other in combinations(ascii_uppercase[: self.tables], 2)
        ]

    def insert_plan(self) -> InsertPlan:
        """The same as a plan of the insert experiment, which knows nothing of copies."""
        return InsertPlan(
            rows=(self.rows,),
            rounds=self.rounds,
            seconds=self.seconds,
            inserts=self.inserts,
            clients=(self.clients,),
            threads=self.threads,
            memory_bytes=self.memory_bytes,
            fill_workers=self.fill_workers,
            dump_wal=False,
            seed=self.seed,
        )


def copy_of(kind: KeyKind, letter: str) -> KeyKind:
    """A kind of key under another name.

    >>> copy_of(KEY_KINDS["bigint"], "B").label
    'bigint B'
    """
    return replace(kind, name=f"{kind.name}_{letter.lower()}", label=f"{kind.label} {letter}")


def run_noise(
    plan: NoisePlan, bench: InsertBench, result: Result, progress: Progress, save: Callable[[], None]
) -> None:
    """Fill, then measure round by round in shuffled order, as the insert experiment does."""
    copies = plan.copies()
    progress.total(len(copies) * (plan.rounds + 1))
    bench.create(tuple(copies))
    progress.step(f"filling {len(copies)} tables to {plan.rows:,} rows")
    bench.fill(tuple(copies), plan.rows, lambda name, metrics: progress.done(f"{copies[name].label} filled"))
    bench.serve_for_measuring()
    turns = [turn_of_copy(plan, copy, bench, progress) for copy in copies.values()]
    run_rounds(turns, plan.rounds, plan.seed, result, progress, save, speed_text)
    result.complete = True
    save()


def turn_of_copy(plan: NoisePlan, copy: KeyKind, bench: InsertBench, progress: Progress) -> Turn:
    """One table's turn."""
    label = f"{plan.rows:,} rows: {copy.label}"
    name, clients = copy.name, plan.clients
    return Turn(INSERT, name, plan.rows, label, lambda seed: bench.measure(name, clients, seed, progress))
