"""What the mixed experiment does, done to a server."""

import time

from inorder.cluster import Cluster
from inorder.database import Connection
from inorder.errors import InorderError
from inorder.lab import pgbench
from inorder.lab.counters import read_index_pages, read_sizes
from inorder.lab.experiments import mixed as experiment
from inorder.lab.experiments.mixed import GENERATORS, KINDS, MixedPlan
from inorder.lab.keys import SCHEMA, KeyKind
from inorder.lab.serving import FILL_SETTINGS, fill_memory, serve_afresh
from inorder.lab.targets.target import Target as Place
from inorder.lab.targets.target import since
from inorder.lab.targets.throw_away import Bench, place_of

# Rows of one INSERT while filling: about a second, which is how soon a cancel is heard.
FILL_BATCH = 100_000

# Random keys that are the same in every table and every run: version and variant as gen_random_uuid() sets them.
FILL_KEYS = """
SELECT (substr(h, 1, 12) || '4' || substr(h, 14, 3)
        || translate(substr(h, 17, 1), '0123456789abcdef', '89ab89ab89ab89ab') || substr(h, 18))::uuid
FROM (SELECT md5('{seed} ' || i) FROM generate_series({low}, {high}) AS i) AS hashes (h)
"""


class GrownBench(Bench):
    """A MixedBench over a throw-away server or the user's own, which is not restarted."""

    def __init__(self, server: Cluster | Place, plan: MixedPlan) -> None:
        self.place = place_of(server)
        self.plan = plan
        self.serve_for_measuring()
        with self.connection() as session:
            self.place.create_extensions(session)
            self.place.create_schema(session)

    def connection(self) -> Connection:
        """A new connection to the server."""
        return self.place.connect()

    def serve_for_filling(self) -> None:
        """Plenty of memory, nothing durable."""
        self.place.serve(FILL_SETTINGS | {"shared_buffers": f"{fill_memory() // 8192}"})

    def serve_for_measuring(self) -> None:
        """Small memory, durable; nothing of the index is in memory yet."""
        if self.place.cluster:
            serve_afresh(self.place.cluster, self.plan)

    def measure(self, kind: str, step: str, seed: int) -> dict[str, float]:
        """One step, then size and density of the index, and an error if rows are missing."""
        key = KINDS[kind]
        do = {experiment.FILL: self.fill, experiment.REINDEX: self.reindex}.get(step)
        found = do(key) if do else self.insert(key, seed)
        with self.connection() as session:
            rows = session.execute(f"SELECT count(*) FROM {key.table}".encode()).fetchone()
            sizes = read_sizes(session, key) | read_index_pages(session, key)
        expected = self.plan.rows + self.plan.inserts * {experiment.FILL: 0, experiment.AGAIN: 2}.get(step, 1)
        if rows != (expected,):
            raise InorderError(f"{key.table} has {rows} rows instead of {expected:,}")
        return {"rows": float(expected), **found, **sizes}

    def fill(self, key: KeyKind) -> dict[str, float]:
        """A new table, full of random keys; then the column's default is the kind's generator."""
        self.serve_for_filling()
        started = time.perf_counter()
        with self.connection() as session:
            session.execute(f"DROP TABLE IF EXISTS {key.table}".encode())
            for statement in key.statements():
                session.execute(statement.encode())
            for low in range(1, self.plan.rows + 1, FILL_BATCH):
                high = min(low + FILL_BATCH - 1, self.plan.rows)
                keys = FILL_KEYS.format(seed=self.plan.seed, low=low, high=high)
                session.execute(f"INSERT INTO {key.table} {keys}".encode())
            generator = GENERATORS[key.name].format(schema=SCHEMA)
            session.execute(f"ALTER TABLE {key.table} ALTER id SET DEFAULT {generator}".encode())
            self.place.checkpoint(session)  # so that the stop has little left to write
        return {"seconds": time.perf_counter() - started}

    def insert(self, key: KeyKind, seed: int) -> dict[str, float]:
        """One row a transaction by pgbench, after a restart and a checkpoint."""
        self.serve_for_measuring()
        each = self.plan.inserts // self.plan.clients
        with self.connection() as session:
            self.place.checkpoint(session)
            before = self.place.counters(session, key)
            load = pgbench.run(
                self.place.program("pgbench"),
                pgbench.insert_script(self.place.folder / f"mixed_{key.name}.sql", key.table),
                pgbench.Load(self.plan.clients, self.plan.threads, transactions=each),
                seed,
                self.place.environment(),
                database=self.place.database,
            )
            counted = since(self.place.counters(session, key), before)
        return {"tps": load.tps, "latency_ms": load.latency_ms, "inserts": load.transactions, **counted}

    def reindex(self, key: KeyKind) -> dict[str, float]:
        """REINDEX by one session, timed."""
        with self.connection() as session:
            self.place.checkpoint(session)
            started = time.perf_counter()
            session.execute(f"REINDEX INDEX {key.index}".encode())
            return {"seconds": time.perf_counter() - started}

    def drop(self, kind: str) -> None:
        """Remove it; its files are gone after the next checkpoint."""
        with self.connection() as session:
            session.execute(f"DROP TABLE {KINDS[kind].table}".encode())
