"""WAL of study P3 at equal throughput: as many rows of each generator, published, measured and by the model."""

from dataclasses import replace
from statistics import median

from inorder.lab.analysis.figures import by_round, median_of, ratio_of
from inorder.lab.analysis.model import predict
from inorder.lab.experiments.insert import studies
from inorder.lab.experiments.insert.model import conditions_of, intervals
from inorder.lab.experiments.insert.plan import InsertPlan
from inorder.lab.experiments.insert.summary import WAL_PER_ROW
from inorder.lab.insert_tables import INSERT
from inorder.lab.keys import KEY_KINDS
from inorder.lab.results import Result, Run
from inorder.report.section import Column, Section, Value, number, ratio, text

BASE = "time60"
GB = 10**9
# The model's name of each generator, seconds of a block, rows of a block.
MODELLED = {
    "random": ("random", 60, 65536), BASE: ("time", 60, 65536), "sequence256": ("sequence", 60, 256),
    "sequence": ("sequence", 60, 65536),
}  # fmt: skip

EQUAL = (
    Column("key", "Kind of key of the table."),
    Column("rows", "Which of the study's tables.", text),
    Column("published", "GB of WAL in 4 hours, each generator at its own TPS: not comparable.", text),
    Column("scaled", "The same for as many rows as the fastest generator inserted: divided by the TPS relative to it.",
           number(1, "GB")),
    Column("vs time, 60 s", "Ratio of the published scaled figures.", number(1)),
    Column("here", "GB of WAL for as many rows here: WAL per row times rows.", number(1, "GB"), bar=True),
    Column("model", "The same by calculation for the measurements here.", number(1, "GB")),
    Column("ratio here", "Ratio of WAL per row to that of time, 60 s in the same round.", ratio),
)  # fmt: skip


def scaled(place: str, kind: str) -> float | None:
    """GB of the study for as many rows as the fastest; None where it has no figure.

    >>> scaled("large", "random"), scaled("large", "sequence256"), scaled("large", "time60")
    (65.0, 40.0, None)
    """
    published = studies.SEQUENTIAL_WAL_GB[place][kind]
    return None if isinstance(published, str) else published / studies.SEQUENTIAL_RELATIVE[place][kind]


def modelled(run: Run, memory_bytes: int) -> float:
    """Bytes of WAL a row by the model for a measurement; a block of time is new: its rows came in other minutes."""
    kind, seconds, block = MODELLED[run.kind]
    position = run.metrics["rows_before"] % block if kind == "sequence" else 0
    found = conditions_of(run, memory_bytes)
    return predict(kind, replace(found, interval_length=seconds, block_size=block, position=position)).wal_per_row


def equal_row(result: Result, plan: InsertPlan, place: str, kind: str, rows: int) -> list[Value]:
    """One generator in one of the tables."""
    published, base = scaled(place, kind), scaled(place, BASE)
    here = median_of(result, INSERT, kind, WAL_PER_ROW, rows)
    turns = intervals(result, kind, rows)
    printed = studies.SEQUENTIAL_WAL_GB[place][kind]
    return [
        KEY_KINDS[kind].label,
        place,
        printed if isinstance(printed, str) else f"{printed:g} GB",
        published,
        published / base if published and base and kind != BASE else None,
        here.median * studies.SEQUENTIAL_ROWS / GB if here else None,
        median(modelled(run, plan.memory_bytes) for run in turns) * studies.SEQUENTIAL_ROWS / GB if turns else None,
        ratio_of(result, INSERT, kind, BASE, WAL_PER_ROW, rows),
    ]


def equal_section(result: Result, plan: InsertPlan, places: dict[str, int]) -> Section:
    """Every generator in each of the study's tables, beside the sizes here."""
    table = [equal_row(result, plan, place, kind, rows) for place, rows in places.items() for kind in MODELLED]
    few = any(by_round(result, INSERT, kind, WAL_PER_ROW) for kind in MODELLED)
    caption = (
        f"As many rows: the {studies.SEQUENTIAL_ROWS:,} of 4 hours at {studies.SEQUENTIAL_MEDIUM_TPS['others']} TPS. "
        "The study calls the unscaled figures misleading. WAL per row depends on the rows between two checkpoints, "
        "which are fewer here."
    )
    title = "Beside study P3: WAL at equal throughput"
    return Section("published_wal", title, EQUAL, table, caption if few else "Empty: not run.")
