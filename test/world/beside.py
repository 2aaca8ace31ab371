"""Background threads for tests, and transactions of random statements."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Event

import psycopg
from inorder.connection.database import Connection

from world.sql import run

# Errors after which a transaction may be repeated: serialization failures, deadlocks, lock timeouts, and conflicts
# between writers or between a writer and an owner who changes the table.
AGAIN = (
    psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected, psycopg.errors.LockNotAvailable,
    psycopg.errors.IntegrityError, psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedObject, psycopg.errors.DuplicateTable, psycopg.errors.DuplicateColumn,
    psycopg.errors.FeatureNotSupported, psycopg.errors.CardinalityViolation,
)  # fmt: skip
LEVELS = ("READ COMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")


@contextmanager
def beside(*works: Callable[[Event], object]) -> Iterator[None]:
    """Run each function in a background thread during the block.

    Each function is called with an event that is set at the end of the block. An error in a thread is raised after the
    block.
    """
    ended = Event()
    with ThreadPoolExecutor(len(works)) as pool:
        running = [pool.submit(work, ended) for work in works]
        try:
            yield
        finally:
            ended.set()
        for working in running:
            working.result()


def write(connection: Connection, rng: random.Random, statements: Sequence[str], two_phase: float = 0.0) -> bool:
    """Run statements in one transaction, and commit it or sometimes roll it back. Return False after a conflict."""
    try:
        run(connection, f"BEGIN ISOLATION LEVEL {rng.choice(LEVELS)}")
        for statement in statements:
            write_one(connection, rng, statement)
        end(connection, rng, two_phase)
    except AGAIN:
        return False
    finally:
        run(connection, "ROLLBACK")
    return True


def write_one(connection: Connection, rng: random.Random, statement: str) -> None:
    """Run a statement after a savepoint. The rows of a COPY statement follow its first line."""
    run(connection, "SAVEPOINT s")
    with suppress(*AGAIN):
        head, _, rows = statement.partition("\n")
        if head.startswith("COPY "):
            with connection.cursor().copy(head.encode()) as copy:
                copy.write(rows)
        else:
            run(connection, statement)
    is_sound = connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
    run(connection, rng.choice(("RELEASE s", "RELEASE s", "ROLLBACK TO s")) if is_sound else "ROLLBACK TO s")


def end(connection: Connection, rng: random.Random, two_phase: float) -> None:
    name = f"w{rng.randrange(10**9)}"
    if rng.random() < two_phase:
        run(connection, f"PREPARE TRANSACTION '{name}'")
        time.sleep(rng.random() * 0.2)
        run(connection, f"COMMIT PREPARED '{name}'")
    else:
        time.sleep(rng.choice((0, 0, 0, rng.random() * 0.05)))
        run(connection, "ROLLBACK" if rng.random() < 0.1 else "COMMIT")
