"""Page splits after CREATE INDEX on random keys: when they occur, and how much WAL they write.

CREATE INDEX leaves all pages equally full. Inserts of random keys then fill and split all pages at about the same time,
in waves. If an index has grown by random inserts, some of its pages are fuller than others. Both kinds of index are
filled further in small steps. After each step, pages, leaf density and WAL are measured, and compared with the model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import fsum

from inorder.connection.database import Connection, execute
from inorder.lab.analysis import fringe
from inorder.lab.analysis.figures import Row, middle, middle_of, per
from inorder.lab.analysis.model import LEAF_FILLFACTOR, heap_record, leaf_capacity, leaf_record, split_records
from inorder.lab.instruments.counters import read_leaf_density, read_sizes
from inorder.lab.plan import setting
from inorder.lab.plan.capabilities import OwnRun
from inorder.lab.plan.keys import KEY_KINDS, KeyKind
from inorder.lab.plan.turn import Measured, Metrics, Series, Stage, every_round, single
from inorder.lab.report.plots import Chart, Line, line_chart
from inorder.lab.report.section import Figure, Section, Value, number, table
from inorder.lab.report.verdict import Verdict, bars_of
from inorder.lab.results.result import EXACT_COUNTERS, Result
from inorder.lab.run.experiment import Experiment
from inorder.lab.targets.server_settings import fill_settings
from inorder.text import quoted

WAVES = "waves"
BY_MODEL = "The same figure, calculated by the model."
GROWN, ORDERED = "grown", "v7"
# Fillfactors of the indexes that CREATE INDEX builds.
FILLFACTORS = {"built100": 100, "built90": 90, "built70": 70, ORDERED: 90}
LABELS = {
    "built100": "built, fillfactor 100",
    "built90": "built, fillfactor 90",
    "built70": "built, fillfactor 70",
    GROWN: "grown",
    ORDERED: "built, version-7 keys",
}
CSS = {"built100": "series-1", "built90": "series-2", "built70": "series-3", GROWN: "kind-random", ORDERED: "kind-v7"}

STEPS_PER_ROWS = 50  # number of steps in which the table doubles; each step inserts 2 % of the initial rows
BATCH = 100_000
PAGE = 8192
PER = 1000  # reports show page splits per this number of rows
# A step is a wave if it has at least this multiple of the average number of splits. Grown indexes with a million rows
# reach half of this multiple.
WAVE = 3

# Disk space for each row that the table has at the end: heap, index and WAL of one table at a time.
BYTES_PER_ROW = 300


@dataclass(frozen=True, kw_only=True)
class WavesPlan(setting.Plan):
    kinds: tuple[str, ...] = setting.choices(
        "Kinds of index, comma-separated: built by CREATE INDEX with a fillfactor, or grown by inserts.", tuple(LABELS),
        flag="--indexes", needs_inorder=lambda kind: kind == ORDERED, label=lambda kind: LABELS[kind],
    )  # fmt: skip
    rows: int = setting.count("Rows before CREATE INDEX.", 10_000, 10**9, 1_000_000, quick=200_000, full=10_000_000)
    growth: int = setting.count("Rows inserted after CREATE INDEX, in percent of --rows.", 10, 500, 200, full=300)
    rounds: int = setting.rounds(1)

    @property
    def batch(self) -> int:
        return self.rows // STEPS_PER_ROWS

    @property
    def steps(self) -> int:
        return self.growth * STEPS_PER_ROWS // 100

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.rows + step * self.batch for step in range(self.steps + 1))


def key_of(kind: str) -> KeyKind:
    return KeyKind(f"waves_{kind}", LABELS[kind], KEY_KINDS[ORDERED if kind == ORDERED else "random"].column)


def index_statement(kind: str) -> str:
    key, with_fill = key_of(kind), f" WITH (fillfactor = {FILLFACTORS[kind]})" if kind in FILLFACTORS else ""
    return f"CREATE UNIQUE INDEX {key.name}_pkey ON {key.table} (id){with_fill}"


class WavesExperiment(Experiment[WavesPlan]):
    question = "Do page splits come in waves after CREATE INDEX?"
    programs = ()
    method = EXACT_COUNTERS
    own = OwnRun(
        leaf_density=True, checkpoints=False,
        otherwise="full_page_writes was not changed: WAL contains full-page images, which the model leaves out.",
    )  # fmt: skip

    @classmethod
    def room(cls, plan: WavesPlan) -> tuple[int, str]:
        rows = plan.sizes[-1]
        return rows * BYTES_PER_ROW, f"a table of {rows:,} rows and its WAL"

    def prepare(self) -> None:
        self.target.serve(fill_settings())
        with self.target.connect() as session:
            self.target.create_schema(session)

    def stages(self) -> list[Stage]:
        turns = [
            single(WAVES, kind, self.plan.rows, LABELS[kind], partial(self.measure, kind)) for kind in self.plan.kinds
        ]
        return [Stage(every_round(turns), self.plan.rounds, whole=False)]

    def outcome(self, metrics: Metrics) -> str:
        return f"at most {metrics['peak_splits']:.1f} splits in {PER:,} rows, {metrics['mean_splits']:.1f} on average"

    def measure(self, kind: str, _seed: int) -> Measured:
        key = key_of(kind)
        with self.target.connect() as session:
            off = f"ALTER TABLE {key.table} SET (autovacuum_enabled = off)"
            execute(session, *key.removal(), *key.table_statements(), off)
            if kind == GROWN:
                session.execute(index_statement(kind).encode())
            for low in range(0, self.plan.rows, BATCH):
                self.show_step(f"{low:,} of {self.plan.rows:,} rows")
                insert(session, key, min(BATCH, self.plan.rows - low))
            if kind != GROWN:
                session.execute(index_statement(kind).encode())
            series = self.steps_of(session, key)
            session.execute(f"DROP TABLE {key.table}".encode())
        return Measured(figures_of(series, self.plan), series)

    def steps_of(self, session: Connection, key: KeyKind) -> Series:
        series: Series = {}

        def look() -> None:
            pages = {"pages": read_sizes(session, key)["index_bytes"] / PAGE}
            for name, value in (pages | read_leaf_density(session, key)).items():
                series.setdefault(name, []).append(value)

        look()
        for step in range(1, self.plan.steps + 1):
            self.show_step(f"step {step} of {self.plan.steps}")
            with self.target.counted(session) as counted:
                insert(session, key, self.plan.batch)
            for name in ("wal_bytes", "full_page_images"):
                if name in counted:
                    series.setdefault(name, []).append(counted[name])
            look()
        return series


def insert(session: Connection, key: KeyKind, rows: int) -> None:
    session.execute(f"INSERT INTO {key.table} SELECT FROM generate_series(1, {rows})".encode())


def splits_of(pages: Sequence[float], batch: int) -> list[float]:
    return [(after - before) * PER / batch for before, after in pairwise(pages)]


def figures_of(series: Series, plan: WavesPlan) -> Metrics:
    splits = splits_of(series["pages"], plan.batch)
    figures = {
        "peak_splits": max(splits),
        "peak_at": 100 * (splits.index(max(splits)) + 1) / STEPS_PER_ROWS,
        "mean_splits": fsum(splits) / len(splits),
        "pages_first": series["pages"][0],
        "pages_last": series["pages"][-1],
    }
    if wal := series.get("wal_bytes"):
        figures |= {"peak_wal": max(wal) / plan.batch, "mean_wal": fsum(wal) / len(wal) / plan.batch}
    return figures


def predicted(kind: str, plan: WavesPlan) -> Series:
    if kind == ORDERED:
        full = LEAF_FILLFACTOR * leaf_capacity(ORDERED)
        pages = tuple(rows / full for rows in plan.sizes)
    else:  # a grown index starts with one page
        first = fringe.built_entries(FILLFACTORS[kind]) if kind in FILLFACTORS else leaf_capacity("random") // 2
        pages = fringe.leaf_pages(first, first if kind == GROWN else plan.rows, plan.sizes)
    row, split = heap_record("random") + leaf_record("random"), split_records("random", kind == ORDERED)
    wal = [plan.batch * row + (after - before) * split for before, after in pairwise(pages)]
    density = [fringe.density(rows / leaves) for rows, leaves in zip(plan.sizes, pages, strict=True)]
    return {"pages": list(pages), "wal_bytes": wal, "leaf_density": density}


def misplaced(measured: Sequence[float], model: Sequence[float]) -> float:
    return 50 * fsum(abs(count - other) for count, other in zip(measured, model, strict=True)) / (fsum(model) or 1)


@dataclass(frozen=True, kw_only=True)
class IndexRow(Row):
    plan: WavesPlan
    prediction: Series

    def model(self, name: str) -> Value:
        return figures_of(self.prediction, self.plan)[name]


def misplaced_of(row: IndexRow) -> Value:
    run = row.result.select(WAVES, row.kind)[0]
    return misplaced(*(splits_of(series["pages"], row.plan.batch) for series in (run.series, row.prediction)))


def unless_in_order(value: Callable[[IndexRow], Value]) -> Callable[[IndexRow], Value]:
    return lambda row: None if row.kind == ORDERED else value(row)


FIGURES = (
    Figure("index", "How the index was created.", value=lambda row: LABELS[row.kind]),
    Figure("peak", f"Page splits per {PER:,} rows in the step with the most splits (a step is 2 % of the rows).",
           number(1), bar=True, value=middle("peak_splits")),
    Figure("model", BY_MODEL, number(1), "peak_model", value=lambda row: row.model("peak_splits")),
    Figure("at", "Rows inserted by the end of the step with the most splits, in percent.", number(0, "%"),
           value=unless_in_order(middle("peak_at"))),
    Figure("model", BY_MODEL, number(0, "%"), "at_model",
           value=unless_in_order(lambda row: row.model("peak_at"))),
    Figure("mean", f"Page splits per {PER:,} rows in all steps.", number(2), bar=True, value=middle("mean_splits")),
    Figure("model", BY_MODEL, number(2), "mean_model", terminal=False,
           value=lambda row: row.model("mean_splits")),
    Figure("misplaced", "Share of splits that occurred in a different step than the model predicts; first round.",
           number(0, "%"), value=misplaced_of),
    Figure("WAL/row\npeak", "Bytes of WAL per row in the step with the most WAL.", number(0, "B"), "peak_wal", bar=True,
           value=middle("peak_wal")),
    Figure("model", BY_MODEL, number(0, "B"), "peak_wal_model",
           value=lambda row: row.model("peak_wal")),
    Figure("mean", "Bytes of WAL per row in all steps.", number(0, "B"), "mean_wal", value=middle("mean_wal")),
)  # fmt: skip


def sections(result: Result, plan: WavesPlan) -> Sequence[Section]:
    kinds = [kind for kind in LABELS if result.select(WAVES, kind)]
    title = f"Page splits while {plan.growth} % more rows are inserted, {plan.rows:,} rows at first"
    caption = (
        "built: the index was created on a filled table; grown: the index was created before the first row. model: the "
        "expected number of leaf pages; the measured number includes the pages of all levels, about 0.5 % more. The "
        "WAL has no full-page images."
    )
    lines = [IndexRow(result, WAVES, kind, plan=plan, prediction=predicted(kind, plan)) for kind in kinds]
    return [table(WAVES, title, FIGURES, lines, caption, charts=[
        chart(result, plan, kinds, f"Page splits per {PER:,} rows", "splits",
              lambda series: splits_of(series["pages"], plan.batch)),
        chart(result, plan, kinds, "Bytes of WAL per row", "B",
              lambda series: [size / plan.batch for size in series.get("wal_bytes", [])]),
        chart(result, plan, kinds, "Leaf density", "%",
              lambda series: series.get("leaf_density", [])[1 : plan.steps + 1]),
    ])] if kinds else []  # fmt: skip


def chart(
    result: Result, plan: WavesPlan, kinds: Sequence[str], title: str, unit: str,
    shown: Callable[[Series], list[float]],
) -> Chart:  # fmt: skip
    lines = []
    for kind in kinds:
        both = (("", result.select(WAVES, kind)[0].series), (" dashed", predicted(kind, plan)))
        for dashes, series in both:
            points = [(100 * (step + 1) / STEPS_PER_ROWS, value) for step, value in enumerate(shown(series))]
            if points:
                name = LABELS[kind] + (", model" if dashes else "")
                lines.append(Line(name, tuple(points), CSS[kind] + dashes))
    return line_chart(f"{title}, by rows inserted", "% of the rows at CREATE INDEX", unit, lines)


def verdicts(result: Result, plan: WavesPlan, question: str) -> Sequence[Verdict]:
    heights = {kind: middle_of(result, WAVES, kind, per("peak_splits", "mean_splits")) for kind in LABELS}
    measured, words = {kind: height for kind, height in heights.items() if height}, []
    if not measured:
        return []
    for kind, height in measured.items():
        model = figures_of(predicted(kind, plan), plan)
        in_model = model["peak_splits"] / model["mean_splits"]
        words.append(f"{height:.1f} times with {quoted(LABELS[kind])} (model {in_model:.1f})")
    waves = [height >= WAVE for kind, height in measured.items() if kind not in (GROWN, ORDERED)]
    shown = ((LABELS[kind], measured.get(kind), CSS[kind]) for kind in ("built90", "built70", GROWN))
    return [
        Verdict(
            question,
            "Yes" if any(waves) else "No" if waves else "",
            f"The step with the most splits has this multiple of the average number of splits: {', '.join(words)}.",
            f"The table has {plan.rows:,} rows; then {plan.growth} % more rows are inserted in steps of 2 %.",
            f"Counts are exact. A step with at least {WAVE} times the average number of splits is a wave.",
            bars_of(shown, number(1, "times")),
        )
    ]
