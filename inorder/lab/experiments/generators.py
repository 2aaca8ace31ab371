"""What making a key costs by itself: CPU time per value, and of a bulk insert.

Every generator is timed in every round, in shuffled order, together with a C
function that returns a constant: the floor, which is subtracted.
"""

import random
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from inorder.lab.legacy import forget_cut_off
from inorder.lab.progress import Progress
from inorder.lab.results import Result, Run

NAME = "generators"
FLOOR = "floor"
BASELINE_CALL = "gen_random_uuid"
BASELINE_INSERT = "nextval"

# Name -> expression. {schema} holds the lab's sequence, of CACHE 100.
CALLS = {
    FLOOR: "pg_temp.uuid_call_floor()",
    "gen_random_uuid": "gen_random_uuid()",
    "uuid_time_nextval": "uuid_time_nextval()",
    "uuid_v7_nextval": "uuid_v7_nextval()",
    "uuid_xact_nextval": "uuid_xact_nextval()",
    "uuid_sequence_nextval": "uuid_sequence_nextval('{schema}.cached')",
    "nextval": "nextval('{schema}.cached')",
}
SERVER_CALLS = {"uuidv7": ("uuidv7()", 18)}  # the server's own, and the major version it came with
INSERTS = (
    "nextval",
    "uuid_v7_nextval",
    "uuid_xact_nextval",
    "uuid_time_nextval",
    "uuid_sequence_nextval",
    "gen_random_uuid",
)
# What is done with values of the types besides making them: <type> <task>.
TYPES = ("uuid", "uuid_v1")
TASKS = ("in", "out", "sort", "group", "join")
EVERY_TASK = tuple(f"{type_name} {task}" for type_name in TYPES for task in TASKS)


@dataclass(frozen=True)
class GeneratorsPlan:
    """What to time: values of one call, rows of one insert, rounds of all of them; of what, beside the server's own."""

    values: int = 1_000_000
    rows: int = 500_000
    rounds: int = 9
    seed: int = 1
    calls: tuple[str, ...] = tuple(name for name in CALLS if name != FLOOR)
    tasks: tuple[str, ...] = EVERY_TASK

    def as_dict(self) -> dict[str, Any]:
        """For the result file."""
        return asdict(self)


class GeneratorsBench(Protocol):
    """What the experiment needs done."""

    def calls(self) -> dict[str, str]:
        """The expressions this server knows, by name."""

    def call(self, expression: str, values: int) -> dict[str, float]:
        """Time an expression over that many values."""

    def task(self, name: str, values: int) -> dict[str, float]:
        """Time a type's text input or output, sort, hash aggregate or hash join, over that many values."""

    def insert(self, expression: str, rows: int) -> dict[str, float]:
        """Time an insert of that many rows into an empty table with a primary key."""


def run_generators(
    plan: GeneratorsPlan, bench: GeneratorsBench, result: Result, progress: Progress, save: Callable[[], None]
) -> None:
    """Warm up once, then time everything once a round, in shuffled order."""
    shuffler = random.Random(plan.seed)
    calls = {name: call for name, call in bench.calls().items() if name in plan.calls or name not in INSERTS}
    work = [("call", name) for name in calls] + [("insert", name) for name in INSERTS if name in calls]
    work += [("task", name) for name in plan.tasks]
    amounts = {"call": plan.values, "insert": plan.rows, "task": plan.values}
    progress.total((plan.rounds + 1) * len(work))
    for number in range(plan.rounds + 1):
        forget_cut_off([(step, name, amounts[step]) for step, name in work], number, result)
        for step, name in shuffler.sample(work, len(work)):
            progress.step(f"round {number} of {plan.rounds}: {step} {name}")
            if result.has(step, name, amounts[step], number):
                progress.done()
                continue
            do = {"call": bench.call, "insert": bench.insert, "task": bench.task}[step]
            metrics = do(calls.get(name, name), amounts[step])
            if number > 0:  # round 0 warms up: libraries, caches, files
                result.runs.append(Run(step, name, amounts[step], number, metrics))
                save()
            progress.done()
    result.complete = True
    save()
