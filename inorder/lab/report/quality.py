"""The warning about outliers and checkpoints among the measurements of a result."""

from collections.abc import Sequence

from inorder.lab.analysis.quality import outliers, with_checkpoint
from inorder.lab.plan.keys import KEY_KINDS
from inorder.lab.report.section import Column, Section
from inorder.lab.results.result import CHECKPOINT_WAL, Result, Run
from inorder.text import plural

SHOWN = 3  # this number of measurements is listed in a warning, and the remaining ones are counted


def where(runs: Sequence[Run]) -> str:
    """Return a list of measurements by step, kind, rows and round.

    >>> where([Run("fill", "v7", 90, number, {}) for number in range(1, 5)])
    'fill, version 7, 90 rows, round 1; fill, version 7, 90 rows, round 2; fill, version 7, 90 rows, round 3; 1 more'
    >>> where([Run("together", "lock", 1, 2, {})])
    'together, lock, 1 row, round 2'
    """
    places = [
        f"{run.step}, {KEY_KINDS[run.kind].label if run.kind in KEY_KINDS else run.kind}"
        + (f", {plural(run.rows, 'row')}" if run.rows else "") + f", round {run.round}"
        for run in runs[:SHOWN]
    ]  # fmt: skip
    return "; ".join([*places, *([f"{len(runs) - SHOWN} more"] if len(runs) > SHOWN else [])])


def quality_sections(result: Result, checkpoints: bool = False) -> list[Section]:
    """Return the warning, if any. JSON and CSV include it, so that programs do not mistake an outlier for a figure."""
    words = {
        "These measurements are outliers (run more rounds on a quiet machine)": outliers(result),
        f"These measurements had a checkpoint after {CHECKPOINT_WAL / 2**30:.0f} GB of WAL (use a shorter time or "
        "fewer rows)": with_checkpoint(result, checkpoints),
    }  # fmt: skip
    warnings = [f"{text}: {where(runs)}." for text, runs in words.items() if runs]
    columns = [Column("warning", "", wrap=True)]
    return [Section("quality", "Warning", columns, [[" ".join(warnings)]])] if warnings else []
