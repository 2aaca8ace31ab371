"""What the uuid-v1 experiment measures: kinds of key, steps, and its plan."""

from dataclasses import dataclass

from inorder.lab import setting
from inorder.lab.keys import KeyKind
from inorder.lab.plan import Plan
from inorder.units import MB

SUBJECT = "uuid_v1"
BASELINE = "uuid"

KINDS = {
    kind.name: kind
    for kind in (
        KeyKind("uuid_v1", "uuid_v1", "uuid_v1"),
        KeyKind("uuid", "uuid v1", "uuid"),
        KeyKind("uuid_v7", "uuid v7", "uuid"),
        KeyKind("bigint", "bigint", "bigint"),
    )
}

# In this order. SIZES and SIZES_AFTER read the size of the index; the others are timed and counted.
COPY_FROM = "copy_from"
COPY_MORE = "copy_more"
COPY_TO = "copy_to"
ANALYZE = "analyze"
SIZES = "sizes"
VACUUM_OLDEST = "vacuum_oldest"
VACUUM_RANDOM = "vacuum_random"
REINDEX = "reindex"
SIZES_AFTER = "sizes_after"
RECENT = "recent"
STEPS = {  # what each is, and its name in tables, short enough for a terminal of 80 columns, with the unit behind
    COPY_FROM: ("COPY FROM", "COPY FROM"),
    COPY_MORE: ("COPY FROM of the next 10 %", "next 10 %"),
    COPY_TO: ("COPY TO", "COPY TO"),
    ANALYZE: ("ANALYZE", "ANALYZE"),
    SIZES: ("index size", "index"),
    VACUUM_OLDEST: ("VACUUM after deleting the oldest 10 %", "VACUUM oldest"),
    VACUUM_RANDOM: ("VACUUM after deleting a random 10 %", "VACUUM random"),
    REINDEX: ("REINDEX", "REINDEX"),
    SIZES_AFTER: ("index size afterwards", "index then"),
    RECENT: ("count of the newest tenth by time", "newest tenth"),
}
VACUUMS = (VACUUM_OLDEST, VACUUM_RANDOM)


@dataclass(frozen=True, kw_only=True)
class UuidV1Plan(Plan):
    rows: int = setting.count(
        "Rows of the first COPY; the second has a tenth of them.", 1000, 10**10, 10_000_000, quick=1_000_000,
        full=200_000_000,
    )  # fmt: skip
    nodes: int = setting.count("Number of nodes.", 1, 1000, 9)
    lag: float = setting.duration("Time by which the clock of the slowest node is behind.", 0, lowest=0)
    file: str = setting.file("Version-1 UUIDs of your own, one per line in the order of arrival, instead of simulated.")
    rounds: int = setting.rounds(1)
    memory_bytes: int = setting.memory(128 * MB)

    @property
    def more_rows(self) -> int:
        return self.rows // 10

    @property
    def total(self) -> int:
        return self.rows + self.more_rows
