"""The model's figures as a table."""

from collections.abc import Sequence

from inorder.lab.analysis.model import Conditions, Prediction, predict
from inorder.lab.keys import KEY_KINDS, USUAL_KINDS
from inorder.report.section import Column, Section, Value, number
from inorder.units import size_text

PREDICTED = (
    Column("key", "kind of key"),
    Column("pages", "distinct leaf pages touched between two checkpoints", number()),
    Column("FPI/row", "full-page images per row", number(4), bar=True),
    Column("WAL/row", "bytes of WAL per row", number(0, "B"), bar=True),
    Column("images", "of these in full-page images", number(0, "B")),
    Column("WAL/s", "bytes of WAL a second", size_text),
    Column("misses", "index pages read per row", number(3), bar=True),
    Column("index", "size of the index", size_text, bar=True),
    Column("leaf", "leaf density", number(0, "%")),
)


def prediction_section(conditions: Conditions, kinds: Sequence[str] | None = None) -> Section:
    """The predictions for each kind of key."""
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
