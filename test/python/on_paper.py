"""Experiments without a server: they run with made-up measurements."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from inorder.lab.plan.capabilities import Capabilities
from inorder.lab.plan.setting import Plan
from inorder.lab.plan.turn import Progress
from inorder.lab.results.result import DIRECT_IO, Result, Run
from inorder.lab.run.experiment import Experiment
from inorder.lab.run.runner import Runner
from inorder.lab.targets.target import Target

from replay import Nowhere

# The capabilities of a user's server: the minimum, and all of them.
BARE = Capabilities(
    version="18.6", role="app", database="shop", in_recovery=False, counts=True, may_create=True, schema_comment=None,
    may_checkpoint=False, sees_wal=False, sees_checkpoints=False, has_inorder=False, has_pgstattuple=False,
    free_sessions=20, shared_buffers=2**27, synchronous_commit="off", language="C", tracks_commits=True,
)  # fmt: skip
FULLY = replace(
    BARE, may_checkpoint=True, sees_wal=True, sees_checkpoints=True, has_inorder=True, has_pgstattuple=True,
    free_sessions=1200,
)  # fmt: skip


def empty_result(kind: type[Experiment[Any]], plan: Plan) -> Result:
    return Result(kind.name, "now", "0", plan.seed, plan.as_dict(), {}, {}, "mock")


def on_paper(kind: type[Experiment[Any]], **answers: Callable[..., Any]) -> type[Experiment[Any]]:

    def method(name: str) -> Callable[..., Any]:
        def answered(self: Any, *words: Any) -> Any:
            self.asked.append(words or (name,))
            return answers[name](*words)

        return answered

    def prepare(self: Any) -> None:
        self.asked = []

    return type("OnPaper", (kind,), {"prepare": prepare} | {name: method(name) for name in answers})


def run_on_paper(
    kind: type[Experiment[Any]], plan: Plan, result: Result | None = None, save: Callable[[], None] = lambda: None
) -> tuple[Result, Any]:
    experiment = kind(plan, cast(Target, Nowhere()), Progress())
    result = result or empty_result(kind, plan)
    Runner(experiment, result, save).run()
    return result, experiment


def insert_run(kind: str, number: int, tps: float, wal_bytes: float, rows: int = 1000) -> Run:
    metrics = {
        "tps": tps,
        "inserts": 100.0,
        "wal_bytes": wal_bytes,
        "wal_records": 300.0,
        "full_page_images": 50.0 if kind == "random" else 0.0,
        "index_hits": 300.0,
        "index_reads": 100.0 if kind == "random" else 0.0,
        "heap_hits": 0.0,
        "heap_reads": 0.0,
        "latency_ms": 0.1,
    }
    return Run("insert", kind, rows, number, metrics, {"tps": [tps]})


def a_result(complete: bool = True, method: str = DIRECT_IO) -> Result:
    plan = {
        "rows": [1000], "kinds": ["bigint", "random"], "clients": [8], "rounds": 6, "seconds": 2, "inserts": None,
        "memory_bytes": 32 * 2**20,
    }  # fmt: skip
    runs = [
        insert_run(kind, number, tps * speed, wal)
        for number, speed in ((1, 1.0), (2, 0.5), (3, 2.0), (4, 1.0), (5, 1.0), (6, 1.0))
        for kind, tps, wal in (("bigint", 1000.0, 17_000.0), ("random", 250.0, 204_000.0))
    ]
    runs.append(Run("fill", "random", 1000, 1, {"index_bytes": 64.0 * 2**20}))
    runs.append(Run("sizes", "random", 1000, 1, {"index_bytes": 80.0 * 2**20, "leaf_density": 69.5}))
    machine = {"cpu": "<A & B>", "cores": 2, "memory_bytes": 2**34, "kernel": "6", "filesystem": "ext4", "commit": None}
    server = {"version": "18.6", "origin": "embedded", "settings": {"fsync": "on"}}
    return Result("insert", "now", "0", 1, plan, server, machine, method, [], runs, complete)
