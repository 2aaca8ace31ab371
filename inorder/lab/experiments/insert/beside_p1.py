"""What study P1 has beside TPS: latencies, what the device did, how many times as fast as random keys."""

from collections.abc import Sequence

from inorder.lab.analysis.figures import Metric, median_of, per, ratio_of
from inorder.lab.experiments.insert import studies
from inorder.lab.experiments.insert.plan import InsertPlan
from inorder.lab.insert_tables import INSERT
from inorder.lab.keys import KEY_KINDS
from inorder.lab.results import Result
from inorder.report.section import Column, Section, Value, figures, number, ratio
from inorder.units import MB

RANDOM = "random_char"
RANDOM_KINDS = (RANDOM, "random_ossp")  # those of the study are of uuid-ossp
SMALLEST = 10_000  # rows that may stand beside a study's empty table


def rows_beside(published: int, plan: InsertPlan) -> int | None:
    """The size of table here that stands beside one of the study's; of its empty table the smallest, if small enough.

    >>> rows_beside(0, InsertPlan(rows=(5000, 10**6))), rows_beside(0, InsertPlan(rows=(10**6,)))
    (5000, None)
    """
    return published or (min(plan.rows) if min(plan.rows) <= SMALLEST else None)


LATENCY = (
    Column("key", "Kind of key, and of index where it is no primary key."),
    Column("rows", "Rows in the study's table.", number()),
    Column("published", "Milliseconds of a transaction in study P1 (pgbench).", number(3), bar=True),
    Column("its INSERT", "Milliseconds of the INSERT in it, as pgbench printed them.", number(3)),
    Column("here", "Milliseconds of a transaction here.", number(3), bar=True),
)


def latency_section(result: Result, plan: InsertPlan) -> Section:
    """Mean latencies beside the study's."""
    table: list[list[Value]] = []
    for (kind, rows), (transaction, insert) in studies.INSERT_LATENCY_MS.items():
        here = rows_beside(rows, plan)
        found = median_of(result, INSERT, kind, "latency_ms", here) if here else None
        table.append([KEY_KINDS[kind].label, rows, transaction, insert, found])
    return Section("published_latency", "Beside study P1: latency", LATENCY, table, commits(plan))


def commits(plan: InsertPlan) -> str:
    """Whether latencies include a flush, as the study's do."""
    wait = "wait" if plan.synchronous_commit == "on" else "do not wait"
    return f"Commits {wait} for the disk here, and waited in the study (--synchronous-commit on)."


DEVICE: tuple[tuple[str, str, Metric], ...] = (
    ("writes per second", "device_writes_per_s", "device_writes_per_s"),
    ("MB written per second", "device_written_per_s", per("device_written_per_s", MB)),
    ("requests in the queue", "device_queue", "device_queue"),
    ("ms a request", "device_await_ms", "device_await_ms"),
    ("% busy", "device_busy_percent", "device_busy_percent"),
)


def device_section(result: Result, plan: InsertPlan) -> Section:
    """What iostat showed while random keys came, and /proc/diskstats here."""
    columns = [
        Column("", "What of the device.", data="what"),
        Column("published", "iostat in study P1 while random keys came.", figures),
        *(
            Column(KEY_KINDS[kind].label, "The same here (/proc/diskstats), into the smallest table.", figures, kind)
            for kind in RANDOM_KINDS
        ),
    ]
    table: list[list[Value]] = []
    for label, name, metric in DEVICE:
        published = studies.INSERT_IOSTAT[name] / (MB if name == "device_written_per_s" else 1)
        here = (median_of(result, INSERT, kind, metric, min(plan.rows)) for kind in RANDOM_KINDS)
        table.append([label, published, *here])
    return Section("published_device", "Beside study P1: the device", columns, table, terminal=False)


FOLDS = (
    Column("key", "Kind of key."),
    Column("published", "How many times as fast as random keys study P1 calls it, with 100 M rows.", number()),
    Column("its table", "The same of the TPS in its table.", number(2)),
    Column("rows", "The largest table here.", number()),
    Column("here", "Ratio to random keys here, in the same round.", ratio),
)


def folds_section(result: Result, plan: InsertPlan) -> Section:
    """How many times as fast as random keys, with the most rows."""
    largest = max(plan.rows)
    tps = {kind: by_rows[studies.INSERT_FOLD_ROWS] for kind, by_rows in studies.INSERT_TPS.items()}
    table: list[Sequence[Value]] = [
        [KEY_KINDS[kind].label, fold, tps[kind] / tps[RANDOM], largest,
         ratio_of(result, INSERT, kind, RANDOM, "tps", largest)]
        for kind, fold in studies.INSERT_FOLDS.items()
    ]  # fmt: skip
    return Section("published_folds", "Beside study P1: times as fast as random keys", FOLDS, table)
