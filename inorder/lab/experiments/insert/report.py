"""The insert experiment as sections: a table a size, and the sizes side by side; then what else was measured."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter

from inorder.lab.analysis.figures import last, median, per
from inorder.lab.analysis.stats import LEAST_ROUNDS
from inorder.lab.experiments.insert.details import (
    DETAILS,
    FEEDBACK,
    LABEL,
    clients_sections,
    details_sections,
    feedback_section,
)
from inorder.lab.experiments.insert.model import model_sections
from inorder.lab.experiments.insert.pictures import by_size, over_time
from inorder.lab.experiments.insert.plan import SIZES, InsertPlan
from inorder.lab.experiments.insert.summary import (
    WAL_PER_ROW,
    Line,
    hit_percent,
    lines_of,
    places_of,
    times_memory,
    to_baseline,
)
from inorder.lab.experiments.insert.verdicts import verdicts
from inorder.lab.insert_tables import INSERT
from inorder.lab.keys import INDEX_KINDS, KEY_KINDS
from inorder.lab.report.published import published_sections
from inorder.lab.report.section import Figure, Section, Value, data_only, number, percent, table, to_base
from inorder.lab.results import Result
from inorder.units import MB

__all__ = ["sections", "verdicts"]

# The names are as narrow as a terminal of 80 columns needs.
COLUMNS = (
    data_only("kind", attrgetter("kind")),
    LABEL,
    data_only("rows", attrgetter("rows")),
    Figure("inserts/s", "Transactions of one INSERT each per second (pgbench), median of the rounds.", number(), "tps",
           bar=True, value=median("tps"), better="more"),
    Figure("vs bigint", "Ratio to bigint in the same round: median, and in brackets its interval of 95 % or more "
           f"(order statistics). Below {LEAST_ROUNDS} rounds the brackets hold their range, and no difference is "
           "claimed.", to_base, "ratio", value=to_baseline("tps")),
    Figure("WAL/row", "Bytes of write-ahead log per inserted row (pg_stat_wal.wal_bytes).", number(0, "B"),
           "wal_per_row", bar=True, value=median(WAL_PER_ROW), better="less"),
    Figure("WAL vs bigint", "Ratio of these bytes to those of bigint in the same round.", to_base, "wal_ratio", False,
           value=to_baseline(WAL_PER_ROW)),
    Figure("FPI/row", "Full-page images per inserted row (pg_stat_wal.wal_fpi): pages written whole to the WAL because "
           "they changed for the first time since a checkpoint.", number(4), "fpi_per_row", bar=True,
           value=median(per("full_page_images", "inserts")), better="less"),
    Figure("hits", "Share of index block accesses that found the block in shared buffers (pg_statio_all_indexes).",
           percent, "index_hit_percent", value=median(hit_percent), better="less",
           compared=per("index_reads", "inserts")),
    Figure("index", "Size of the primary key's index at that number of rows, before the first round.", number(0, "MB"),
           "index_mb", bar=True, value=lambda line: line.index_bytes / MB or None, better="less",
           compared="index_bytes"),
    Figure("leaf", "Leaf density: how full the index's leaf pages are after the last round (pgstatindex).", percent,
           "leaf_density", value=last("leaf_density", SIZES), better="more"),
)  # fmt: skip
FIGURES = (*COLUMNS, *DETAILS, *FEEDBACK)

UNIQUE = INDEX_KINDS["unique"][0]  # study P3 has unique indexes, no primary keys

GROWN = 1.1  # growth of a table from round to round that is noted


def grown(result: Result, rows: int) -> str:
    most = max((run.metrics.get("rows_before", 0) for run in result.select(INSERT, rows=rows)), default=0)
    return f"Later rounds began with up to {most:,.0f} rows." if most > GROWN * rows else ""


def size_section(result: Result, plan: InsertPlan, rows: int, kinds: Sequence[Line]) -> Section:
    return table(
        f"rows_{rows}",
        f"Inserting into a table of {rows:,} rows",
        COLUMNS,
        kinds,
        charts=[over_time(result, kinds)],
        note=times_memory(kinds, plan.memory_bytes),
        caption=grown(result, rows),
    )


def speed_at(rows: int) -> Callable[[Line], Value]:
    return lambda line: median("tps")(replace(line, rows=rows))


def growth_section(plan: InsertPlan, sizes: dict[int, list[Line]]) -> Section:
    by_kind = {name: {kind.rows: kind for kinds in sizes.values() for kind in kinds if kind.kind == name}
               for name in plan.variants}  # fmt: skip
    lines = [list(found.values()) for found in by_kind.values() if found]
    figures = [Figure("key", "Kind of key of the table.", value=attrgetter("label"))]
    figures += [
        Figure(f"{rows:,} rows", "Inserts per second into a table of so many rows, median of the rounds.", number(),
               bar=True, value=speed_at(rows))
        for rows in sizes
    ]  # fmt: skip
    title, charts = "Does it get slower as the table grows?", by_size(lines, plan.memory_bytes)
    return table("growth", title, figures, [line[0] for line in lines], terminal=False, data=False, charts=charts)


def sections(result: Result, plan: InsertPlan) -> list[Section]:
    sizes = lines_of(result, plan)
    more = [
        *(one for rows, kinds in sizes.items() for one in details_sections(rows, kinds)),
        *(feedback_section(plan, rows, kinds) for rows, kinds in sizes.items() if plan.max_wal_size),
        *clients_sections(result, plan),
        *published_sections(
            result,
            lambda _, kind: KEY_KINDS[kind].label,
            sizes=places_of(result, plan),
            kinds=lambda kind: kind if kind in plan.variants else f"{kind}{UNIQUE}",
        ),
        *model_sections(result, plan),
    ]
    return [
        *(replace(size_section(result, plan, rows, kinds), main=rows == max(sizes)) for rows, kinds in sizes.items()),
        *([growth_section(plan, sizes)] if len(sizes) > 1 else []),
        *(replace(section, terminal=plan.dump_wal) for section in more),  # of the demo the page alone has them
    ]
