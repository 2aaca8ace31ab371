"""Insert TPS and WAL per row, by kind of key and size of table."""

from collections.abc import Callable
from functools import cached_property, partial
from typing import ClassVar

from inorder.lab.experiments.insert import report
from inorder.lab.experiments.insert.plan import SIZES, InsertPlan
from inorder.lab.plan.capabilities import Adapted, Capabilities, OwnRun
from inorder.lab.plan.keys import KEY_KINDS
from inorder.lab.plan.turn import Measured, Metrics, Stage, every_round, single
from inorder.lab.run.experiment import Experiment
from inorder.lab.tables.insert_tables import InsertTables, bytes_needed, load_of, speed_text
from inorder.lab.targets.server_settings import Small
from inorder.text import quoted


def space(plan: InsertPlan) -> tuple[int, int]:
    kinds = [KEY_KINDS[name] for name in plan.variants]
    turns = plan.rounds * len(plan.clients)
    return bytes_needed(kinds, max(plan.rows), turns, plan.seconds, plan.inserts, plan.batch)


class InsertExperiment(Experiment[InsertPlan]):
    question = "Are random keys expensive?"
    studies = ("P1", "P3")
    own = OwnRun(leaf_density=True, unseen="the contents of the WAL (pg_waldump), and figures of the device")
    reports: ClassVar = report

    @classmethod
    def room(cls, plan: InsertPlan) -> tuple[int, str]:
        return space(plan)[0], f"{max(plan.rows):,} rows of {len(plan.variants)} key kinds"

    @classmethod
    def index_room(cls, plan: InsertPlan) -> tuple[str, int]:
        return plan.tablespace, space(plan)[1]

    @classmethod
    def adapt(cls, plan: InsertPlan, can: Capabilities) -> Adapted[InsertPlan]:
        unseen = f"Left out: the ends of checkpoints, since {quoted(can.role)} may not call pg_control_checkpoint()."
        return super().adapt(plan, can).but("" if can.sees_checkpoints else unseen, dump_wal=False, tablespace="")

    @cached_property
    def tables(self) -> InsertTables:
        kinds = {name: KEY_KINDS[name] for name in self.plan.variants}
        small = Small(self.plan.memory_bytes, self.plan.iops, self.plan.tablespace, self.plan.page_cache)
        settings = {"synchronous_commit": self.plan.synchronous_commit}
        return InsertTables(self.target, kinds, small, self.plan.fill_workers, settings, self.plan.max_wal_size,
                            self.plan.batch)  # fmt: skip

    def prepare(self) -> None:
        self.tables.serve_for_measuring()

    def stages(self) -> list[Stage]:
        return [stage for rows in sorted(self.plan.rows) for stage in self.stages_of(rows)]

    def stages_of(self, rows: int) -> list[Stage]:
        several = len(self.plan.clients) > 1
        loads = [
            single(steps, kind, rows, f"{rows:,} rows: {KEY_KINDS[kind].label}{f', {clients} clients' * several}",
                   self.measurement(kind, clients))
            for clients, steps in self.plan.steps.items() for kind in self.plan.variants
        ]  # fmt: skip
        sizes = [
            single(SIZES, kind, rows, f"{rows:,} rows: sizes of {KEY_KINDS[kind].label}",
                   partial(self.tables.sizes, kind))
            for kind in self.plan.variants
        ]  # fmt: skip
        return [
            self.tables.fill_stage(rows),
            Stage(every_round(loads), self.plan.rounds, begin=self.tables.serve_for_measuring),
            Stage(every_round(sizes), 1, shuffled=False, whole=False),
        ]

    def measurement(self, kind: str, clients: int) -> Callable[[int], Measured]:
        load = load_of(clients, self.plan.threads, self.plan.seconds, self.plan.inserts, self.plan.batch)
        return partial(self.tables.measure, kind, load, show=self.show_step, dump_wal=self.plan.dump_wal)

    def outcome(self, metrics: Metrics) -> str:
        return speed_text(metrics)
