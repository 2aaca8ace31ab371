"""inorder lab compare: two results of one experiment; exit code 3 on a regression."""

import re
import sys
from pathlib import Path

import click

from inorder.commands.options import FILE, format_option
from inorder.commands.show import show_sections
from inorder.errors import REGRESSION, InputError
from inorder.lab.analysis.compare import WORSE, compare, not_compared, surroundings
from inorder.lab.journal import load
from inorder.lab.results import shortened
from inorder.report.compare import compare_records, compare_section


def parse_threshold(text: str) -> float:
    """A share: 10%, 10 % or 0.1.

    >>> parse_threshold("10%"), parse_threshold("0.1"), parse_threshold("0")
    (0.1, 0.1, 0.0)
    >>> parse_threshold("10")
    Traceback (most recent call last):
    inorder.errors.InputError: --threshold is not from 0 % to less than 100 %: '10'
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(%?)", text.strip())
    share = float(match[1]) / (100 if match[2] else 1) if match else 1.0
    if share >= 1:
        raise InputError(f"--threshold is not from 0 % to less than 100 %: {text!r}")
    return share


@click.command("compare")
@click.argument("a", type=FILE)
@click.argument("b", type=FILE)
@click.option(
    "--threshold", metavar="PERCENT", default="10%", show_default=True, help="How much worse is a regression."
)
@format_option
def lab_compare(a: Path, b: Path, threshold: str, output: str) -> None:
    """Compare two results of one experiment: B against A.

    Exit code 3 if B is worse by more than the threshold and the interval supports it.
    """
    first, second, limit = load(a), load(b), parse_threshold(threshold)
    try:
        found = compare(first, second, limit)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise InputError(f"{a} or {b} is damaged: {type(error).__name__} {shortened(error)}") from error
    section = compare_section(found, limit, surroundings(first, second), not_compared(first, second))
    show_sections([section], output, compare_records(found))
    if any(one.verdict == WORSE for one in found):
        sys.exit(REGRESSION)
