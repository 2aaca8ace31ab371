"""The reuse experiment as sections: the size of the index while rows come and go."""

from inorder.lab.experiments.reuse import DELETED, KINDS, OLDEST
from inorder.lab.results import Result
from inorder.lab.stats import estimate
from inorder.report.plots import Line, line_chart
from inorder.report.section import Chart, Column, Section, Value, number

COLUMNS = (
    Column("key", "Kind of key."),
    Column("filled", "Size of the index after the first fill (pg_relation_size).", number(1, "MB")),
    Column("end", "Its size after the last turn.", number(1, "MB")),
    Column("ratio", "The size at the end to that after the fill; the number of rows is the same.", number(2)),
    Column("leaf", "How full the leaf pages are after the last turn (pgstatindex).", number(0, "%")),
    Column("freed", "Pages that VACUUM found empty and took out of the index, all turns together.", number(0)),
    Column("reused", "Of these, pages that new keys have taken again by the end.", number(0)),
    Column("WAL/row", "Bytes of write-ahead log of insert, delete and VACUUM for each new row, with a checkpoint "
           "before each turn (pg_stat_wal).", number(0, "B")),
    Column("wraps", "How often the key's prefix came back to its beginning.", number(1)),
)  # fmt: skip
DRAWN = {"sequence_on": "sequence dashed"}  # in the colour of the kind that wraps


def value(result: Result, step: str, kind: str, metric: str, divisor: str = "", scale: float = 1.0) -> float | None:
    """The median over rounds of a metric, or of its ratio to another; None if it was not measured."""
    runs = [run.metrics for run in result.select(step, kind) if metric in run.metrics]
    found = [run[metric] / (run[divisor] if divisor else scale) for run in runs]
    return estimate(found).median if found else None


def row(result: Result, step: str, kind: str) -> list[Value]:
    """One line of the table."""
    return [
        KINDS[kind],
        value(result, step, kind, "index_bytes_filled", scale=2**20),
        value(result, step, kind, "index_bytes", scale=2**20),
        value(result, step, kind, "index_bytes", "index_bytes_filled"),
        value(result, step, kind, "leaf_density"),
        value(result, step, kind, "pages_freed"),
        value(result, step, kind, "pages_taken_again"),
        value(result, step, kind, "wal_bytes", "inserts"),
        value(result, step, kind, "wraps"),
    ]


def size_chart(result: Result, step: str) -> Chart:
    """Index size over turns, of the first round measured."""
    lines = []
    for kind, label in KINDS.items():
        runs = result.select(step, kind)
        if runs and "index_bytes" in runs[0].series:
            points = tuple((float(turn), size / 2**20) for turn, size in enumerate(runs[0].series["index_bytes"]))
            lines.append(Line(label, points, f"kind-{DRAWN.get(kind, kind)}"))
    title = f"Index size, deleting {DELETED[step]}"
    return Chart(f"{title}: after the fill and after each turn", line_chart(title, "turn", "MB", lines))


def caption(result: Result, step: str) -> str:
    """What to look at, and what is missing."""
    told = (
        "Pages whose rows are all deleted are freed, and any kind takes them again."
        if step == OLDEST
        else "Pages are left half empty: room that only keys which come back into the range can use."
    )
    known = any("leaf_density" in run.metrics for run in result.select(step))
    return told if known else f"{told} The server has no pgstattuple: leaf density is not known."


def reuse_headline(result: Result) -> str:
    """How much each index has grown, in each way to delete; sizes are exact."""
    told = []
    for step, deleted in DELETED.items():
        grown = {label: value(result, step, kind, "index_bytes", "index_bytes_filled") for kind, label in KINDS.items()}
        known = [f"{label} {ratio:.1f}" for label, ratio in grown.items() if ratio]
        if known:
            told.append(f"if {deleted} go: {', '.join(known)}")
    turns = result.plan.get("turns")
    return f"Times as large after {turns} turns, with as many rows, is the index {'; '.join(told)}." if told else ""


def reuse_sections(result: Result) -> list[Section]:
    """A table and a chart for each way to delete, as far as it is measured."""
    sections = []
    for step, deleted in DELETED.items():
        kinds = [kind for kind in KINDS if result.select(step, kind)]
        if not kinds:
            continue
        rows = result.select(step, kinds[0])[0].rows
        turns = result.plan.get("turns")
        sections.append(
            Section(
                f"reuse_{step}",
                f"{rows:,} rows while {turns} times a tenth "
                f"comes, and {deleted} go",
                COLUMNS,
                [row(result, step, kind) for kind in kinds],
                caption(result, step),
                [size_chart(result, step)],
            )
        )
    return sections
