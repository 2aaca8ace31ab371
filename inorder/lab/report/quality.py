"""Outliers and drifts as a table, to be shown under those of any experiment."""

from operator import attrgetter

from inorder.lab.analysis.quality import Finding, findings
from inorder.lab.analysis.stats import ERROR
from inorder.lab.keys import KEY_KINDS
from inorder.lab.report.section import Figure, Section, data_only, number, table
from inorder.lab.results import CHECKPOINT_WAL, Result


def where(finding: Finding) -> str:
    label = KEY_KINDS[finding.kind].label if finding.kind in KEY_KINDS else finding.kind
    return f"{finding.step}, {label}" + (f", {finding.rows:,} rows" if finding.rows else "")


FIGURES = (
    *(data_only(name, attrgetter(name)) for name in ("step", "kind", "rows", "round")),
    Figure("where", "step, kind and rows", value=where),
    Figure("what", "an outlier by median absolute deviation, a drift by Mann-Kendall over the rounds, or a checkpoint "
           f"that came by itself after {CHECKPOINT_WAL / 2**30:.0f} GB of WAL",
           value=lambda one: one.what if one.round is None else f"{one.what} in round {one.round}"),
    Figure("of", "the metric", value=attrgetter("metric")),
    Figure("by", "outlier: from the kind's median; drift: from the first round to the last",
           number(0, "%", sign="+"), "percent", value=attrgetter("percent")),
    Figure("next", "what to do", wrap=True, value=attrgetter("next_step")),
)  # fmt: skip


def quality_sections(result: Result, checkpoints: bool = False) -> list[Section]:
    """One section if anything was found, else none."""
    found = findings(result, checkpoints)
    note = f"On plain noise {100 * ERROR:.0f} reports in 100 note an outlier, and as many a drift."
    return [table("quality", "Outliers, drifts and checkpoints to check", FIGURES, found, note)] if found else []
