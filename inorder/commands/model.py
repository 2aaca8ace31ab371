"""inorder lab model: what an insert costs by calculation, for tables of any size."""

from collections.abc import Sequence
from operator import attrgetter as of
from typing import Any

import click

from inorder.commands.options import show_option
from inorder.commands.show import show_sections
from inorder.lab.analysis.model import Conditions, predict
from inorder.lab.keys import KEY_KINDS, USUAL_KINDS
from inorder.lab.report.section import Figure, Section, number, table
from inorder.options import count, duration, one_of, option, several, size
from inorder.units import size_text

MOST = 2**31 - 1  # of each parameter of the block generators


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
    title = f"By calculation: {conditions.rows:,.0f} rows, {conditions.inserts:,.0f} more between two checkpoints"
    predicted = [predict(kind, conditions) for kind in kinds or USUAL_KINDS]
    return table("model", title, (*PREDICTED, rate, *AFTER_SPEED), predicted)


@click.command("model")
@option("--keys", "kinds", type=several(one_of(USUAL_KINDS)), help="Kinds of key, comma-separated.  [all]")
@option("--rows", type=count(1, 10**15), default="100e9", help="Rows in the table.")
@option("--rate", type=count(1, 10**9), default="20000", help="Rows inserted a second.")
@option("--memory", "memory_bytes", type=size(2**20), default="256GB", help="Memory that holds pages of this index.")
@option("--checkpoint", type=duration(1), default="5min", help="Time between two checkpoints.")
@option("--block-size", type=count(1, MOST), default="65536", help="Of uuid_sequence_nextval: rows of a block.")
@option("--block-count", type=count(1, MOST), default="65536", help="Of uuid_sequence_nextval: blocks.")
@option("--interval-length", type=count(1, MOST, "SECONDS"), default="60",
        help="Of uuid_time_nextval: seconds of a block.")  # fmt: skip
@option("--interval-count", type=count(1, MOST), default="65536", help="Of uuid_time_nextval: blocks.")
@show_option
def lab_model(kinds: Sequence[str] | None, output: str, **given: Any) -> None:
    """What an insert costs, by calculation: pages, full-page images, WAL, buffer misses, index size.

    The formulas and how far they are from measurement: docs/model.md.
    """
    section = prediction_section(Conditions(**given), kinds)
    show_sections([section], output, section.records())
