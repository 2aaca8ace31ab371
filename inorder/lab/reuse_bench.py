"""What the reuse experiment does, done to a server."""

import time
from collections.abc import Callable

from inorder.cluster import Cluster
from inorder.database import Connection
from inorder.errors import InorderError
from inorder.lab.counters import read_index_pages, read_sizes
from inorder.lab.experiments.reuse import BATCHES, BLOCKS, OLDEST, SCATTERED, ReusePlan
from inorder.lab.keys import SCHEMA, KeyKind
from inorder.lab.legacy import Measured, Series
from inorder.lab.serving import FILL_SETTINGS, fill_memory
from inorder.lab.targets.target import Target as Place
from inorder.lab.targets.target import since
from inorder.lab.targets.throw_away import Bench, place_of
from inorder.lab.vacuum import index_pages, primary_message

# Sizes, pages and WAL are counted here and nothing is timed, so nothing needs flushing. Full-page images are counted.
REUSE_SETTINGS = FILL_SETTINGS | {"full_page_writes": "on"}

# Rows to delete, by number of arrival: the same of every kind of key. Both give exactly as many rows as a turn brings.
DELETE = {
    OLDEST: "DELETE FROM {table} WHERE arrived <= {gone}",
    SCATTERED: "DELETE FROM {table} WHERE ctid = ANY (ARRAY("
    "SELECT ctid FROM {table} ORDER BY hashint8extended(arrived, {salt}), arrived LIMIT {batch}))",
}


class TurningBench(Bench):
    """A ReuseBench over a throw-away server or the user's own."""

    def __init__(self, server: Cluster | Place, plan: ReusePlan) -> None:
        self.place = place_of(server)
        self.plan = plan
        self.place.serve(REUSE_SETTINGS | {"shared_buffers": f"{fill_memory() // 8192}"})
        with self.connection() as session:
            self.place.create_extensions(session)
            self.place.create_schema(session)

    def connection(self) -> Connection:
        """A new connection to the server."""
        return self.place.connect()

    def measure(self, kind: str, deleted: str, seed: int, told: Callable[[str], None]) -> Measured:
        """A table's life: created, filled, turned over, dropped."""
        key = KeyKind(kind, kind, self.plan.column(kind))
        told(f"filling with {self.plan.rows:,} rows")
        with self.connection() as session:
            self.create(session, key)
            started = time.monotonic()
            for place in range(BATCHES):
                self.keep_pace(kind, started, place)
                self.insert(session, key, place)
            session.execute(f"VACUUM {key.table}".encode())
            filled = read_sizes(session, key)["index_bytes"]
        with self.connection() as control:
            before = self.place.counters(control, key)
            with self.connection() as session:
                series, freed = self.turn_over(session, key, deleted, seed, started, told)
                elapsed = time.monotonic() - started
                self.check_rows(session, key)
            counted = since(self.place.counters(control, key), before)
            control.execute(f"DROP TABLE {key.table}".encode())
        metrics = {
            "index_bytes_filled": filled,
            "index_bytes": series["index_bytes"][-1],
            "index_bytes_most": max(series["index_bytes"]),
            "pages_freed": sum(series["newly_deleted"]),
            "pages_taken_again": sum(series["newly_deleted"]) - series["deleted"][-1],
            "inserts": float(self.plan.turns * self.plan.batch),
        } | {name: counted[name] for name in ("wal_bytes", "full_page_images") if name in counted}
        at_the_end = ("leaf_density", "deleted", "reusable")
        metrics |= {name: values[-1] for name, values in series.items() if name in at_the_end}
        return metrics | freed | self.wraps(kind, elapsed), series

    def create(self, session: Connection, key: KeyKind) -> None:
        """An empty table: the key, and the number of arrival, which no index knows. A sequence that begins anew."""
        session.execute(f"DROP TABLE IF EXISTS {key.table}".encode())
        session.execute(f"DROP SEQUENCE IF EXISTS {SCHEMA}.reuse_keys CASCADE".encode())
        session.execute(f"CREATE SEQUENCE {SCHEMA}.reuse_keys".encode())
        column = key.column.format(schema=SCHEMA)
        # Whether autovacuum is on or not: the pages that it freed would not be counted.
        session.execute(
            f"CREATE TABLE {key.table} (id {column} PRIMARY KEY, arrived bigint NOT NULL) "
            "WITH (autovacuum_enabled = off)".encode()
        )

    def keep_pace(self, kind: str, started: float, place: int) -> None:
        """Wait until a turn of time-prefixed keys may begin; the others need no clock."""
        if kind == "time":
            time.sleep(max(0.0, started + place * self.plan.pace - time.monotonic()))

    def insert(self, session: Connection, key: KeyKind, place: int) -> None:
        """The rows of a turn, in one transaction."""
        low, high = place * self.plan.batch + 1, (place + 1) * self.plan.batch
        session.execute(f"INSERT INTO {key.table} (arrived) SELECT generate_series({low}, {high})".encode())

    def turn_over(
        self, session: Connection, key: KeyKind, deleted: str, seed: int, started: float, told: Callable[[str], None]
    ) -> tuple[Series, dict[str, float]]:
        """All turns: the index after the fill and after each, and how dense it was after the fill."""
        first = read_index_pages(session, key)
        names = ("index_bytes", "newly_deleted", "deleted", "reusable", *(["leaf_density"] if first else []))
        series: Series = {name: [] for name in names}
        notices: list[str] = []
        session.add_notice_handler(primary_message(notices))
        for turn in range(self.plan.turns + 1):
            if turn:
                told(f"turn {turn} of {self.plan.turns}")
                self.keep_pace(key.name, started, BATCHES + turn - 1)
                self.place.checkpoint(session)
                self.insert(session, key, BATCHES + turn - 1)
                self.delete(session, key, deleted, seed, turn)
            notices.clear()
            session.execute(f"VACUUM (VERBOSE, INDEX_CLEANUP ON) {key.table}".encode())
            pages = index_pages(notices) if turn else None
            series["index_bytes"].append(read_sizes(session, key)["index_bytes"])
            series["newly_deleted"].append(pages.newly_deleted if pages else 0)
            series["deleted"].append(pages.deleted if pages else 0)
            series["reusable"].append(pages.reusable if pages else 0)
            if first:
                series["leaf_density"].append(read_index_pages(session, key)["leaf_density"])
        return series, {"leaf_density_filled": first["leaf_density"]} if first else {}

    def delete(self, session: Connection, key: KeyKind, deleted: str, seed: int, turn: int) -> None:
        """As many rows as have come; an error if they were not."""
        batch = self.plan.batch
        salt = seed * 1_000_003 + turn  # another choice of rows in each turn
        statement = DELETE[deleted].format(table=key.table, gone=turn * batch, batch=batch, salt=salt)
        gone = session.execute(statement.encode()).rowcount
        if gone != batch:
            raise InorderError(f"turn {turn} deleted {gone:,} rows instead of {batch:,}")

    def check_rows(self, session: Connection, key: KeyKind) -> None:
        """An error unless there are as many rows as after the fill."""
        row = session.execute(f"SELECT count(*) FROM {key.table}".encode()).fetchone()
        if row != (BATCHES * self.plan.batch,):
            raise InorderError(f"{key.table} has {row} rows instead of {BATCHES * self.plan.batch:,}")

    def wraps(self, kind: str, elapsed: float) -> dict[str, float]:
        """How often the prefix has come back to its beginning."""
        if kind == "time":
            return {"wraps": elapsed / self.plan.interval_count}
        if kind == "sequence":
            values = (BATCHES + self.plan.turns) * self.plan.batch
            return {"wraps": values / (self.plan.block_size * BLOCKS)}
        return {}
