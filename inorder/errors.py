"""The errors a user is shown as one sentence, without a traceback; what is done on any."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class InorderError(Exception):
    """Something went wrong while doing what was asked. Exit code 1."""

    exit_code = 1


class InputError(InorderError):
    """What was asked for cannot be done: a bad value, file or server. Exit code 2."""

    exit_code = 2


class Terminated(BaseException):
    """SIGTERM or SIGHUP. Handled like an interrupt, so that every server is stopped. Exit code 143."""


FOUND = 3  # a check found something: feeds --check, advise --fail-on
PIPE_CLOSED = 141  # as a shell reports SIGPIPE: the reader has enough


@contextmanager
def on_error(call: Callable[[], object]) -> Iterator[None]:
    """Call it if the block does not end well: an interrupt counts, too."""
    try:
        yield
    except BaseException:
        call()
        raise
