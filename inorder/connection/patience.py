"""Retries of statements after a conflict, and while a server is unavailable."""

import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

import psycopg

from inorder.connection.database import Connection

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 10.0
TRIES = 10  # consecutive attempts; the pauses between the attempts take 33 s in total

CONFLICTS = ("40001", "40P01")  # serialization failure or conflict with a standby's recovery; deadlock
CANCELLED = "57014"
OF_RECOVERY = (
    "ProcessInterrupts",
    "ProcessRecoveryConflict",
)  # prefixes of the names of server functions that report a conflict with recovery

Result = TypeVar("Result")


def pauses() -> Iterator[float]:
    """Pauses that double each time, up to a limit.

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
    """The attempts that follow a first attempt, after pauses."""
    return islice(attempts(), 1, None)


def is_of_recovery(error: psycopg.Error) -> bool:
    return error.sqlstate in CONFLICTS and (error.diag.source_function or "").startswith(OF_RECOVERY)


def was_cut_off(error: psycopg.Error) -> bool:
    """True for an error that a shorter read may avoid: a conflict with recovery on a standby, or a canceled statement.

    ADBC does not report which function of the server raised an error: every conflict in a read by ADBC counts as a
    conflict with recovery.

    >>> was_cut_off(psycopg.errors.QueryCanceled()), was_cut_off(changed("t"))
    (True, False)
    """
    is_of_adbc = type(error.__cause__).__module__.startswith("adbc_")
    return error.sqlstate == CANCELLED or is_of_recovery(error) or (is_of_adbc and error.sqlstate in CONFLICTS)


def changed(subject: str) -> psycopg.Error:
    """A conflict that the server does not detect: the table was changed while its rows were read."""
    return psycopg.errors.SerializationFailure(f"{subject} was changed while it was read")


def patiently(connection: Connection, step: Callable[[], Result]) -> Result:
    for number in attempts():
        try:
            return step()
        except psycopg.Error as error:
            if error.sqlstate not in CONFLICTS or connection.closed or number == TRIES:
                raise
    raise AssertionError
