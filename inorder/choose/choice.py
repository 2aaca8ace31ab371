"""Choose a key: compute parameters and cost of each kind for the given requirements, and take the cheapest.

docs/choose.md has the rules. The functions are pure.
"""

from dataclasses import dataclass, replace
from math import ceil, inf

from inorder.errors import InputError
from inorder.lab.analysis.model import PAGE, Conditions, Prediction, leaf_capacity, predict
from inorder.lab.plan.keys import USUAL_KINDS
from inorder.units import size_text, time_text

NONE, POLL, FEED = READERS = ("none", "poll", "feed")

DAY = 86_400
YEAR = 365 * DAY
FOREVER = 100 * YEAR  # seconds until the prefix may wrap if rows are never deleted
MOST = 2**31 - 1  # maximum value of the block generators' parameters
LEAST_BLOCK = 256  # minimum number of sequence values in a block: about a leaf page; smaller blocks save no more

# Bytes that a column `xact bigint` adds to the WAL of a row. Its index is not included.
XACT_COLUMN = 8

# The column for each kind. If several kinds have the same cost, the first one is chosen.
COLUMNS = {
    "bigint": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "v7": "uuid PRIMARY KEY DEFAULT uuid_v7_nextval()",
    "xact": "uuid PRIMARY KEY DEFAULT uuid_xact_nextval()",
    "time": "uuid PRIMARY KEY DEFAULT uuid_time_nextval({size}, {count})",
    "sequence": "uuid PRIMARY KEY DEFAULT uuid_sequence_nextval('numbers', {size}, {count})",
    "random": "uuid PRIMARY KEY DEFAULT gen_random_uuid()",
}
IN_ORDER = ("bigint", "v7", "xact")
# Kinds whose keys are masked with uuid_mask() for clients, if keys must not leak creation time or order.
MASKED = {"v7": "uuid_mask(id, secret_key)", "xact": "uuid_mask(id, secret_key, 8)"}
assert set(COLUMNS) == set(USUAL_KINDS)


@dataclass(frozen=True)
class Needs:
    """The requirements for the key of a table. Times are in seconds.

    ``retention`` is the age at which rows are deleted, or None if rows are never deleted. ``hide`` is how precisely a
    key may reveal its creation time: 0 for exactly, infinite for not at all. ``guessable`` means that guessable ids are
    acceptable.
    """

    rows: float
    rate: float
    memory_bytes: float
    retention: float | None = None
    hide: float = 0.0
    reader: str = NONE
    guessable: bool = False
    checkpoint: float = 300.0


@dataclass(frozen=True)
class Blocks:
    """Parameters of a block generator: seconds or values per block, and the number of blocks until the prefix wraps."""

    size: int
    count: int
    per_second: float

    @property
    def wrap_seconds(self) -> float:
        return self.size * self.count / self.per_second

    @property
    def seconds(self) -> float:
        return self.size / self.per_second


@dataclass(frozen=True)
class Candidate:
    """A kind of key with its parameters and cost. ``against`` is the requirement that it does not meet."""

    kind: str
    column: str
    blocks: Blocks | None
    predicted: Prediction
    wal_per_row: float
    against: str
    is_masked: bool = False

    @property
    def io_per_row(self) -> float:
        """Bytes of WAL written and of index pages read per row. Kinds are compared by this number."""
        return self.wal_per_row + PAGE * self.predicted.misses_per_row


@dataclass(frozen=True)
class Choice:
    chosen: Candidate
    alternatives: tuple[Candidate, ...]
    reasons: tuple[str, ...]


def choice_for(needs: Needs) -> Choice:
    candidates = [candidate(kind, needs) for kind in COLUMNS]
    fitting = sorted(
        (candidate for candidate in candidates if not candidate.against), key=lambda candidate: candidate.io_per_row
    )
    if not fitting:
        raise InputError(
            "--reader poll needs keys in order, and --hide forbids them; HINT: Use --reader feed, which reads any key, "
            "or --hide always, which masks keys."
        )
    chosen = fitting[0]
    alternatives = [candidate for candidate in candidates if candidate is not chosen]
    alternatives.sort(key=lambda candidate: (bool(candidate.against), candidate.io_per_row))
    return Choice(chosen, tuple(alternatives), tuple(reasons(chosen, candidates, needs)))


def candidate(kind: str, needs: Needs) -> Candidate:
    blocks = blocks_of(kind, needs)
    conditions = Conditions(needs.rows, needs.rate, needs.memory_bytes, needs.checkpoint)
    column = COLUMNS[kind]
    if blocks:
        column = column.format(size=blocks.size, count=blocks.count)
        names = ("interval_length", "interval_count") if kind == "time" else ("block_size", "block_count")
        conditions = replace(conditions, **dict(zip(names, map(float, (blocks.size, blocks.count)), strict=True)))
    predicted = predict(kind, conditions)
    wal = predicted.wal_per_row
    if needs.reader == FEED and kind != "xact":
        column, wal = column + ", xact bigint NOT NULL DEFAULT xact_id()", wal + XACT_COLUMN
    return Candidate(kind, column, blocks, predicted, wal, objection(kind, blocks, needs), is_masked(kind, needs))


def blocks_of(kind: str, needs: Needs) -> Blocks | None:
    """Return the smallest blocks that hide the time as required. Prefixes are reused only after old rows are deleted.

    Smaller blocks have fewer pages: a larger share of the pages is in memory, and fewer pages are written as images.
    There are as many blocks as fill during the retention, plus the block that is being filled.

    >>> blocks_of("time", Needs(1e6, 100, 2**30, retention=3600, hide=60))
    Blocks(size=60, count=61, per_second=1.0)
    >>> blocks_of("sequence", Needs(1e6, 100, 2**30, retention=3600, hide=60))
    Blocks(size=6000, count=61, per_second=100)
    """
    if kind not in ("time", "sequence"):
        return None
    per_second, least = (1.0, 1) if kind == "time" else (needs.rate, LEAST_BLOCK)
    lifetime = max(FOREVER, needs.rows / needs.rate) if needs.retention is None else needs.retention
    hide = 0.0 if needs.hide == inf else needs.hide
    size = max(least, ceil(hide * per_second), ceil(lifetime * per_second / (MOST - 1)))
    return Blocks(size, ceil(lifetime * per_second / size) + 1, per_second)


def is_masked(kind: str, needs: Needs) -> bool:
    return needs.hide == inf and kind in MASKED


def objection(kind: str, blocks: Blocks | None, needs: Needs) -> str:
    reason = ""
    if is_masked(kind, needs):
        reason = ""
    elif needs.hide and kind in IN_ORDER:
        reason = "shows the order of creation (--hide)"
    elif needs.hide == inf and kind != "random":
        reason = "shows the block in which it was generated (--hide always)"
    elif needs.reader == POLL and kind not in IN_ORDER:
        reason = "not in order (--reader poll)"
    elif kind == "bigint" and not needs.guessable:
        reason = "sequential, guessable (--guessable allows it)"
    elif blocks and blocks.size > MOST:
        reason = f"a block of {blocks.size:,} exceeds the generator's range"
    return reason


def reasons(chosen: Candidate, candidates: list[Candidate], needs: Needs) -> list[str]:
    fitting = sum(not candidate.against for candidate in candidates)
    dearest = next(candidate for candidate in candidates if candidate.kind == "random")
    texts = [
        f"Of {fitting} kinds of key that meet the requirements, this kind needs the least I/O: "
        f"{chosen.io_per_row:,.0f} bytes per row; random keys need {dearest.io_per_row:,.0f}."
        if fitting > 1 else "No other kind of key meets the requirements."
    ]  # fmt: skip
    if chosen.is_masked:
        texts += [
            f"Give out {MASKED[chosen.kind]} instead of the key: a mask reveals nothing; uuid_unmask returns the key.",
            "Masks need the C extension on a server with OpenSSL (docs/mask.md). Elsewhere, use random keys, at "
            f"{dearest.io_per_row / chosen.io_per_row:,.0f} times the I/O.",
        ]
    elif chosen.blocks:
        texts += block_reasons(chosen, chosen.blocks, needs)
    elif chosen.kind == "random":
        texts.append(f"{chosen.predicted.misses_per_row:.2f} index pages are read per row with this memory.")
    if needs.reader == FEED:
        texts.append(
            "A feed reads rows by transaction number, which is part of the key."
            if chosen.kind == "xact"
            else "A feed reads rows by transaction number, from the column xact and its index (feed_prepare). "
            "Do not give out the values of this column: they reveal the order of transactions."
        )
    elif needs.reader == POLL:
        texts.append("Polling by key loses rows that commit after a row with a greater key; HINT: Use --reader feed.")
    return texts


def block_reasons(chosen: Candidate, blocks: Blocks, needs: Needs) -> list[str]:
    rows = blocks.seconds * needs.rate
    size = rows / (chosen.predicted.leaf_density / 100 * leaf_capacity(chosen.kind)) * PAGE
    misses = chosen.predicted.misses_per_row
    fits = "fits" if not misses else f"does not fit ({misses:.2f} index pages read per row)"
    deleted = ". By then, the old rows of a block are deleted (--retention)"
    wraps = ", in 100 years or more" if needs.retention is None else deleted
    return [
        f"A key reveals its creation time to within {time_text(blocks.seconds)}, "
        f"modulo {time_text(blocks.wrap_seconds)}.",
        f"A block has {rows:,.0f} rows, {size_text(size)} of index, which {fits} in memory.",
        f"The prefix wraps after {blocks.count:,} blocks{wraps}: new keys are not mixed with old keys.",
        *["A block lasts longer at a lower rate, and ends earlier at a higher rate."] * (chosen.kind == "sequence"),
    ]
