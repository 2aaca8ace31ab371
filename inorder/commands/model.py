"""inorder lab model: what an insert costs by calculation, for tables of any size."""

from typing import Any

import click

from inorder.commands.options import format_option
from inorder.commands.show import show_sections
from inorder.lab.analysis.model import Conditions
from inorder.lab.keys import USUAL_KINDS, kinds_named
from inorder.report.model import prediction_section
from inorder.units import parse_bytes, parse_count, parse_duration


@click.command("model")
@click.option("--keys", metavar="NAME,…", help="Kinds of key, comma-separated.  [all]")
@click.option("--rows", metavar="COUNT", default="100e9", show_default=True, help="Rows in the table.")
@click.option("--rate", metavar="COUNT", default="20000", show_default=True, help="Rows inserted a second.")
@click.option(
    "--memory", metavar="SIZE", default="256GB", show_default=True, help="Memory that holds pages of this index."
)
@click.option(
    "--checkpoint", metavar="DURATION", default="5min", show_default=True, help="Time between two checkpoints."
)
@click.option(
    "--block-size",
    metavar="COUNT",
    default="65536",
    show_default=True,
    help="Of uuid_sequence_nextval: rows of a block.",
)
@click.option(
    "--block-count", metavar="COUNT", default="65536", show_default=True, help="Of uuid_sequence_nextval: blocks."
)
@click.option(
    "--interval-length",
    metavar="SECONDS",
    default="60",
    show_default=True,
    help="Of uuid_time_nextval: seconds of a block.",
)
@click.option(
    "--interval-count", metavar="COUNT", default="65536", show_default=True, help="Of uuid_time_nextval: blocks."
)
@format_option
def lab_model(keys: str | None, output: str, **given: Any) -> None:
    """What an insert costs, by calculation: pages, full-page images, WAL, buffer misses, index size.

    The formulas and how far they are from measurement: docs/model.md.
    """
    conditions = conditions_of(**given)
    kinds = [kind.name for kind in kinds_named(keys, USUAL_KINDS)] if keys is not None else None
    section = prediction_section(conditions, kinds)
    show_sections([section], output, section.records())


def conditions_of(
    rows: str,
    rate: str,
    memory: str,
    checkpoint: str,
    block_size: str,
    block_count: str,
    interval_length: str,
    interval_count: str,
) -> Conditions:
    """The conditions in a command line; what is out of range is an error that names the range."""
    return Conditions(
        rows=parse_count(rows, "--rows", 1, 10**15),
        rate=parse_count(rate, "--rate", 1, 10**9),
        memory_bytes=parse_bytes(memory, "--memory", 2**20),
        checkpoint=parse_duration(checkpoint, "--checkpoint", 1),
        block_size=parse_count(block_size, "--block-size", 1, 2**31 - 1),
        block_count=parse_count(block_count, "--block-count", 1, 2**31 - 1),
        interval_length=parse_count(interval_length, "--interval-length", 1, 2**31 - 1),
        interval_count=parse_count(interval_count, "--interval-count", 1, 2**31 - 1),
    )
