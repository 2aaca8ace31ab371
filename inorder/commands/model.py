"""inorder lab model: what an insert costs by calculation, for tables of any size."""

from typing import Any

import click

from inorder.commands.options import show_option
from inorder.commands.show import show_sections
from inorder.lab.analysis.model import Conditions
from inorder.lab.keys import USUAL_KINDS, kinds_named
from inorder.lab.report.model import prediction_section
from inorder.options import count, duration, option, size

MOST = 2**31 - 1  # of each parameter of the block generators


@click.command("model")
@option("--keys", metavar="NAME,…", help="Kinds of key, comma-separated.  [all]")
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
def lab_model(keys: str | None, output: str, **given: Any) -> None:
    """What an insert costs, by calculation: pages, full-page images, WAL, buffer misses, index size.

    The formulas and how far they are from measurement: docs/model.md.
    """
    kinds = [kind.name for kind in kinds_named(keys, USUAL_KINDS)] if keys is not None else None
    section = prediction_section(Conditions(**given), kinds)
    show_sections([section], output, section.records())
