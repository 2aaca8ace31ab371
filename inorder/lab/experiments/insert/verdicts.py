"""What the insert experiment answers: what random keys cost, and which key to use."""

from collections.abc import Callable, Sequence
from statistics import median

from inorder.lab.analysis.figures import by_round
from inorder.lab.analysis.model import Conditions, predict
from inorder.lab.analysis.stats import Estimate
from inorder.lab.experiments.insert.plan import InsertPlan
from inorder.lab.experiments.insert.summary import KindSummary, summarise
from inorder.lab.insert_tables import INSERT
from inorder.lab.keys import USUAL_KINDS
from inorder.lab.results import Result
from inorder.report.charts import Bar
from inorder.report.section import Value, number
from inorder.report.verdict import UNDECIDED, Verdict, decided, speed_words, to_decide

BASE = "bigint"
RANDOM = "random"
# Of a table that is written all day, beside the much denser inserts of a turn.
USUAL_RATE, USUAL_CHECKPOINT = 500, 300


def verdicts(result: Result, plan: InsertPlan) -> list[Verdict]:
    """Of the largest table."""
    sizes = summarise(result, plan)
    if not sizes:
        return []
    kinds = {kind.kind: kind for kind in list(sizes.values())[-1]}
    found = [random_verdict(result, plan, kinds), ordered_verdict(result, kinds)]
    return [one for one in found if one]


def round_ratios(result: Result, kind: KindSummary) -> dict[int, float]:
    """Of speed to bigint's, by round."""
    values, base = (by_round(result, INSERT, one, "tps", kind.rows) for one in (kind.kind, BASE))
    return {place: values[place] / base[place] for place in values.keys() & base.keys() if base[place]}


def random_verdict(result: Result, plan: InsertPlan, kinds: dict[str, KindSummary]) -> Verdict | None:
    """What random keys cost; None where they or bigint were not measured."""
    one = kinds.get(RANDOM)
    if one is None or one.ratio is None or BASE not in kinds:
        return None
    speed, wal = one.ratio, one.wal_ratio
    slower = decided(speed) and speed.differs_from(1.0) and speed.median < 1
    more = wal is not None and decided(wal) and wal.differs_from(1.0) and wal.median > 1
    answer = "Yes" if slower or more else "No" if decided(speed) and wal and decided(wal) else UNDECIDED
    told = [speed_words(speed, BASE), *([f"{wal.median:.1f} times the WAL of {BASE}"] if wal else [])]
    if not slower:
        told.reverse()  # what is sure comes first
    drawn, show = speed_or_wal(slower)
    bars = [bar(kinds[name], drawn, show) for name in (BASE, best_of(kinds), RANDOM) if name in kinds]
    return Verdict(
        "Do random keys cost you?",
        answer,
        " ".join(f"{part[0].upper()}{part[1:]}." for part in told),
        f"{conditions(result, one)} {usual(plan, one)}",
        f"Speed: {to_decide(speed, round_ratios(result, one))}",
        [one for one in bars if one],
    )


def wal_words(wal: Estimate | None) -> str:
    """Behind the words about speed."""
    return f", {wal.median:.1f} times its WAL" if wal else ""


def speed_or_wal(slower: bool) -> tuple[Callable[[KindSummary], Estimate | None], Callable[[Value], str]]:
    """What is drawn: the speed where it differs, else the WAL of a row."""
    if slower:
        return (lambda kind: kind.tps), number(0, "inserts/s")
    return (lambda kind: kind.wal_per_row), number(0, "B WAL/row")


def bar(kind: KindSummary, value: Callable[[KindSummary], Estimate | None], show: Callable[[Value], str]) -> Bar | None:
    """One of the picture."""
    found = value(kind)
    return Bar(kind.label, found.median, show(found), kind.css) if found else None


def conditions(result: Result, kind: KindSummary) -> str:
    """The table, and how many rows come between two checkpoints: each page changed costs an image in between."""
    runs = result.select(INSERT, kind.kind, kind.rows)
    between = [run.metrics["inserts"] / (1 + len(run.series.get("checkpoints", []))) for run in runs]
    rows = float(f"{median(between):.2g}")
    return f"{kind.rows:,} rows in a table with a primary key alone, {rows:,.0f} rows between two checkpoints."


def usual(plan: InsertPlan, kind: KindSummary) -> str:
    """The WAL by calculation where fewer rows share the images."""
    memory = kind.index_mb * 2**20 if kind.index_mb else plan.memory_bytes
    where = Conditions(kind.rows, USUAL_RATE, memory, USUAL_CHECKPOINT)
    ratio = predict(RANDOM, where).wal_per_row / predict(BASE, where).wal_per_row
    minutes = USUAL_CHECKPOINT // 60
    return f"By the model {ratio:.1f} times the WAL with {USUAL_RATE} rows a second and {minutes} minutes between them."


def in_order(kinds: dict[str, KindSummary]) -> list[KindSummary]:
    """Those in order with a primary key, the one that is least slower at worst first."""
    some = [kind for name, kind in kinds.items() if kind.ratio and name in USUAL_KINDS and name not in (BASE, RANDOM)]
    return sorted(some, key=lambda kind: (kind.ratio and kind.ratio.low) or 0, reverse=True)


def best_of(kinds: dict[str, KindSummary]) -> str:
    """The first of them."""
    ordered = in_order(kinds)
    return ordered[0].kind if ordered else ""


def ordered_verdict(result: Result, kinds: dict[str, KindSummary]) -> Verdict | None:
    """Which of the keys in order is as fast as bigint; None where none was measured."""
    ordered = in_order(kinds)
    if not ordered:
        return None
    sure = [kind for kind in ordered if kind.ratio and decided(kind.ratio)][:2]
    shown: Sequence[KindSummary] = sure or ordered[:1]
    told = "; ".join(f"{kind.label}: {speed_words(kind.ratio, BASE)}{wal_words(kind.wal_ratio)}" for kind in shown
                     if kind.ratio)  # fmt: skip
    answer = " or ".join(kind.label for kind in sure) or UNDECIDED
    bars = [bar(kind, lambda one: one.tps, number(0, "inserts/s")) for kind in [kinds.get(BASE), *shown] if kind]
    return Verdict(
        "Which key should you use?",
        answer,
        f"{told}.",
        sure=to_decide(shown[0].ratio, round_ratios(result, shown[0])),
        bars=[one for one in bars if one],
    )
