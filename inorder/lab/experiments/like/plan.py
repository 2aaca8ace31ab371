"""The plan of the experiment on a table like the user's table."""

from dataclasses import dataclass

from inorder.lab.experiments.like.shape import TableFacts
from inorder.lab.plan import setting
from inorder.lab.tables import insert_tables
from inorder.text import quoted
from inorder.units import MB

USUAL = ("v7", "random")
PARTS = ("insert", "update", "read")


def shares(text: str) -> tuple[int, int, int]:
    """Parse the relative shares of inserts, updates and reads. An empty string stands for inserts only.

    >>> shares("insert=50, update=50"), shares("")
    ((50, 50, 0), (1, 0, 0))
    >>> shares("insert=0,read=1")
    Traceback (most recent call last):
    ValueError: the share of inserts is 0, so no key would be generated
    """
    weights = dict.fromkeys(PARTS, 0) | ({} if text else {"insert": 1})
    for item in filter(None, text.split(",")):
        name, _, share = item.strip().partition("=")
        if name not in PARTS or not share.isascii() or not share.isdigit() or len(share) > 15:
            parts = ", ".join(PARTS)
            raise ValueError(f"{quoted(item.strip())} is not a share such as insert=50; choose from {parts}")
        weights[name] = int(share)
    if not weights["insert"]:
        raise ValueError("the share of inserts is 0, so no key would be generated")
    return weights["insert"], weights["update"], weights["read"]


@dataclass(frozen=True, kw_only=True)
class LikePlan(setting.Plan):
    """The plan of the experiment. ``found``: facts about the table, read from its server."""

    table: str = setting.words("Name of the table, quoted as in SQL.", setting.TABLE)
    source: str = setting.server(
        "Server of the table, which is only read: connection string, URI or service=NAME. Default: libpq's environment."
    )
    key: str = setting.words("Column of the key. Default: the primary key's single column.", setting.COLUMN)
    kinds: tuple[str, ...] = insert_tables.keys(USUAL)
    mix: str = setting.words(
        "Relative shares of inserts, updates and reads, for example insert=50,update=50,read=0. Default: the inserts "
        "and updates that the server of the table has counted.", "SHARES", check=shares,
    )  # fmt: skip
    touch: str = setting.choice("Rows that updates and reads choose: any, or recent (the newest hundredth).",
                                ("any", "recent"), "any")  # fmt: skip
    update: tuple[str, ...] = setting.names("Columns that an update changes. Default: columns without an index.")
    leave_out: tuple[str, ...] = setting.names("Omit these columns, and the objects that depend on them.")
    sample: int = setting.count("Rows of the table that are read as a sample.", 10, 10**7, 10_000)
    rows: int = setting.count("Rows in each table.", 1000, 10**10, 1_000_000, quick=100_000, full=10_000_000)
    transactions: int = setting.count("Transactions of each measurement.", 8, 10**10, 50_000, quick=10_000)
    rounds: int = setting.rounds(6)
    clients: int = setting.count("Number of pgbench sessions.", 1, insert_tables.MOST_CLIENTS, 8, sessions=True)
    threads: int = setting.threads()
    memory_bytes: int = setting.memory(128 * MB, quick=32 * MB)
    fill_workers: int = insert_tables.fill_workers()
    synchronous_commit: str = setting.synchronous_commit("off")
    dump_wal: bool = setting.switch(True)
    found: TableFacts | None = setting.determined()  # noqa: RUF009

    @property
    def row_bytes(self) -> float:
        return self.found.row_bytes if self.found else 1000.0
