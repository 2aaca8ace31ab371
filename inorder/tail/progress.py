"""How many rows were written so far, on the terminal of standard error."""

import os
import sys
import time

INTERVAL = 0.2  # seconds between two updates
CLEAR_LINE = "\r\x1b[K"


class RowCount:
    """A line that is updated while rows are written, and removed at the end.

    There is none where standard error is no terminal that can do so, or the rows themselves go to a terminal. The line
    has a descriptor of its own: while jobs read Arrow, standard error is nowhere.
    """

    def __init__(self, dumb: bool) -> None:
        self.shown = not dumb and sys.stderr.isatty() and not sys.stdout.isatty()
        self.terminal = open(os.dup(sys.stderr.fileno()), "w", encoding="utf-8") if self.shown else sys.stderr  # noqa: SIM115
        self.rows = 0
        self.began = self.last = time.monotonic()

    def __enter__(self) -> "RowCount":
        return self

    def __exit__(self, *_error: object) -> None:
        if self.shown:
            self.terminal.write(CLEAR_LINE)
            self.terminal.close()

    def add(self, rows: int) -> None:
        self.rows += rows
        now = time.monotonic()
        if self.shown and now - self.last >= INTERVAL:
            self.last = now
            self.terminal.write(f"{CLEAR_LINE}{self.rows:,} rows, {now - self.began:,.0f} s")
            self.terminal.flush()
