"""The model's cost of the key's index in a table like another; all else of its WAL is measured."""

from collections.abc import Sequence
from math import fsum

from inorder.lab.analysis.figures import Metric, last_of, middle_of, per
from inorder.lab.analysis.model import Conditions, IndexCost, index_cost
from inorder.lab.experiments.like.plan import LikePlan
from inorder.lab.experiments.like.sample import NEWEST
from inorder.lab.insert_tables import FILL, INSERT
from inorder.lab.keys import KEY_KINDS, USUAL_KINDS
from inorder.lab.report.section import Column, Section, Value, number
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


COLUMNS = (
    Column("key", "Kind of key.", data="label"),
    Column("WAL", "Bytes of WAL of the key's index for a transaction (pg_waldump).", number(0, "B"), "wal", bar=True),
    Column("model", "The same by the model.", number(0, "B"), "wal_model", bar=True),
    Column("images", "Full-page images of the key's index for a transaction.", number(4), "images"),
    Column("images,\nmodel", "The same by the model.", number(4), "images_model"),
    Column("splits\n/1000", "Page splits of the key's index in 1,000 transactions.", number(2), "splits"),
    Column("splits,\nmodel", "The same by the model.", number(2), "splits_model"),
)


def model_sections(result: Result, plan: LikePlan, kinds: Sequence[str]) -> list[Section]:
    table: list[list[Value]] = []
    for kind in kinds:
        index, figures = key_index(kind), (("bytes", 1.0), ("images", 1.0), ("splits", 1000.0))
        cells: list[Value] = []
        for figure, scale in figures:
            cells += [
                middle_of(result, INSERT, kind, per(f"wal_{figure} {index}", "inserts", scale)),
                middle_of(
                    result, INSERT, kind, modelled(result, plan, "wal_bytes" if figure == "bytes" else figure, scale)
                ),
            ]
        if cells[0] is not None and cells[1] is not None:
            table.append([KEY_KINDS[kind].label, *cells])
    return [Section("like_model", "The key's index: model against measurement", COLUMNS, table)] if table else []
