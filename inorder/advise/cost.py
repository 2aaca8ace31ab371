"""The modeled cost of a table's key: WAL, index pages read, size of the index, and share of the table's WAL.

docs/choose.md describes the model for the key's index. All other WAL of the table is estimated from the pages of the
table and of its other indexes. The functions are pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum

from inorder.lab.analysis import model

DAY = 86_400
KINDS = ("bigint", "v7", "xact", "time", "sequence", "random")
ORDERED, RANDOM = "v7", "random"
HEAP_TUPLE = 24 + model.LINE_POINTER  # header and line pointer of a row; the header in WAL records is shorter
RECORD = model.RECORD + model.BLOCK + model.MAIN_DATA
HEAP_INSERT: float = RECORD + model.HEAP_INSERT + model.TUPLE_HEADER_LOGGED
HEAP_UPDATE = model.SAME_RELATION_BLOCK + 14  # bytes in addition to those of an insert
ENTRIES = model.RANDOM_FILL * (model.PAGE - model.BTREE_PAGE_FIXED)  # bytes of entries in a leaf page with random keys
UPDATED_ANYWHERE, UPDATED_NEWEST = 1.0, 0.01  # share of the rows that updates change: all, or the newest hundredth


@dataclass(frozen=True)
class Other:
    """An index other than the key's index: its pages, and the number of its pages that get entries of new rows."""

    pages: float
    hot: float


@dataclass(frozen=True)
class Load:
    """A table or a partition, and the writes to it per second.

    ``entries`` counts updates that are not HOT, and therefore add index entries. ``key_bytes`` is the size of a key in
    its index, or 0 for the usual size of the kind. ``memory_bytes`` is the memory that can hold pages of the key's
    index.
    """

    rows: float
    pages: float
    toast_pages: float
    inserts: float
    updates: float
    entries: float
    deletes: float
    key_bytes: float
    other_indexes: tuple[Other, ...]
    memory_bytes: float
    checkpoint: float

    def conditions(self, kind: str) -> model.Conditions:
        size = 0 if kind == "bigint" else self.key_bytes
        return model.Conditions(max(1, self.rows), self.inserts, self.memory_bytes, self.checkpoint, key_bytes=size)


@dataclass(frozen=True)
class Cost:
    """The cost of a kind of key: bytes of WAL per day, index pages read per second, and bytes of the index."""

    kind: str
    wal_bytes_per_day: float
    reads_per_second: float
    index_bytes: float


@dataclass(frozen=True)
class Savings:
    """The cost of each kind of key, and the WAL that ordered keys save: bytes per day, and a share of the table's WAL.

    The share is ``least_share`` if updates change rows of any age, and ``most_share`` if they change only new rows.
    """

    costs: tuple[Cost, ...]
    saved_per_day: float
    least_share: float
    most_share: float


def other_wal(load: Load, other: Other, within: float) -> float:
    """Return the WAL bytes that another index causes between two checkpoints: records, page splits and page images."""
    inserts, entries = load.inserts * load.checkpoint, load.entries * load.checkpoint
    per_leaf = max(1.0, load.rows / max(1.0, other.pages))
    key = max(8.0, ENTRIES / per_leaf - model.LINE_POINTER - model.INDEX_TUPLE_HEADER)
    record = model.leaf_record(RANDOM, key) + model.split_records(RANDOM, False, key) / per_leaf
    images = model.distinct(max(1.0, other.hot), inserts) + model.distinct(max(1.0, within * other.pages), entries)
    return (inserts + entries) * record + min(images, other.pages + 1) * model.page_bytes(model.RANDOM_FILL)


def heap_wal(load: Load, within: float) -> float:
    """Return the WAL bytes of the table itself, including TOAST, between two checkpoints."""
    inserts, updates, deletes = (load.checkpoint * rate for rate in (load.inserts, load.updates, load.deletes))
    rows = max(1.0, load.rows)
    record = HEAP_INSERT + max(0.0, load.pages * model.PAGE / rows - HEAP_TUPLE)
    records = (inserts + updates) * record + updates * HEAP_UPDATE + deletes * RECORD
    images = model.distinct(max(1.0, within * load.pages), updates + deletes) + 1
    return records + images * model.PAGE + inserts * load.toast_pages * model.PAGE / rows


def table_wal(load: Load, kind: str, within: float) -> float:
    """Return the WAL bytes per day of the table and all its indexes."""
    entries = load.entries * load.checkpoint
    key = model.index_cost(kind, load.conditions(kind), entries, UPDATED_ANYWHERE if kind == RANDOM else within)
    parts = [key.wal_bytes, heap_wal(load, within), *(other_wal(load, other, within) for other in load.other_indexes)]
    return fsum(parts) * DAY / load.checkpoint


def cost_of(loads: Iterable[Load], kind: str) -> Cost:
    costs = []
    for load in loads:
        conditions = load.conditions(kind)
        shape = model.shape_of(kind, conditions)
        wal = model.index_cost(kind, conditions, load.entries * load.checkpoint).wal_bytes * DAY / load.checkpoint
        pages = 1 + shape.leaf_pages + fsum(model.upper_levels(kind, shape.leaf_pages, conditions.key_bytes))
        costs.append((wal, model.misses(shape, conditions) * load.inserts, pages * model.PAGE))
    return Cost(kind, *map(fsum, zip(*costs, strict=True)))


def compared(
    loads: Sequence[Load], kinds: Sequence[str] = KINDS, updated: Sequence[float] = (UPDATED_NEWEST, UPDATED_ANYWHERE)
) -> Savings:  # fmt: skip
    """Compare kinds of keys, once for each share in ``updated``.

    A share of 0.01 means that updates change only the newest hundredth of the rows.
    """
    shares, saved = [], 0.0
    for within in updated:
        now, ordered = (fsum(table_wal(load, kind, within) for load in loads) for kind in (RANDOM, ORDERED))
        saved = max(0.0, now - ordered)
        shares.append(saved / now)
    return Savings(tuple(cost_of(loads, kind) for kind in kinds), saved, min(shares), max(shares))


def after_switch(loads: Sequence[Load], is_last: bool) -> tuple[float, float]:
    """Return the daily WAL and growth, in bytes, of an index of random keys into which ordered keys are inserted.

    ``is_last`` is true if the new keys sort after all random keys. Otherwise, the new keys are inserted at one point
    among the random keys, where pages are split in the middle.
    """
    wal, growth = 0.0, 0.0
    for load in loads:
        fill = model.LEAF_FILLFACTOR if is_last else 0.5
        per_leaf = fill * model.leaf_capacity(ORDERED, load.key_bytes)
        split = model.split_records(ORDERED, is_last, load.key_bytes) / per_leaf
        wal += load.inserts * DAY * (model.leaf_record(ORDERED, load.key_bytes) + split)
        growth += load.inserts * DAY * model.PAGE / per_leaf
    return wal, growth
