"""Checkpoints that WAL brings within a measurement: images add WAL, hence the next checkpoint, which adds images."""

from collections.abc import Sequence

from inorder.lab.analysis.figures import Row, median, per
from inorder.lab.experiments.insert.plan import InsertPlan
from inorder.lab.experiments.insert.summary import KindSummary
from inorder.lab.insert_tables import INSERT
from inorder.lab.report.section import Column, Figure, Section, Value, number
from inorder.lab.results import Result, Run
from inorder.units import MB

CHECKPOINTS = "checkpoints_requested"


def between(run: Run) -> float | None:
    return run.metrics["inserts"] / (1 + run.metrics[CHECKPOINTS]) if CHECKPOINTS in run.metrics else None


FEEDBACK = (
    Figure("checkpoints", "Checkpoints that WAL caused within a measurement, median of the rounds.", number(1),
           CHECKPOINTS, value=median(CHECKPOINTS)),
    Figure("rows between", "Rows between two checkpoints.", number(), value=median(between)),
    Figure("WAL", "MB of WAL of a measurement.", number(1, "MB"), "wal_mb", value=median(per("wal_bytes", MB))),
    Figure("FPI/row", "Full-page images per row.", number(4), "fpi_per_row",
           value=median(per("full_page_images", "inserts"))),
    Figure("WAL/row", "Bytes of WAL per row.", number(0, "B"), "wal_per_row",
           value=median(per("wal_bytes", "inserts"))),
)  # fmt: skip


def feedback_sections(result: Result, plan: InsertPlan, sizes: dict[int, list[KindSummary]]) -> list[Section]:
    """A table a size; nothing where checkpoints were kept away."""
    return [section_of(result, plan, rows, kinds) for rows, kinds in sizes.items()] if plan.max_wal_size else []


def section_of(result: Result, plan: InsertPlan, rows: int, kinds: Sequence[KindSummary]) -> Section:
    table: list[list[Value]] = [
        [kind.label, kind.tps, *(one.value(Row(result, INSERT, kind.kind, rows)) for one in FEEDBACK)] for kind in kinds
    ]
    heads = (Column("key", "Kind of key."), Column("inserts/s", "Median of the rounds.", number(), "tps"))
    size = f"{(plan.max_wal_size or 0) / MB:,.0f} MB"
    caption = (
        "Images add WAL, so that the next checkpoint comes after fewer rows, and adds images. Kinds with fewer bytes "
        "per row have fewer checkpoints for as many rows (--inserts). The server counts WAL in segments of 16 MB."
    )
    title = f"Checkpoints by WAL, max_wal_size {size}: {rows:,} rows"
    return Section(f"checkpoints_{rows}", title, (*heads, *FEEDBACK), table, caption)
