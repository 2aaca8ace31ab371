"""The consumers in docs/clients: how to start them, the tables that they read, and the rows that have arrived."""

import os
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from inorder.connection.database import APPLICATION_NAME, Connection, connect
from inorder.lab.server.cluster import Cluster

from conftest import LONG_RUN, ROOT, text
from waiting import PATIENCE, wait_for
from world.beside import beside
from world.sql import value

FOLDER = ROOT / "docs" / "clients"
BUILT = ROOT / "build" / "clients"  # built by script/clients
WRITERS, PAUSE = 2, 0.02 if LONG_RUN else 0.1
POISON, REFUSED = "poison", "refused"  # a row that cannot be stored; a row that makes the sink fail
REFUSING = f"""
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''refused''; END';
CREATE TRIGGER refuse BEFORE INSERT ON mails FOR EACH ROW WHEN (NEW.body = '{REFUSED}') EXECUTE FUNCTION refuse()
"""

# The command of each consumer. Some consumers also need the file in MADE.
COMMANDS: dict[str, list[str | Path]] = {
    "python": [sys.executable, FOLDER / "consumer.py"],
    "asyncio": [sys.executable, FOLDER / "consumer_async.py"],
    "go": [BUILT / "go" / "consumer"],
    "java": ["java", "-cp", f"{BUILT / 'java'}:{BUILT / 'java' / 'postgresql.jar'}", "Consumer"],
    "node": ["node", BUILT / "node" / "consumer.mjs"],
    "rust": [BUILT / "rust" / "target" / "debug" / "consumer"],
}
MADE = {"java": BUILT / "java" / "Consumer.class", "node": BUILT / "node" / "node_modules" / "pg"}


def missing(language: str) -> str | None:
    """Return the reason why a consumer cannot be run here, or None."""
    if language in ("python", "asyncio"):
        return None
    if "INORDER_TEST_CLIENTS" not in os.environ:
        return "only script/clients runs this test"
    built = MADE.get(language, Path(COMMANDS[language][0]))
    return None if built.exists() else f"script/clients has not built {built.relative_to(ROOT)}"


def uri(host: str, port: int | str, database: str, **parameters: str) -> str:
    """Return a connection string that libpq, pgx, tokio-postgres and pg for Node understand."""
    options = "".join(f"&{name}={value}" for name, value in parameters.items())
    return f"postgresql:///{database}?host={host}&port={port}&user=postgres{options}"


class Shop:
    def __init__(self, cluster: Cluster, template: str) -> None:
        self.cluster = cluster
        with connect(cluster.dsn) as admin:
            for name, origin in (("shop", template), ("mail", "template0")):
                admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
                admin.execute(f"CREATE DATABASE {name} TEMPLATE {origin} STRATEGY file_copy".encode())
        self.source, self.sink = connect(f"{cluster.dsn} dbname=shop"), connect(f"{cluster.dsn} dbname=mail")
        for name in ("table", "source"):
            self.source.execute(text(f"docs/clients/{name}.sql").encode())
        self.sink.execute(text("docs/clients/sink.sql").encode())
        self.sink.execute(f"ALTER TABLE mails ADD CONSTRAINT readable CHECK (body <> '{POISON}')".encode())
        self.sink.execute(REFUSING.encode())
        self.committed: list[str] = []

    def insert(self, connection: Connection, bodies: Sequence[str]) -> list[str]:
        statement = b"INSERT INTO events (body) SELECT unnest(%s::text[]) RETURNING id::text"
        return [str(key) for (key,) in connection.execute(statement, [list(bodies)])]

    def write(self, seed: int, ended: threading.Event) -> None:
        generator = random.Random(seed)
        with connect(f"{self.cluster.dsn} dbname=shop") as connection:
            while not ended.wait(PAUSE):
                with connection.transaction(force_rollback=(undone := generator.random() < 0.1)):
                    keys = self.insert(connection, [f"body {seed}"] * generator.randint(1, 20))
                if not undone:
                    self.committed += keys

    def load(self) -> AbstractContextManager[None]:
        return beside(*(partial(self.write, seed) for seed in range(WRITERS)))

    def arrived(self) -> Counter[str]:
        return Counter(str(key) for (key,) in self.sink.execute("SELECT id::text FROM mails"))

    def stored(self) -> int:
        return int(value(self.sink, "SELECT count(*) FROM batches"))

    def unfinished(self) -> int:
        return int(value(self.source, "SELECT count(*) FROM feed_batches"))

    def wait_for_more(self) -> None:
        before = self.stored()
        wait_for(lambda: self.stored() > before)

    def waiting(self, database: str) -> list[int]:
        return self.sessions(database, "wait_event_type = 'Lock'")

    def sessions(self, database: str, condition: str = "true") -> list[int]:
        """Return the process IDs of the consumers' sessions on the server, or of the sessions of the pooler."""
        rows = self.source.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = %s AND application_name <> %s "
            f"AND backend_type = 'client backend' AND {condition}".encode(),
            [database, APPLICATION_NAME],
        )
        return [int(str(pid)) for (pid,) in rows]

    def end_sessions(self, pids: Sequence[int]) -> None:
        for pid in pids:
            self.source.execute("SELECT pg_terminate_backend(%s, 60000)", [pid])

    def close(self) -> None:
        self.source.close()
        self.sink.close()
        with connect(self.cluster.dsn) as admin:
            admin.execute("DROP DATABASE shop WITH (FORCE)")
            admin.execute("DROP DATABASE mail WITH (FORCE)")


class Consumer:
    def __init__(self, language: str, source: str, sink: str, log: Path, name: str = "worker 1") -> None:
        self.command = [*map(str, COMMANDS[language]), name]
        self.environment = os.environ | {"SOURCE": source, "SINK": sink}
        self.stopped = 143 if language == "java" else 0  # exit code after SIGTERM; the JVM does not return 0
        self.log = log

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, env=self.environment, stdout=log, stderr=log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(PATIENCE)
