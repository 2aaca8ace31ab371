"""inorder lab compare: two results of one experiment; exit code 3 on a regression."""

import re
import sys
from collections.abc import Sequence
from dataclasses import fields
from math import isinf
from operator import attrgetter as of
from pathlib import Path
from typing import Any

import click

from inorder.commands.options import show_option
from inorder.commands.show import show_sections
from inorder.errors import FOUND, InputError
from inorder.lab.analysis.compare import FEW, TOO_FEW_IMAGES, WORSE, Comparison, compare, not_compared, surroundings
from inorder.lab.analysis.model import FEW_IMAGES
from inorder.lab.analysis.stats import LEAST_ROUNDS
from inorder.lab.experiments import experiment_named
from inorder.lab.journal import load
from inorder.lab.keys import KEY_KINDS
from inorder.lab.report.section import Figure, Section, number, parts, table
from inorder.lab.results import shortened
from inorder.options import FILE, Value, option
from inorder.units import short

SHORT = {"wal_bytes": "WAL", "full_page_images": "FPI", "index_reads": "reads", "touched_blocks": "blocks"}


significant = number(lambda size: 0 if size >= 1000 else ".4g")


def where(one: Comparison) -> str:
    label = KEY_KINDS[one.kind].label if one.kind in KEY_KINDS else one.kind
    return f"{one.step}, {label}" + (f", {short(one.rows)}" if one.rows else "")


FIGURES = (
    Figure("where", "step, kind and rows", value=where),
    Figure("metric", "counters are per row or transaction if the name has it",
           value=lambda one: SHORT.get(one.metric, one.metric) + (f"/{one.per}" if one.per else "")),
    Figure("A", "median", significant, value=of("a")),
    Figure("B", "median", significant, value=of("b")),
    Figure("B/A", "Hodges-Lehmann, with the interval of the Mann-Whitney test", number(2, interval=True),
           value=of("ratio")),
    Figure("verdict", "what the interval supports", value=of("verdict")),
)  # fmt: skip


def compare_records(found: Sequence[Comparison]) -> list[dict[str, Any]]:
    """The ratio becomes three columns, empty where A had none of it: JSON knows no infinity."""
    return [
        {
            name: None if isinstance(part, float) and isinf(part) else part
            for field in fields(one)
            for name, part in parts(field.name, getattr(one, field.name))
        }
        for one in found
    ]


def compare_section(
    found: Sequence[Comparison], threshold: float, surroundings: Sequence[str], left_out: Sequence[str] = ()
) -> Section:
    caption = (
        f"worse, better: the whole interval is more than {100 * threshold:g} % beyond 1. The interval is of these "
        "measurements; what changed between the two runs besides, the machine's load for instance, is not in it."
    )
    if any(one.verdict == FEW for one in found):
        caption += (
            f" With fewer than {LEAST_ROUNDS} samples on either side nothing is called worse or better, but for rows "
            "lost, doubled or misplaced in only one of the two."
        )
    if any(one.verdict == TOO_FEW_IMAGES for one in found):
        caption += f" {TOO_FEW_IMAGES}: no measurement of either had more than {FEW_IMAGES} and one for each session."
    if any(one.per for one in found):
        caption += (
            " Counters per row or transaction depend on how many a measurement has between its checkpoint and its end: "
            "a slower one has more for each."
        )
    if left_out:
        caption += f" Not compared: {', '.join(left_out)}."
    title = f"B against A: {sum(one.verdict == WORSE for one in found)} of {len(found)} worse"
    return table("compare", title, FIGURES, found, " ".join([caption, *(f"{what}." for what in surroundings)]))


def share(text: str, option: str) -> float:
    """A share: 10%, 10 % or 0.1.

    >>> share("10%", "--threshold"), share("0.1", "--threshold"), share("0", "--threshold")
    (0.1, 0.1, 0.0)
    >>> share("10", "--threshold")
    Traceback (most recent call last):
    inorder.errors.InputError: --threshold is not from 0 % to less than 100 %: '10'
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(%?)", text.strip())
    found = float(match[1]) / (100 if match[2] else 1) if match else 1.0
    if found >= 1:
        raise InputError(f"{option} is not from 0 % to less than 100 %: {text!r}")
    return found


@click.command("compare")
@click.argument("a", type=FILE)
@click.argument("b", type=FILE)
@option("--threshold", "limit", type=Value("PERCENT", share, "{:%}".format), default="10%",
        help="How much worse is a regression.")  # fmt: skip
@show_option
def lab_compare(a: Path, b: Path, limit: float, output: str) -> None:
    """Compare two results of one experiment: B against A.

    Exit code 3 if B is worse by more than the threshold and the interval supports it.
    """
    first, second = load(a), load(b)
    try:
        figures = experiment_named(first.experiment).compared_by()
        found = compare(first, second, limit, figures)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise InputError(f"{a} or {b} is damaged: {type(error).__name__} {shortened(error)}") from error
    section = compare_section(found, limit, surroundings(first, second), not_compared(first, second, figures))
    show_sections([section], output, compare_records(found))
    if any(one.verdict == WORSE for one in found):
        sys.exit(FOUND)
