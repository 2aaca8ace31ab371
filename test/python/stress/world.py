"""What all threads of a round share: servers, tables, the ledger of what was committed."""

import itertools
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
from inorder.database import Connection, connect
from psycopg.conninfo import make_conninfo

# Every form of a number: in the key; generated, in order and not; a plain column with and without a key; partitions.
TABLES = ("s_uuid", "s_generated", "s_number", "s_bare", "s_parts")
ROWS_BEFORE = 300

# Roles that may read the tables, and nothing else: one that has feeds, and one to which these are granted.
OWNER, MOVER = "s_owner", "s_mover"

SETUP = """
CREATE EXTENSION IF NOT EXISTS inorder;
CREATE TABLE s_uuid (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), region int NOT NULL, token bigint NOT NULL);
CREATE TABLE s_generated (id bigserial PRIMARY KEY, region int NOT NULL, token bigint NOT NULL,
                          xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED);
CREATE INDEX ON s_generated (xact);
CREATE TABLE s_number (id bigserial PRIMARY KEY, region int NOT NULL, token bigint NOT NULL,
                       xact bigint NOT NULL DEFAULT xact_id());
CREATE INDEX ON s_number USING brin (xact) WITH (pages_per_range = 4);
CREATE TABLE s_bare (region int NOT NULL, token bigint NOT NULL, xact bigint NOT NULL DEFAULT xact_id());
CREATE INDEX ON s_bare USING brin (xact) WITH (pages_per_range = 4, autosummarize = on);
CREATE TABLE s_parts (id uuid DEFAULT uuid_xact_nextval(), region int NOT NULL, token bigint NOT NULL,
                      PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE s_parts_0 PARTITION OF s_parts FOR VALUES IN (0);
CREATE TABLE s_parts_1 PARTITION OF s_parts FOR VALUES IN (1) PARTITION BY HASH (id);
CREATE TABLE s_parts_1a PARTITION OF s_parts_1 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE s_parts_1b PARTITION OF s_parts_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE ROLE s_owner LOGIN;
CREATE ROLE s_mover LOGIN;
GRANT SELECT ON s_uuid, s_generated, s_number, s_bare, s_parts TO s_owner, s_mover;

-- Rows first .. first + amount - 1, each in a block of its own, of which each n-th is undone by an exception.
CREATE FUNCTION s_blocks(target regclass, region int, first bigint, amount int, undone int) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 0 .. amount - 1 LOOP
        BEGIN
            EXECUTE format('INSERT INTO %s (region, token) VALUES ($1, $2)', target) USING region, first + i;
            IF i % undone = 0 THEN
                RAISE 'undone';
            END IF;
        EXCEPTION WHEN raise_exception THEN
            NULL;
        END;
    END LOOP;
END $$;
"""

# A token says who wrote it (a lane), in which of its transactions, and which row of that.
TRANSACTION_BITS, ROW_BITS = 22, 14


def token_of(lane: int, transaction: int, row: int) -> int:
    """The value that marks a row.

    >>> token_of(1, 2, 3) == (1 << 36) + (2 << 14) + 3
    True
    """
    assert row < 1 << ROW_BITS and transaction < 1 << TRANSACTION_BITS
    return ((lane << TRANSACTION_BITS) + transaction << ROW_BITS) + row


@dataclass
class Ledger:
    """Tokens of rows whose commit was acknowledged, by table."""

    committed: dict[str, set[int]] = field(default_factory=lambda: {table: set() for table in TABLES})
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, rows: dict[str, list[int]]) -> None:
        """After the commit of a transaction."""
        with self.lock:
            for table, tokens in rows.items():
                self.committed[table].update(tokens)


@dataclass
class Prepared:
    """A transaction that waits for its second phase."""

    gid: str
    rows: dict[str, list[int]]


@dataclass
class World:
    """One round: where the servers are, how far it has come, and what everybody found."""

    primary: str
    standby: str
    seed: int
    ledger: Ledger = field(default_factory=Ledger)
    # The writers are to end; they have, and the standby has all of it; the transaction held open has committed, too.
    stop: threading.Event = field(default_factory=threading.Event)
    settled: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    broken: threading.Event = field(default_factory=threading.Event)
    problems: list[str] = field(default_factory=list)
    # Where rows of the partitioned table may go: the relation that is named, and the region.
    targets: list[tuple[str, int]] = field(
        default_factory=lambda: [("s_parts", 0), ("s_parts", 1), ("s_parts_0", 0), ("s_parts_1", 1)]
    )
    prepared: list[Prepared] = field(default_factory=list)
    lanes: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    checks: Iterator[int] = field(default_factory=itertools.count)

    def randomness(self, who: str) -> random.Random:
        """Randomness of its own for each thread, from the one seed."""
        return random.Random(f"{self.seed} {who}")

    def problem(self, text: str) -> None:
        """Something is wrong: that ends the round."""
        self.problems.append(text)
        self.broken.set()

    def target(self, table: str, rng: random.Random) -> tuple[str, int]:
        """Where a row for this table is inserted: the table, or one of its partitions; and its region."""
        return rng.choice(self.targets) if table == "s_parts" else (table, rng.randrange(9))


class Role(threading.Thread):
    """A thread of the round. What it raises is a problem of the round."""

    user: str | None = None  # a role of the server's that is no superuser

    def __init__(self, world: World, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.world = world
        self.rng = world.randomness(name)

    def run(self) -> None:
        """Do the work; whatever goes wrong ends the round."""
        try:
            self.work()
        except Exception as error:
            self.world.problem(f"{self.name}: {type(error).__name__}: {error}")

    def work(self) -> None:
        """The role itself."""
        raise NotImplementedError

    def session(self, dsn: str) -> Connection:
        """A connection that bears the name of the role."""
        connection = connect(make_conninfo(dsn, user=self.user) if self.user else dsn)
        connection.execute("SELECT set_config('application_name', %s, false)", [self.name])
        return connection

    def pause(self, seconds: float) -> None:
        """Up to so long, but not beyond the end of the writers."""
        self.world.stop.wait(self.rng.random() * seconds)


@contextmanager
def transaction(connection: Connection, isolation: str = "READ COMMITTED") -> Iterator[None]:
    """BEGIN and COMMIT, or ROLLBACK and the error. The connection may end meanwhile."""
    connection.execute(f"BEGIN ISOLATION LEVEL {isolation}".encode())
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.execute("ROLLBACK")
        raise
