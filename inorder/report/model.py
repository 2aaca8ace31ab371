"""The model's figures as tables: by themselves, and against what the insert experiment measured."""

from collections.abc import Sequence

from inorder.lab.keys import KEY_KINDS, USUAL_KINDS
from inorder.lab.model import FEW_IMAGES, Conditions, Prediction, few_images, predict
from inorder.lab.quality import has_checkpoint
from inorder.lab.results import Result, Run
from inorder.report.section import Column, Section, Value, data_only, number, text
from inorder.units import MB


def signed_percent(value: Value) -> str:
    """A deviation.

    >>> signed_percent(-4.25), signed_percent(None), signed_percent("few")
    ('-4.2 %', '', 'few')
    """
    return f"{value:+.1f} %" if isinstance(value, float) else text(value)


def size_text(value: Value) -> str:
    """Bytes as a size.

    >>> size_text(3 * 2**20), size_text(5.5 * 2**40)
    ('3 MB', '5.5 TB')
    """
    assert isinstance(value, float | int)
    for unit, size in (("TB", 2**40), ("GB", 2**30)):
        if value >= size:
            return f"{value / size:,.1f} {unit}"
    return f"{value / MB:,.0f} MB"


PREDICTED = (
    Column("key", "kind of key"),
    Column("pages", "distinct leaf pages touched between two checkpoints", number()),
    Column("FPI/row", "full-page images per row", number(4)),
    Column("WAL/row", "bytes of WAL per row", number(0, "B")),
    Column("images", "of these in full-page images", number(0, "B")),
    Column("WAL/s", "bytes of WAL a second", lambda value: f"{size_text(value)}"),
    Column("misses", "index pages read per row", number(3)),
    Column("index", "size of the index", size_text),
    Column("leaf", "leaf density", number(0, "%")),
)


def prediction_section(conditions: Conditions, kinds: Sequence[str] | None = None) -> Section:
    """What the model says of each kind of key."""
    predictions = [predict(kind, conditions) for kind in kinds or USUAL_KINDS]
    return Section(
        "model",
        f"By calculation: {conditions.rows:,.0f} rows, {conditions.inserts:,.0f} more between two checkpoints",
        PREDICTED,
        [predicted_row(prediction, conditions.rate) for prediction in predictions],
    )


def predicted_row(prediction: Prediction, rate: float) -> list[Value]:
    """A row of PREDICTED."""
    return [
        KEY_KINDS[prediction.kind].label,
        prediction.leaf_pages_touched,
        prediction.images_per_row,
        prediction.wal_per_row,
        prediction.image_bytes_per_row,
        prediction.wal_per_row * rate,
        prediction.misses_per_row,
        prediction.index_bytes,
        prediction.leaf_density,
    ]


def conditions_of(run: Run, memory_bytes: float) -> Conditions:
    """A turn of the insert experiment: one checkpoint interval.

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
    Column("WAL/row", "bytes of WAL per inserted row, measured: all rounds together", number(1, "B"), "wal_per_row"),
    Column("WAL\nmodel", "the same by calculation", number(1, "B"), "wal_per_row_model"),
    Column("WAL\noff", "by how much the model is off", signed_percent, "wal_percent_off"),
    Column("FPI/row", "full-page images per inserted row, measured: all rounds together", number(5), "fpi_per_row"),
    Column("FPI\nmodel", "the same by calculation", number(5), "fpi_per_row_model"),
    Column(
        "FPI\noff",
        f"by how much the model is off; few: at most {FEW_IMAGES} images in any round, and one for each session",
        signed_percent,
        "fpi_percent_off",
    ),
)


def off_percent(measured: float, model: float) -> float:
    """How far the model is from the measurement."""
    return 100 * (model / measured - 1)


def compared_row(result: Result, kind: str, rows: int) -> list[Value] | None:
    """A row of COMPARED, or None where nothing was measured or the file is of a tool without the model.

    Rounds are added up: each begins with other rows, and with the sequence elsewhere in its block.
    """
    runs = [
        run for run in result.select("insert", kind, rows)
        if {"rows_before", "wal_bytes"} <= run.metrics.keys() and not has_checkpoint(result, run)
    ]  # fmt: skip
    if not runs:
        return None
    inserts = sum(run.metrics["inserts"] for run in runs)
    predictions = [predict(kind, conditions_of(run, result.plan["memory_bytes"])) for run in runs]
    images = [run.metrics["full_page_images"] for run in runs]
    images_model = [prediction.images for prediction in predictions]
    wal = sum(run.metrics["wal_bytes"] for run in runs)
    wal_model = sum(found.wal_per_row * run.metrics["inserts"] for found, run in zip(predictions, runs, strict=True))
    few = max(images + images_model) <= few_images(result.clients)
    return [
        KEY_KINDS[kind].label,
        rows,
        wal / inserts,
        wal_model / inserts,
        off_percent(wal, wal_model),
        sum(images) / inserts,
        sum(images_model) / inserts,
        "few" if few else off_percent(sum(images), sum(images_model)),
    ]


def model_sections(result: Result) -> list[Section]:
    """Model against measurement, one table a size; nothing without the checkpoint before each turn that it assumes."""
    if result.server.get("checkpoints") is False:
        return []
    sections = []
    for rows in sorted(result.plan["rows"]):
        found = [compared_row(result, kind, rows) for kind in result.plan["kinds"] if kind in USUAL_KINDS]
        table = [row for row in found if row is not None]
        if table:
            title = f"Model against measurement, {rows:,} rows"
            few = few_images(result.clients)
            told = f"few: no more than {few} images between two checkpoints: a percentage would say nothing"
            caption = told if any(row[-1] == "few" for row in table) else ""
            sections.append(Section(f"model_{rows}", title, COMPARED, table, caption))
    return sections
