"""What the insert experiment tells beside speed: latencies, what is in the WAL, which blocks were touched, the device;
and the published figures of studies P1 and P3 beside its own."""

from collections.abc import Sequence

from inorder.lab.keys import KEY_KINDS
from inorder.lab.results import Result, Run
from inorder.lab.stats import Estimate, estimate, paired_ratio
from inorder.report import charts, plots, published
from inorder.report.section import Chart, Column, Section, Value, number, percent, ratio, text
from inorder.report.summary import KindSummary, per_insert, variants_of

PERCENTILES = {"p50_ms": "p50", "p90_ms": "p90", "p95_ms": "p95", "p99_ms": "p99", "p99_9_ms": "p99.9"}
BLOCK_BYTES = 8192

DETAILS = (
    Column("key", "Kind of key of the table.", data="label"),
    *(
        Column(
            name, f"Latency below which {name[1:]} % of the transactions stay, ms (pgbench, every tenth logged).",
            number(3), metric, name in ("p50", "p99", "p99.9"),
        )
        for metric, name in PERCENTILES.items()
    ),
    Column("records", "Bytes of WAL records per inserted row without full-page images (pg_waldump --stats).",
           number(0, "B"), "record_bytes_per_row"),
    Column("images", "Bytes of full-page images per inserted row (pg_waldump --stats).",
           number(0, "B"), "image_bytes_per_row"),
    Column("blocks/1000", "Distinct blocks of the index that 1,000 inserts changed: all of a turn's, divided by its "
           "thousands of inserts (pg_waldump --relation).", number(1), "touched_per_1000"),
    Column("busy", "Share of the time in which the device of the index was busy (/proc/diskstats).",
           number(0, "%"), "device_busy_percent"),
    Column("await", "Milliseconds that a request to that device took (/proc/diskstats).",
           number(2, "ms"), "device_await_ms"),
)  # fmt: skip


def median_of(runs: Sequence[Run], metric: str, per: float = 0) -> Estimate | None:
    """The median of a metric over the rounds, for each ``per`` inserts if that is given; None where it is missing."""
    values = [
        run.metrics[metric] * (per / run.metrics["inserts"] if per else 1) for run in runs if metric in run.metrics
    ]
    return estimate(values) if values else None


def detail_row(runs: Sequence[Run], label: str) -> list[Value]:
    """As DETAILS has it."""
    return [
        label,
        *(median_of(runs, metric) for metric in PERCENTILES),
        median_of(runs, "record_bytes", 1),
        median_of(runs, "image_bytes", 1),
        median_of(runs, "touched_blocks", 1000),
        median_of(runs, "device_busy_percent"),
        median_of(runs, "device_await_ms"),
    ]


def wal_stacks(kinds: Sequence[KindSummary], table: Sequence[Sequence[Value]]) -> list[charts.Stack]:
    """Records and images of each kind, where both are known."""
    stacks = []
    for kind, row in zip(kinds, table, strict=True):
        records, images = row[1 + len(PERCENTILES)], row[2 + len(PERCENTILES)]
        if isinstance(records, Estimate) and isinstance(images, Estimate):
            total = records.median + images.median
            stacks.append(charts.Stack(kind.label, (records.median, images.median), f"{total:,.0f} B"))
    return stacks


def maps(result: Result, kinds: Sequence[KindSummary]) -> list[Chart]:
    """Where in its index the last round of each kind wrote."""
    found = []
    for kind in kinds:
        runs = [run for run in result.select("insert", kind.kind, kind.rows) if run.series.get("page_map")]
        sizes = [run.metrics["index_bytes"] for run in result.select("fill", kind.kind, kind.rows)]
        if runs and sizes:
            run = runs[-1]
            counts, touched = run.series["page_map"], int(run.metrics["touched_blocks"])
            blocks = max(int(run.metrics.get("index_blocks", sizes[-1] / BLOCK_BYTES)), touched, len(counts))
            title = f"{kind.label}: blocks of the index written by {run.metrics['inserts']:,.0f} inserts"
            found.append(Chart(title, charts.page_map(title, counts, touched, blocks)))
    return found


def detail_sections(
    result: Result, rows: int, kinds: Sequence[KindSummary], css: dict[str, str]
) -> list[Section]:
    """Every kind at one size of table; nothing where none of it was measured."""
    table = [detail_row(result.select("insert", kind.kind, rows), kind.label) for kind in kinds]
    if not any(value is not None for row in table for value in row[1:]):
        return []
    stacks = wal_stacks(kinds, table)
    curves = [
        (kind.label, [value.median if isinstance(value, Estimate) else None for value in row[1:6]], css[kind.kind])
        for kind, row in zip(kinds, table, strict=True)
        if isinstance(row[1], Estimate)
    ]
    wal, latency = "WAL bytes per inserted row, split", "Latency by percentile"
    return [
        Section(
            f"details_{rows}",
            f"What one insert into {rows:,} rows costs: latency in ms, WAL, blocks, device",
            DETAILS,
            table,
            "" if stacks else "WAL and blocks: this run did not look into its WAL.",
            charts=[
                Chart(wal, charts.stacked_chart(wal, ("records", "full-page images"), stacks)),
                Chart(latency, plots.percentile_chart(latency, "ms", tuple(PERCENTILES.values()), curves)),
                *maps(result, kinds),
            ],
        )
    ]


def clients_sections(result: Result) -> list[Section]:
    """Inserts per second by number of sessions, at each size, where there was more than one number."""
    clients = result.plan.get("clients", 8)  # a single number in files of the first version
    clients = clients if isinstance(clients, list | tuple) else [clients]
    if len(clients) < 2:
        return []
    steps = {count: "insert" if place == 0 else f"insert@{count}" for place, count in enumerate(clients)}
    columns = [
        Column("key", "Kind of key of the table."),
        Column("rows", "Rows in the table.", number()),
        *(Column(f"{count} clients", "Inserts per second.", number()) for count in clients),
    ]
    table: list[list[Value]] = []
    for rows in sorted(result.plan["rows"]):
        for kind in variants_of(result):
            some = [median_of(result.select(step, kind, rows), "tps") for step in steps.values()]
            if any(some):
                table.append([KEY_KINDS[kind].label, rows, *some])
    return [Section("clients", "Inserts per second by number of clients", columns, table)] if table else []


PUBLISHED = (
    Column("key", "Kind of key of the table."),
    Column("rows", "Rows in the table; the study's 0 stands beside the smallest here.", text),
    Column("published", "TPS of study P1: UUIDs as char(32), a spinning disk.", number()),
    Column("vs sequence", "Its ratio to the sequence (int8).", number(2)),
    Column("here", "TPS here.", number()),
    Column("vs bigint", "The ratio to bigint in the same round here.", ratio),
)


def published_section(result: Result) -> list[Section]:
    """Study P1's TPS beside those measured: every cell of its table, empty where it was not run."""
    smallest = min(result.plan["rows"])
    table: list[list[Value]] = []
    for kind, by_rows in published.INSERT_TPS.items():
        for rows, tps in by_rows.items():
            here = smallest if rows == 0 else rows
            runs = result.select("insert", kind, here) if rows or smallest <= 10_000 else []
            table.append([
                KEY_KINDS[kind].label, f"{rows:,}", tps, tps / published.INSERT_TPS["bigint"][rows],
                median_of(runs, "tps"), None if kind == "bigint" else ratio_to_bigint(result, kind, here, runs),
            ])  # fmt: skip
    if not any(row[4] for row in table if row[0] != KEY_KINDS["bigint"].label):
        return []
    return [
        Section("published", "Beside study P1: single inserts with a primary key", PUBLISHED, table,
                "Empty: not run. --full --keys bigint,time_char,random_char runs all of it.", data=False)
    ]  # fmt: skip


def ratio_to_bigint(result: Result, kind: str, rows: int, runs: Sequence[Run]) -> Estimate | None:
    """Paired within rounds; None where one of the two was not run."""
    values = {run.round: per_insert(run, "tps") for run in runs}
    base = {run.round: per_insert(run, "tps") for run in result.select("insert", "bigint", rows)}
    common = sorted(values.keys() & base.keys())
    return paired_ratio([values[n] for n in common], [base[n] for n in common]) if common else None


RELATIVE = (
    Column("key", "Kind of key of the table."),
    Column("published", "TPS of study P3 in its large table, as a share of those in its small one.", number(2)),
    Column("here", "TPS in the largest table here, as a share of those in the smallest.", ratio),
    Column("hits published", "Its share of shared-buffer hits, large.", number(0, "%")),
    Column("hits", "Share of index blocks found in shared buffers in the largest table here.", percent),
    Column("blocks/1000", "Distinct blocks of the index that 1,000 inserts changed there.", number(1)),
)


def relative_section(result: Result) -> list[Section]:
    """Study P3's loss from a small to a large table beside the one measured; kinds that were not run are empty."""
    sizes = sorted(result.plan["rows"])
    if len(sizes) < 2:
        return []
    table: list[list[Value]] = []
    for kind, share in published.SEQUENTIAL_RELATIVE["large"].items():
        small, large = (result.select("insert", kind, rows) for rows in (sizes[0], sizes[-1]))
        rounds = min(len(small), len(large))
        speeds = [[run.metrics["tps"] for run in runs[:rounds]] for runs in (large, small)]
        hits = [100 * run.metrics["index_hits"] / (run.metrics["index_hits"] + run.metrics["index_reads"])
                for run in large if run.metrics["index_hits"] + run.metrics["index_reads"]]  # fmt: skip
        table.append([
            KEY_KINDS[kind].label, share, paired_ratio(*speeds) if rounds else None, published.SEQUENTIAL_HITS[kind],
            estimate(hits).median if hits else None, median_of(large, "touched_blocks", 1000),
        ])  # fmt: skip
    if not any(row[2] for row in table):
        return []
    return [Section("relative", f"Beside study P3: from {sizes[0]:,} to {sizes[-1]:,} rows", RELATIVE, table,
                    "The two sizes were measured at different times. Empty: not run.", data=False)]  # fmt: skip
