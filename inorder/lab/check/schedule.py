"""Schedules: the steps of each session, and their order. ``arena`` runs the steps on a server.

A transaction is a tuple of steps. A step is a string of words, which are run one after the other. There is no word for
BEGIN: the first word that needs a transaction begins one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

READER = "reader"
STEP_SECONDS, WAIT_SECONDS, END_SECONDS = 1, 60, 3600  # on the schedule's clock; the check itself does not wait
POLL, KILLED, STATEMENT = "poll", "killed poll", "statement"

Transaction = tuple[str, ...]
SHORT: Transaction = ("insert", "commit")
UPDATE: Transaction = ("update", "commit")
DELETE: Transaction = ("delete", "commit")
WRITERS: dict[str, Transaction] = {
    "rollback": ("insert", "rollback"),
    "savepoints": ("insert", "savepoint insert undo savepoint insert release", "commit"),
    "prepared": ("insert", "prepare", "commit_prepared"),
    "many rows": ("insert insert insert", "commit"),
    "long": ("insert", "wait", "commit"),
    "long elsewhere": ("elsewhere", "wait", "commit"),
    "wrote before": ("elsewhere", "insert", "commit"),
    "id drawn before": ("draw", "insert", "commit"),
    "clock behind": ("behind insert", "commit"),
}
ENDS = ("commit", "rollback", "prepare", "commit_prepared")


@dataclass(frozen=True)
class Step:
    session: str
    words: str


Schedule = tuple[Step, ...]


def in_text(schedule: Schedule) -> str:
    """Return a schedule as a line of text. ``of_text`` is the inverse.

    >>> in_text((Step("A", "behind insert"), Step("reader", "poll")))
    'A: behind insert, reader: poll'
    """
    return ", ".join(f"{step.session}: {step.words}" for step in schedule)


def of_text(text: str) -> Schedule:
    """Parse a line of text into a schedule.

    >>> of_text("A: behind insert, reader: poll")
    (Step(session='A', words='behind insert'), Step(session='reader', words='poll'))
    """
    return tuple(Step(*step.split(": ")) for step in text.split(", ") if step)


@dataclass(frozen=True)
class Case:
    """Transactions of A, B and perhaps C, and a reader that polls ``polls`` times.

    ``kill``: the reader is killed in its first poll. ``cache``: the number of sequence values that a session
    preallocates. ``apart``: other sessions may act between the statements of a poll.
    """

    name: str
    writers: tuple[Transaction, ...]
    polls: int = 2
    kill: bool = False
    cache: int = 1
    apart: bool = False

    def schedules(self, statements: int = 1) -> Iterator[Schedule]:
        """Yield every order of the steps, the shortest schedules first.

        If ``apart`` is set, the ``statements`` of a poll are separate steps.

        >>> for schedule in Case("two", (SHORT, SHORT), 1).schedules():
        ...     print(" ".join(f"{step.session}:{step.words}" for step in schedule))
        A:insert A:commit B:insert reader:poll B:commit
        A:insert A:commit reader:poll B:insert B:commit
        A:insert B:insert A:commit reader:poll B:commit
        A:insert B:insert B:commit reader:poll A:commit
        A:insert B:insert reader:poll A:commit B:commit
        A:insert B:insert reader:poll B:commit A:commit
        A:insert reader:poll A:commit B:insert B:commit
        A:insert reader:poll B:insert A:commit B:commit
        A:insert reader:poll B:insert B:commit A:commit
        """
        if self.apart:
            yield from self.in_order((STATEMENT,) * statements, useless=False)
            return
        for polls in range(1, self.polls + 1):
            yield from self.in_order(((KILLED if self.kill else POLL), *(POLL,) * (polls - 1)), useless=True)

    def in_order(self, reading: Transaction, useless: bool) -> Iterator[Schedule]:
        """Yield every order of the steps.

        With ``useless``, skip orders that begin or end with a poll, because the final polls do the same.
        """
        scripts = dict(zip("ABC", self.writers, strict=False)) | {READER: reading}
        for order in interleavings(tuple(map(len, scripts.values()))):
            coming = {name: iter(words) for name, words in scripts.items()}
            steps = tuple(Step(name, next(coming[name])) for name in (list(scripts)[place] for place in order))
            ends = {steps[0].session, steps[-1].session}
            if not (useless and READER in ends) and not self.mirrored(steps):
                yield steps

    def mirrored(self, steps: Schedule) -> bool:
        """Return True if equal transactions do not begin in the order of their names.

        Some other schedule differs from this one only in the names of these transactions.
        """
        began = [name for name in dict.fromkeys(step.session for step in steps) if name != READER]
        equal = [name for name in began if self.writers["ABC".index(name)] == SHORT]
        return equal != sorted(equal)


def interleavings(lengths: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield every order in which lists of these lengths can be merged, as a sequence of list numbers."""
    if not any(lengths):
        yield ()
    for place, length in enumerate(lengths):
        if length:
            for later_places in interleavings((*lengths[:place], length - 1, *lengths[place + 1 :])):
                yield (place, *later_places)


CASES: Sequence[Case] = (
    Case("overlap", (SHORT, SHORT)),
    *(Case(name, (steps, SHORT)) for name, steps in WRITERS.items()),
    Case("cached ids", (SHORT + SHORT, SHORT), cache=20),
    Case("three", (SHORT, SHORT, SHORT)),
    Case("between statements", (SHORT, SHORT), apart=True),
    Case("killed reader", (SHORT, SHORT), kill=True),
)
# Cases for readers that copy a table. Its rows are also updated and deleted.
COPY_CASES: Sequence[Case] = (
    Case("inserts", (SHORT, SHORT)),
    Case("updates", (UPDATE, UPDATE)),
    Case("deletes", (DELETE, UPDATE)),
    Case("same row", (("update_first", "commit"), ("update_first", "commit"))),
    Case("key changed", (("change_key", "commit"), UPDATE)),
    Case("savepoints", (("update", "savepoint update undo savepoint update release", "commit"), UPDATE)),
    Case("long update", (("update", "wait", "commit"), UPDATE)),
    Case("wrote before", (("elsewhere", "update", "commit"), UPDATE)),
    Case("truncated", (("elsewhere", "insert", "commit"), ("truncate", "commit"))),
    Case("between statements", (UPDATE, UPDATE), apart=True),
    Case("killed reader", (UPDATE, UPDATE), kill=True),
)


def hardest(schedules: Iterator[Schedule], most: int | None) -> list[Schedule]:
    """Return all schedules, or the ``most`` schedules with the highest pressure, the shortest schedules first."""
    every = list(schedules)
    return sorted(sorted(every, key=pressure, reverse=True)[:most], key=len)


def pressure(schedule: Schedule) -> int:
    """Return the number of polls that run while one transaction is open and another one has committed.

    >>> [pressure(schedule) for schedule in Case("two", (SHORT, SHORT), 1).schedules()]
    [1, 0, 1, 1, 0, 0, 0, 0, 0]
    """
    polls, is_open, committed = 0, set[str](), False
    for step in schedule:
        if step.session == READER:
            polls += bool(is_open) and committed
        elif step.words in ENDS:
            is_open.discard(step.session)
            committed = True
        else:
            is_open.add(step.session)
    return polls
