"""inorder lab model: what an insert costs by calculation, for tables of any size."""

from collections.abc import Callable
from typing import Any

import click

from inorder.commands.options import format_option
from inorder.commands.show import show_sections
from inorder.lab.analysis.model import Conditions
from inorder.lab.keys import USUAL_KINDS, kinds_named
from inorder.report.model import prediction_section
from inorder.units import parse_bytes, parse_count, parse_duration


def assumed(flag: str, metavar: str, value: str, help: str) -> Callable[[Any], Any]:
    """An option with a usual value."""
    return click.option(flag, metavar=metavar, default=value, show_default=True, help=help)


@click.command("model")
@click.option("--keys", metavar="NAME,…", help="Kinds of key, comma-separated.  [all]")
@assumed("--rows", "COUNT", "100e9", "Rows in the table.")
@assumed("--rate", "COUNT", "20000", "Rows inserted a second.")
@assumed("--memory", "SIZE", "256GB", "Memory that holds pages of this index.")
@assumed("--checkpoint", "DURATION", "5min", "Time between two checkpoints.")
@assumed("--block-size", "COUNT", "65536", "Of uuid_sequence_nextval: rows of a block.")
@assumed("--block-count", "COUNT", "65536", "Of uuid_sequence_nextval: blocks.")
@assumed("--interval-length", "SECONDS", "60", "Of uuid_time_nextval: seconds of a block.")
@assumed("--interval-count", "COUNT", "65536", "Of uuid_time_nextval: blocks.")
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
