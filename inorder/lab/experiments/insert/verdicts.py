"""The verdicts of the insert experiment: the cost of random keys, the key to use, and the effect of the table size.

The server counts WAL exactly. If noise hides a difference in speed, the WAL determines the answer.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from statistics import median

from inorder.lab.analysis.figures import estimated, median_of, middle_of, per, ratios_of
from inorder.lab.analysis.model import Conditions, predict
from inorder.lab.analysis.stats import TO_FIND, ratios_by_round
from inorder.lab.experiments.insert.plan import InsertPlan
from inorder.lab.experiments.insert.summary import CHECKPOINTS, WAL_PER_ROW, KindRow, lines_of
from inorder.lab.plan.keys import KEY_KINDS, USUAL_KINDS
from inorder.lab.report.section import number
from inorder.lab.report.verdict import UNDECIDED, Bar, Compared, Step, Verdict, answer_of, bars_of, costs, surety
from inorder.lab.results.result import Result
from inorder.lab.tables.insert_tables import INSERT

BASE = "bigint"
RANDOM = ("random", "random_char")
READS = per("index_reads", "inserts")
# WAL of random keys relative to ordered keys in the example tables of docs/like.md, which differ in columns, indexes
# and load.
LIKE = {"text keys, one more index": 3.17, "twelve partitions": 1.41, "five more indexes, 50 % updates": 1.02}
BESIDE = (
    "In other tables, the WAL of random keys relative to ordered keys is "
    f"{', '.join(f'{factor} ({table})' for table, factor in LIKE.items())}."
)
EXACT = "The WAL determines this answer, because the server counts WAL exactly."
OFFER = "To measure a table like yours, use inorder lab run insert --like TABLE."
# Labels with an explanation, which stands in the first bar of a page, and in the answer of a report on a terminal.
EXPLAINED = {"xact": "xact (transaction-ordered)"}
# For each kind of key, a table for which it is the right choice, even if all kinds cost the same.
CASES = {
    "v7": ("A new table that is queried by time: version 7", "docs/time.md"),
    "xact": ("A new table that a feed reads: xact (transaction-ordered)", "docs/feed.md"),
}
SWITCH = Step(
    "An existing table with random keys: new keys that sort after the random keys",
    "ALTER TABLE events ALTER COLUMN id SET DEFAULT uuid_after_random_nextval();",
    "docs/random-to-ordered.md",
)
# Assumed rows per second and seconds between checkpoints in everyday use. A measurement inserts much faster.
USUAL_RATE, USUAL_CHECKPOINT = 500, 300


def verdicts(result: Result, plan: InsertPlan, question: str) -> list[Verdict]:
    sizes = lines_of(result, plan)
    kinds = {kind.kind: kind for kind in list(sizes.values())[-1]} if sizes else {}
    if BASE not in kinds:
        return []
    ordered = [kind for name, kind in kinds.items() if name in USUAL_KINDS and name not in (BASE, *RANDOM)]
    random = next((kinds[name] for name in RANDOM if name in kinds), None)
    beside = cheapest(result, ordered)[:1]
    return [
        *(random_verdict(result, plan, question, [kinds[BASE], *beside, random]) if random else []),
        *([ordered_verdict(result, kinds[BASE], ordered)] if ordered else []),
        *(growth_verdict(result, list(sizes), [random, *beside]) if random else []),
    ]


def speed_of(result: Result, kind: KindRow) -> Compared:
    return Compared("speed", BASE, ratios_of(result, INSERT, kind.kind, BASE, "tps", kind.rows), speed=True)


def wal_of(result: Result, kind: KindRow) -> Compared:
    return Compared("WAL", BASE, ratios_of(result, INSERT, kind.kind, BASE, WAL_PER_ROW, kind.rows))


def bars(kinds: Sequence[KindRow], speed: bool) -> list[Bar]:
    metric, show = ("tps", number(0, "inserts/s")) if speed else (WAL_PER_ROW, number(0, "B WAL/row"))
    return bars_of(((explained(kind), median_of(kind.result, INSERT, kind.kind, metric, kind.rows), kind.css)
                    for kind in kinds), show)  # fmt: skip


def random_verdict(result: Result, plan: InsertPlan, question: str, shown: Sequence[KindRow]) -> list[Verdict]:
    kind = shown[-1]
    speed, wal = speed_of(result, kind), wal_of(result, kind)
    dense = replace(wal, base=f"{BASE} with a checkpoint every {rows_between(result, kind.kind, kind.rows):,.0f} rows")
    holds = f"{table_text(kind)} {BESIDE} {OFFER}"
    return costs(question, [speed, dense], holds, bars(shown, speed.worse), usual(plan, kind))


def rows_between(result: Result, kind: str, rows: int) -> float:
    runs = result.select(INSERT, kind, rows)
    within = [run.metrics.get(CHECKPOINTS) or len(run.series.get("checkpoints", [])) for run in runs]
    between = median(run.metrics["inserts"] / (1 + count) for run, count in zip(runs, within, strict=True))
    return float(f"{between:.2g}")


def table_text(kind: KindRow) -> str:
    return f"The table has {kind.rows:,} rows, and its only index is the primary key."


def usual(plan: InsertPlan, kind: KindRow) -> str:
    if kind.kind not in USUAL_KINDS:
        return ""
    memory = kind.index_bytes or plan.memory_bytes
    where = Conditions(kind.rows, USUAL_RATE, memory, USUAL_CHECKPOINT)
    ratio = predict(kind.kind, where).wal_per_row / predict(BASE, where).wal_per_row
    minutes = USUAL_CHECKPOINT // 60
    often = f"a checkpoint every {minutes} minutes and {USUAL_RATE} rows a second"
    return f"By the model, the WAL is {ratio:.1f} times that of {BASE} with {often}."


def loses(speed: Compared) -> bool:
    return speed.worse and speed.ratio is not None and (speed.ratio.high or 1) < 1 - TO_FIND


def cheapest(result: Result, ordered: Sequence[KindRow]) -> list[KindRow]:
    """Return the kinds of key whose WAL is within TO_FIND of the least WAL, in ascending order.

    Leave out kinds that are significantly slower than the kind BASE, by more than TO_FIND.
    """

    def wal(kind: KindRow) -> float:
        ratio = wal_of(result, kind).ratio
        return ratio.median if ratio else inf

    fast_kinds = [kind for kind in ordered if not loses(speed_of(result, kind))]
    least = min(map(wal, fast_kinds), default=0.0)
    return sorted((kind for kind in fast_kinds if wal(kind) <= least * (1 + TO_FIND)), key=wal)


def explained(kind: KindRow) -> str:
    return EXPLAINED.get(kind.kind, kind.label)


def with_function(kind: KindRow) -> str:
    function = re.search(r"uuid_\w+_nextval", KEY_KINDS[kind.kind].column)
    return f"{kind.label} keys ({function[0]}())" if function else f"{kind.label} keys"


def steps_for(kinds: Sequence[KindRow]) -> list[Step]:
    """Return a statement for each recommended kind of key, and one for an existing table."""
    steps = []
    for name in (kind.kind for kind in kinds if kind.kind in CASES):
        case, page = CASES[name]
        column = KEY_KINDS[name].column.replace("uuid ", "uuid PRIMARY KEY ", 1)
        steps.append(Step(case, f"CREATE TABLE events (id {column}, body jsonb);", page))
    return [*steps, SWITCH] if steps else []


def ordered_verdict(result: Result, base: KindRow, ordered: Sequence[KindRow]) -> Verdict:
    chosen = cheapest(result, ordered)[:2]
    shown = chosen or ordered[:1]
    speeds, wals = [speed_of(result, kind) for kind in shown], [wal_of(result, kind) for kind in shown]
    by_speed, by_wal = all(speed.decided for speed in speeds), all(wal.ratio for wal in wals)
    answer = " or ".join(map(explained, chosen)) or BASE
    clauses = [
        (with_function(kind), [wal.words, speed.words if speed.decided else "the speed is too noisy to compare"])
        for kind, wal, speed in zip(shown, wals, speeds, strict=True)
    ]
    figures = [f"With {label}, {'; '.join(filter(None, words))}." for label, words in clauses]
    sure = surety(speeds)
    return Verdict(
        "Which key should you use?",
        answer if by_speed or by_wal else UNDECIDED,
        " ".join(figures),
        f"{table_text(base)} {OFFER}",
        sure if by_speed or not by_wal else f"{EXACT} {sure}",
        bars([base, *shown], speed=by_speed),
        steps_for(chosen) if by_speed or by_wal else (),
    )


def growth_verdict(result: Result, sizes: Sequence[int], kinds: Sequence[KindRow]) -> list[Verdict]:
    """Return the verdict on whether inserts get slower as the table grows. The first kind determines the answer.

    Speeds are relative to bigint, to reduce noise.
    """
    if len(sizes) < 2:
        return []
    base = f"a table with {sizes[0]:,} rows"
    compared, figures = [], []
    for kind in kinds:
        small, large = (speed_of(result, replace(kind, rows=rows)).ratios for rows in (sizes[0], sizes[-1]))
        compared.append(Compared("speed", base, ratios_by_round(large, small), speed=True))
        figures.append(f"With {kind.label} keys, {compared[-1].words}.")
    reads = [middle_of(result, INSERT, kinds[0].kind, READS, rows) or 0 for rows in (sizes[0], sizes[-1])]
    shown_sizes = dict.fromkeys((sizes[0], sizes[len(sizes) // 2], sizes[-1]))
    by_size = [speed_of(result, replace(kinds[0], rows=rows)).ratios.values() for rows in shown_sizes]
    shown = [(f"{rows:,} rows", estimated(100 * ratio for ratio in ratios), kinds[0].css)
             for rows, ratios in zip(shown_sizes, by_size, strict=True)]  # fmt: skip
    return [
        Verdict(
            "Do inserts get slower as the table grows?",
            answer_of(compared[:1]),
            f"{' '.join(figures)} An insert of a {kinds[0].label} key reads {reads[0]:.2f} index pages of the small "
            f"table, and {reads[1]:.2f} of the large table.",
            f"The speeds with {sizes[-1]:,} rows and with {sizes[0]:,} rows are relative to {BASE} in the same round.",
            surety(compared[:1]),
            bars_of(shown, number(0, f"% of {BASE}")) if compared[0].decided else (),
        )
    ]
