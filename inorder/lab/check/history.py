"""The history of a schedule, and its judgement. A reader is judged only by the rows that it returned."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

COPY_FAULTS = ("differs",)
FAULTS = ("lost", "twice", "disorder", "stalled", *COPY_FAULTS)


@dataclass
class Written:
    """A transaction: its rows at the end, and the numbers of the events at which it began and ended."""

    session: str
    began: int
    keys: list[str] = field(default_factory=list)
    ended: int | None = None
    committed: bool = False
    clock: int = 0  # the time at which the transaction ended


@dataclass
class Polled:
    """A poll, and the keys that it returned, in order. A killed poll returned nothing."""

    began: int
    ended: int = 0
    keys: tuple[str, ...] = ()
    clock: int = 0
    killed: bool = False


@dataclass(frozen=True)
class Event:
    """A step, described in words and in SQL. ``waits_for``: the sessions that blocked the step."""

    session: str
    says: str
    sql: str = ""
    waits_for: tuple[str, ...] = ()


@dataclass
class History:
    """The events of a schedule.

    After the moment ``end`` there are only the final polls, each an hour after the previous one.

    ``differs``: for a reader that keeps a copy, the rows that differ between the copy and the table at the end.
    """

    events: list[Event] = field(default_factory=list)
    transactions: list[Written] = field(default_factory=list)
    polls: list[Polled] = field(default_factory=list)
    end: int = 10**9
    differs: list[str] | None = None

    @property
    def lost(self) -> list[str]:
        returned = {key for poll in self.polls for key in poll.keys}
        return [key for key in self.committed if key not in returned]

    @property
    def committed(self) -> dict[str, Written]:
        return {
            key: transaction for transaction in self.transactions if transaction.committed for key in transaction.keys
        }


@dataclass(frozen=True)
class Stall:
    """A committed row that earlier polls did not return, and the transactions that were open during these polls.

    ``seconds``: the time from the commit to the last poll without the row, by the clock of the schedule.
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
    """Compare the committed rows with the rows that the reader returned.

    ``before``: rows of earlier schedules. The time to find stalls grows with the square of the number of rows.
    """
    if history.differs is not None:
        return Judgement(differs=tuple(history.differs))
    committed = history.committed
    times = Counter(key for poll in history.polls for key in poll.keys)
    twice = [key for key, count in times.items() if count > 1 or (key not in committed and key in before)]
    stalled = tuple(stalls(history, committed)) if with_stalls else ()
    return Judgement(tuple(history.lost), tuple(twice), tuple(disorder(history)), stalled)


def disorder(history: History) -> Iterator[str]:
    """Yield rows that were returned out of order, after a row of a later transaction.

    A transaction is later if it began after the rows were committed. A reader that receives rows in this order sees an
    effect before its cause.
    """
    order = {key: place for place, key in enumerate(dict.fromkeys(k for poll in history.polls for k in poll.keys))}
    for transaction in history.transactions:
        ended = transaction.ended
        later = [order[key] for other in history.transactions if ended is not None and other.began > ended
                 for key in other.keys if key in order]  # fmt: skip
        yield from (
            key
            for key in transaction.keys
            if transaction.committed and key in order and order[key] > min(later, default=1e9)
        )


def stalls(history: History, committed: dict[str, Written]) -> Iterator[Stall]:
    polls = [poll for poll in history.polls if not poll.killed]
    for key, row in committed.items():
        returned_at = next((poll.began for poll in polls if key in poll.keys), 0)
        missed = [
            poll for poll in polls if row.ended is not None and row.ended < poll.began < min(returned_at, history.end)
        ]
        behind = {
            writer.session for writer in history.transactions for poll in missed
            if writer.began < poll.began and (writer.ended is None or writer.ended > poll.ended)
        }  # fmt: skip
        if missed:
            yield Stall(key, tuple(sorted(behind)), missed[-1].clock - row.clock)


def order_of_sessions(events: Sequence[Event]) -> list[str]:
    return sorted({event.session for event in events}, key=lambda name: (len(name), name))
