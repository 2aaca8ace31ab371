"""Retry statements after a conflict, and while a server is unavailable."""

import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

import psycopg

from inorder.connection.database import Connection

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 10.0
TRIES = 10  # consecutive attempts, with pauses of 33 s in total

CONFLICTS = ("40001", "40P01")  # serialization failure or recovery conflict, and deadlock
CANCELLED = "57014"
OF_RECOVERY = (
    "ProcessInterrupts",
    "ProcessRecoveryConflict",
)  # prefixes of the server functions that report a recovery conflict

Result = TypeVar("Result")


def pauses() -> Iterator[float]:
    """Yield pauses that double each time, up to a limit.

    >>> [round(pause, 1) for pause in islice(pauses(), 9)]
    [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    """
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * 2, LONGEST_PAUSE)


def attempts(tries: int = TRIES) -> Iterator[int]:
    yield 1
    for number, pause in enumerate(islice(pauses(), tries - 1), 2):
        time.sleep(pause)
        yield number


def retries() -> Iterator[int]:
    """Yield the attempts that follow a first attempt, after pauses."""
    return islice(attempts(), 1, None)


def is_of_recovery(error: psycopg.Error) -> bool:
    return error.sqlstate in CONFLICTS and (error.diag.source_function or "").startswith(OF_RECOVERY)


def was_cut_off(error: psycopg.Error) -> bool:
    """Return whether a shorter read may avoid the error: a recovery conflict on a standby, or a canceled statement.

    ADBC does not report which server function raised an error. Every conflict in a read with ADBC therefore counts as a
    recovery conflict.

    >>> was_cut_off(psycopg.errors.QueryCanceled()), was_cut_off(changed("t"))
    (True, False)
    """
    is_of_adbc = type(error.__cause__).__module__.startswith("adbc_")
    return error.sqlstate == CANCELLED or is_of_recovery(error) or (is_of_adbc and error.sqlstate in CONFLICTS)


def changed(subject: str) -> psycopg.Error:
    """Build the error for a table that was changed while it was read. The server does not detect this conflict."""
    return psycopg.errors.SerializationFailure(f"{subject} was changed while it was read")


def patiently(connection: Connection, step: Callable[[], Result]) -> Result:
    for number in attempts():
        try:
            return step()
        except psycopg.Error as error:
            if error.sqlstate not in CONFLICTS or connection.closed or number == TRIES:
                raise
    raise AssertionError
