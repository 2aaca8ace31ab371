"""How far the server's clock is from this machine's, as far as a few round trips show."""

from collections.abc import Callable
from dataclasses import dataclass

from inorder.connection.database import Connection

LOOKS = 20  # round trips at a time, of which the quickest says most


@dataclass(frozen=True)
class Apart:
    """The server's clock is ahead by at least and at most so many seconds."""

    least: float
    most: float

    @property
    def seconds(self) -> float:
        return (self.least + self.most) / 2

    @property
    def error(self) -> float:
        return (self.most - self.least) / 2

    def __or__(self, other: "Apart") -> "Apart":
        """Whatever either says is possible: between two readings clocks may have drifted, or been set.

        >>> Apart(-0.5, 0.5) | Apart(0.0, 2.0)
        Apart(least=-0.5, most=2.0)
        """
        return Apart(min(self.least, other.least), max(self.most, other.most))


SAME = Apart(0.0, 0.0)


def apart(connection: Connection, clock: Callable[[], float]) -> Apart:
    """The quickest of a few round trips: the server read its clock somewhere between both ends."""
    return min((one_look(connection, clock) for _ in range(LOOKS)), key=lambda found: found.error)


def one_look(connection: Connection, clock: Callable[[], float]) -> Apart:
    before = clock()
    row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
    after = clock()
    assert row is not None
    there = float(str(row[0]))
    return Apart(there - after, there - before)
