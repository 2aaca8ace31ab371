"""The report on the savings of ordered keys: the kinds of key, the WAL of each part of the table, and the advice."""

import re
import statistics
from collections.abc import Callable, Sequence
from itertools import product
from math import fsum

from inorder.lab.analysis.figures import (
    Metric,
    Row,
    last,
    last_of,
    median,
    median_of,
    middle,
    middle_of,
    per,
    ratios_of,
    to,
)
from inorder.lab.analysis.model import LITTLE, Conditions, IndexCost, index_cost
from inorder.lab.experiments.like.plan import PARTS, LikePlan, shares
from inorder.lab.experiments.like.sample import NEWEST
from inorder.lab.plan.keys import KEY_KINDS, USUAL_KINDS
from inorder.lab.report.section import Column, Figure, Section, Value, number, table, to_base
from inorder.lab.report.verdict import UNDECIDED, Compared, Verdict, bars_of, figures_text, surety
from inorder.lab.results.result import Result, Run
from inorder.lab.tables.insert_tables import FILL, INSERT
from inorder.units import MB

BY_MODEL = "The same figure, calculated by the model."
BY_PARTITION = ("partition_rows", "partition_inserted", "partition_entries")


def key_index(kind: str) -> str:
    return f"{kind}_pkey"


def cost_of(run: Run, plan: LikePlan, key_bytes: float) -> IndexCost | None:
    """Return the cost of the index on the key, summed over partitions.

    An update that is not HOT adds an index entry.
    """
    by_partition = [run.series.get(name, []) for name in BY_PARTITION]
    if run.kind not in USUAL_KINDS or not by_partition[0]:
        return None
    within = NEWEST if plan.touch == "recent" and run.kind != "random" else 1.0
    costs = []
    for rows, inserted, entries in zip(*by_partition, strict=True):
        if inserted or entries:
            rate = max(1e-9, inserted)
            position = rows % 65536 if run.kind == "sequence" else 0
            where = Conditions(max(1.0, rows), rate, plan.memory_bytes, 1, interval_length=1, position=position,
                               key_bytes=key_bytes)  # fmt: skip
            costs.append(index_cost(run.kind, where, entries, within))
    return IndexCost(*(fsum(values) for values in zip(*(vars(cost).values() for cost in costs), strict=True)))


def modelled(result: Result, plan: LikePlan, figure: str, scale: float = 1.0) -> Metric:
    def value(run: Run) -> float | None:
        cost = cost_of(run, plan, last_of(result, FILL, run.kind, "key_bytes") or 0)
        return scale * float(getattr(cost, figure)) / run.metrics["inserts"] if cost else None

    return value


def predicted_wal(result: Result, plan: LikePlan, kind: str, base: str) -> float | None:
    modelled_key = middle_of(result, INSERT, kind, modelled(result, plan, "wal_bytes"))
    total = middle_of(result, INSERT, base, per("wal_bytes", "inserts"))
    measured_key = middle_of(result, INSERT, base, per(f"wal_bytes {key_index(base)}", "inserts"))
    return (
        None if modelled_key is None or total is None or measured_key is None else total - measured_key + modelled_key
    )


def of_index(figure: str, scale: float = 1.0) -> Callable[[Row], Value]:
    return lambda row: middle(per(f"wal_{figure} {key_index(row.kind)}", "inserts", scale))(row)


def model_sections(result: Result, plan: LikePlan, kinds: Sequence[str]) -> list[Section]:
    def by_model(figure: str, scale: float = 1.0) -> Callable[[Row], Value]:
        return middle(modelled(result, plan, figure, scale))

    measured = (
        Figure("key", "Kind of key.", data="label", value=lambda row: KEY_KINDS[row.kind].label),
        Figure("WAL", "Bytes of WAL of the key's index for a transaction (pg_waldump).", number(0, "B"), "wal",
               bar=True, value=of_index("bytes")),
        Figure("model", BY_MODEL, number(0, "B"), "wal_model", bar=True, value=by_model("wal_bytes")),
        Figure("images", "Full-page images of the key's index for a transaction.", number(4), "images",
               value=of_index("images")),
        Figure("images,\nmodel", BY_MODEL, number(4), "images_model", value=by_model("images")),
        Figure("splits\n/1000", "Page splits of the key's index in 1,000 transactions.", number(2), "splits",
               value=of_index("splits", 1000)),
        Figure("splits,\nmodel", BY_MODEL, number(2), "splits_model", value=by_model("splits", 1000)),
    )  # fmt: skip
    lines = [Row(result, INSERT, kind) for kind in kinds]
    predicted = [line for line in lines if None not in (measured[1].value(line), measured[2].value(line))]
    return [table("like_model", "The key's index: model against measurement", measured, predicted)] if predicted else []


WAL = per("wal_bytes", "inserts")
RANDOM = "random"
KEYS_INDEX = "key's index"


def base_of(plan: LikePlan) -> str:
    order = [kind for kind in ("v7", "bigint", *plan.kinds) if kind in plan.kinds and not kind.startswith(RANDOM)]
    return order[0] if order else plan.kinds[0]


def sections(result: Result, plan: LikePlan) -> list[Section]:
    measured = [kind for kind in plan.kinds if result.select(INSERT, kind)]
    kinds = sorted(measured, key=lambda kind: kind.startswith(RANDOM))  # ordered kinds of key first
    if not kinds:
        return []
    return [main_section(result, plan, kinds), *wal_sections(result, kinds), *model_sections(result, plan, kinds)]


def figures(plan: LikePlan, base: str) -> tuple[Figure, ...]:
    label = KEY_KINDS[base].label

    def by_model(row: Row) -> Value:
        ours, theirs = (predicted_wal(row.result, plan, kind, base) for kind in (row.kind, base))
        return ours / theirs if ours and theirs and row.kind != base else None

    return (
        Figure("key", "Kind of key of the table.", data="label", value=lambda row: KEY_KINDS[row.kind].label),
        FIGURES[0],
        Figure(f"vs {label}", "Ratio in the same round.", to_base, "ratio", value=to(base, "tps")),
        FIGURES[1],
        Figure(f"WAL vs {label}", "Ratio of the WAL in the same round.", to_base, "wal_ratio", value=to(base, WAL)),
        Figure("by model", "The same ratio, with the modeled WAL of the key's index; all other WAL is measured.",
               number(2), "wal_ratio_model", value=by_model),
        *FIGURES[2:],
    )  # fmt: skip


FIGURES = (
    Figure("tx/s", "Transactions per second (pgbench), median of the rounds.", number(), "tps", bar=True,
           value=median("tps")),
    Figure("WAL/tx", "Bytes of WAL per transaction (pg_stat_wal).", number(0, "B"), "wal_per_tx", bar=True,
           value=median(WAL)),
    Figure("FPI/tx", "Full-page images per transaction (pg_stat_wal).", number(3), "fpi_per_tx", bar=True,
           value=median(per("full_page_images", "inserts"))),
    Figure("HOT", "Share of updates that needed no index entry.", number(0, "%"), "hot_percent", terminal=False,
           value=median(per("hot", "updated", 100))),
    Figure("key's index", "Size of the key's index before the first round.", number(0, "MB"), "index_mb", bar=True,
           value=last(per("index_bytes", MB), FILL)),
    Figure("table", "Size of the table before the first round, without indexes and TOAST.", number(0, "MB"),
           "table_mb", terminal=False, value=last(per("bytes table", MB), FILL)),
)  # fmt: skip


def main_section(result: Result, plan: LikePlan, kinds: Sequence[str]) -> Section:
    title = f"Tables like {plan.table}: {plan.rows:,} rows, {conditions(plan)}"
    facts = plan.found
    hot_note = (
        f"On the server of the table, {100 * facts.hot / facts.updated:.0f} % of the updates are HOT."
        if facts and facts.updated
        else ""
    )
    lines = [Row(result, INSERT, kind) for kind in kinds]
    return table("like", title, figures(plan, base_of(plan)), lines, hot_note, main=True)


def conditions(plan: LikePlan) -> str:
    weights = shares(plan.mix)
    touched = "any rows" if plan.touch == "any" else "the newest hundredth"
    words = [f"{100 * share / sum(weights):.0f} % {name}s" + f" of {touched}" * (name != PARTS[0])
             for name, share in zip(PARTS, weights, strict=True) if share]  # fmt: skip
    return " and ".join(words) if len(words) < 3 else f"{words[0]}, {' and '.join(words[1:])}"


# The pg_waldump counters for each part of a table: name, second line of the header, description, format, and the number
# of transactions that a figure covers.
COUNTED = (
    ("bytes", "", "Bytes of WAL per transaction (pg_waldump).", number(0, "B"), 1),
    ("images", "\nFPI", "Full-page images per transaction.", number(4), 1),
    ("blocks", "\nblocks", "Distinct blocks changed, for each 1,000 transactions.", number(1), 1000),
    ("splits", "\nsplits", "Page splits in 1,000 transactions.", number(2), 1000),
)


def parts_of(result: Result, kind: str, figure: str = "bytes", scale: float = 1.0) -> dict[str, float]:
    prefix, by_part = f"wal_{figure} ", {}
    for name in {name for run in result.select(INSERT, kind) for name in run.metrics if name.startswith(prefix)}:
        relation = name.removeprefix(prefix)
        shown = KEYS_INDEX if relation == key_index(kind) else re.sub(rf"^{kind}_\d+_", "", relation)
        by_part[shown] = middle_of(result, INSERT, kind, per(name, "inserts", scale)) or 0.0
    return dict(sorted(by_part.items(), key=lambda item: (-item[1], item[0])))


def wal_sections(result: Result, kinds: Sequence[str]) -> list[Section]:
    relations = list(dict.fromkeys(relation for kind in reversed(kinds) for relation in parts_of(result, kind)))
    if not relations:
        return []
    heads, values = [Column("part", "Table, TOAST table or index; other: commits, catalogs, sequences.")], []
    for (figure, words, meaning, show, scale), kind in product(COUNTED, kinds):
        first = figure == "bytes"
        heads.append(
            Column(KEY_KINDS[kind].label + words, meaning, show, f"{figure}_{kind}", terminal=first, bar=first)
        )
        values.append(parts_of(result, kind, figure, scale))
    rows: list[list[Value]] = [[relation, *(amounts.get(relation) for amounts in values)] for relation in relations]
    return [Section("like_wal", "Where the WAL of a transaction comes from", heads, rows)]


def verdicts(result: Result, plan: LikePlan, question: str) -> list[Verdict]:
    base = base_of(plan)
    if RANDOM not in plan.kinds or not result.select(INSERT, RANDOM) or not result.select(INSERT, base):
        return []
    label = KEY_KINDS[base].label
    wal = Compared("WAL of random keys", label, ratios_of(result, INSERT, RANDOM, base, WAL))
    speed = Compared("speed of random keys", label, ratios_of(result, INSERT, RANDOM, base, "tps"), speed=True)
    compared = [comparison for comparison in (wal, speed) if comparison.ratio]
    shown = ((KEY_KINDS[kind].label, median_of(result, INSERT, kind, WAL), f"kind-{kind}") for kind in (base, RANDOM))
    figures = f"{figures_text(compared)} {by_model(result, plan, base)}{advice(result, wal)}".rstrip()
    bars = bars_of(shown, number(0, "B WAL/tx"))
    return [Verdict(question, saved(wal), figures, holds(result, plan), surety(compared), bars)] if compared else []


def saved(wal: Compared) -> str:
    if not wal.ratio or not wal.decided or not wal.ratio.high:
        return UNDECIDED
    exact = wal.ratio.differs_from(1.0)
    share = max(0.0, 100 * (1 - 1 / (wal.ratio.median if exact else wal.ratio.high)))
    return f"{'' if exact else 'At most '}{share:.0f} % of the WAL"


def by_model(result: Result, plan: LikePlan, base: str) -> str:
    ours, theirs = (predicted_wal(result, plan, kind, base) for kind in (RANDOM, base))
    if not ours or not theirs:
        return ""
    return f"By the model, the WAL of random keys is {ours / theirs:.2f} times that of {KEY_KINDS[base].label}. "


def advice(result: Result, wal: Compared) -> str:
    if not wal.ratio:
        return "The WAL is unknown: run the experiment on a throw-away server."
    if not wal.decided:
        return ""
    if last_of(result, FILL, RANDOM, "key_rises"):
        return "Keep the keys in order, as they are."
    if wal.ratio.median >= LITTLE:
        return "Generate the keys of new rows in order."
    wal_by_part = parts_of(result, RANDOM)
    key = 100 * wal_by_part.get(KEYS_INDEX, 0) / fsum(wal_by_part.values()) if wal_by_part else 0.0
    share = f"its index causes {key:.0f} % of the WAL" if wal_by_part else "it causes little of the WAL"
    return f"Leave the key as it is: {share}."


def holds(result: Result, plan: LikePlan) -> str:
    runs = result.select(INSERT, RANDOM)
    between = float(f"{statistics.median(run.metrics['inserted'] for run in runs):.2g}")
    filled = result.select(FILL, RANDOM)
    indexes = (
        sum(name.startswith("bytes ") for name in filled[0].metrics if not name.endswith((" table", " TOAST")))
        if filled
        else 1
    )
    return (
        f"Each copy of {plan.table} has {plan.rows:,} rows and {indexes} indexes. The load is {conditions(plan)}, with "
        f"{between:,.0f} inserted rows between two checkpoints."
    )
