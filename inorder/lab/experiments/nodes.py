"""Keys of several nodes whose clocks differ: rows out of order, WAL, blocks, leaf density.

Each node stamps its rows with its own clock, and the rows of all nodes arrive in the true order. The slowest clock is
behind by the lag, and the other clocks are behind by less. There are three kinds of key: version-1 UUIDs in the type
uuid; the same values in the type uuid_v1, which sorts them by time; and version-7 UUIDs with the same times. COPY fills
a table. The WAL and the index blocks of a second COPY are then counted.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

from inorder.connection.database import Connection, execute, one_row
from inorder.errors import InorderError
from inorder.lab.analysis.figures import Metric, Row, median, middle_of, per, ratios_of
from inorder.lab.instruments.counters import read_leaf_density, read_sizes
from inorder.lab.plan import setting
from inorder.lab.plan.capabilities import THROUGH_HERE, OwnRun
from inorder.lab.plan.keys import KeyKind
from inorder.lab.plan.turn import Metrics, Stage, every_round, single
from inorder.lab.report.plots import Chart, Line, line_chart
from inorder.lab.report.section import Figure, Section, number, table
from inorder.lab.report.verdict import Compared, Verdict, bars_of, costs
from inorder.lab.results.result import Result, Run
from inorder.lab.run.experiment import Experiment
from inorder.lab.tables.key_files import simulated, write_keys
from inorder.lab.targets.server_settings import Small
from inorder.text import plural, quoted
from inorder.units import MB

V1, BUILT_IN, V7 = "uuid_v1", "uuid", "v7"
KINDS = {
    V1: KeyKind("nodes_uuid_v1", "uuid_v1", "uuid_v1"),
    BUILT_IN: KeyKind("nodes_uuid", "uuid, version 1", "uuid"),
    V7: KeyKind("nodes_v7", "uuid, version 7", "uuid"),
}
SETS = {V1: "uuid-v1", BUILT_IN: "uuid-v1", V7: "uuid-v7"}  # the data set for each kind; two kinds have the same values
CSS = {V1: "series-1", BUILT_IN: "kind-random", V7: "kind-v7"}
LINE = 37  # bytes per key in a file
BYTES_PER_ROW = 500  # a table with its index and WAL, without the key files

# This query counts the rows that arrive after a row with a greater key. COPY stores rows in the order of arrival.
LATE = """SELECT count(*) FILTER (WHERE id < before) FROM (
    SELECT id, max(id) OVER (ORDER BY ctid ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM {table}
) AS arrived"""


@dataclass(frozen=True, kw_only=True)
class NodesPlan(setting.Plan):
    kinds: tuple[str, ...] = setting.choices(
        "Kinds of key, comma-separated.", tuple(KINDS), flag="--keys", needs_inorder=lambda kind: kind == V1,
        label=lambda kind: KINDS[kind].label,
    )  # fmt: skip
    rows: int = setting.count(
        "Rows of the first COPY; the second has half as many.", 1000, 10**9, 1_000_000, quick=200_000, full=20_000_000
    )
    nodes: int = setting.count("Number of nodes.", 1, 1000, 9)
    rate: int = setting.count("Rows of all nodes in a second.", 1, 10**7, 1000, quick=200)
    lag: tuple[float, ...] = setting.durations(
        "Times by which the slowest clock is behind, comma-separated.", (0, 0.1, 1, 5, 60)
    )
    rounds: int = setting.rounds(1)
    memory_bytes: int = setting.memory(32 * MB, quick=8 * MB, full=256 * MB)

    @property
    def more_rows(self) -> int:
        return self.rows // 2


def step_of(lag: float) -> str:
    return f"lag_{lag:g}"


class NodesExperiment(Experiment[NodesPlan]):
    question = "Do keys of several nodes cost more if their clocks differ?"
    studies = ("P1", "P4")
    programs = ()
    own = OwnRun(leaf_density=True, otherwise=THROUGH_HERE)

    @classmethod
    def room(cls, plan: NodesPlan) -> tuple[int, str]:
        sets = len(plan.lag) * len({SETS[kind] for kind in plan.kinds})
        total = plan.rows + plan.more_rows
        return total * (BYTES_PER_ROW + LINE * sets), f"{total:,} rows, files of {sets} data sets and WAL"

    def prepare(self) -> None:
        self.target.serve_small(Small(self.plan.memory_bytes))
        with self.target.connect() as session:
            self.target.create_schema(session)
        sets = {SETS[kind]: kind for kind in self.plan.kinds}
        needed = (self.plan.rows + self.plan.more_rows) * LINE * len(sets) * len(self.plan.lag)
        self.folder = self.target.file_folder("keys", needed)
        for (name, kind), lag in product(sets.items(), self.plan.lag):
            self.progress.step(f"writing {name} keys, lag {lag:g} s")
            total = self.plan.rows + self.plan.more_rows
            keys = simulated(SETS[kind], total, total / self.plan.rate, self.plan.nodes, lag, self.plan.seed)
            write_keys(keys, self.plan.rows, self.files(kind, lag))

    def files(self, kind: str, lag: float) -> tuple[Path, Path]:
        first, second = (self.folder / f"{SETS[kind]}.{lag:g}.{ordinal}" for ordinal in ("first", "second"))
        return first, second

    def stages(self) -> list[Stage]:
        turns = [
            single(step_of(lag), kind, self.plan.rows, f"{KINDS[kind].label}, lag {lag:g} s",
                   partial(self.measure, kind, lag))
            for kind in self.plan.kinds for lag in self.plan.lag
        ]  # fmt: skip
        return [Stage(every_round(turns), self.plan.rounds)]

    def outcome(self, metrics: Metrics) -> str:
        late, wal = metrics["late"] / metrics["all_rows"], metrics.get("wal_bytes", 0) / metrics["copied"]
        return f"{100 * late:.0f} % of the rows out of order, {wal:,.0f} B of WAL per row"

    def measure(self, kind: str, lag: float, _seed: int) -> Metrics:
        key = KINDS[kind]
        first, second = self.files(kind, lag)
        with self.target.connect() as control:
            off = f"ALTER TABLE {key.table} SET (autovacuum_enabled = off)"
            execute(control, *key.removal(), *key.statements(), off)
            with self.target.connect() as session:
                self.copy(session, key, first, self.plan.rows)
            with self.target.from_checkpoint(control, key) as counters, self.target.connect() as session:
                started = time.perf_counter()
                self.copy(session, key, second, self.plan.more_rows)
                counters["seconds"] = time.perf_counter() - started
            counters |= read_sizes(control, key) | read_leaf_density(control, key)
            (late,) = one_row(control, LATE.format(table=key.table))
            control.execute(f"DROP TABLE {key.table}".encode())
        rows = {"late": float(late), "copied": float(self.plan.more_rows)}
        return counters | rows | {"all_rows": float(self.plan.rows + self.plan.more_rows)}

    def copy(self, session: Connection, key: KeyKind, file: Path, rows: int) -> None:
        copied = self.target.copy_in(session, key.table, file)
        if copied != rows:
            raise InorderError(f"COPY of {file.name} copied {copied:,} rows instead of {rows:,}")


def blocks_per_row(run: Run) -> float | None:
    if "index_hits" not in run.metrics:
        return None
    return (run.metrics["index_hits"] + run.metrics["index_reads"]) / run.metrics["copied"]


CAPTION = (
    "lag: the lag of the slowest clock; the lags of the other clocks are spread between 0 and this lag. blocks/row: 1 "
    "with the btree's fastpath, which remembers the last leaf page of a btree of 3 or more levels (about 76,000 rows "
    "or more); otherwise the number of levels."
)
FIGURES = (
    Figure("key", "Kind of key; the first two have the same values.", value=lambda row: KINDS[row.kind].label),
    Figure("lag", "Seconds by which the slowest clock is behind.", lambda lag: f"{lag:g} s",
           value=lambda row: float(row.step.removeprefix("lag_"))),
    Figure("late", "Share of rows that arrive after a row with a greater key.", number(1, "%"),
           value=median(per("late", "all_rows", 100))),
    Figure("blocks/row", "Index blocks that an insert of the second COPY accessed.", number(2), bar=True,
           value=median(blocks_per_row)),
    Figure("reads/row", "Accessed blocks that were not in shared buffers.", number(3), bar=True,
           value=median(per("index_reads", "copied"))),
    Figure("WAL/row", "Bytes of WAL of the second COPY.", number(0, "B"), bar=True,
           value=median(per("wal_bytes", "copied"))),
    Figure("FPI/row", "Full-page images of the second COPY.", number(4), terminal=False,
           value=median(per("full_page_images", "copied"))),
    Figure("leaf", "Leaf density after the second COPY.", number(0, "%"), value=median("leaf_density")),
    Figure("index", "Size of the index after the second COPY.", number(0, "MB"), bar=True,
           value=median(per("index_bytes", MB))),
    Figure("rows/s", "Speed of the second COPY.", number(0), bar=True, value=median(per("copied", "seconds"))),
)  # fmt: skip


def chart(result: Result, plan: NodesPlan, title: str, unit: str, metric: Metric) -> Chart:
    lines = []
    for kind, key in KINDS.items():
        values = ((lag, middle_of(result, step_of(lag), kind, metric)) for lag in sorted(plan.lag))
        if points := tuple((lag, value) for lag, value in values if value is not None):
            lines.append(Line(key.label, points, CSS[kind]))
    return line_chart(f"{title}, by lag", "lag, s", unit, lines)


def sections(result: Result, plan: NodesPlan) -> Sequence[Section]:
    lines = [Row(result, step_of(lag), kind) for kind in KINDS for lag in plan.lag]
    lines = [line for line in lines if result.select(line.step, line.kind)]
    title = f"Keys of {plan.nodes} nodes, {plan.rate:,} rows a second: {plan.more_rows:,} rows added to {plan.rows:,}"
    charts = [
        chart(result, plan, "Leaf density", "%", "leaf_density"),
        chart(result, plan, "Index blocks accessed by an insert", "blocks", blocks_per_row),
    ]
    return [table("nodes", title, FIGURES, lines, CAPTION, charts=charts)] if lines else []


def verdicts(result: Result, plan: NodesPlan, question: str) -> Sequence[Verdict]:
    most, least = max(plan.lag), min(plan.lag)
    equal = f"clocks at most {least:g} s apart" if least else "equal clocks"
    compared = [
        Compared(f"WAL with a lag of {most:g} s", f"{quoted(KINDS[kind].label)} with {equal}",
                 ratios_of(result, step_of(most), kind, kind, per("wal_bytes", "copied"),
                           base_step=step_of(least)), counted=True)
        for kind in KINDS
    ]  # fmt: skip
    rate = f"{plural(plan.nodes, 'node')} arrive at a rate of {plan.rate:,} rows a second"
    holds = f"The rows of {rate}; the slowest clock is {most:g} s behind."
    shown = (
        (KINDS[kind].label, middle_of(result, step_of(most), kind, per("wal_bytes", "copied")), CSS[kind])
        for kind in KINDS
    )
    return costs(question, compared, holds, bars_of(shown, number(0, "B")))
