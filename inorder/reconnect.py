"""Work that goes on over restarts of the server."""

import sys
import time
from collections.abc import Callable, Iterator
from typing import NoReturn, TypeVar

import psycopg

from inorder.errors import InorderError, InputError
from inorder.session import Session, explained, first_line, may_pass

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 10.0

Result = TypeVar("Result")


class InUseError(InputError):
    """What is to be worked on is in use: perhaps by a session that has just lost its connection."""


def pauses() -> Iterator[float]:
    """Twice as long each time, up to a limit.

    >>> from itertools import islice
    >>> [round(pause, 1) for pause in islice(pauses(), 9)]
    [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    """
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * 2, LONGEST_PAUSE)


def tell(text: str) -> None:
    """A line for whoever watches."""
    print(f"inorder: {text}", file=sys.stderr, flush=True)


def once(dsn: str, attach: Callable[[Session], None], work: Callable[[], Result]) -> Result:
    """Do some work in a session; errors of the server are explained."""
    session = Session(dsn)
    try:
        attach(session)
        return work()
    except psycopg.Error as error:
        if session.connection.closed:
            raise InorderError(f"the server went away: {first_line(error)}") from error
        raise explained(error) from error
    finally:
        session.close()


def forever(dsn: str, attach: Callable[[Session], None], work: Callable[[], object], interval: float) -> NoReturn:
    """Do it again and again; a server that went away is waited for, once it has been there."""
    session = Session(dsn)
    try:
        try:
            attach(session)
        except psycopg.Error as error:
            raise explained(error) from error
        while True:
            try:
                work()
            except psycopg.Error as error:
                if not (session.connection.closed or may_pass(error)):
                    raise explained(error) from error
                session.close()
                session = reconnected(dsn, attach, error)
            else:
                time.sleep(interval)
    finally:
        session.close()


def reconnected(dsn: str, attach: Callable[[Session], None], reason: psycopg.Error) -> Session:
    """A new session, as soon as there is one to be had."""
    tell(f"lost the server, trying again: {first_line(reason)}")
    for pause in pauses():
        time.sleep(pause)
        session = None
        try:
            session = Session(dsn)
            attach(session)
        except (psycopg.Error, InUseError) as error:
            if session:
                session.close()
            if isinstance(error, psycopg.Error) and not may_pass(error):
                raise explained(error) from error
        else:
            tell("reconnected")
            return session
    raise AssertionError
