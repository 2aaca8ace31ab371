"""The plan of the insert experiment, and the steps in which its results are stored."""

from dataclasses import dataclass

from inorder.lab.plan import setting
from inorder.lab.plan.keys import FULL_KINDS, INDEX_KINDS, PRIMARY, USUAL_KINDS, with_indexes
from inorder.lab.tables import insert_tables
from inorder.lab.tables.insert_tables import INSERT
from inorder.units import MB

SIZES = "sizes"

# Variants from study P1: random keys with a newly built unique or plain index, and three kinds of key without an index.
P1_INDEXES = (
    "random_char_unique_packed", "random_char_plain_packed", "random_char_none", "time_char_none", "bigint_none",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class InsertPlan(setting.Plan):
    """The plan of the insert experiment, which combines all kinds of key with all kinds of index.

    ``dump_wal``: pg_waldump reads the WAL of each measurement. On a shared machine, 99 rounds detect a difference of 10
    % with a probability of 80 %: see the noise experiment.
    """

    kinds: tuple[str, ...] = insert_tables.keys(USUAL_KINDS, full=(*FULL_KINDS, *P1_INDEXES))
    indexes: tuple[str, ...] = setting.choices(
        "Kinds of index on the key.", tuple(INDEX_KINDS), (PRIMARY,), flag="--index"
    )
    rows: tuple[int, ...] = setting.counts(
        "Numbers of rows in the table, comma-separated.", 1000, 10**11, (10_000_000,),
        quick=(100_000, 1_000_000), full=(1000, 1_000_000, 10_000_000, 50_000_000, 100_000_000),
    )  # fmt: skip
    rounds: int = setting.rounds(99, quick=6, full=6)
    seconds: int = setting.seconds(1, full=60)
    inserts: int | None = insert_tables.inserts()
    batch: int = setting.count("Rows of one INSERT. Speeds are in rows/s; latencies are per INSERT.", 1, 100_000, 1)
    clients: tuple[int, ...] = setting.counts(
        "Numbers of pgbench sessions, comma-separated.", 1, insert_tables.MOST_CLIENTS, (8,), sessions=True
    )
    threads: int = setting.threads()
    memory_bytes: int = setting.memory(128 * MB, quick=16 * MB)
    iops: int | None = setting.optional_count(
        "Throttle the server's disks to this number of reads, and of writes, a second.", 10, 10**7, of_server=True
    )
    page_cache: int | None = setting.optional_bytes(
        "Page cache in addition to --memory, limited by a memory control group. Default: none.",
        16 * MB,
    )
    fill_workers: int = insert_tables.fill_workers()
    max_wal_size: int | None = setting.optional_bytes(
        "max_wal_size while measuring, to have several checkpoints in a measurement. Default: none.", 32 * MB
    )
    synchronous_commit: str = setting.synchronous_commit("off", full="on")
    tablespace: str = setting.folder("A folder for the indexes.", flag="--index-tablespace")
    dump_wal: bool = setting.switch(True)

    @property
    def variants(self) -> tuple[str, ...]:
        return with_indexes(self.kinds, self.indexes)

    @property
    def steps(self) -> dict[int, str]:
        return {count: INSERT if place == 0 else f"{INSERT}@{count}" for place, count in enumerate(self.clients)}
