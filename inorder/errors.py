"""Errors that are shown to the user as a sentence without a traceback, and cleanup after errors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class InorderError(Exception):
    """The command failed. Exit code 1."""

    exit_code = 1


class InputError(InorderError):
    """Invalid usage, or a file or server that does not support the request. Exit code 2."""

    exit_code = 2


class Terminated(BaseException):
    """SIGTERM or SIGHUP. Servers started by the tool are stopped as they would be after an interrupt. Exit code 143."""


FOUND = 3  # a check reported a problem: feeds --check, advise --fail-on
PIPE_CLOSED = 141  # the exit code that shells use for SIGPIPE: the reader closed the pipe


@contextmanager
def on_error(call: Callable[[], object]) -> Iterator[None]:
    """Call the function if the block raises an exception, including an interrupt."""
    try:
        yield
    except BaseException:
        call()
        raise
