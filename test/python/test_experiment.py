"""The order of an experiment's steps, with a bench that only writes them down."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from inorder.errors import InputError
from inorder.lab.catalogue import EXPERIMENTS
from inorder.lab.experiments.insert import InsertPlan, run_insert
from inorder.lab.legacy import Metrics, Series
from inorder.lab.progress import Progress
from inorder.lab.results import Result
from inorder.lab.session import SERVER_BYTES, new_result, require_room, run_session
from inorder.servers import Server
from inorder.temporary import service_account, temporary_folder

from conftest import Counting, Silent

KINDS = ("bigint", "v7", "random")


class WrittenDown:
    """A bench that does nothing but note what was asked of it."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.steps: list[tuple[str, ...]] = []
        self.measured = 0
        self.fail_at = fail_at

    def create(self, kinds: tuple[str, ...]) -> None:
        """Noted."""
        self.steps.append(("create", *kinds))

    def fill(self, kinds: tuple[str, ...], rows: int, filled: Callable[[str, dict[str, float]], None]) -> None:
        """Noted, and each kind told."""
        self.steps.append(("fill", str(rows)))
        for kind in kinds:
            filled(kind, {"seconds": 1.0})

    def serve_for_measuring(self) -> None:
        """Noted."""
        self.steps.append(("serve",))

    def measure(self, kind: str, clients: int, seed: int, progress: Progress) -> tuple[Metrics, Series]:
        """Noted; the interrupt comes here."""
        self.measured += 1
        if self.measured == self.fail_at:
            raise KeyboardInterrupt
        self.steps.append(("measure", kind))
        return {"tps": float(seed)}, {}

    def sizes(self, kind: str) -> dict[str, float]:
        """Noted."""
        self.steps.append(("sizes", kind))
        return {"index_bytes": 8192.0}


def result_of(plan: InsertPlan) -> Result:
    """An empty result."""
    return Result("insert", "now", "0", plan.seed, plan.as_dict(), {}, {}, "mock")


def measured(plan: InsertPlan) -> tuple[WrittenDown, Result, list[int]]:
    """Run a plan on paper; how many runs each save held."""
    bench, result, saves = WrittenDown(), result_of(plan), []
    run_insert(plan, bench, result, Silent(), lambda: saves.append(len(result.runs)))
    return bench, result, saves


def test_the_steps_come_in_order() -> None:
    """Create once; then for each size fill, serve, all rounds, sizes."""
    bench, _, _ = measured(InsertPlan(kinds=KINDS, rows=(2000, 1000), rounds=2))
    names = [step[0] for step in bench.steps]
    one_size = ["fill", "serve"] + ["measure"] * 6 + ["sizes"] * 3
    assert names == ["create", *one_size, *one_size]
    assert [step[1] for step in bench.steps if step[0] == "fill"] == ["1000", "2000"]


def test_every_kind_runs_once_a_round_in_changing_order() -> None:
    """Interleaved and shuffled, the same again with the same seed."""
    plan = InsertPlan(kinds=KINDS, rows=(1000,), rounds=20)
    bench, result, _ = measured(plan)
    order = [step[1] for step in bench.steps if step[0] == "measure"]
    rounds = [tuple(order[start : start + 3]) for start in range(0, len(order), 3)]
    assert all(Counter(one) == Counter(KINDS) for one in rounds)
    assert len(set(rounds)) > 3
    assert [run.round for run in result.select("insert", "v7")] == list(range(1, 21))
    again, _, _ = measured(plan)
    assert again.steps == bench.steps
    other, _, _ = measured(InsertPlan(kinds=KINDS, rows=(1000,), rounds=20, seed=2))
    assert other.steps != bench.steps


def test_saved_after_every_run() -> None:
    """Each save holds one run more than the last."""
    _, result, saves = measured(InsertPlan(kinds=KINDS, rows=(1000,), rounds=2))
    assert saves[: len(saves) - 1] == list(range(4, 3 + 6 + 3 + 1))
    assert result.complete


def test_an_interrupt_keeps_what_was_measured() -> None:
    """The result is incomplete and holds the runs before it."""
    plan = InsertPlan(kinds=KINDS, rows=(1000,), rounds=2)
    result, bench = result_of(plan), WrittenDown(fail_at=4)
    with pytest.raises(KeyboardInterrupt):
        run_insert(plan, bench, result, Silent(), lambda: None)
    assert not result.complete
    assert len(result.select("insert")) == 3


def test_progress_counts_every_step() -> None:
    """The total told at the start is the number of steps done."""

    plan, counting = InsertPlan(kinds=KINDS, rows=(1000, 2000), rounds=3), Counting()
    run_insert(plan, WrittenDown(), result_of(plan), counting, lambda: None)
    assert counting.ended == counting.totals


def test_what_the_file_has_is_left_out() -> None:
    """Resumed with the same plan, the rest comes in the same order; a round that was cut off begins anew."""
    plan = InsertPlan(kinds=KINDS, rows=(1000,), rounds=4, indexes=("primary", "none"), clients=(8, 1))
    whole, _, _ = measured(plan)
    result, cut_off = result_of(plan), WrittenDown(fail_at=20)
    with pytest.raises(KeyboardInterrupt):
        run_insert(plan, cut_off, result, Silent(), lambda: None)
    rest = WrittenDown()
    run_insert(plan, rest, result, Silent(), lambda: None)
    taken = [[step for step in one.steps if step[0] == "measure"] for one in (whole, cut_off, rest)]
    assert len(taken[1]) == 19 and taken[2] == taken[0][12:]  # 12 turns a round
    assert len(result.runs) == len({(run.step, run.kind, run.rows, run.round) for run in result.runs})
    assert result.complete and len(result.select("insert@1", "v7_none")) == 4


def test_room_is_looked_at_wherever_files_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the indexes go, too; and a server needs room even for few rows. The estimate and what is free are told."""
    free = {}
    monkeypatch.setattr("inorder.lab.session.shutil.disk_usage",
                        lambda folder: SimpleNamespace(free=free.get(folder, 2**40)))  # fmt: skip
    insert, plan = EXPERIMENTS["insert"], InsertPlan(kinds=("v7",), rows=(100_000_000,), tablespace=str(tmp_path),
                                                     inserts=1000)  # fmt: skip
    require_room(insert, plan)
    free[tmp_path] = 2**30
    told = f"the indexes of 100,000,000 rows of 1 key kinds need about 6.6 GB in {tmp_path}, where 1.0 GB are free"
    with pytest.raises(InputError, match=told):
        require_room(insert, plan)
    free[temporary_folder(service_account())] = SERVER_BYTES
    with pytest.raises(InputError, match=r"1,000 rows of 1 key kinds need about 0\.2 GB"):
        require_room(insert, replace(plan, rows=(1000,), tablespace=""))
    with pytest.raises(InputError, match=r"1,000 rows of 1 key kinds need about 9\.4 GB"):  # as turns add to them
        require_room(insert, replace(plan, rows=(1000,), tablespace="", inserts=None, rounds=6, seconds=100))


def test_a_missing_program_is_told_before_the_fill(tmp_path: Path, server: Server) -> None:
    """pg_waldump is in a package of its own on some systems."""
    for name in ("postgres", "initdb", "pgbench"):
        (tmp_path / name).symlink_to(server.program(name))
    insert, plan, lacking = EXPERIMENTS["insert"], InsertPlan(rows=(1000,)), replace(server, bindir=tmp_path)
    with pytest.raises(InputError, match="has no program pg_waldump"):
        run_session(insert, plan, lacking, new_result(insert, plan, lacking), Silent(), tmp_path / "r.json")
