"""``inorder choose``: options, checks and output."""

import json
from math import inf
from typing import Any

import click

from inorder.choose.choice import DAY, FOREVER, MASKED, NONE, READERS, Candidate, Choice, Needs, choice_for
from inorder.errors import InputError
from inorder.lab.plan.keys import KEY_KINDS
from inorder.options import Value, count, duration, format_option, option, size
from inorder.text import aligned_table
from inorder.units import parse_duration, size_text, time_text

ALWAYS = "always"


def hidden(text: str, option: str) -> float:
    """Parse a precision of time in seconds. 'always' is infinite."""
    return inf if text == ALWAYS else parse_duration(text, option, 0, FOREVER)


@click.command("choose", epilog="Example: inorder choose --rate 5000 --retention 90d --hide 1h --reader feed")
@option("--rows", type=count(1, 10**15), help="Rows in the table.  [default: --rate times --retention]")
@option("--rate", type=count(1, 10**9), default="1000", help="Rows inserted per second.")
@option("--retention", type=duration(1, FOREVER), help="Age at which rows are deleted, such as 90d.  [default: never]")
@option("--memory", "memory_bytes", type=size(2**20), default="1GB", help="Memory that holds pages of this index.")
@option(
    "--hide", type=Value("DURATION", hidden, str), default="0",
    help=f"Highest precision at which keys may reveal their creation time, such as 1h; {ALWAYS}: not at all.",
)  # fmt: skip
@option("--reader", type=click.Choice(READERS), default=NONE,
        help="How new rows are read in batches, if at all: by a feed, or by polling for greater keys.")  # fmt: skip
@option("--guessable", is_flag=True, help="Sequential, guessable ids are acceptable.")
@option("--checkpoint", type=duration(1), default="5min", help="Time between two checkpoints.")
@option("--explain", is_flag=True, help="Show what each kind costs: pages touched, full-page images, WAL, pages read.")
@format_option(["table", "json"])
def choose(output: str, explain: bool, **requirements: Any) -> None:
    """Choose a kind of key for a table: the cheapest that meets the requirements, its parameters, and the reasons.

    Costs are calculated; no server is needed. docs/choose.md has the rules, the limits and the model.
    """
    needs = needs_of(**requirements)
    choice = choice_for(needs)
    text = json.dumps(as_data(choice, needs), indent=1) if output == "json" else as_text(choice, needs, explain)
    click.echo(text)


def needs_of(rows: int | None, rate: int, retention: float | None, **more: Any) -> Needs:
    if rows is None and retention is None:
        raise InputError("the number of rows is unknown; HINT: Give --rows or --retention.")
    most = rate * retention if retention is not None else inf
    if rows is not None and rows > most:
        raise InputError(f"--rows {rows:,} exceeds --rate times --retention, which is {most:,.0f}")
    return Needs(most if rows is None else rows, rate, retention=retention, **more)


def record(candidate: Candidate, needs: Needs) -> dict[str, Any]:
    size, count, wrap = (
        (candidate.blocks.size, candidate.blocks.count, candidate.blocks.wrap_seconds)
        if candidate.blocks
        else (None,) * 3
    )
    return {
        "kind": candidate.kind,
        "column": "id " + candidate.column,
        "block_size": size,
        "block_count": count,
        "wrap_seconds": wrap,
        "index_bytes": candidate.predicted.index_bytes,
        "leaf_pages_touched": candidate.predicted.leaf_pages_touched,
        "images_per_row": candidate.predicted.images_per_row,
        "image_bytes_per_row": candidate.predicted.image_bytes_per_row,
        "wal_bytes_per_row": candidate.wal_per_row,
        "wal_bytes_per_day": candidate.wal_per_row * needs.rate * DAY,
        "index_pages_read_per_row": candidate.predicted.misses_per_row,
        "io_bytes_per_row": candidate.io_per_row,
        "leaf_density": candidate.predicted.leaf_density,
        "against": candidate.against,
        "mask": MASKED[candidate.kind] if candidate.is_masked else None,
    }


def as_data(choice: Choice, needs: Needs) -> dict[str, Any]:
    return {
        "chosen": record(choice.chosen, needs),
        "reasons": choice.reasons,
        "others": [record(candidate, needs) for candidate in choice.alternatives],
    }


HEAD = ("key", "block", "wrap", "index", "WAL a day", "reads/row", "I/O/row", "")


def line(candidate: Candidate, choice: Choice, needs: Needs) -> tuple[str, ...]:
    unit = " s" if candidate.kind == "time" else ""
    ratio = candidate.io_per_row / choice.chosen.io_per_row
    return (
        KEY_KINDS[candidate.kind].label,
        f"{candidate.blocks.size:,}{unit}" if candidate.blocks else "",
        time_text(candidate.blocks.wrap_seconds) if candidate.blocks else "",
        size_text(candidate.predicted.index_bytes),
        size_text(candidate.wal_per_row * needs.rate * DAY),
        f"{candidate.predicted.misses_per_row:.2f}",
        f"{candidate.io_per_row:,.0f} B",
        candidate.against
        or ("chosen" if candidate is choice.chosen else f"{ratio:.2f} times the I/O")
        + ", given out as a mask" * candidate.is_masked,
    )


EXPLAINED = ("key", "pages", "FPI/row", "WAL/row", "images", "WAL/s", "reads/row", "leaf")


def explained(candidate: Candidate, needs: Needs) -> tuple[str, ...]:
    return (
        KEY_KINDS[candidate.kind].label,
        f"{candidate.predicted.leaf_pages_touched:,.0f}",
        f"{candidate.predicted.images_per_row:.4f}",
        f"{candidate.wal_per_row:,.0f} B",
        f"{candidate.predicted.image_bytes_per_row:,.0f} B",
        size_text(candidate.wal_per_row * needs.rate),
        f"{candidate.predicted.misses_per_row:.3f}",
        f"{candidate.predicted.leaf_density:.0f} %",
    )


def explanation(choice: Choice, needs: Needs) -> list[str]:
    lines = [EXPLAINED, *(explained(candidate, needs) for candidate in (choice.chosen, *choice.alternatives))]
    rows = needs.rate * needs.checkpoint
    title = f"Leaf pages touched by {rows:,.0f} rows between two checkpoints, and full-page images of these pages"
    return ["", title, *aligned_table(lines, range(1, len(EXPLAINED)))]


def as_text(choice: Choice, needs: Needs, explain: bool) -> str:
    lines = [HEAD, *(line(candidate, choice, needs) for candidate in (choice.chosen, *choice.alternatives))]
    table = aligned_table(lines, range(1, len(HEAD) - 1))
    table += explanation(choice, needs) if explain else []
    setup = ["CREATE SEQUENCE numbers;"] if choice.chosen.kind == "sequence" else []
    title = f"{needs.rows:,.0f} rows, {needs.rate:,.0f} more a second"
    parts = [*setup, f"id {choice.chosen.column}", "", *(f"* {reason}" for reason in choice.reasons), "", title, *table]
    return "\n".join(parts)
