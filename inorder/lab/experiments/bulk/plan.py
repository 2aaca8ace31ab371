"""What the bulk experiment measures: kinds of key, steps, and its plan."""

import random
from dataclasses import dataclass

from inorder.lab import setting
from inorder.lab.keys import KEY_KINDS, USUAL_KINDS, KeyKind
from inorder.lab.plan import Plan
from inorder.units import MB

SERIES = "series"  # P1's bigint in bulk: the numbers of generate_series, without nextval
KINDS = {name: KEY_KINDS[name] for name in (*USUAL_KINDS, "time_char", "random_char", "random_ossp")}
KINDS[SERIES] = KeyKind(SERIES, "bigint, series", "bigint")

# In this order, but that the indexes built for comparison are so in shuffled order.
WITH_KEY = "with_key"
NO_INDEX = "no_index"
ADD_KEY = "add_key"
PLAIN = "plain"
NO_DEDUP = "no_dedup"
UNIQUE = "unique"
COPY_OUT = "copy_out"
COPY_IN = "copy_in"
STEPS = {
    WITH_KEY: "INSERT … SELECT, primary key present",
    NO_INDEX: "INSERT … SELECT, no index",
    ADD_KEY: "adding the primary key",
    PLAIN: "a plain btree",
    NO_DEDUP: "a plain btree without deduplication",
    UNIQUE: "a unique index",
    COPY_OUT: "COPY TO a file",
    COPY_IN: "COPY FROM the file, primary key present",
}
BUILDS = (PLAIN, NO_DEDUP, UNIQUE)
LEAVE_KEY = (WITH_KEY, ADD_KEY, COPY_IN)  # a primary key, whose size and leaf density are then noted


@dataclass(frozen=True, kw_only=True)
class BulkPlan(Plan):
    kinds: tuple[str, ...] = setting.choices(
        "Kinds of key, comma-separated.", tuple(KINDS), tuple(name for name, kind in KINDS.items() if not kind.contrib),
        flag="--keys", needs_inorder=lambda kind: KINDS[kind].needs_inorder, contrib=lambda kind: KINDS[kind].contrib,
        label=lambda kind: KINDS[kind].label,
    )  # fmt: skip
    rows: tuple[int, ...] = setting.counts(
        "Rows of the table, several comma-separated.", 1000, 10**10, (1_000_000,), quick=(100_000,),
        full=(1_000_000, 10_000_000, 50_000_000),
    )  # fmt: skip
    rounds: int = setting.rounds(6, quick=3)
    shared_buffers: int = setting.memory(512 * MB, "shared_buffers; the page cache stays behind them.")
    steps: tuple[str, ...] = setting.choices("", tuple(STEPS), asked=False)


def steps_of(seed: int, rows: int, kind: str, number: int) -> list[str]:
    """The steps of one kind in one round: the order of the indexes built for comparison is drawn by lot.

    >>> len({tuple(steps_of(1, 1000, "random", number)) for number in range(50)})
    6
    """
    builds = random.Random(repr((seed, "indexes", rows, kind, number))).sample(BUILDS, len(BUILDS))
    return [WITH_KEY, NO_INDEX, ADD_KEY, *builds, COPY_OUT, COPY_IN]
