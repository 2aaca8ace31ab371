"""The sections of the insert experiment: a table for each size, a comparison of sizes, then other measurements."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, fsum
from operator import attrgetter

from inorder.lab.analysis.figures import by_round, last, median, middle_of, per
from inorder.lab.analysis.model import FEW_IMAGES, Conditions, few_images, predict
from inorder.lab.analysis.quality import has_checkpoint
from inorder.lab.analysis.stats import LEAST_ROUNDS
from inorder.lab.experiments.insert.plan import SIZES, InsertPlan
from inorder.lab.experiments.insert.summary import (
    CHECKPOINTS,
    WAL_PER_ROW,
    KindRow,
    hit_percent,
    lines_of,
    places_of,
    times_memory,
    to_baseline,
)
from inorder.lab.experiments.insert.verdicts import verdicts
from inorder.lab.plan.keys import INDEX_KINDS, KEY_KINDS, USUAL_KINDS
from inorder.lab.plan.turn import Series
from inorder.lab.report import plots
from inorder.lab.report.plots import Axis, Chart, line_chart, percentile_chart
from inorder.lab.report.published import published_sections
from inorder.lab.report.section import Figure, Section, Value, data_only, number, percent, table, to_base
from inorder.lab.results.result import Result, Run
from inorder.lab.tables.insert_tables import INSERT
from inorder.units import MB


def conditions_of(run: Run, memory_bytes: float) -> Conditions:
    """Return the conditions of a measurement, which is one checkpoint interval.

    The sequence has generated as many numbers as the table has rows. A block of time lasts a second here, and has no
    rows at the checkpoint, because all existing rows were inserted in earlier seconds.
    """
    rows, inserts, tps = (run.metrics[name] for name in ("rows_before", "inserts", "tps"))
    conditions = Conditions(rows, tps, memory_bytes, inserts / tps, interval_length=1)
    position = rows % conditions.block_size if run.kind == "sequence" else 0
    return replace(conditions, position=position)


@dataclass(frozen=True)
class Modelled:
    """Measured and modeled figures for a kind of key, summed over all rounds.

    The model is computed for each round, because each round begins with more rows and at another position in a block of
    the sequence. ``few``: no round has enough full-page images, measured or modeled, for a percentage.
    """

    kind: str
    rows: int
    inserts: float
    wal: float
    wal_model: float
    images: float
    images_model: float
    few: bool


def per_row(name: str) -> Callable[[Modelled], Value]:
    return lambda line: float(getattr(line, name)) / line.inserts


COMPARED = (
    Figure("key", "kind of key", data="label", value=lambda line: KEY_KINDS[line.kind].label),
    data_only("rows", attrgetter("rows")),
    Figure("WAL/row", "bytes of WAL per inserted row, measured: all rounds together", number(1, "B"), "wal_per_row",
           bar=True, value=per_row("wal")),
    Figure("WAL\nmodel", "calculated by the model", number(1, "B"), "wal_per_row_model", bar=True,
           value=per_row("wal_model")),
    Figure("WAL\noff", "relative error of the model", number(1, "%", sign="+"), "wal_percent_off",
           value=lambda line: 100 * (line.wal_model / line.wal - 1)),
    Figure("FPI/row", "full-page images per inserted row, measured: all rounds together", number(5), "fpi_per_row",
           bar=True, value=per_row("images")),
    Figure("FPI\nmodel", "calculated by the model", number(5), "fpi_per_row_model", bar=True,
           value=per_row("images_model")),
    Figure("FPI\noff", f"relative error of the model; few: every round has at most {FEW_IMAGES} images, plus one "
           "for each session", number(1, "%", sign="+"), "fpi_percent_off",
           value=lambda line: "few" if line.few else 100 * (line.images_model / line.images - 1)),
)  # fmt: skip


def intervals(result: Result, kind: str, rows: int) -> list[Run]:
    return [
        run for run in result.select(INSERT, kind, rows)
        if {"rows_before", "wal_bytes"} <= run.metrics.keys() and not has_checkpoint(result, run)
        and not run.metrics.get(CHECKPOINTS)
    ]  # fmt: skip


def modelled(plan: InsertPlan, kind: str, rows: int, runs: Sequence[Run]) -> Modelled:
    predictions = [predict(kind, conditions_of(run, plan.memory_bytes)) for run in runs]
    inserts, images = ([run.metrics[name] for run in runs] for name in ("inserts", "full_page_images"))
    images_model = [prediction.images for prediction in predictions]
    wal_model = fsum(prediction.wal_per_row * count for prediction, count in zip(predictions, inserts, strict=True))
    return Modelled(
        kind, rows, sum(inserts), sum(run.metrics["wal_bytes"] for run in runs), wal_model, sum(images),
        fsum(images_model), max(images + images_model) <= few_images(plan.clients),
    )  # fmt: skip


def model_sections(result: Result, plan: InsertPlan) -> list[Section]:
    if result.server.get("checkpoints") is False:
        return []
    sections, few = [], few_images(plan.clients)
    for rows in sorted(plan.rows):
        measured = {kind: intervals(result, kind, rows) for kind in plan.kinds if kind in USUAL_KINDS}
        lines = [modelled(plan, kind, rows, runs) for kind, runs in measured.items() if runs]
        note = f"few: at most {few} images between two checkpoints, which are too few for a percentage."
        caption = note if any(line.few for line in lines) else ""
        section = table(f"model_{rows}", f"Model against measurement, {rows:,} rows", COMPARED, lines, caption)
        sections += [section] if lines else []
    return sections


__all__ = ["sections", "verdicts"]

MOST_SECONDS = 600  # charts of longer runs have a point for the mean of several seconds
LABEL = Figure("key", "Kind of key of the table.", data="label", value=attrgetter("label"))

PERCENTILES = {"p50_ms": "p50", "p90_ms": "p90", "p95_ms": "p95", "p99_ms": "p99", "p99_9_ms": "p99.9"}

DETAILS = (
    *(
        Figure(name, f"Latency percentile in ms: {name[1:]} % of the transactions are faster (one in ten is logged).",
               number(3), metric, name in ("p50", "p99", "p99.9"), value=median(metric))
        for metric, name in PERCENTILES.items()
    ),
    Figure("records", "Bytes of WAL records per inserted row without full-page images (pg_waldump --stats).",
           number(0, "B"), "record_bytes_per_row", bar=True, value=median(per("record_bytes", "inserts"))),
    Figure("images", "Bytes of full-page images per inserted row (pg_waldump --stats).",
           number(0, "B"), "image_bytes_per_row", bar=True, value=median(per("image_bytes", "inserts"))),
    Figure("records, all", "Bytes of WAL records of a measurement. A faster kind inserts more rows, and writes more.",
           number(1, "MB"), "record_mb", terminal=False, value=median(per("record_bytes", MB))),
    Figure("images, all", "Bytes of full-page images of a measurement.", number(1, "MB"), "image_mb", terminal=False,
           value=median(per("image_bytes", MB))),
    Figure("blocks/1000", "Distinct blocks of the index changed in a measurement, per 1,000 inserts "
           "(pg_waldump --relation).", number(1), "touched_per_1000", bar=True,
           value=median(per("touched_blocks", "inserts", 1000))),
    Figure("read", "Bytes of tables and indexes read into shared buffers per inserted row, by the whole server "
           "(pg_stat_io, PostgreSQL 16 and later).", number(0, "B"), "read_bytes_per_row", terminal=False,
           value=median(per("read_bytes", "inserts"))),
    Figure("written", "Bytes written from shared buffers per inserted row, without the checkpoint before the "
           "measurement.", number(0, "B"),
           "written_bytes_per_row", terminal=False, value=median(per("written_bytes", "inserts"))),
    Figure("busy", "Share of the time in which the device of the index was busy (/proc/diskstats).", number(0, "%"),
           "device_busy_percent", value=median("device_busy_percent")),
    Figure("await", "Milliseconds per request to that device (/proc/diskstats).", number(2, "ms"),
           "device_await_ms", value=median("device_await_ms")),
    Figure("requests", "Reads and writes of that device per insert, by all programs.", number(3),
           "device_requests_per_row", terminal=False, value=median(per("device_requests", "inserts"))),
    Figure("writes/s", "Writes to that device per second.", number(), "device_writes_per_s", terminal=False,
           value=median("device_writes_per_s")),
    Figure("MB/s", "MB written to that device per second.", number(1), "device_mb_per_s", terminal=False,
           value=median(per("device_written_per_s", MB))),
    Figure("queue", "Average number of requests to that device, waiting or served.", number(2), "device_queue",
           terminal=False, value=median("device_queue")),
)  # fmt: skip


def details_sections(rows: int, lines: Sequence[KindRow]) -> list[Section]:
    section = table(
        f"details_{rows}", f"What one insert into {rows:,} rows costs: latency in ms, WAL, blocks, device",
        (LABEL, *DETAILS), lines, charts=[latency_chart(lines)],
    )  # fmt: skip
    records = section.columns.index(next(figure for figure in DETAILS if figure.name == "records"))
    has_wal = any(row[records] and row[records + 1] for row in section.rows)
    caption = "" if has_wal else "Records and blocks are missing, because this run did not read its WAL."
    return [replace(section, caption=caption)] if any(value for row in section.rows for value in row[1:]) else []


def latency_chart(lines: Sequence[KindRow]) -> Chart:
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
    lines = [KindRow(result, INSERT, kind, rows) for rows in sorted(plan.rows) for kind in plan.variants]
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


def feedback_section(plan: InsertPlan, rows: int, lines: Sequence[KindRow]) -> Section:
    caption = (
        "Full-page images add WAL: the next checkpoint comes after fewer rows, and causes further images. Kinds with "
        "fewer bytes per row have fewer checkpoints for the same number of rows (--inserts). The server counts WAL in "
        "segments of 16 MB."
    )
    title = f"Checkpoints by WAL, max_wal_size {(plan.max_wal_size or 0) / MB:,.0f} MB: {rows:,} rows"
    key = Figure("key", "Kind of key.", value=attrgetter("label"))
    speed = Figure("inserts/s", "Median of the rounds.", number(), "tps", value=median("tps"))
    return table(f"checkpoints_{rows}", title, (key, speed, *FEEDBACK), lines, caption)


def over_time(result: Result, kinds: Sequence[KindRow]) -> Chart:
    """Return a chart of inserts per second over time, with the checkpoints before and within each round.

    If the runs did not record the speed in each second, the chart has a point for each round.
    """
    y = "inserts per second"
    rounds: dict[int, dict[str, Series]] = {}
    for kind in kinds:
        for run in result.select(INSERT, kind.kind, kind.rows):
            rounds.setdefault(run.round, {})[kind.kind] = run.series
    speeds: dict[str, dict[int, float]] = {kind.kind: {} for kind in kinds}
    ended: dict[str, list[int]] = {kind.kind: [] for kind in kinds}
    marks, start = [], 0
    # In the chart, a round is as wide as its longest run, so that the rounds of all kinds are aligned.
    for _, by_kind in sorted(rounds.items()):
        marks.append(float(start))
        for name, series in by_kind.items():
            speeds[name] |= {start + second: tps for second, tps in enumerate(series.get("tps", []))}
            ended[name] += [start + int(second) - 1 for second in series.get("checkpoints", [])]
        start += max(len(series.get("tps", [])) for series in by_kind.values())
    if start > len(marks):
        interval = ceil(start / MOST_SECONDS)
        lines = [seconds_line(kind, speeds[kind.kind], ended[kind.kind], interval) for kind in kinds]
        resolution = "Second by second" if interval == 1 else f"Means of {interval} seconds"
        marked = "; a diamond marks the end of a checkpoint" if any(ended.values()) else ""
        mark = "a round begins with a checkpoint"
        title = f"{resolution}; the rounds follow one another{marked}"
        return Chart(title, Axis("seconds"), Axis(y), lines, marks, mark, steps=True)
    lines = [
        plots.Line(kind.label, tuple(by_round(result, INSERT, kind.kind, "tps", kind.rows).items()), kind.css)
        for kind in kinds
    ]
    return line_chart("Each round", "round", y, lines)


def seconds_line(kind: KindRow, speeds: Mapping[int, float], ended: Sequence[int], interval: int) -> plots.Line:
    spans: dict[int, list[float]] = {}
    for second, tps in speeds.items():
        spans.setdefault(second // interval * interval, []).append(tps)
    points = tuple((float(second), fsum(values) / len(values)) for second, values in spans.items())
    moments = tuple(float(second // interval * interval) for second in ended)
    return plots.Line(kind.label, points, kind.css, moments)


def by_size(lines: Sequence[Sequence[KindRow]], memory_bytes: int) -> list[Chart]:
    by_rows, by_memory = [], []
    for kinds in lines:
        label, css = kinds[0].label, kinds[0].css
        by_rows.append(plots.Line(label, tuple((kind.rows, kind.tps) for kind in kinds), css))
        by_memory.append(
            plots.Line(label, tuple((k.index_bytes / memory_bytes, k.tps) for k in kinds if k.index_bytes), css)
        )
    y = "inserts per second"
    return [
        line_chart("Speed and size, both axes logarithmic",
                   "rows in the table before the first round", y, by_rows, True, True),
        line_chart("Speed and size relative to memory, both axes logarithmic",
                   "size of the index / shared buffers", y, by_memory, True, True),
    ]  # fmt: skip


# The column names fit into a terminal with 80 columns.
COLUMNS = (
    data_only("kind", attrgetter("kind")),
    LABEL,
    data_only("rows", attrgetter("rows")),
    Figure("inserts/s", "Transactions of one INSERT each per second (pgbench), median of the rounds.", number(), "tps",
           bar=True, value=median("tps")),
    Figure("vs bigint", "Ratio to bigint in the same round: median, and in brackets its interval of 95 % or more "
           f"(order statistics). With fewer than {LEAST_ROUNDS} rounds the brackets hold the range of the "
           "ratios, and no difference is significant.", to_base, "ratio", value=to_baseline("tps")),
    Figure("WAL/row", "Bytes of write-ahead log per inserted row (pg_stat_wal.wal_bytes).", number(0, "B"),
           "wal_per_row", bar=True, value=median(WAL_PER_ROW)),
    Figure("WAL vs bigint", "WAL bytes relative to bigint in the same round.", to_base, "wal_ratio", False,
           value=to_baseline(WAL_PER_ROW)),
    Figure("FPI/row", "Full-page images per inserted row (pg_stat_wal.wal_fpi): pages written whole to the WAL because "
           "they changed for the first time since a checkpoint.", number(4), "fpi_per_row", bar=True,
           value=median(per("full_page_images", "inserts"))),
    Figure("hits", "Share of index block accesses that found the block in shared buffers (pg_statio_all_indexes).",
           percent, "index_hit_percent", value=median(hit_percent)),
    Figure("index", "Size of the primary key's index at that number of rows, before the first round.", number(0, "MB"),
           "index_mb", bar=True, value=lambda line: line.index_bytes / MB or None),
    Figure("leaf", "Leaf density: how full the index's leaf pages are after the last round (pgstatindex).", percent,
           "leaf_density", value=last("leaf_density", SIZES)),
)  # fmt: skip

UNIQUE = INDEX_KINDS["unique"][0]  # study P3 has unique indexes instead of primary keys

GROWN = 1.1  # a note is shown if the table grew by more than this factor between rounds


def grown(result: Result, rows: int) -> str:
    most = max((run.metrics.get("rows_before", 0) for run in result.select(INSERT, rows=rows)), default=0)
    return f"Later rounds began with up to {most:,.0f} rows." if most > GROWN * rows else ""


def speed_at(rows: int) -> Callable[[KindRow], Value]:
    return lambda line: median("tps")(replace(line, rows=rows))


def growth_section(plan: InsertPlan, sizes: dict[int, list[KindRow]]) -> Section:
    by_kind = {name: {kind.rows: kind for kinds in sizes.values() for kind in kinds if kind.kind == name}
               for name in plan.variants}  # fmt: skip
    lines = [list(kinds.values()) for kinds in by_kind.values() if kinds]
    figures = [Figure("key", "Kind of key of the table.", value=attrgetter("label"))]
    figures += [
        Figure(f"{rows:,} rows", "Inserts per second into a table of this size, median of the rounds.", number(),
               bar=True, value=speed_at(rows))
        for rows in sizes
    ]  # fmt: skip
    title, charts = "Do inserts get slower as the table grows?", by_size(lines, plan.memory_bytes)
    return table("growth", title, figures, [line[0] for line in lines], terminal=False, data=False, charts=charts)


def sections(result: Result, plan: InsertPlan) -> list[Section]:
    sizes = lines_of(result, plan)
    more = [
        *(section for rows, kinds in sizes.items() for section in details_sections(rows, kinds)),
        *(feedback_section(plan, rows, kinds) for rows, kinds in sizes.items() if plan.max_wal_size),
        *clients_sections(result, plan),
        *published_sections(
            result, lambda _, kind: KEY_KINDS[kind].label, sizes=places_of(result, plan),
            kinds=lambda kind: kind if kind in plan.variants else f"{kind}{UNIQUE}",
        ),
        *model_sections(result, plan),
    ]  # fmt: skip
    by_rows = [
        table(f"rows_{rows}", f"Inserting into a table of {rows:,} rows", COLUMNS, kinds, grown(result, rows),
              charts=[over_time(result, kinds)], note=times_memory(kinds, plan.memory_bytes), main=rows == max(sizes))
        for rows, kinds in sizes.items()
    ]  # fmt: skip
    return [
        *by_rows,
        *([growth_section(plan, sizes)] if len(sizes) > 1 else []),
        *(replace(section, terminal=plan.dump_wal) for section in more),  # the demo shows these only on its page
    ]
