"""What ordered keys would save in a table like yours, with its columns, indexes and load."""

from dataclasses import replace
from functools import cached_property, partial
from typing import ClassVar

from inorder.errors import InputError
from inorder.lab.capabilities import Adapted, Capabilities, OwnRun
from inorder.lab.experiment import Experiment
from inorder.lab.experiments.like import report
from inorder.lab.experiments.like.copy import fitting, key_column, require_no_variables
from inorder.lab.experiments.like.plan import USUAL, LikePlan
from inorder.lab.experiments.like.shape import Found, read_table, resolved, source
from inorder.lab.experiments.like.tables import LikeTables
from inorder.lab.insert_tables import INSERT
from inorder.lab.keys import KEY_KINDS
from inorder.lab.turn import Metrics, Stage, every_round, single


class LikeExperiment(Experiment[LikePlan]):
    question = "What would ordered keys save here?"
    studies = ("P3",)
    needs = "--table"
    role = "inorder_like"  # what makes its tables was written elsewhere
    own = OwnRun(unseen="what is in the WAL (pg_waldump)")
    Plan: ClassVar = LikePlan
    reports: ClassVar = report

    @classmethod
    def completed(cls, plan: LikePlan, own: bool) -> Adapted[LikePlan]:
        if not plan.table:
            raise InputError("--table is needed: the table that others are to be like")
        with source(plan.source) as connection:
            found = read_table(connection, plan.table, plan.key, plan.leave_out)
            dsn = resolved(connection)
        require_unchanged(plan, found)
        require_no_variables(found.shape)
        column = found.shape.column(found.shape.key)
        kinds = fitting(plan.kinds if plan.kinds != USUAL or key_column("v7", column) else ("bigint", "random"), column)
        mix = plan.mix or f"insert={found.inserted or 1},update={found.updated}"
        if unknown := set(plan.update) - {one.name for one in found.shape.sampled}:
            raise InputError(f"--update: the table has no column {', '.join(sorted(unknown))} that could be changed")
        left = ", ".join(KEY_KINDS[kind].label for kind in plan.kinds if kind not in kinds and plan.kinds != USUAL)
        made = replace(plan, source=dsn, key=found.shape.key, kinds=kinds, mix=mix, found=plan.found or found)
        note = f"Left out, since {column.name} is {column.type}: {left}." if left else ""
        return Adapted(made, tuple(filter(None, (*found.notes, note))))

    @classmethod
    def room(cls, plan: LikePlan) -> tuple[int, str]:
        rows = plan.rows + plan.rounds * plan.transactions
        return int(rows * len(plan.kinds) * plan.row_bytes * 3), f"{rows:,} rows of {len(plan.kinds)} kinds of key"

    @classmethod
    def adapt(cls, plan: LikePlan, can: Capabilities) -> Adapted[LikePlan]:
        """The server's WAL files are out of reach. What the server of the table returns must not reach others."""
        if can.leaves_database:
            raise InputError(
                f"--dsn: '{can.role}' may read files or run programs, and what the server of the table says of it runs "
                "as that role\nHINT:  Use a role that is no superuser and owns nothing in that database."
            )
        return super().adapt(plan, can).but(dump_wal=False)

    @cached_property
    def tables(self) -> LikeTables:
        return LikeTables(self.target, self.plan)

    def prepare(self) -> None:
        self.tables.serve_for_measuring()

    def stages(self) -> list[Stage]:
        turns = [
            single(INSERT, kind, self.plan.rows, KEY_KINDS[kind].label,
                   partial(self.tables.measure_so_many, kind, show=self.show_step))
            for kind in self.plan.kinds
        ]  # fmt: skip
        begin = self.tables.serve_for_measuring
        return [self.tables.fill_stage(self.plan.rows), Stage(every_round(turns), self.plan.rounds, begin=begin)]

    def outcome(self, metrics: Metrics) -> str:
        if "tps" not in metrics:
            return f"{metrics['seconds']:.1f} s"
        wal = f", {metrics['wal_bytes'] / metrics['inserts']:,.0f} B of WAL each" if "wal_bytes" in metrics else ""
        return f"{metrics['tps']:,.0f} transactions/s{wal}"


def require_unchanged(plan: LikePlan, found: Found) -> None:
    if plan.found and plan.found.shape != found.shape:
        raise InputError(f"the table {plan.table} is not as it was when the run began: its columns or indexes differ")
