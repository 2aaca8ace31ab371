"""What the insert experiment measured against the model's figures."""

from math import fsum

from inorder.lab.analysis.model import FEW_IMAGES, Conditions, few_images, predict
from inorder.lab.analysis.quality import has_checkpoint
from inorder.lab.experiments.insert.plan import InsertPlan
from inorder.lab.experiments.insert.summary import CHECKPOINTS
from inorder.lab.insert_tables import INSERT
from inorder.lab.keys import KEY_KINDS, USUAL_KINDS
from inorder.lab.report.section import Column, Section, Value, data_only, number
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


COMPARED = (
    Column("key", "kind of key", data="label"),
    data_only("rows"),
    Column(
        "WAL/row",
        "bytes of WAL per inserted row, measured: all rounds together",
        number(1, "B"),
        "wal_per_row",
        bar=True,
    ),
    Column("WAL\nmodel", "the same by calculation", number(1, "B"), "wal_per_row_model", bar=True),
    Column("WAL\noff", "by how much the model is off", number(1, "%", sign="+"), "wal_percent_off"),
    Column(
        "FPI/row",
        "full-page images per inserted row, measured: all rounds together",
        number(5),
        "fpi_per_row",
        bar=True,
    ),
    Column("FPI\nmodel", "the same by calculation", number(5), "fpi_per_row_model", bar=True),
    Column(
        "FPI\noff",
        f"by how much the model is off; few: at most {FEW_IMAGES} images in any round, and one for each session",
        number(1, "%", sign="+"),
        "fpi_percent_off",
    ),
)


def intervals(result: Result, kind: str, rows: int) -> list[Run]:
    return [
        run for run in result.select(INSERT, kind, rows)
        if {"rows_before", "wal_bytes"} <= run.metrics.keys() and not has_checkpoint(result, run)
        and not run.metrics.get(CHECKPOINTS)
    ]  # fmt: skip


def off_percent(measured: float, model: float) -> float:
    return 100 * (model / measured - 1)


def compared_row(result: Result, plan: InsertPlan, kind: str, rows: int) -> list[Value] | None:
    """A row of COMPARED, or None where nothing was measured or the file is of a tool without the model.

    Rounds are added up: each begins with other rows, and with the sequence elsewhere in its block.
    """
    runs = intervals(result, kind, rows)
    if not runs:
        return None
    inserts = sum(run.metrics["inserts"] for run in runs)
    predictions = [predict(kind, conditions_of(run, plan.memory_bytes)) for run in runs]
    images = [run.metrics["full_page_images"] for run in runs]
    images_model = [prediction.images for prediction in predictions]
    wal = sum(run.metrics["wal_bytes"] for run in runs)
    wal_model = fsum(found.wal_per_row * run.metrics["inserts"] for found, run in zip(predictions, runs, strict=True))
    few = max(images + images_model) <= few_images(plan.clients)
    return [
        KEY_KINDS[kind].label,
        rows,
        wal / inserts,
        wal_model / inserts,
        off_percent(wal, wal_model),
        sum(images) / inserts,
        fsum(images_model) / inserts,
        "few" if few else off_percent(sum(images), fsum(images_model)),
    ]


def model_sections(result: Result, plan: InsertPlan) -> list[Section]:
    if result.server.get("checkpoints") is False:
        return []
    sections = []
    for rows in sorted(plan.rows):
        found = [compared_row(result, plan, kind, rows) for kind in plan.kinds if kind in USUAL_KINDS]
        table = [row for row in found if row is not None]
        if table:
            title = f"Model against measurement, {rows:,} rows"
            few = few_images(plan.clients)
            note = f"few: no more than {few} images between two checkpoints, too few for a percentage"
            caption = note if any(row[-1] == "few" for row in table) else ""
            sections.append(Section(f"model_{rows}", title, COMPARED, table, caption))
    return sections
