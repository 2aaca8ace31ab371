"""What is tried again: statements that met with a conflict, and servers that are away."""

import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

import psycopg

from inorder.connection.database import Connection

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 10.0
TRIES = 10  # in a row; together they take most of a minute

CONFLICTS = ("40001", "40P01")  # of snapshots or with a standby's recovery; deadlock
CUT_OFF = (*CONFLICTS, "57014")  # what a shorter read may escape: also who cancels queries that take long

Result = TypeVar("Result")


def pauses() -> Iterator[float]:
    """Twice as long each time, up to a limit.

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
    """Attempts after a first one that failed."""
    return islice(attempts(), 1, None)


def changed(what: str) -> psycopg.Error:
    """A conflict that the server does not see: the rows that were read are none of one table."""
    return psycopg.errors.SerializationFailure(f"{what} was changed while it was read")


def patiently(connection: Connection, step: Callable[[], Result]) -> Result:
    for number in attempts():
        try:
            return step()
        except psycopg.Error as error:
            if error.sqlstate not in CONFLICTS or connection.closed or number == TRIES:
                raise
    raise AssertionError
