"""What the insert experiment measured against the model's figures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum
from operator import attrgetter

from inorder.lab.analysis.model import FEW_IMAGES, Conditions, few_images, predict
from inorder.lab.analysis.quality import has_checkpoint
from inorder.lab.experiments.insert.plan import InsertPlan
from inorder.lab.experiments.insert.summary import CHECKPOINTS
from inorder.lab.insert_tables import INSERT
from inorder.lab.keys import KEY_KINDS, USUAL_KINDS
from inorder.lab.report.section import Figure, Section, Value, data_only, number, table
from inorder.lab.results import Result, Run


def conditions_of(run: Run, memory_bytes: float) -> Conditions:
    """A measurement of the insert experiment: one checkpoint interval.

    The sequence stands at the number of rows; a block of time, of a second here, is new: the rows before the
    checkpoint are from earlier seconds.
    """
    rows, inserts, tps = (run.metrics[name] for name in ("rows_before", "inserts", "tps"))
    conditions = Conditions(rows, tps, memory_bytes, inserts / tps, interval_length=1)
    position = rows % conditions.block_size if run.kind == "sequence" else 0
    return Conditions(**{**vars(conditions), "position": position})


@dataclass(frozen=True)
class Modelled:
    """All rounds of a kind together, since each begins with other rows, and with the sequence elsewhere in its block.

    ``few``: no round has, or should have, enough images for a percentage.
    """

    kind: str
    rows: int
    inserts: float
    wal: float
    wal_model: float
    images: float
    images_model: float
    few: bool


def per_row(name: str) -> Callable[[Modelled], Value]:
    return lambda line: float(getattr(line, name)) / line.inserts


def off_percent(measured: float, model: float) -> float:
    return 100 * (model / measured - 1)


COMPARED = (
    Figure("key", "kind of key", data="label", value=lambda line: KEY_KINDS[line.kind].label),
    data_only("rows", attrgetter("rows")),
    Figure("WAL/row", "bytes of WAL per inserted row, measured: all rounds together", number(1, "B"), "wal_per_row",
           bar=True, value=per_row("wal")),
    Figure("WAL\nmodel", "the same by calculation", number(1, "B"), "wal_per_row_model", bar=True,
           value=per_row("wal_model")),
    Figure("WAL\noff", "by how much the model is off", number(1, "%", sign="+"), "wal_percent_off",
           value=lambda line: off_percent(line.wal, line.wal_model)),
    Figure("FPI/row", "full-page images per inserted row, measured: all rounds together", number(5), "fpi_per_row",
           bar=True, value=per_row("images")),
    Figure("FPI\nmodel", "the same by calculation", number(5), "fpi_per_row_model", bar=True,
           value=per_row("images_model")),
    Figure("FPI\noff", f"by how much the model is off; few: at most {FEW_IMAGES} images in any round, and one for each "
           "session", number(1, "%", sign="+"), "fpi_percent_off",
           value=lambda line: "few" if line.few else off_percent(line.images, line.images_model)),
)  # fmt: skip


def intervals(result: Result, kind: str, rows: int) -> list[Run]:
    return [
        run for run in result.select(INSERT, kind, rows)
        if {"rows_before", "wal_bytes"} <= run.metrics.keys() and not has_checkpoint(result, run)
        and not run.metrics.get(CHECKPOINTS)
    ]  # fmt: skip


def modelled(plan: InsertPlan, kind: str, rows: int, runs: Sequence[Run]) -> Modelled:
    predictions = [predict(kind, conditions_of(run, plan.memory_bytes)) for run in runs]
    inserts, images = ([run.metrics[name] for run in runs] for name in ("inserts", "full_page_images"))
    images_model = [prediction.images for prediction in predictions]
    wal_model = fsum(found.wal_per_row * count for found, count in zip(predictions, inserts, strict=True))
    return Modelled(
        kind, rows, sum(inserts), sum(run.metrics["wal_bytes"] for run in runs), wal_model, sum(images),
        fsum(images_model), max(images + images_model) <= few_images(plan.clients),
    )  # fmt: skip


def model_sections(result: Result, plan: InsertPlan) -> list[Section]:
    if result.server.get("checkpoints") is False:
        return []
    sections, few = [], few_images(plan.clients)
    for rows in sorted(plan.rows):
        measured = {kind: intervals(result, kind, rows) for kind in plan.kinds if kind in USUAL_KINDS}
        lines = [modelled(plan, kind, rows, runs) for kind, runs in measured.items() if runs]
        note = f"few: no more than {few} images between two checkpoints, too few for a percentage"
        caption = note if any(line.few for line in lines) else ""
        made = table(f"model_{rows}", f"Model against measurement, {rows:,} rows", COMPARED, lines, caption)
        sections += [made] if lines else []
    return sections
