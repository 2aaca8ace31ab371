"""Continue work across server restarts."""

import sys
import time
from collections.abc import Callable
from typing import NoReturn, TypeVar

import psycopg

from inorder.connection.patience import pauses
from inorder.connection.session import Session, explained, first_line, in_words, may_pass
from inorder.errors import InorderError
from inorder.text import lines

Result = TypeVar("Result")


class InUseError(InorderError):
    """The requested object is in use, possibly by a session that has just lost its connection."""


def report(text: str) -> None:
    print(f"inorder: {lines(text)}", file=sys.stderr, flush=True)


def once(
    dsn: str, attach: Callable[[Session], None], work: Callable[[], Result], *, writes: bool = False,
    kind: type[Session] = Session,
) -> Result:  # fmt: skip
    session = kind(dsn, writes)
    try:
        attach(session)
        return work()
    except psycopg.Error as error:
        if session.connection.closed:
            raise InorderError(f"the connection to the server was lost: {first_line(error)}") from error
        raise explained(error, table_acceptance=session.table_acceptance) from error
    finally:
        session.close()


def forever(
    dsn: str, attach: Callable[[Session], None], work: Callable[[], object], pause: Callable[[], object], *,
    writes: bool = False,
) -> NoReturn:  # fmt: skip
    """Call ``work`` and ``pause`` until an interrupt. Reconnect whenever the connection is lost."""
    session = Session(dsn, writes)
    try:
        with in_words():
            attach(session)
        while True:
            try:
                work()
                pause()
            except psycopg.Error as error:
                if not (session.connection.closed or may_pass(error)):
                    raise explained(error, table_acceptance=session.table_acceptance) from error
                report(f"{'connection lost, ' if session.connection.closed else ''}trying again: {first_line(error)}")
                session.close()
                session = reconnected(lambda: Session(dsn, writes), attach)
    finally:
        session.close()


def reconnected(connect: Callable[[], Session], attach: Callable[[Session], None]) -> Session:
    for pause in pauses():
        time.sleep(pause)
        session = None
        try:
            session = connect()
            attach(session)
        except (psycopg.Error, InUseError) as error:
            if session:
                session.close()
            if isinstance(error, psycopg.Error) and not may_pass(error):
                raise explained(error) from error
        else:
            report("reconnected")
            return session
    raise AssertionError
