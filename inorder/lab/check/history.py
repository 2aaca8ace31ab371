"""The history of a schedule, and the judgement of it. Pure: a reader is judged only by the rows that it was given."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

COPY_FAULTS = ("differs",)
FAULTS = ("lost", "twice", "disorder", "stalled", *COPY_FAULTS)


@dataclass
class Written:
    """A transaction: its final rows, and the moments (numbers of events) of its begin and end."""

    session: str
    began: int
    keys: list[str] = field(default_factory=list)
    ended: int | None = None
    committed: bool = False
    clock: int = 0  # when it ended


@dataclass
class Polled:
    """A poll: the rows that it gave to the reader, in order. A killed poll gave none."""

    began: int
    ended: int = 0
    keys: tuple[str, ...] = ()
    clock: int = 0
    killed: bool = False


@dataclass(frozen=True)
class Event:
    """A step: in words and in SQL; ``waits_for`` lists the sessions that it had to wait for."""

    session: str
    says: str
    sql: str = ""
    waits_for: tuple[str, ...] = ()


@dataclass
class History:
    """The events of a schedule; after the moment ``end`` there are only the last polls, each an hour later.

    ``differs``: for a reader that keeps a copy, the rows in which it finally differs from the table.
    """

    events: list[Event] = field(default_factory=list)
    transactions: list[Written] = field(default_factory=list)
    polls: list[Polled] = field(default_factory=list)
    end: int = 10**9
    differs: list[str] | None = None

    @property
    def lost(self) -> list[str]:
        given = {key for poll in self.polls for key in poll.keys}
        return [key for key in self.committed if key not in given]

    @property
    def committed(self) -> dict[str, Written]:
        return {key: one for one in self.transactions if one.committed for key in one.keys}


@dataclass(frozen=True)
class Stall:
    """A committed row that a poll missed although a later poll returned it, and the transactions that were then open.

    ``seconds``, by the clock of the schedule: from its commit to the last poll that did not.
    """

    key: str
    behind: tuple[str, ...]
    seconds: int


@dataclass(frozen=True)
class Judgement:
    lost: tuple[str, ...] = ()
    twice: tuple[str, ...] = ()
    disorder: tuple[str, ...] = ()
    stalled: tuple[Stall, ...] = ()
    differs: tuple[str, ...] = ()

    @property
    def faults(self) -> tuple[str, ...]:
        return tuple(name for name in FAULTS if getattr(self, name))

    @property
    def longest(self) -> int:
        return max((stall.seconds for stall in self.stalled), default=0)


def judge(history: History, before: Collection[str] = (), with_stalls: bool = True) -> Judgement:
    """Compare the committed rows with those that the reader was given; ``before`` are rows of earlier schedules.

    The time that stalls take grows with the square of the number of rows.
    """
    if history.differs is not None:
        return Judgement(differs=tuple(history.differs))
    committed = history.committed
    times = Counter(key for poll in history.polls for key in poll.keys)
    twice = [key for key, count in times.items() if count > 1 or (key not in committed and key in before)]
    stalled = tuple(stalls(history, committed)) if with_stalls else ()
    return Judgement(tuple(history.lost), tuple(twice), tuple(disorder(history)), stalled)


def disorder(history: History) -> Iterator[str]:
    """Rows delivered after a row of a transaction that began when theirs had committed: after their consequence."""
    order = {key: place for place, key in enumerate(dict.fromkeys(k for poll in history.polls for k in poll.keys))}
    for one in history.transactions:
        later = [order[key] for other in history.transactions if one.ended is not None and other.began > one.ended
                 for key in other.keys if key in order]  # fmt: skip
        yield from (key for key in one.keys if one.committed and key in order and order[key] > min(later, default=1e9))


def stalls(history: History, committed: dict[str, Written]) -> Iterator[Stall]:
    polls = [poll for poll in history.polls if not poll.killed]
    for key, row in committed.items():
        given = next((poll.began for poll in polls if key in poll.keys), 0)
        missed = [poll for poll in polls if row.ended is not None and row.ended < poll.began < min(given, history.end)]
        behind = {one.session for one in history.transactions for poll in missed 
                  if one.began < poll.began and (one.ended is None or one.ended > poll.ended)}  # fmt: skip
        if missed:
            yield Stall(key, tuple(sorted(behind)), missed[-1].clock - row.clock)


def order_of_sessions(events: Sequence[Event]) -> list[str]:
    return sorted({event.session for event in events}, key=lambda name: (len(name), name))
