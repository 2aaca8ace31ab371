"""What the insert experiment tells beside speed: latencies, what is in the WAL, blocks touched, the device."""

from collections.abc import Mapping, Sequence

from inorder.lab.keys import KEY_KINDS
from inorder.lab.results import Result, Run
from inorder.lab.stats import Estimate, estimate
from inorder.report import charts, plots
from inorder.report.section import Chart, Column, Section, Value, number
from inorder.report.summary import KindSummary, variants_of
from inorder.units import MB

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
    Column("records a turn", "The same bytes of a whole turn, which hold more rows the faster a kind inserts.",
           number(1, "MB"), "record_mb", terminal=False),
    Column("images a turn", "Likewise of full-page images.", number(1, "MB"), "image_mb", terminal=False),
    Column("blocks/1000", "Distinct blocks of the index that 1,000 inserts changed: all of a turn's, divided by its "
           "thousands of inserts (pg_waldump --relation).", number(1), "touched_per_1000"),
    Column("read", "Bytes of tables and indexes read into shared buffers per inserted row, by the whole server "
           "(pg_stat_io, PostgreSQL 16 and later).", number(0, "B"), "read_bytes_per_row", terminal=False),
    Column("written", "Likewise written out of them, without the checkpoint before the turn.",
           number(0, "B"), "written_bytes_per_row", terminal=False),
    Column("busy", "Share of the time in which the device of the index was busy (/proc/diskstats).",
           number(0, "%"), "device_busy_percent"),
    Column("await", "Milliseconds that a request to that device took (/proc/diskstats).",
           number(2, "ms"), "device_await_ms"),
)  # fmt: skip


def median_of(runs: Sequence[Run], metric: str, per: float = 0, scale: float = 1) -> Estimate | None:
    """The median of a metric over the rounds, for each ``per`` inserts if that is given; None where it is missing."""
    values = [
        run.metrics[metric] * (per / run.metrics["inserts"] if per else scale) for run in runs if metric in run.metrics
    ]
    return estimate(values) if values else None


def detail_row(runs: Sequence[Run], label: str) -> list[Value]:
    """As DETAILS has it."""
    return [
        label,
        *(median_of(runs, metric) for metric in PERCENTILES),
        median_of(runs, "record_bytes", 1),
        median_of(runs, "image_bytes", 1),
        median_of(runs, "record_bytes", scale=1 / MB),
        median_of(runs, "image_bytes", scale=1 / MB),
        median_of(runs, "touched_blocks", 1000),
        median_of(runs, "read_bytes", 1),
        median_of(runs, "written_bytes", 1),
        median_of(runs, "device_busy_percent"),
        median_of(runs, "device_await_ms"),
    ]


def column(table: Sequence[Sequence[Value]], data: str) -> list[Estimate | None]:
    """The estimates of one of the DETAILS, by its name in the data."""
    place = [one.data for one in DETAILS].index(data)
    return [value if isinstance(value := row[place], Estimate) else None for row in table]


def wal_stacks(table: Sequence[Sequence[Value]], records: str, images: str, unit: str) -> list[charts.Stack]:
    """Records and images of each kind by two of the DETAILS, where both are known."""
    stacks = []
    for row, one, other in zip(table, column(table, records), column(table, images), strict=True):
        if one and other:
            total = f"{one.median + other.median:,.0f} {unit}"
            stacks.append(charts.Stack(str(row[0]), (one.median, other.median), total))
    return stacks


def wal_chart(title: str, stacks: Sequence[charts.Stack]) -> Chart:
    """Records and full-page images laid end to end."""
    return Chart(title, charts.stacked_chart(title, ("records", "full-page images"), stacks))


def blocks_chart(kinds: Sequence[KindSummary], table: Sequence[Sequence[Value]], css: Mapping[str, str]) -> Chart:
    """Distinct blocks of the index for each 1,000 inserts, of each kind."""
    title = "Distinct index blocks changed by 1,000 inserts"
    some = [(kind, one) for kind, one in zip(kinds, column(table, "touched_per_1000"), strict=True) if one]
    bars = [charts.Bar(k.label, v.median, number(1)(v), css[k.kind], v.low, v.high) for k, v in some]
    return Chart(title, charts.bar_chart(title, bars))


def latency_chart(kinds: Sequence[KindSummary], table: Sequence[Sequence[Value]], css: Mapping[str, str]) -> Chart:
    """A curve of percentiles of each kind."""
    title = "Latency by percentile"
    curves = [
        (kind.label, [value.median if isinstance(value, Estimate) else None for value in row[1 : 1 + len(PERCENTILES)]],
         css[kind.kind])
        for kind, row in zip(kinds, table, strict=True)
        if any(isinstance(value, Estimate) for value in row[1 : 1 + len(PERCENTILES)])
    ]  # fmt: skip
    return Chart(title, plots.percentile_chart(title, "ms", tuple(PERCENTILES.values()), curves))


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
    result: Result, rows: int, kinds: Sequence[KindSummary], css: Mapping[str, str]
) -> list[Section]:
    """Every kind at one size of table; nothing where none of it was measured."""
    table = [detail_row(result.select("insert", kind.kind, rows), kind.label) for kind in kinds]
    if not any(value is not None for row in table for value in row[1:]):
        return []
    by_row = wal_stacks(table, "record_bytes_per_row", "image_bytes_per_row", "B")
    raw = wal_stacks(table, "record_mb", "image_mb", "MB")
    return [
        Section(
            f"details_{rows}",
            f"What one insert into {rows:,} rows costs: latency in ms, WAL, blocks, device",
            DETAILS,
            table,
            "" if by_row else "WAL and blocks: this run did not look into its WAL.",
            charts=[
                wal_chart("WAL bytes per inserted row, split: as if all were equally fast", by_row),
                wal_chart("WAL of a turn in MB, split: a faster kind has inserted more rows", raw),
                blocks_chart(kinds, table, css),
                latency_chart(kinds, table, css),
                *maps(result, kinds),
            ],
        )
    ]


def clients_sections(result: Result) -> list[Section]:
    """Inserts per second by number of sessions, at each size, where there was more than one number."""
    clients = result.clients
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
