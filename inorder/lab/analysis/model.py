"""A model of the cost of an insert: pages touched, full-page images, WAL, buffer misses, and index size.

The formulas follow PostgreSQL's page and record layouts, and docs/choose.md summarizes them. ``inorder choose`` and
``inorder advise`` use this module, and the lab compares its predictions with measurements. The functions are pure.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, expm1, fsum, log, log1p

from inorder.lab.plan.keys import USUAL_KINDS

PAGE = 8192

# A btree page has a PageHeaderData of 24 bytes and a BTPageOpaqueData of 16 bytes. Each entry has an ItemIdData of 4
# bytes and an IndexTuple header of 8 bytes, followed by the key.
BTREE_PAGE_FIXED = 24 + 16
INDEX_TUPLE_HEADER = 8
LINE_POINTER = 4
LEAF_FILLFACTOR = 0.90  # BTREE_DEFAULT_FILLFACTOR: the fill at which the last leaf page is split
UPPER_FILLFACTOR = 0.70  # BTREE_NONLEAF_FILLFACTOR
RANDOM_FILL = log(2)  # average fill of pages that split in the middle

# A heap tuple has a HeapTupleHeaderData of 23 bytes, padded to 24. Its WAL record replaces these 23 bytes with an
# xl_heap_header of 5 bytes.
TUPLE_HEADER_LOGGED = 5 + 1

# Sizes of the parts of a WAL record: XLogRecord; a block header with RelFileLocator and block number; the header of
# another block of the same relation, without RelFileLocator; the short header of the main data; and the main data of
# xl_heap_insert, xl_btree_insert and xl_btree_split.
RECORD = 24
BLOCK = 4 + 12 + 4
SAME_RELATION_BLOCK = 4 + 4
MAIN_DATA = 2
HEAP_INSERT = 3
BTREE_INSERT = 2
BTREE_SPLIT = 10
IMAGE_HEADER = 5  # XLogRecordBlockImageHeader
COMMIT_RECORD = RECORD + MAIN_DATA + 8  # MinSizeOfXactCommit, which is the commit timestamp
SEQUENCE_RECORD = 99  # RECORD, BLOCK, an xl_seq_rec of 12 bytes and the sequence's tuple
VALUES_PER_SEQUENCE_RECORD = 33  # SEQ_LOG_VALS (32), plus the returned value

KEY_BYTES = {kind: 16 for kind in USUAL_KINDS} | {"bigint": 8}
WITH_SEQUENCE = ("bigint", "sequence")
IN_BLOCKS = ("time", "sequence")

# Ordered keys cause few full-page images, regardless of the number of rows between two checkpoints:
# * the last page of each level of the index;
# * three pages of the free space map;
# * up to nine catalog pages whose hint bits are set after the server has started;
# * one page of the table for each session, and one for each session of the previous measurement that left a page with
#   free space.
# Measured: 3 to 18 images with 8 sessions, and up to 38 after a measurement with 32 sessions. These numbers are too
# small for a ratio.
FEW_IMAGES = 16

LITTLE = 1.2  # keys count as expensive if they cause at least this many times the WAL of ordered keys

PHASES = 50  # number of checkpoint positions in a block to average over if the position is unknown


def few_images(clients: Sequence[int]) -> int:
    return FEW_IMAGES + max(clients)


@dataclass(frozen=True)
class Conditions:
    """The conditions of a prediction.

    A block of a sequence has ``block_size`` rows, and a block of time lasts ``interval_length`` seconds. The prefix
    wraps around after ``block_count`` or ``interval_count`` blocks.

    * ``rows``: rows in the table at the checkpoint.
    * ``rate``: rows inserted per second.
    * ``memory_bytes``: memory for the index.
    * ``checkpoint``: seconds between two checkpoints.
    * ``position``: the number of rows in the current block, or None to average over all positions.
    * ``key_bytes``: the size of a key in the index, or 0 for the usual size for the kind of key.
    """

    rows: float
    rate: float
    memory_bytes: float
    checkpoint: float
    block_size: float = 65536
    block_count: float = 65536
    interval_length: float = 60
    interval_count: float = 65536
    position: float | None = None
    key_bytes: float = 0

    @property
    def inserts(self) -> float:
        return self.rate * self.checkpoint

    def block(self, kind: str) -> tuple[float, float]:
        if kind == "time":
            return self.rate * self.interval_length, self.interval_count
        return self.block_size, self.block_count


@dataclass(frozen=True)
class Prediction:
    """The predicted cost of one kind of key.

    Fields that end in "per_row" are per row. ``leaf_pages_touched`` and ``images`` are per checkpoint interval.
    """

    kind: str
    leaf_pages_touched: float
    images: float
    images_per_row: float
    record_bytes_per_row: float
    image_bytes_per_row: float
    misses_per_row: float
    index_bytes: float
    leaf_density: float

    @property
    def wal_per_row(self) -> float:
        return self.record_bytes_per_row + self.image_bytes_per_row


def distinct(pages: float, inserts: float) -> float:
    """Return the expected number of distinct pages that random inserts touch: P(1 − (1 − 1/P)^n)."""
    if pages <= 1:
        return float(pages)
    return -pages * expm1(inserts * log1p(-1 / pages))


def index_tuple(kind: str, key_bytes: float = 0) -> int:
    return INDEX_TUPLE_HEADER + int(key_bytes or KEY_BYTES[kind])


def leaf_capacity(kind: str, key_bytes: float = 0) -> int:
    """Return the number of entries in a full leaf page, not counting its high key."""
    return (PAGE - BTREE_PAGE_FIXED) // (index_tuple(kind, key_bytes) + LINE_POINTER) - 1


def leaf_fill(kind: str, block: float = 0.0, passed: bool = False, key_bytes: float = 0) -> float:
    """Return the fraction of a leaf page that is in use.

    Ordered keys fill 90 % of a page, and random keys fill ln 2 (69 %). While the first page of a block is the last page
    of the index, it splits at 90 %; all later splits are in the middle. Small blocks therefore have fuller pages.
    """
    if kind == "random" or passed:
        return RANDOM_FILL
    if kind in IN_BLOCKS:
        return RANDOM_FILL + (LEAF_FILLFACTOR - RANDOM_FILL) * exp(-block / leaf_capacity(kind, key_bytes))
    return LEAF_FILLFACTOR


def upper_levels(kind: str, leaf_pages: float, key_bytes: float = 0) -> Iterator[float]:
    fill = RANDOM_FILL if kind == "random" else UPPER_FILLFACTOR
    pages = leaf_pages
    while pages > 1:
        pages = max(1.0, pages / (fill * leaf_capacity(kind, key_bytes)))
        yield pages


def page_bytes(fill: float) -> float:
    """Return the size of a page in a full-page image, which omits the hole between pd_lower and pd_upper."""
    return BTREE_PAGE_FIXED + fill * (PAGE - BTREE_PAGE_FIXED)


@dataclass(frozen=True)
class IndexShape:
    kind: str
    block: float
    earlier: float  # rows that each block has from earlier passes of the prefix
    fill: float
    leaf_pages: float
    levels: tuple[float, ...]
    key_bytes: float = 0

    @property
    def rows_per_leaf(self) -> float:
        return self.fill * leaf_capacity(self.kind, self.key_bytes)

    @property
    def splits_per_row(self) -> float:
        return 1 / self.rows_per_leaf


def shape_of(kind: str, conditions: Conditions) -> IndexShape:
    block, earlier, key_bytes = 0.0, 0.0, conditions.key_bytes
    if kind in IN_BLOCKS:
        block, count = conditions.block(kind)
        earlier = conditions.rows // (block * count) * block
    fill = leaf_fill(kind, block, earlier > 0, key_bytes)
    leaf_pages = max(1.0, conditions.rows / (fill * leaf_capacity(kind, key_bytes)))
    return IndexShape(
        kind, block, earlier, fill, leaf_pages, tuple(upper_levels(kind, leaf_pages, key_bytes)), key_bytes
    )


def touched_in_blocks(shape: IndexShape, conditions: Conditions, position: float) -> float:
    """Return the number of existing leaf pages that receive an insert after the checkpoint.

    ``position`` is the number of rows in the current block at the checkpoint. The first inserts go to the pages of the
    current block. Later inserts go to pages that the following blocks have from earlier passes of the prefix. In the
    first pass, these blocks have no pages yet.
    """
    inserts = conditions.inserts
    in_current = min(inserts, shape.block - position)
    blocks, last_inserts = divmod(inserts - in_current, shape.block)
    current, old = (rows / shape.rows_per_leaf for rows in (position + shape.earlier, shape.earlier))
    return distinct(current, in_current) + blocks * distinct(old, shape.block) + distinct(old, last_inserts)


def touched(shape: IndexShape, conditions: Conditions) -> float:
    """Return the number of leaf pages that exist at a checkpoint and receive an insert before the next checkpoint."""
    if shape.kind == "random":
        return distinct(shape.leaf_pages, conditions.inserts)
    if shape.kind not in IN_BLOCKS:
        return 1.0
    if conditions.position is not None:
        positions = [conditions.position]
    else:
        positions = [shape.block * (phase + 0.5) / PHASES for phase in range(PHASES)]
    pages = fsum(touched_in_blocks(shape, conditions, position) for position in positions) / len(positions)
    return min(max(1.0, pages), shape.leaf_pages)


def images_above(shape: IndexShape, conditions: Conditions) -> float:
    """Return the number of full-page images of upper pages. Each split adds an entry to the parent, up to the root."""
    splits = conditions.inserts * shape.splits_per_row
    images = 0.0
    for pages in shape.levels:
        images += distinct(pages, splits) if shape.kind == "random" else min(1.0, splits)
        splits *= shape.splits_per_row
    return images


def heap_record(kind: str) -> float:
    return RECORD + BLOCK + MAIN_DATA + HEAP_INSERT + TUPLE_HEADER_LOGGED + KEY_BYTES[kind]


def leaf_record(kind: str, key_bytes: float = 0) -> float:
    return RECORD + BLOCK + MAIN_DATA + BTREE_INSERT + index_tuple(kind, key_bytes)


def split_records(kind: str, in_order: bool, key_bytes: float = 0) -> float:
    """Return the bytes of WAL that a leaf page split adds. The split record replaces the insert record."""
    entry = index_tuple(kind, key_bytes)
    # The record of the insert into the parent also refers to the child page, whose INCOMPLETE_SPLIT flag is cleared.
    parent = leaf_record(kind, key_bytes) + SAME_RELATION_BLOCK
    # The split record contains the entries of the right page. These are half of all entries or, for ordered keys, the
    # entries beyond the fillfactor.
    moved = leaf_capacity(kind, key_bytes) * (1 - LEAF_FILLFACTOR if in_order else 0.5) + 1
    split = RECORD + BLOCK + SAME_RELATION_BLOCK + MAIN_DATA + BTREE_SPLIT + entry + moved * entry
    return split - leaf_record(kind, key_bytes) + parent


def record_bytes(shape: IndexShape) -> float:
    """Return the bytes of WAL per row without full-page images: heap, leaf, commit, page splits, and sequence."""
    kind = shape.kind
    splits = shape.splits_per_row * split_records(kind, kind not in ("random", *IN_BLOCKS))
    sequence = SEQUENCE_RECORD / VALUES_PER_SEQUENCE_RECORD if kind in WITH_SEQUENCE else 0.0
    return heap_record(kind) + leaf_record(kind) + COMMIT_RECORD + sequence + splits


def misses(shape: IndexShape, conditions: Conditions) -> float:
    """Return the number of index pages read per row after memory is full.

    Upper levels stay in memory, and leaf pages use the remaining memory.

    >>> small, large = (Conditions(1e9, 1e4, memory, 300) for memory in (2**20, 2**40))
    >>> [round(misses(shape_of("random", conditions), conditions), 1) for conditions in (small, large)]
    [2.0, 0.0]
    >>> misses(shape_of("v7", small), small)
    0.0
    """
    if shape.kind != "random" and shape.kind not in IN_BLOCKS:
        return 0.0
    memory = conditions.memory_bytes / PAGE
    if shape.kind in IN_BLOCKS:
        # Pages from an earlier pass are read when their block begins again, unless the whole index fits in memory. If
        # memory is smaller than one block, these pages are read more often.
        working = max(1.0, (shape.earlier + shape.block) / shape.rows_per_leaf)
        first = distinct(shape.earlier / shape.rows_per_leaf, shape.block) / shape.block
        return max(first * max(0.0, 1 - memory / shape.leaf_pages), 1 - memory / working, 0.0)
    missed = 0.0
    for pages in (*reversed(shape.levels), shape.leaf_pages):
        missed += max(0.0, 1 - memory / pages)
        memory = max(0.0, memory - pages)
    return missed


def predict(kind: str, conditions: Conditions) -> Prediction:
    shape = shape_of(kind, conditions)
    pages = touched(shape, conditions)
    tail = 1.0  # the last page of the heap; later pages are new, and new pages need no image
    if kind in IN_BLOCKS:
        tail += 1.0  # the last page of the index, where the next block begins
    images = pages + images_above(shape, conditions) + tail
    # A record with a full-page image of the leaf page omits the index tuple.
    image = page_bytes(shape.fill) + IMAGE_HEADER - index_tuple(kind)
    return Prediction(
        kind=kind,
        leaf_pages_touched=pages,
        images=images,
        images_per_row=images / conditions.inserts,
        record_bytes_per_row=record_bytes(shape),
        image_bytes_per_row=images * image / conditions.inserts,
        misses_per_row=misses(shape, conditions),
        index_bytes=(1 + shape.leaf_pages + sum(shape.levels)) * PAGE,  # includes the metapage
        leaf_density=100 * shape.fill,
    )


@dataclass(frozen=True)
class IndexCost:
    """The cost of the index on the key between two checkpoints: full-page images, page splits, bytes of WAL."""

    images: float
    splits: float
    wal_bytes: float


def index_cost(kind: str, conditions: Conditions, elsewhere: float = 0.0, within: float = 1.0) -> IndexCost:
    """Return the cost of the index for inserted rows, and for ``elsewhere`` new index entries of existing rows.

    The entries of existing rows are spread over the fraction ``within`` of the leaf pages.

    >>> ordered, random = (index_cost(kind, Conditions(1e6, 1000, 2**30, 10)) for kind in ("v7", "random"))
    >>> round(ordered.images), round(random.images), round(random.wal_bytes / ordered.wal_bytes)
    (2, 4331, 33)
    """
    shape = shape_of(kind, conditions)
    size = index_tuple(kind, conditions.key_bytes)
    random = shape_of("random", replace(conditions, key_bytes=size - INDEX_TUPLE_HEADER))
    pages = touched(shape, conditions)
    pages += (1 - pages / shape.leaf_pages) * distinct(max(1.0, within * shape.leaf_pages), elsewhere)
    images = pages + images_above(shape, conditions) + (1.0 if kind in IN_BLOCKS else 0.0)
    splits = conditions.inserts * shape.splits_per_row + elsewhere * random.splits_per_row
    split = split_records(kind, kind not in ("random", *IN_BLOCKS), conditions.key_bytes)
    records = (conditions.inserts + elsewhere) * leaf_record(kind, conditions.key_bytes) + splits * split
    return IndexCost(images, splits, records + images * (page_bytes(shape.fill) + IMAGE_HEADER - size))
