"""The readers that the experiment compares. Each reader polls for new rows, and remembers its position.

No reader waits for a transaction. All readers use an index on the same table.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from inorder.connection.database import Connection, ServerRow
from inorder.lab.plan import setting
from inorder.lab.plan.keys import SCHEMA

# The label of each reader tells how it keeps its position.
READERS = {
    "id": "where id > last",
    "created": "where created > last",
    "v7": "where v7 > last",
    "horizon": "xmin horizon",
    "feed": "inorder feed",
}
NEED_INORDER = ("v7", "horizon", "feed")

TABLE = f"{SCHEMA}.events"
FEED_ROWS = 10_000  # maximum number of rows in a batch

FEED = SCHEMA  # the name of the feed

WITH_INORDER = (
    f"""CREATE TABLE {TABLE} (
        key uuid PRIMARY KEY DEFAULT uuid_xact_nextval(),
        id bigserial UNIQUE,
        created timestamptz NOT NULL DEFAULT clock_timestamp(),
        v7 uuid NOT NULL UNIQUE DEFAULT uuid_v7_nextval())""",
    f"CREATE INDEX ON {TABLE} (created)",
    f"SELECT feed_create('{FEED}'::text, '{TABLE}'::regclass, 'beginning'::text, NULL::name)",
)
WITHOUT = (
    f"CREATE TABLE {TABLE} (id bigserial PRIMARY KEY, created timestamptz NOT NULL DEFAULT clock_timestamp())",
    f"CREATE INDEX ON {TABLE} (created)",
)


def setup(readers: Iterable[str]) -> tuple[str, ...]:
    return WITH_INORDER if set(readers) & set(NEED_INORDER) else WITHOUT


class Reader(ABC):
    @abstractmethod
    def poll(self, connection: Connection) -> list[int]:
        """Return the ids of new rows, and advance the position of the reader."""

    def held(self, connection: Connection) -> set[int]:
        """Return the ids of committed rows that the reader will return later."""
        return set()


class Greatest(Reader):
    """A common kind of reader, which loses rows. Its position is the greatest value of a column among returned rows."""

    def __init__(self, column: str, start: object) -> None:
        self.query = f"SELECT id, {column} FROM {TABLE} WHERE {column} > %s ORDER BY {column}".encode()
        self.last = start

    def poll(self, connection: Connection) -> list[int]:
        rows = connection.execute(self.query, (self.last,)).fetchall()
        if rows:
            self.last = rows[-1][1]
        return ids(rows)


class Horizon(Reader):
    """A reader whose position is a transaction ID below which all transactions on the server have ended."""

    # The horizon must be read before the rows, so that all transactions below it have ended.
    HORIZON = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
    ROWS = (
        f"SELECT id FROM {TABLE} "
        "WHERE key >= uuid_xact_floor(%s::bigint) AND key < uuid_xact_floor(%s::bigint) ORDER BY key"
    )
    LATER = f"SELECT id FROM {TABLE} WHERE key >= uuid_xact_floor(%s::bigint)"

    def __init__(self) -> None:
        self.read_below: object = 0

    def poll(self, connection: Connection) -> list[int]:
        ((horizon,),) = connection.execute(self.HORIZON).fetchall()
        rows = connection.execute(self.ROWS.encode(), (self.read_below, horizon)).fetchall()
        self.read_below = horizon
        return ids(rows)

    def held(self, connection: Connection) -> set[int]:
        """Return the rows above the horizon. They wait for an older transaction that is open anywhere on the server."""
        return set(ids(connection.execute(self.LATER.encode(), (self.read_below,)).fetchall()))


class Feed(Reader):
    """A reader whose position is the set of transactions that it has read, stored in the database.

    The position advances when the poll commits.
    """

    ROWS = f"SELECT id FROM feed_read('{FEED}'::text, null::{TABLE}, {FEED_ROWS}::int, NULL::regrole)"

    def poll(self, connection: Connection) -> list[int]:
        """Return the rows of transactions that have ended since the last poll.

        A real reader would process the rows in the same transaction.
        """
        with connection.transaction():
            return ids(connection.execute(self.ROWS.encode()).fetchall())


def ids(rows: list[ServerRow]) -> list[int]:
    return [int(row[0]) for row in rows]


def all_readers() -> dict[str, Reader]:
    return {
        "id": Greatest("id", 0),
        "created": Greatest("created", "-infinity"),
        "v7": Greatest("v7", "00000000-0000-0000-0000-000000000000"),
        "horizon": Horizon(),
        "feed": Feed(),
    }


@dataclass(frozen=True, kw_only=True)
class ReaderPlan(setting.Plan):
    writers: int = setting.count("Number of pgbench sessions.", 1, 90, 16)
    seconds: int = setting.count(
        "Seconds of each round; deliveries are kept in memory.", 1, 300, 10, full=60, metavar=setting.SECONDS
    )
    rounds: int = setting.rounds(1, full=6)
    readers: tuple[str, ...] = setting.choices(
        "Readers.", tuple(READERS), asked=False, needs_inorder=NEED_INORDER.__contains__, label=READERS.__getitem__
    )
