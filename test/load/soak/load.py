"""Writers with a given rate, an owner who changes the tables, and a role that checks counts."""

from collections.abc import Callable
from functools import partial

import psycopg
from inorder.connection.database import Connection, connect

from load.soak.world import LANES, TABLES, SoakWorld
from load.stress.others import STATE_TABLES, Partitioner
from load.stress.owners import OwnerRole
from world.refusals import passes
from world.role import Role, transaction
from world.sql import numbers
from world.writers import Writer, check_count

TRIES = 60  # maximum number of attempts to lock a table that other sessions write to
FOLDED = 60  # seconds between two folds; before each fold, the count is compared with count(*)
STATEMENTS = (
    "DROP INDEX IF EXISTS soaked",
    "ALTER TABLE s_uuid DROP COLUMN IF EXISTS extra",
    "ALTER TABLE s_uuid ADD COLUMN extra int",
    "CREATE INDEX soaked ON s_uuid (token)",
)
LATER_PARTITIONS = """
SELECT inhrelid::regclass::text FROM pg_inherits
WHERE inhparent = 's_parts'::regclass AND inhrelid::regclass::text !~ '_[01]$'
"""


class Paced(Writer):
    """A stress-test writer with few rows per transaction. All writers together reach the requested rate."""

    tables = calm = TABLES
    most_rows, counting = 20, 0.0
    world: SoakWorld

    def kinds(self) -> list[Callable[[], None]]:
        """Return the kinds of transactions: only brief ones while an owner changes a table.

        Otherwise the owner would wait for an open transaction, and all other sessions would wait for the owner.
        """
        brief = [self.row, self.row, self.several, self.savepoints, self.undone, self.finish]
        return brief if self.world.changing.is_set() else [*brief, self.blocks, self.two_phase, self.long]

    def wait(self) -> None:
        self.pause(0.02)
        while self.world.files.is_ahead() and not self.world.stop.wait(0.05):
            continue


class Bursts(Partitioner, OwnerRole):
    world: SoakWorld

    def work(self) -> None:
        self.region = max(self.region, self.lane // LANES * 10_000)
        with self.begin() as connection, connect(self.world.superuser) as vacuum:
            # While the owner waits for a lock, all other sessions that use the table wait, too.
            connection.execute("SET lock_timeout = '150ms'")
            while not self.world.stop.wait(self.world.every):
                self.world.changing.set()
                self.burst(connection)
                self.world.changing.clear()
                vacuum.execute(f"VACUUM (ANALYZE) {', '.join((*TABLES, *STATE_TABLES))}".encode())

    def burst(self, connection: Connection) -> None:
        old = [str(name) for (name,) in connection.execute(LATER_PARTITIONS.encode())]
        steps: dict[str, Callable[[], object]] = {
            text: partial(connection.execute, text.encode()) for text in STATEMENTS
        }
        steps |= {"attach": partial(self.next_one, connection)}
        steps |= {f"detach {name}": partial(self.detach, connection, name) for name in old}
        for change, step in steps.items():
            for _ in range(TRIES):
                if self.attempt(connection, change.split()[0], step) or self.world.stop.wait(0.2):
                    break

    def detach(self, connection: Connection, name: str) -> None:
        """Detach and drop a partition that most readers have read. The other readers need not receive its rows."""
        with transaction(connection):
            connection.execute(f"ALTER TABLE s_parts DETACH PARTITION {name}".encode())
            self.world.ledger.leave("s_parts", numbers(connection, f"SELECT token FROM {name}"))
            connection.execute(f"DROP TABLE {name}".encode())


class Counting(Role):
    world: SoakWorld

    def work(self) -> None:
        with self.session(self.world.primary) as connection:
            turn = 0
            while not self.world.settled.wait(1):
                turn += 1
                for table in TABLES:
                    try:
                        self.count(connection, table, turn % FOLDED == 0)
                    except psycopg.Error as error:  # a partition was detached in the meantime
                        if not passes(error):
                            raise
                        self.world.done["counts again"] += 1

    def count(self, connection: Connection, table: str, folds: bool) -> None:
        connection.execute("SELECT exact_count(%s)", [table])
        if folds:
            check_count(self.world, connection, table, self.name)
            connection.execute("SELECT exact_count_fold(%s)", [table])
