"""Steps of stress-test writers and of a reader on a server, sorted into an order that the model accepts."""

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Semaphore
from typing import Any

from inorder.connection.database import Connection, one_row

from model.checks import FOLDER, READER, run_checker
from waiting import PATIENCE
from world.world import World
from world.writers import Draft, Writer

TABLE = "s_number"
MOST_ROWS, BATCH_ROWS = 3, 4  # maximum number of rows of a statement, and of a batch
STATEMENTS = 4  # number of statements between two polls, by all writers together
ASK = """
SELECT inorder_internal.ended_everywhere(0)::text, batch::text, (batch).transactions::text,
       (batch).cut, (batch).cut_after[1]
FROM reader_next_batch(%s, %s::text::feed_position, %s) AS batch
"""
READ = f"SELECT xact, id FROM reader_batch_rows(%s, %s::text::feed_batch, null::{TABLE})"
ADVANCE = "SELECT reader_advance(%s::text::feed_position, %s::text::feed_batch)::text"


class Short(Writer):
    counting = 0.0  # the table has no exact count
    turns = Semaphore(0)  # permits for statements, so that their number between polls does not depend on the machine

    def insert(self, draft: Draft, amount: int, tables: tuple[str, ...] = (TABLE,)) -> None:
        self.turns.acquire(timeout=PATIENCE)
        super().insert(draft, min(amount, MOST_ROWS), (TABLE,))

    def row(self) -> None:
        self.savepoints()

    blocks = two_phase = finish = long = stream = row


@dataclass(frozen=True)
class Poll:
    ended: str
    numbers: str
    cut: int | None
    upto: int | None
    rows: Sequence[tuple[int, int]]


@dataclass
class Recorded:
    first: int = 0  # the lowest transaction ID that may be in progress at the beginning
    polls: list[Poll] = field(default_factory=list)
    rows: list[tuple[int, int, int]] = field(default_factory=list)


def poll(connection: Connection, position: str) -> tuple[Poll | None, str]:
    """Read one batch, if there is one, and record it with its snapshot. Return the position after the batch."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        ended, batch, numbers, cut, upto = one_row(connection, ASK, [TABLE, position, BATCH_ROWS])
        if batch is None or numbers == "{}":
            return None, position
        fetched: list[Any] = connection.execute(READ.encode(), [TABLE, batch]).fetchall()
        (moved,) = one_row(connection, ADVANCE, [position, batch])
    rows = [(int(number), int(key)) for number, key in fetched]
    return Poll(ended, numbers, cut, int(upto) if upto else None, rows), str(moved)


def numbers_in(text: str, first: int, end: int) -> set[int]:
    """Return a multirange's numbers from ``first`` up to, but not including, ``end``, counted from 1 as in the model.

    >>> sorted(numbers_in("{[0,12),[14,15)}", 10, 20))
    [1, 2, 5]
    """
    numbers = set[int]()
    for low, high in re.findall(r"\[(\d+),(\d+)\)", text):
        numbers |= set(range(max(int(low), first), min(int(high), end)))
    return {number - first + 1 for number in numbers}


def places(recorded: Recorded) -> dict[tuple[int, int], tuple[int, int]]:
    by_row, last = {}, dict[int, int]()
    for number, key, _ in sorted(recorded.rows):
        last[number] = last.get(number, 0) + 1
        by_row[number, key] = (number - recorded.first + 1, last[number])
    return by_row


class Order:
    """Sorts steps into an order in which they may have been executed.

    Transactions begin in the order of their numbers, each after its session's previous transaction has ended. A
    transaction ends between two snapshots: it is in progress in the first snapshot, and has ended in the second.
    """

    def __init__(self, rows: Mapping[int, int], sessions: Mapping[int, int]) -> None:
        self.rows, self.sessions = rows, sessions  # transaction -> its number of rows; transaction -> its session
        self.next, self.ended = 1, set[int]()
        self.last: dict[int, int] = {}  # session -> its latest transaction

    def until(self, ended: set[int]) -> Iterator[str]:
        for number in range(self.next, max(ended, default=0) + 1):
            session = self.sessions.get(number)
            if session is not None and self.last.get(session) in ended - self.ended:
                yield from self.end(self.last[session])
            yield f'do |-> "begin", id |-> {number}'
            if session is not None:
                self.last[session] = number
        self.next = max(self.next, max(ended, default=0) + 1)
        for number in sorted(ended - self.ended):
            yield from self.end(number)

    def end(self, number: int) -> Iterator[str]:
        rows = self.rows.get(number, 0)
        yield from [f'do |-> "write", id |-> {number}'] * rows
        yield from [f'do |-> "{do}", id |-> {number}' for do in (("commit", "visible") if rows else ("abort",))]
        self.ended.add(number)


def steps_of(recorded: Recorded) -> list[str]:
    first, end = recorded.first, max(number for number, _, _ in recorded.rows) + 1
    place, rows = places(recorded), dict[int, int]()
    for number, _ in place.values():
        rows[number] = rows.get(number, 0) + 1
    order = Order(rows, {number - first + 1: session for number, _, session in recorded.rows})
    steps = list[str]()
    for batch in recorded.polls:
        ended, numbers = numbers_in(batch.ended, first, end), numbers_in(batch.numbers, first, end)
        if not numbers:
            continue
        steps += order.until(ended)
        cut = batch.cut - first + 1 if batch.cut else 0
        upto = place[batch.cut, batch.upto][1] if batch.cut and batch.upto else 0
        steps.append(
            f'do |-> "take", ended |-> {braced(ended)}, numbers |-> {braced(numbers)}, cut |-> {cut}, upto |-> {upto}'
        )
        read = ", ".join("<<{}, {}>>".format(*place[row]) for row in batch.rows)
        steps.append(f'do |-> "store", rows |-> <<{read}>>')
    return steps


def braced(numbers: set[int]) -> str:
    return f"{{{', '.join(map(str, sorted(numbers)))}}}"


def replay(steps: Sequence[str]) -> tuple[int, str]:
    """Return the number of steps that the model accepts, and the violated invariant, if any."""
    highest = sum('"begin"' in step for step in steps)
    ((_, most),) = Counter(step for step in steps if '"write"' in step).most_common(1)
    constants = {
        "Ids": braced(set(range(1, highest + 1))), "RowsEach": str(most), "MaxRows": str(BATCH_ROWS),
        "Nodes": '{"primary"}', "Disasters": "{}", "Variant": '"set"',
    }  # fmt: skip
    return replay_as("Replay", steps, constants, READER)


def replay_as(
    module: str, steps: Sequence[str], constants: Mapping[str, str], invariants: Sequence[str]
) -> tuple[int, str]:
    with tempfile.TemporaryDirectory() as folder:
        for path in FOLDER.glob("*.tla"):
            shutil.copy(path, folder)
        listed = ",\n".join(f"  [{step}]" for step in steps)
        text = f"---- MODULE Recorded ----\nEXTENDS {module}\nTheSteps == <<\n{listed}\n>>\n====\n"
        Path(folder, "Recorded.tla").write_text(text)
        Path(folder, "Recorded.cfg").write_text(
            "SPECIFICATION ReplaySpec\nCONSTANTS\n"
            + "".join(f" {name} = {value}\n" for name, value in constants.items())
            + f" Steps <- TheSteps\nINVARIANTS {' '.join(invariants)}\n"
        )
        result = run_checker(Path(folder), "Recorded", Path(folder, "Recorded.cfg"), is_small=True)
    return result.states - 1, result.failed


def record(world: World, connection: Connection, position: str, first: int, most: int) -> Recorded:
    recorded = Recorded(first)
    while not recorded.polls or len({number for batch in recorded.polls for number, _ in batch.rows}) < most:
        Short.turns.release(STATEMENTS)
        polled, position = poll(connection, position)
        recorded.polls += [polled] if polled else []
        if world.broken.is_set():
            break
    # The lane in a row's token identifies the writer: see token_of().
    query = f"SELECT xact, id, token >> 36 FROM {TABLE} WHERE xact >= %s"
    rows: list[Any] = connection.execute(query.encode(), [first]).fetchall()
    recorded.rows = [(int(number), int(key), int(session)) for number, key, session in rows]
    return recorded
