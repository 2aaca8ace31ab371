"""What the insert experiment reports beside speed: latencies, WAL, blocks touched, the device, checkpoints by WAL."""

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

from inorder.lab.analysis.figures import median, middle_of, per
from inorder.lab.experiments.insert.plan import InsertPlan
from inorder.lab.experiments.insert.summary import CHECKPOINTS, Line
from inorder.lab.insert_tables import INSERT
from inorder.lab.report.plots import Chart, percentile_chart
from inorder.lab.report.section import Figure, Section, number, table
from inorder.lab.results import Result, Run
from inorder.units import MB

PERCENTILES = {"p50_ms": "p50", "p90_ms": "p90", "p95_ms": "p95", "p99_ms": "p99", "p99_9_ms": "p99.9"}


DETAILS = (
    *(
        Figure(name, f"Latency below which {name[1:]} % of the transactions stay, ms (pgbench, every tenth logged).",
               number(3), metric, name in ("p50", "p99", "p99.9"), value=median(metric),
               better="less" if name in ("p50", "p99", "p99.9") else "")
        for metric, name in PERCENTILES.items()
    ),
    Figure("records", "Bytes of WAL records per inserted row without full-page images (pg_waldump --stats).",
           number(0, "B"), "record_bytes_per_row", bar=True, value=median(per("record_bytes", "inserts"))),
    Figure("images", "Bytes of full-page images per inserted row (pg_waldump --stats).",
           number(0, "B"), "image_bytes_per_row", bar=True, value=median(per("image_bytes", "inserts"))),
    Figure("records, all", "The same bytes of a whole measurement, which hold more rows the faster a kind inserts.",
           number(1, "MB"), "record_mb", terminal=False, value=median(per("record_bytes", MB))),
    Figure("images, all", "Likewise of full-page images.", number(1, "MB"), "image_mb", terminal=False,
           value=median(per("image_bytes", MB))),
    Figure("blocks/1000", "Distinct blocks of the index that 1,000 inserts changed: all of a measurement, divided by "
           "its thousands of inserts (pg_waldump --relation).", number(1), "touched_per_1000", bar=True,
           value=median(per("touched_blocks", "inserts", 1000)), better="less"),
    Figure("read", "Bytes of tables and indexes read into shared buffers per inserted row, by the whole server "
           "(pg_stat_io, PostgreSQL 16 and later).", number(0, "B"), "read_bytes_per_row", terminal=False,
           value=median(per("read_bytes", "inserts"))),
    Figure("written", "Likewise written out of them, without the checkpoint before the measurement.", number(0, "B"),
           "written_bytes_per_row", terminal=False, value=median(per("written_bytes", "inserts"))),
    Figure("busy", "Share of the time in which the device of the index was busy (/proc/diskstats).", number(0, "%"),
           "device_busy_percent", value=median("device_busy_percent")),
    Figure("await", "Milliseconds that a request to that device took (/proc/diskstats).", number(2, "ms"),
           "device_await_ms", value=median("device_await_ms")),
    Figure("requests", "Reads and writes of that device per insert, other programs' included.", number(3),
           "device_requests_per_row", terminal=False, value=median(per("device_requests", "inserts"))),
    Figure("writes/s", "Writes to that device per second.", number(), "device_writes_per_s", terminal=False,
           value=median("device_writes_per_s")),
    Figure("MB/s", "MB written to it per second.", number(1), "device_mb_per_s", terminal=False,
           value=median(per("device_written_per_s", MB))),
    Figure("queue", "Requests that waited for it or were served, on average.", number(2), "device_queue",
           terminal=False, value=median("device_queue")),
)  # fmt: skip


LABEL = Figure("key", "Kind of key of the table.", data="label", value=attrgetter("label"))


def details_sections(rows: int, lines: Sequence[Line]) -> list[Section]:
    found = table(
        f"details_{rows}", f"What one insert into {rows:,} rows costs: latency in ms, WAL, blocks, device",
        (LABEL, *DETAILS), lines, charts=[latency_chart(lines)],
    )  # fmt: skip
    records = found.columns.index(next(one for one in DETAILS if one.name == "records"))
    seen = any(row[records] and row[records + 1] for row in found.rows)
    caption = "" if seen else "WAL and blocks: this run did not read its WAL."
    return [replace(found, caption=caption)] if any(value for row in found.rows for value in row[1:]) else []


def latency_chart(lines: Sequence[Line]) -> Chart:
    curves = [
        (line.label, [middle_of(line.result, INSERT, line.kind, metric, line.rows) for metric in PERCENTILES], line.css)
        for line in lines
    ]
    return percentile_chart("Latency by percentile", "ms", tuple(PERCENTILES.values()), curves)


def clients_sections(result: Result, plan: InsertPlan) -> list[Section]:
    if len(plan.clients) < 2:
        return []
    figures = [Figure("key", "Kind of key of the table.", value=attrgetter("label")),
               Figure("rows", "Rows in the table.", number(), value=attrgetter("rows"))]  # fmt: skip
    figures += [Figure(f"{count} clients", "Inserts per second.", number(), bar=True, value=median("tps", step))
                for count, step in plan.steps.items()]  # fmt: skip
    lines = [Line(result, INSERT, kind, rows) for rows in sorted(plan.rows) for kind in plan.variants]
    lines = [line for line in lines if any(median("tps", step)(line) for step in plan.steps.values())]
    return [table("clients", "Inserts per second by number of clients", figures, lines)] if lines else []


def between(run: Run) -> float | None:
    return run.metrics["inserts"] / (1 + run.metrics[CHECKPOINTS]) if CHECKPOINTS in run.metrics else None


FEEDBACK = (
    Figure("checkpoints", "Checkpoints that WAL caused within a measurement, median of the rounds.", number(1),
           CHECKPOINTS, value=median(CHECKPOINTS)),
    Figure("rows between", "Rows between two checkpoints.", number(), value=median(between)),
    Figure("WAL", "MB of WAL of a measurement.", number(1, "MB"), "wal_mb", value=median(per("wal_bytes", MB))),
    Figure("FPI/row", "Full-page images per row.", number(4), "fpi_per_row",
           value=median(per("full_page_images", "inserts"))),
    Figure("WAL/row", "Bytes of WAL per row.", number(0, "B"), "wal_per_row",
           value=median(per("wal_bytes", "inserts"))),
)  # fmt: skip


def feedback_section(plan: InsertPlan, rows: int, lines: Sequence[Line]) -> Section:
    caption = (
        "Images add WAL, so that the next checkpoint comes after fewer rows, and adds images. Kinds with fewer bytes "
        "per row have fewer checkpoints for as many rows (--inserts). The server counts WAL in segments of 16 MB."
    )
    title = f"Checkpoints by WAL, max_wal_size {(plan.max_wal_size or 0) / MB:,.0f} MB: {rows:,} rows"
    key = Figure("key", "Kind of key.", value=attrgetter("label"))
    speed = Figure("inserts/s", "Median of the rounds.", number(), "tps", value=median("tps"))
    return table(f"checkpoints_{rows}", title, (key, speed, *FEEDBACK), lines, caption)
