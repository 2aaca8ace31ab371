"""A server with the extension, honest roles with feeds and counts, and a hostile role."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from inorder.connection.database import Connection, connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from load.fuzz.log import PREFIX, Log
from load.fuzz.session import Session, Watchdog, open_session
from load.fuzz.values import Relation
from sql_edition import create
from world.sql import run

SETTINGS = {
    "fsync": "off", "max_prepared_transactions": "5", "track_functions": "pl", "log_min_messages": "warning",
    "log_error_verbosity": "terse", "log_min_error_statement": "panic", "log_line_prefix": PREFIX,
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h", "temp_file_limit": "1GB", "max_worker_processes": "4", "max_connections": "30",
}  # fmt: skip
HONEST = ("events", "numbers", "parts", "odds")
SETUP = (
    *(f"CREATE ROLE {role} LOGIN" for role in ("installer", "alice", "reader", "mallory", "nobody", "monitor")),
    "GRANT pg_monitor TO monitor",
    "GRANT CREATE ON DATABASE postgres TO installer",
    "GRANT CREATE ON SCHEMA public TO installer",
    "ALTER ROLE mallory SET statement_timeout = '1500ms'",
    "ALTER ROLE mallory SET lock_timeout = '100ms'",
    "ALTER ROLE installer SET statement_timeout = '1500ms'",
    "CREATE FOREIGN DATA WRAPPER nothing",
    "CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing",
    "CREATE SCHEMA alice AUTHORIZATION alice",
)
ALICE = (
    "GRANT USAGE ON SCHEMA alice TO reader, mallory, monitor",
    "CREATE TABLE alice.events (id uuid PRIMARY KEY DEFAULT public.uuid_xact_nextval(), n serial)",
    "CREATE TABLE alice.numbers (k serial PRIMARY KEY, n serial, xact bigint NOT NULL DEFAULT public.xact_id())",
    "CREATE INDEX ON alice.numbers (xact) WHERE xact > 0",
    "CREATE TABLE alice.parts (n serial, xact bigint NOT NULL DEFAULT public.xact_id(), PRIMARY KEY (xact, n)) "
    "PARTITION BY HASH (n)",
    "CREATE TABLE alice.parts0 PARTITION OF alice.parts FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
    "CREATE TABLE alice.parts1 PARTITION OF alice.parts FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
    "CREATE TABLE alice.odds (n serial, xact bigint NOT NULL DEFAULT public.xact_id(), "
    "a interval DEFAULT make_interval(0, (random() * 9 - 4)::int, 0, (random() * 9)::int, 0, 0, random() * 9 - 4), "
    "b float8 DEFAULT (random() - 0.5) * 10 ^ (random() * 600 - 300), d text DEFAULT chr(32 + (random() * 9999)::int), "
    "c timestamptz DEFAULT ('{infinity,-infinity,epoch,4713-01-01 BC,now}'::timestamptz[])[1 + (random() * 4)::int], "
    "e bytea DEFAULT decode(md5(random()::text), 'hex'), f char(5) DEFAULT '''\\ ', g numeric DEFAULT random() * 1e30, "
    "h bit varying DEFAULT '101', i timetz DEFAULT now(), PRIMARY KEY (h, a, c, f, i, d, e, g, b, n))",
    "CREATE INDEX ON alice.odds (xact) WHERE xact > 0",
    "CREATE TABLE alice.secret (id uuid PRIMARY KEY DEFAULT public.uuid_xact_nextval(), n serial)",
    "CREATE SEQUENCE alice.counter",
    "INSERT INTO alice.secret DEFAULT VALUES",
    *(f"SELECT public.feed_create('{table}', 'alice.{table}')" for table in (*HONEST, "secret")),
    *(f"SELECT public.exact_count_start('alice.{table}')" for table in (*HONEST, "secret")),
    "SELECT public.feed_create('shared', 'alice.events')",
    "SELECT public.feed_grant('shared', 'reader')",
    "GRANT SELECT ON alice.events, alice.numbers TO reader",
)
READER = ("SELECT public.feed_create('mine', 'alice.events')", "SELECT public.feed_create('numbers', 'alice.numbers')")
QUIET = ("SET search_path = pg_catalog, pg_temp", "SET client_min_messages = error", "SET lock_timeout = '60s'")
# Statements that create mallory's schema and privileges, which DROP OWNED removes after each session.
MALLORY = (
    "CREATE SCHEMA IF NOT EXISTS mallory AUTHORIZATION mallory",
    "GRANT USAGE ON SCHEMA mallory TO PUBLIC",
    "GRANT CREATE ON SCHEMA public TO mallory",
    "GRANT USAGE ON FOREIGN SERVER nowhere TO mallory",
    "GRANT SELECT ON alice.numbers TO mallory",
    "GRANT USAGE ON SCHEMA alice TO mallory",
)
RELATIONS = [
    Relation("events", "alice.events", owner="alice"),
    Relation("numbers", "alice.numbers", "xact", False, "alice"),
    Relation("parts", "alice.parts", "xact", False, "alice"),
    Relation("odds", "alice.odds", "xact", False, "alice"),
    Relation("secret", "alice.secret", owner="alice"),
    Relation("mine", "alice.events", owner="reader"),
]


@dataclass(frozen=True)
class Failure:
    oracle: str
    text: str
    statements: tuple[str, ...] = ()


@dataclass
class World:
    seed: int
    rng: random.Random
    cluster: Cluster
    admin: Connection
    log: Log
    edition: str
    watchdog: Watchdog
    failures: list[Failure] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    honest: Counter[str] = field(default_factory=Counter)

    def fail(self, oracle: str, text: str, session: Session | None = None, key: str = "") -> None:
        if (name := f"{oracle} {key or text}") not in self.seen:
            self.seen.add(name)
            self.failures.append(Failure(oracle, text, tuple(session.statements) if session else ()))

    def session(self, role: str) -> Session:
        return open_session(self.cluster.dsn, role, self.watchdog)

    def welcome(self) -> None:
        run(self.admin, *MALLORY)

    def clear(self) -> None:
        for (gid,) in self.admin.execute("SELECT gid FROM pg_prepared_xacts").fetchall():
            self.admin.execute(f"ROLLBACK PREPARED '{gid}'".encode())
        self.admin.execute("DROP OWNED BY mallory CASCADE")


@contextmanager
def world(server: Installation, seed: int, edition: str = "c") -> Iterator[World]:
    with Cluster(server) as cluster:
        cluster.start(SETTINGS)
        with connect(cluster.dsn) as setup:
            run(setup, *SETUP, "SET ROLE installer")
            create(setup, edition)
        for role, statements in (("alice", ALICE), ("reader", READER)):
            with connect(f"{cluster.dsn} user={role}") as connection:
                run(connection, *statements)
        watchdog = Watchdog()
        admin = connect(cluster.dsn)
        try:
            run(admin, *QUIET)
            new_world = World(seed, random.Random(seed), cluster, admin, Log(cluster.log), edition, watchdog)
            new_world.welcome()
            yield new_world
        finally:
            watchdog.close()
            admin.close()
