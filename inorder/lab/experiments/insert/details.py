"""What the insert experiment reports beside speed: latencies, what is in the WAL, blocks touched, the device."""

from collections.abc import Sequence

from inorder.lab.analysis.figures import Row, median, median_of, per
from inorder.lab.experiments.insert.pictures import latency_chart
from inorder.lab.experiments.insert.plan import InsertPlan
from inorder.lab.experiments.insert.summary import KindSummary
from inorder.lab.insert_tables import INSERT
from inorder.lab.keys import KEY_KINDS
from inorder.lab.report.section import Column, Figure, Section, Value, number
from inorder.lab.results import Result
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


def details_sections(result: Result, rows: int, kinds: Sequence[KindSummary]) -> list[Section]:
    """Every kind at one size of table; nothing where none of it was measured."""
    found = [
        (kind, {one.data: one.value(Row(result, INSERT, kind.kind, kind.rows)) for one in DETAILS}) for kind in kinds
    ]
    if not any(value for _, values in found for value in values.values()):
        return []
    seen = any(values["record_bytes_per_row"] and values["image_bytes_per_row"] for _, values in found)
    return [
        Section(
            f"details_{rows}",
            f"What one insert into {rows:,} rows costs: latency in ms, WAL, blocks, device",
            (Column("key", "Kind of key of the table.", data="label"), *DETAILS),
            [[kind.label, *values.values()] for kind, values in found],
            "" if seen else "WAL and blocks: this run did not read its WAL.",
            charts=[
                latency_chart([(kind, [values[name] for name in PERCENTILES]) for kind, values in found],
                              tuple(PERCENTILES.values())),
            ],
        )
    ]  # fmt: skip


def clients_sections(result: Result, plan: InsertPlan) -> list[Section]:
    """Inserts per second by number of sessions, at each size, where there was more than one number."""
    if len(plan.clients) < 2:
        return []
    columns = [
        Column("key", "Kind of key of the table."),
        Column("rows", "Rows in the table.", number()),
        *(Column(f"{count} clients", "Inserts per second.", number(), bar=True) for count in plan.clients),
    ]
    table: list[list[Value]] = []
    for rows in sorted(plan.rows):
        for kind in plan.variants:
            some = [median_of(result, step, kind, "tps", rows) for step in plan.steps.values()]
            if any(some):
                table.append([KEY_KINDS[kind].label, rows, *some])
    return [Section("clients", "Inserts per second by number of clients", columns, table)] if table else []
