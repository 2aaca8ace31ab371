"""Delay interrupts until work that should not be cut off is finished."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


waiting: list[list[int]] = []  # delayed interrupts of each active block


def is_interrupted() -> bool:
    return any(waiting)


@contextmanager
def deferred(impatient: bool) -> Iterator[None]:
    """Delay the first interrupt until the end of the block.

    If ``impatient``, a second interrupt takes effect at once.
    """
    caught: list[int] = []
    waiting.append(caught)
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def later(number: int, _frame: FrameType | None) -> None:
        if caught and impatient:
            restore()
            signal.raise_signal(number)
        caught.append(number)

    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, later)
    try:
        yield
    finally:
        restore()
        waiting.pop()
        if caught:
            signal.raise_signal(caught[0])


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay an interrupt until the end of the block, and ignore further interrupts. Applies to the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with deferred(impatient=False):
        yield
