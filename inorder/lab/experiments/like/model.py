"""The model's cost of the key's index in a table like another; all else of its WAL is measured."""

from collections.abc import Callable, Sequence
from math import fsum

from inorder.lab.analysis.figures import Metric, Row, last_of, middle, middle_of, per
from inorder.lab.analysis.model import Conditions, IndexCost, index_cost
from inorder.lab.experiments.like.plan import LikePlan
from inorder.lab.experiments.like.sample import NEWEST
from inorder.lab.insert_tables import FILL, INSERT
from inorder.lab.keys import KEY_KINDS, USUAL_KINDS
from inorder.lab.report.section import Figure, Section, Value, number, table
from inorder.lab.results import Result, Run

PARTS = ("partition_rows", "partition_inserted", "partition_entries")


def key_index(kind: str) -> str:
    return f"{kind}_pkey"


def cost_of(run: Run, plan: LikePlan, key_bytes: float) -> IndexCost | None:
    """Sum over partitions; a row that was updated not HOT adds an entry."""
    parts = [run.series.get(name, []) for name in PARTS]
    if run.kind not in USUAL_KINDS or not parts[0]:
        return None
    within = NEWEST if plan.touch == "recent" and run.kind != "random" else 1.0
    costs = []
    for rows, inserted, entries in zip(*parts, strict=True):
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
    own = middle_of(result, INSERT, kind, modelled(result, plan, "wal_bytes"))
    every = middle_of(result, INSERT, base, per("wal_bytes", "inserts"))
    of_key = middle_of(result, INSERT, base, per(f"wal_bytes {key_index(base)}", "inserts"))
    return None if own is None or every is None or of_key is None else every - of_key + own


def of_index(figure: str, scale: float = 1.0) -> Callable[[Row], Value]:
    return lambda row: middle(per(f"wal_{figure} {key_index(row.kind)}", "inserts", scale))(row)


def model_sections(result: Result, plan: LikePlan, kinds: Sequence[str]) -> list[Section]:
    def by_model(figure: str, scale: float = 1.0) -> Callable[[Row], Value]:
        return middle(modelled(result, plan, figure, scale))

    measured = (
        Figure("key", "Kind of key.", data="label", value=lambda row: KEY_KINDS[row.kind].label),
        Figure("WAL", "Bytes of WAL of the key's index for a transaction (pg_waldump).", number(0, "B"), "wal",
               bar=True, value=of_index("bytes")),
        Figure("model", "The same by the model.", number(0, "B"), "wal_model", bar=True, value=by_model("wal_bytes")),
        Figure("images", "Full-page images of the key's index for a transaction.", number(4), "images",
               value=of_index("images")),
        Figure("images,\nmodel", "The same by the model.", number(4), "images_model", value=by_model("images")),
        Figure("splits\n/1000", "Page splits of the key's index in 1,000 transactions.", number(2), "splits",
               value=of_index("splits", 1000)),
        Figure("splits,\nmodel", "The same by the model.", number(2), "splits_model", value=by_model("splits", 1000)),
    )  # fmt: skip
    lines = [Row(result, INSERT, kind) for kind in kinds]
    known = [line for line in lines if None not in (measured[1].value(line), measured[2].value(line))]
    return [table("like_model", "The key's index: model against measurement", measured, known)] if known else []
