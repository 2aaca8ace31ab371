"""What the insert experiment answers: what random keys cost, and which key to use."""

from collections.abc import Sequence
from statistics import median

from inorder.lab.analysis.figures import median_of, ratios_of
from inorder.lab.analysis.model import Conditions, predict
from inorder.lab.experiments.insert.plan import InsertPlan
from inorder.lab.experiments.insert.summary import WAL_PER_ROW, Line, lines_of, to_baseline
from inorder.lab.insert_tables import INSERT
from inorder.lab.keys import USUAL_KINDS
from inorder.lab.report.section import number
from inorder.lab.report.verdict import UNDECIDED, Bar, Compared, Verdict, bars_of, costs, surety
from inorder.lab.results import Result

BASE = "bigint"
RANDOM = ("random", "random_char")
OFFER = " For a table like yours: inorder lab run insert --like TABLE."
# Of a table that is written all day, beside the much denser inserts of a measurement.
USUAL_RATE, USUAL_CHECKPOINT = 500, 300


def verdicts(result: Result, plan: InsertPlan, question: str) -> list[Verdict]:
    sizes = lines_of(result, plan)
    kinds = {kind.kind: kind for kind in list(sizes.values())[-1]} if sizes else {}
    if BASE not in kinds:
        return []
    ratios = {name: to_baseline("tps")(kind) for name, kind in kinds.items()
              if name in USUAL_KINDS and name not in (BASE, *RANDOM)}  # fmt: skip
    least = {name: ratio.low or 0 for name, ratio in ratios.items() if ratio}
    ordered = [kinds[name] for name in sorted(least, key=lambda name: least[name], reverse=True)]
    random = next((kinds[name] for name in RANDOM if name in kinds), None)
    return [
        *(random_verdict(result, plan, question, [kinds[BASE], *ordered[:1], random]) if random else []),
        *([ordered_verdict(result, kinds[BASE], ordered)] if ordered else []),
    ]


def speed_of(result: Result, kind: Line) -> Compared:
    return Compared("speed", BASE, ratios_of(result, INSERT, kind.kind, BASE, "tps", kind.rows), speed=True)


def wal_of(result: Result, kind: Line) -> Compared:
    return Compared("WAL", BASE, ratios_of(result, INSERT, kind.kind, BASE, WAL_PER_ROW, kind.rows))


def bars(kinds: Sequence[Line], speed: bool) -> list[Bar]:
    metric, show = ("tps", number(0, "inserts/s")) if speed else (WAL_PER_ROW, number(0, "B WAL/row"))
    return bars_of(((kind.label, median_of(kind.result, INSERT, kind.kind, metric, kind.rows), kind.css)
                    for kind in kinds), show)  # fmt: skip


def random_verdict(result: Result, plan: InsertPlan, question: str, shown: Sequence[Line]) -> list[Verdict]:
    one = shown[-1]
    speed = speed_of(result, one)
    holds = f"{conditions(result, one)} {usual(plan, one)}".rstrip() + OFFER
    return costs(question, [speed, wal_of(result, one)], holds, bars(shown, speed.worse))


def conditions(result: Result, kind: Line) -> str:
    runs = result.select(INSERT, kind.kind, kind.rows)
    between = [run.metrics["inserts"] / (1 + len(run.series.get("checkpoints", []))) for run in runs]
    rows = float(f"{median(between):.2g}")
    return f"{kind.rows:,} rows in a table with a primary key alone, {rows:,.0f} rows between two checkpoints."


def usual(plan: InsertPlan, kind: Line) -> str:
    if kind.kind not in USUAL_KINDS:
        return ""
    memory = kind.index_bytes or plan.memory_bytes
    where = Conditions(kind.rows, USUAL_RATE, memory, USUAL_CHECKPOINT)
    ratio = predict(kind.kind, where).wal_per_row / predict(BASE, where).wal_per_row
    minutes = USUAL_CHECKPOINT // 60
    return f"By the model {ratio:.1f} times the WAL with {USUAL_RATE} rows a second and {minutes} minutes between them."


def ordered_verdict(result: Result, base: Line, ordered: Sequence[Line]) -> Verdict:
    speeds = [speed_of(result, kind) for kind in ordered]
    sure = [place for place, one in enumerate(speeds) if one.near][:2]
    shown = sure or [0]
    none = BASE if all(one.decided for one in speeds) else UNDECIDED
    words = [(speeds[place].words, wal_of(result, ordered[place]).words) for place in shown]
    figures = "; ".join(
        f"{ordered[place].label}: {', '.join(filter(None, some))}" for place, some in zip(shown, words, strict=True)
    )
    return Verdict(
        "Which key should you use?",
        " or ".join(ordered[place].label for place in sure) or none,
        f"{figures}.",
        conditions(result, ordered[0]) + OFFER,
        surety([speeds[place] for place in shown]),
        bars([base, *(ordered[place] for place in shown)], speed=True),
    )
