"""State that all threads of a round share: servers, tables, the ledger of committed rows."""

import itertools
import random
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from inorder.connection.database import Connection, connect
from psycopg.conninfo import make_conninfo

from world.edition import EDITIONS, Edition

# Every form of a number: in the key; generated, in order and not; a plain column with and without a key; partitions.
CALM = ("s_uuid", "s_generated", "s_number", "s_bare", "s_parts")
# Tables to which their owner applies every form of ALTER TABLE and similar commands.
RESTLESS = ("r_uuid", "r_generated", "r_keyed", "r_parts")
TABLES = CALM + RESTLESS
# Tables in which nothing, or not always the same column, distinguishes the rows of a transaction.
UNORDERED = ("s_bare", "r_keyed")
ROWS_BEFORE = 300
# Columns with numbers that are drawn when a row is written. Readers may request the rows in this order. The first of
# these tables has streams.
ORDER = {"s_uuid": "seq", "s_generated": "id", "s_number": "id", "s_parts": "seq"}
STREAMED, STREAMS = "s_uuid", 5

# Roles that may only read the tables: one that has feeds, and one to which these are granted.
OWNER, MOVER = "s_owner", "s_mover"

SPACE = "s_space"
# Run by the superuser; the rest by the role that owns the tables.
ROLES = f"""
CREATE ROLE {OWNER} LOGIN;
CREATE ROLE {MOVER} LOGIN;
CREATE ROLE s_other;
"""

SETUP = """
CREATE TABLE s_uuid (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), region int NOT NULL, token bigint NOT NULL,
                     seq bigserial UNIQUE);
CREATE TABLE s_streams (stream int PRIMARY KEY, version int NOT NULL);
CREATE TABLE s_generated (id bigserial PRIMARY KEY, region int NOT NULL, token bigint NOT NULL,
                          xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED);
CREATE INDEX ON s_generated (xact);
CREATE TABLE s_number (id bigserial PRIMARY KEY, region int NOT NULL, token bigint NOT NULL,
                       xact bigint NOT NULL DEFAULT xact_id());
CREATE INDEX ON s_number (xact) WHERE xact > 0;
CREATE TABLE s_bare (region int NOT NULL, token bigint NOT NULL, xact bigint NOT NULL DEFAULT xact_id());
CREATE INDEX ON s_bare (xact) WHERE xact > 0;
CREATE TABLE s_parts (id uuid DEFAULT uuid_xact_nextval(), region int NOT NULL, token bigint NOT NULL,
                      seq bigserial, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE INDEX ON s_parts (seq);
CREATE TABLE s_parts_0 PARTITION OF s_parts FOR VALUES IN (0);
CREATE TABLE s_parts_1 PARTITION OF s_parts FOR VALUES IN (1) PARTITION BY HASH (id);
CREATE TABLE s_parts_1a PARTITION OF s_parts_1 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE s_parts_1b PARTITION OF s_parts_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE r_uuid (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), region int NOT NULL, token bigint NOT NULL,
                     note int, label varchar(20) DEFAULT '');
CREATE TABLE r_generated (id bigserial PRIMARY KEY, region int NOT NULL, token bigint NOT NULL, note int,
                          label varchar(20) DEFAULT '', xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED);
CREATE INDEX ON r_generated (xact);
CREATE TABLE r_keyed (a int NOT NULL DEFAULT (random() * 9)::int, b bigserial, region int NOT NULL,
                      token bigint NOT NULL, note int, label varchar(20) DEFAULT '',
                      xact bigint NOT NULL DEFAULT xact_id(), CONSTRAINT r_keyed_pkey PRIMARY KEY (a, b));
CREATE INDEX ON r_keyed (xact);
CREATE TABLE r_parts (id uuid DEFAULT uuid_xact_nextval(), region int NOT NULL, token bigint NOT NULL, note int,
                      label varchar(20) DEFAULT '', PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE r_parts_0 PARTITION OF r_parts FOR VALUES IN (0);
CREATE TABLE r_parts_1 PARTITION OF r_parts FOR VALUES IN (1) PARTITION BY HASH (id);
CREATE TABLE r_parts_1a PARTITION OF r_parts_1 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE r_parts_1b PARTITION OF r_parts_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
-- What a reader has taken is sure once its row here is.
CREATE TABLE s_polls (reader text, number bigint, PRIMARY KEY (reader, number));
GRANT SELECT ON s_uuid, s_generated, s_number, s_bare, s_parts, r_uuid, r_generated, r_keyed, r_parts
    TO s_owner, s_mover;
GRANT SELECT, INSERT ON s_polls TO s_owner, s_mover;

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


def make_roles(superuser: str) -> None:
    with connect(superuser) as connection:
        connection.execute(ROLES.encode())
        connection.execute(f"CREATE TABLESPACE {SPACE} LOCATION ''".encode())
        connection.execute(f"GRANT CREATE ON TABLESPACE {SPACE} TO PUBLIC".encode())


# A token contains its writer (a lane), the number of the transaction, and of the row in it.
TRANSACTION_BITS, ROW_BITS = 22, 14
LANE_BITS = TRANSACTION_BITS + ROW_BITS


RECONNECT_SECONDS = 0.2


def token_of(lane: int, transaction: int, row: int) -> int:
    """The value that marks a row.

    >>> token_of(1, 2, 3) == (1 << 36) + (2 << 14) + 3
    True
    """
    assert row < 1 << ROW_BITS and transaction < 1 << TRANSACTION_BITS
    return ((lane << TRANSACTION_BITS) + transaction << ROW_BITS) + row


Rows = dict[str, list[int]]


def first_targets() -> dict[str, list[tuple[str, int]]]:
    return {
        table: [(table, 0), (table, 1), (f"{table}_0", 0), (f"{table}_1", 1)] for table in TABLES if "parts" in table
    }


def no_tokens() -> dict[str, set[int]]:
    return {table: set() for table in TABLES}


@dataclass
class Ledger:
    """Tokens of rows, by table: committed for sure, perhaps, and in partitions that were detached."""

    committed: dict[str, set[int]] = field(default_factory=no_tokens)
    # Rows of a partition when it was detached or attached: a feed that has not read them by then need not read them.
    gone: dict[str, set[int]] = field(default_factory=no_tokens)
    versions: dict[int, tuple[int, int]] = field(default_factory=dict)  # token -> a stream and the place in it
    doubtful: list[Rows] = field(default_factory=list)  # the connection was lost during the commit
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, rows: Rows) -> None:
        with self.lock:
            for table, tokens in rows.items():
                self.committed[table].update(tokens)

    def doubt(self, rows: Rows) -> None:
        with self.lock:
            self.doubtful.append(rows)

    def leave(self, table: str, tokens: Iterable[int]) -> None:
        """Record that a partition with these rows is detached, or attached again."""
        with self.lock:
            self.gone[table].update(tokens)

    def due(self, table: str) -> set[int]:
        return self.committed[table] - self.gone[table]

    def forget(self, present: dict[str, set[int]]) -> None:
        """Forget rows of a lost timeline: rows that no longer exist count as never committed."""
        for table, tokens in present.items():
            self.committed[table] &= tokens | self.gone[table]
        self.versions = {token: at for token, at in self.versions.items() if token in self.committed[STREAMED]}

    def resolve(self, present: dict[str, set[int]]) -> list[str]:
        """Decide by its rows whether each doubtful transaction committed; report those with only some rows."""
        halves = []
        for rows in self.doubtful:
            there = {table: present[table] | self.gone[table] for table in rows}
            count = sum(len(there[table].intersection(tokens)) for table, tokens in rows.items())
            if count == sum(map(len, rows.values())):
                self.add(rows)
            elif count:
                halves.append(f"{count} rows of a transaction that has more: {rows}")
        self.doubtful.clear()
        return halves


@dataclass
class Prepared:
    """A transaction that waits for its second phase."""

    gid: str
    rows: Rows


@dataclass
class World:
    superuser: str  # the server's address, for its superuser
    seed: int
    standby: str = ""
    edition: Edition = EDITIONS["c"]
    was_promoted: bool = False
    was_restored: bool = False
    is_long: bool = False  # servers are killed, so roles must survive a lost connection
    pooler: int | None = None  # the port of a pooler, for readers on the primary
    ledger: Ledger = field(default_factory=Ledger)
    # The stages of the round: these are set in this order, at the latest when it is broken.
    stop: threading.Event = field(default_factory=threading.Event)  # the writers are to end
    settled: threading.Event = field(default_factory=threading.Event)  # they have ended, and the standby has all rows
    released: threading.Event = field(default_factory=threading.Event)  # the transaction held open has committed
    broken: threading.Event = field(default_factory=threading.Event)
    problems: list[str] = field(default_factory=list)
    # Targets for rows of the partitioned tables: the relation to name, and the region.
    targets: dict[str, list[tuple[str, int]]] = field(default_factory=first_targets)
    prepared: list[Prepared] = field(default_factory=list)
    lanes_prepared: dict[str, Rows] = field(default_factory=dict)  # all prepared transactions so far, by gid
    lanes: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    checks: int = 0
    done: Counter[str] = field(default_factory=Counter)  # actions of owners on their tables
    moves: int = 0  # odd while a partition of the restless table is being attached or detached

    @property
    def primary(self) -> str:
        return self.edition.dsn(self.superuser)

    def for_readers(self, dsn: str) -> str:
        through = self.pooler is not None and dsn == self.primary
        return make_conninfo(dsn, host="127.0.0.1", port=self.pooler) if through else dsn

    def begin_again(self) -> None:
        self.stop, self.settled, self.released = (threading.Event() for _ in range(3))

    def end(self) -> None:
        for event in (self.stop, self.settled, self.released):
            event.set()

    def randomness(self, role: str) -> random.Random:
        return random.Random(f"{self.seed} {role}")

    def problem(self, text: str) -> None:
        self.problems.append(text)
        self.broken.set()

    def target(self, table: str, rng: random.Random) -> tuple[str, int]:
        """The target for a row of this table: the table, or one of its partitions; and its region."""
        return rng.choice(self.targets[table]) if table in self.targets else (table, rng.randrange(9))


def numbers(connection: Connection, statement: str, *parameters: object) -> list[int]:
    rows: list[Any] = connection.execute(statement.encode(), parameters or None).fetchall()
    return [number for (number,) in rows]


def fill(world: World, connection: Connection, amount: int) -> None:
    """Rows of one more lane, in one transaction per table."""
    lane = next(world.lanes)
    for number, table in enumerate(TABLES):
        first = token_of(lane, number, 0)
        statement = f"INSERT INTO {table} (region, token) SELECT 0, generate_series(%s::bigint, %s)"
        connection.execute(statement.encode(), [first, first + amount - 1])
        world.ledger.add({table: list(range(first, first + amount))})


ISOLATIONS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
LOST = (None, "57P01", "57P02", "57P03", "08000", "08003", "08006", "08001", "08004")


def is_lost(error: Exception) -> bool:
    return isinstance(error, psycopg.OperationalError) and error.sqlstate in LOST


class Role(threading.Thread):
    user: str | None = None  # a role of the server's that is no superuser
    on_standby = False  # recovery ends sessions that are in its way, not always with a message that arrives

    def __init__(self, world: World, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.world = world
        self.rng = world.randomness(name)

    def run(self) -> None:
        """Run the work, again if the server was killed; any other error ends the round."""
        try:
            while not self.ran():
                self.world.broken.wait(RECONNECT_SECONDS)
        except Exception as error:
            self.world.problem(f"{self.name}: {type(error).__name__}: {error}")

    def ran(self) -> bool:
        """True if work() came to its end; False if it lost its connection."""
        try:
            self.work()
        except psycopg.OperationalError as error:
            if (self.world.is_long or self.on_standby) and is_lost(error) and not self.world.broken.is_set():
                return False
            raise
        return True

    def work(self) -> None:
        """The work of the role, which may be started again."""
        raise NotImplementedError

    def session(self, dsn: str) -> Connection:
        connection = connect(make_conninfo(dsn, user=self.user) if self.user else dsn)
        connection.execute("SELECT set_config('application_name', %s, false)", [self.name])
        return connection

    def pause(self, seconds: float) -> None:
        """Pause for a time, but not beyond the end of the writers."""
        self.world.stop.wait(self.rng.random() * seconds)


@contextmanager
def transaction(connection: Connection, isolation: str = "READ COMMITTED") -> Iterator[None]:
    """BEGIN and COMMIT, or ROLLBACK and the error. The connection may be lost."""
    connection.execute(f"BEGIN ISOLATION LEVEL {isolation}".encode())
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise


def roll_back(connection: Connection) -> None:
    if not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        connection.execute("ROLLBACK")
