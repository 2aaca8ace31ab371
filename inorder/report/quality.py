"""Outliers and drifts as a table, to be shown under those of any experiment."""

from inorder.lab.analysis.quality import Finding, findings
from inorder.lab.analysis.stats import ERROR
from inorder.lab.keys import KEY_KINDS
from inorder.lab.results import CHECKPOINT_WAL, Result
from inorder.report.section import Column, Section, Value, data_only


def percent(value: Value) -> str:
    """With its sign.

    >>> percent(-12.34), percent(5.0)
    ('-12 %', '+5 %')
    """
    return "" if value is None or not isinstance(value, float) else f"{value:+.0f} %"


def row_of(finding: Finding) -> list[Value]:
    """One finding."""
    label = KEY_KINDS[finding.kind].label if finding.kind in KEY_KINDS else finding.kind
    where = f"{finding.step}, {label}" + (f", {finding.rows:,} rows" if finding.rows else "")
    which = finding.what if finding.round is None else f"{finding.what} in round {finding.round}"
    place: list[Value] = [finding.step, finding.kind, finding.rows, finding.round]
    return [*place, where, which, finding.metric, finding.percent, finding.next_step]


def quality_sections(result: Result, checkpoints: bool = False) -> list[Section]:
    """One section if anything was found, else none."""
    rows = [row_of(finding) for finding in findings(result, checkpoints)]
    if not rows:
        return []
    return [
        Section(
            "quality",
            "Outliers, drifts and checkpoints to check",
            (
                *map(data_only, ("step", "kind", "rows", "round")),
                Column("where", "step, kind and rows"),
                Column(
                    "what",
                    "an outlier by median absolute deviation, a drift by Mann-Kendall over the rounds, "
                    f"or a checkpoint that came by itself after {CHECKPOINT_WAL / 2**30:.0f} GB of WAL",
                ),
                Column("of", "the metric"),
                Column(
                    "by", "outlier: from the kind's median; drift: from the first round to the last", percent, "percent"
                ),
                Column("next", "what to do", wrap=True),
            ),
            rows,
            f"On plain noise {100 * ERROR:.0f} reports in 100 note an outlier, and as many a drift.",
        )
    ]
