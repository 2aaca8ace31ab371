"""inorder lab compare: two results of one experiment; exit code 3 on a regression."""

import re
import sys
from pathlib import Path

import click

from inorder.commands.options import show_option
from inorder.commands.show import show_sections
from inorder.errors import FOUND, InputError
from inorder.lab.analysis.compare import WORSE, compare, not_compared, surroundings
from inorder.lab.experiments import experiment_named
from inorder.lab.journal import load
from inorder.lab.report.compare import compare_records, compare_section
from inorder.lab.results import shortened
from inorder.options import FILE, Value, option


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
