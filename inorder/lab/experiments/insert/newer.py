"""Newer measurements by others beside those of the insert experiment, each with its set-up.

The figures are of another table, machine and server each, as their authors print them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from inorder.lab.analysis.figures import last_of, median_of, ratio_of
from inorder.lab.experiments.insert.plan import SIZES, InsertPlan
from inorder.lab.insert_tables import FILL, INSERT
from inorder.lab.keys import KEY_KINDS
from inorder.lab.results import Result
from inorder.report.section import Column, Section, Value, figures, text

Here = Callable[[Result, str, int], Value]
MILLION = 1_000_000


def seconds(result: Result, kind: str, rows: int) -> Value:
    """Of a million inserts, at the speed measured."""
    tps = median_of(result, INSERT, kind, "tps", rows)
    return MILLION / tps.median if tps else None


def size(result: Result, kind: str, rows: int) -> Value:
    """Of table and index, to that of version 7."""
    ours, base = (
        [last_of(result, FILL, one, part, rows) for part in ("table_bytes", "index_bytes")] for one in (kind, "v7")
    )
    return sum(filter(None, ours)) / sum(filter(None, base)) if all(ours) and all(base) else None


def density(result: Result, kind: str, rows: int) -> Value:
    """Of the leaf pages, percent."""
    return last_of(result, SIZES, kind, "leaf_density", rows)


def share(result: Result, kind: str, rows: int) -> Value:
    """Of the speed of bigint in the same round, percent."""
    ratio = ratio_of(result, INSERT, kind, "bigint", "tps", rows)
    return 100 * ratio.median if ratio else None


@dataclass(frozen=True)
class Source:
    """One measurement by others: what it measured, by kind of key what it prints, and how it differs from ours."""

    name: str
    what: str
    figures: dict[str, str]
    here: Here
    setup: str = ""


SOURCES = (
    Source(
        "ardentperf, 2024", "seconds for 1 M inserts", {"random_char": "410", "random": "375", "v7": "290"}, seconds,
        "ardentperf (ardentperf.com, UUID Benchmark War): three columns and two indexes, 20 M rows, then 10 sessions of"
        " 100,000 transactions: an INSERT, and a SELECT by the other index; keys as text, uuid of version 4, and of "
        "version 7 by a patch. Here nobody queries, the table has the key alone, char(32) for text.",
    ),
    Source(
        "ardentperf, 2024", "size to version 7", {"random_char": "1.74", "random": "1.07", "v7": "1"}, size,
        "Its sizes are 4.31, 2.65 and 2.47 GB, with the other columns and indexes of its table.",
    ),
    Source(
        "Atkinson, 2025", "leaf density, %", {"bigint": "97.64", "random": "79.06", "v7": "90.09"}, density,
        "Atkinson (andyatkinson.com, Avoid UUID Version 4 Primary Keys): indexes on three columns of one table of 10 M "
        "rows, after a million updates, which fill pages; here rows are only inserted.",
    ),
    Source(
        "Patel, 2026", "speed to bigserial, %", {"random": "40–50", "v7": "85–95"}, share,
        "Patel (techplained, UUIDv7 vs UUIDv4 vs Serial): 100 M rows on PostgreSQL 18.0, 8 virtual CPUs and 16 GB "
        "(c7i.2xlarge) with a gp3 volume, whose base is 3,000 IOPS; nearest here: --rows 100M --iops 3000.",
    ),
)  # fmt: skip

COLUMNS = (
    Column("source", "Who measured it, and when."),
    Column("what", "What was measured.", text),
    Column("key", "Kind of key.", text),
    Column("published", "As printed there; sizes as a ratio of those printed.", text),
    Column("rows", "Rows in the table here, the largest.", figures),
    Column("here", "The same here.", figures),
)


def newer_section(result: Result, plan: InsertPlan) -> Section:
    """All of them beside the largest table here."""
    rows = max(plan.rows)
    table: list[list[Value]] = [
        [source.name, source.what, KEY_KINDS[kind].label, printed, rows, source.here(result, kind, rows)]
        for source in SOURCES
        for kind, printed in source.figures.items()
    ]
    caption = " ".join([*(source.setup for source in SOURCES), "Compare the direction, not the figures."])
    return Section("newer", "Beside newer measurements", COLUMNS, table, caption, terminal=False)
