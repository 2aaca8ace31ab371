"""The model's figures as a table."""

from collections.abc import Sequence
from operator import attrgetter as of

from inorder.lab.analysis.model import Conditions, predict
from inorder.lab.keys import KEY_KINDS, USUAL_KINDS
from inorder.lab.report.section import Figure, Section, number, table
from inorder.units import size_text

PREDICTED = (
    Figure("key", "kind of key", value=lambda one: KEY_KINDS[one.kind].label),
    Figure("pages", "distinct leaf pages touched between two checkpoints", number(), value=of("leaf_pages_touched")),
    Figure("FPI/row", "full-page images per row", number(4), bar=True, value=of("images_per_row")),
    Figure("WAL/row", "bytes of WAL per row", number(0, "B"), bar=True, value=of("wal_per_row")),
    Figure("images", "of these in full-page images", number(0, "B"), value=of("image_bytes_per_row")),
)
AFTER_SPEED = (
    Figure("misses", "index pages read per row", number(3), bar=True, value=of("misses_per_row")),
    Figure("index", "size of the index", size_text, bar=True, value=of("index_bytes")),
    Figure("leaf", "leaf density", number(0, "%"), value=of("leaf_density")),
)


def prediction_section(conditions: Conditions, kinds: Sequence[str] | None = None) -> Section:
    rate = Figure("WAL/s", "bytes of WAL a second", size_text, value=lambda one: one.wal_per_row * conditions.rate)
    return table(
        "model",
        f"By calculation: {conditions.rows:,.0f} rows, {conditions.inserts:,.0f} more between two checkpoints",
        (*PREDICTED, rate, *AFTER_SPEED),
        [predict(kind, conditions) for kind in kinds or USUAL_KINDS],
    )
