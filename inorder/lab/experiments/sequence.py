"""Whether a sequence is the bottleneck of inserts (published study P2).

The same statement with a constant and with nextval of sequences that differ
in CACHE: ``SELECT`` alone, an insert of one row, an insert of many.
``run_sequence`` is the experiment; what it does to a real server is ``SequenceBench``.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from inorder.lab.legacy import Measured, Metrics, Turn, run_rounds
from inorder.lab.machine import available_cores
from inorder.lab.progress import Progress
from inorder.lab.results import Result

NAME = "sequence"

SELECT = "select"
INSERT = "insert"
BULK = "bulk"  # one INSERT … SELECT
STATEMENTS = (SELECT, INSERT)

CONSTANT = "constant"  # what the ratios are to: the same statement without nextval


@dataclass(frozen=True)
class SequencePlan:
    """Which sequences, how many sessions, how many rows the bulk form inserts, for how long and how often."""

    clients: tuple[int, ...] = (1, 10, 100)
    caches: tuple[int, ...] = (1, 100, 1000)
    rows: int = 100_000
    seconds: int = 2
    rounds: int = 6
    synchronous_commit: str = "on"
    threads: int = field(default_factory=available_cores)
    seed: int = 1

    def as_dict(self) -> dict[str, Any]:
        """For the result file."""
        return asdict(self)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Where the value comes from: nowhere, or a sequence for each CACHE.

        >>> SequencePlan(caches=(1, 100)).kinds
        ('constant', 'cache_1', 'cache_100')
        """
        return (CONSTANT, *map(kind_of, self.caches))


def kind_of(cache: int) -> str:
    """The kind, and the name, of a sequence with this CACHE."""
    return f"cache_{cache}"


def step_of(statement: str, clients: int) -> str:
    """A statement under the load of so many sessions.

    >>> step_of("select", 10)
    'select_10'
    """
    return f"{statement}_{clients}"


class Bench(Protocol):
    """What the experiment needs done."""

    def create(self) -> None:
        """The table and the sequences."""

    def load(self, statement: str, kind: str, clients: int, seed: int) -> Metrics:
        """A statement from so many sessions at once, again and again, for the plan's seconds."""

    def bulk(self, kind: str) -> Metrics:
        """The plan's rows by one statement."""


def run_sequence(
    plan: SequencePlan, bench: Bench, result: Result, progress: Progress, save: Callable[[], None]
) -> None:
    """All statements, kinds and numbers of clients in shuffled order, once a round."""
    turns = turns_of(plan, bench)
    progress.total(plan.rounds * len(turns))
    bench.create()
    run_rounds(turns, plan.rounds, plan.seed, result, progress, save, found)
    result.complete = True
    save()


def turns_of(plan: SequencePlan, bench: Bench) -> list[Turn]:
    """Everything that is measured once a round."""
    loads = [
        load_turn(bench, statement, kind, clients)
        for statement in STATEMENTS for kind in plan.kinds for clients in plan.clients
    ]  # fmt: skip
    return [*loads, *(bulk_turn(bench, kind, plan.rows) for kind in plan.kinds)]


def load_turn(bench: Bench, statement: str, kind: str, clients: int) -> Turn:
    """One statement's turn with so many clients."""

    def measure(seed: int) -> Measured:
        return bench.load(statement, kind, clients, seed)

    return Turn(step_of(statement, clients), kind, 0, f"{statement}, {kind}, {clients} clients", measure)


def bulk_turn(bench: Bench, kind: str, rows: int) -> Turn:
    """One kind's turn in bulk."""
    return Turn(BULK, kind, rows, f"{rows:,} rows at once, {kind}", lambda _seed: bench.bulk(kind))


def found(metrics: Metrics) -> str:
    """What a turn has found.

    >>> found({"tps": 1234.5}), found({"seconds": 0.0567})
    ('1,234 TPS', '56.7 ms')
    """
    return f"{metrics['tps']:,.0f} TPS" if "tps" in metrics else f"{1000 * metrics['seconds']:.1f} ms"
