"""Run schedules in one process, step by step, with a session for each writer and for the reader.

If a step has to wait for another session, the next step runs in the meantime. A schedule therefore takes a few
milliseconds, and is the same in every run. The schedules of a case share a table: the reader continues from the
position that the previous schedule reached.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

from inorder.errors import InputError
from inorder.interrupts import uninterrupted
from inorder.lab.check.actors import Actor, Polls, World, Writer
from inorder.lab.check.diagram import statements
from inorder.lab.check.history import History, Judgement, judge
from inorder.lab.check.programs import Program
from inorder.lab.check.reader import Reader, SqlReader
from inorder.lab.check.schedule import (
    END_SECONDS,
    KILLED,
    POLL,
    READER,
    SHORT,
    STATEMENT,
    STEP_SECONDS,
    WAIT_SECONDS,
    Case,
    Schedule,
    Transaction,
    hardest,
    of_text,
)
from inorder.lab.check.session import Session
from inorder.lab.check.ways import Way
from inorder.lab.plan.keys import SCHEMA
from inorder.lab.targets.target import Target

USELESS_POLLS = 4  # the final polls stop after this number of consecutive polls without a new row
# Names are qualified, because later schemas in search_path may contain user tables with these names.
DROP = (
    f"DROP TABLE IF EXISTS {SCHEMA}.events, {SCHEMA}.elsewhere, {SCHEMA}.copy CASCADE;\n"
    f"DROP SEQUENCE IF EXISTS {SCHEMA}.ids CASCADE"
)
DIFFERS = "SELECT id FROM events FULL JOIN copy USING (id, updated_at) WHERE events.* IS NULL OR copy.* IS NULL"
BLOCKERS = (
    "SELECT DISTINCT blocker FROM pg_stat_activity, unnest(pg_blocking_pids(pid)) blocker "
    "WHERE CASE WHEN {0} > 0 THEN pid = {0} ELSE pid <> ALL ('{{{1}}}') END"
)


@dataclass(frozen=True)
class Failure:
    """The first faulty schedule of a case, with the history and the judgement of a second run on a new table."""

    schedule: Schedule
    history: History
    judged: Judgement


@dataclass
class Outcome:
    case: str
    schedules: int = 0
    failures: dict[str, Failure] = field(default_factory=dict)
    waited: int = 0
    failed: int = 0
    note: str = ""


class Arena:
    """A table and sessions in which schedules run.

    If ``own`` is given, it creates the reader in place of the way's reader. Its argument sets search_path, as a libpq
    option.
    """

    def __init__(self, target: Target, way: Way, own: Callable[[str], Reader] | None = None) -> None:
        self.target, self.way, self.own = target, way, own
        self.world = World()
        self.control = self.session()

    def session(self) -> Session:
        connection = self.target.connect(
            client_min_messages="warning", enable_seqscan="off", standard_conforming_strings="on"
        )
        connection.execute(
            f"SELECT set_config('search_path', '{SCHEMA}, ' || current_setting('search_path'), false)".encode()
        )
        return Session(connection)

    def lacks(self, case: Case) -> str:
        words = {word for steps in case.writers for words in steps for word in words.split()}
        if (case.cache > 1 or "draw" in words) and not self.way.draws:
            return "the insert of this way does not contain :id"
        if case.apart and self.way.steps == 1:
            return "a poll is one statement"
        if "prepare" in words and self.way.listen:
            return "a transaction that notifies cannot be prepared"
        prepared = self.control.run("SHOW max_prepared_transactions").rows[0][0]
        return "max_prepared_transactions is 0" if "prepare" in words and prepared == "0" else ""

    @contextmanager
    def table(self, case: Case) -> Iterator[None]:
        with ExitStack() as stack:
            stack.callback(self.run_all, DROP)
            with uninterrupted():  # an interrupt would leave objects such as a feed behind
                self.set_up(case.cache)
                stack.callback(self.run_all, self.way.teardown)
            self.cached, self.world.clock = case.cache > 1, 0
            self.world.row = 1
            self.before = set[str]()
            self.actors: dict[str, Actor] = {}
            for name, _ in zip("ABC", case.writers, strict=False):
                self.actors[name] = stack.enter_context(closing(Writer(name, self.world, self.session(), self.way)))
            self.actors[READER] = stack.enter_context(closing(Polls(self.world, self.reader())))
            yield

    def set_up(self, cache: int) -> None:
        self.run_all(self.way.setup, f"CREATE TABLE {SCHEMA}.elsewhere (n int)")
        for name in ("events", "ids"):
            if self.control.run(f"SELECT to_regclass('{SCHEMA}.{name}')").rows == [(None,)]:
                raise InputError(f"the setup of {self.way.name} creates no {name} in the schema {SCHEMA}")
        self.run_all(f"ALTER SEQUENCE {SCHEMA}.ids CACHE {cache}")

    def run_all(self, *texts: str) -> None:
        for statement in (statement for text in texts for statement in statements(text)):
            self.control.run(statement)

    def close(self) -> None:
        self.control.close()

    def reader(self) -> Reader:
        path = str(self.control.run("SHOW search_path").rows[0][0]).replace("\\", "\\\\").replace(" ", "\\ ")
        if self.own:
            return self.own(f"-c search_path={path}")
        if not self.way.program:
            return SqlReader(self.way, self.session)
        return Program(self.way.program, self.target.environment() | {"PGOPTIONS": f"-c search_path={path}"})

    def blockers(self, pid: int) -> tuple[str, ...]:
        """Return the names of the sessions that a server process is waiting for.

        pg_blocking_pids() reports a prepared transaction as process ID 0.
        """
        own = {actor.source.pid: name for name, actor in self.actors.items()} | {0: "a prepared transaction"}
        listed = ",".join(map(str, {*own, self.control.pid}))
        rows = self.control.run(BLOCKERS.format(pid, listed)).rows
        return tuple(sorted({own.get(int(str(blocker)), "another session") for (blocker,) in rows}))

    def play(self, schedule: Schedule) -> History:
        """Run one schedule, then poll until the reader has all rows or finds nothing new."""
        world = self.world
        world.history = History()
        if self.cached:
            for actor in self.actors.values():
                if isinstance(actor, Writer):
                    actor.session.run("DISCARD SEQUENCES")
        for step in schedule:
            world.clock += WAIT_SECONDS if step.words == "wait" else STEP_SECONDS
            self.act(step.session, step.words)
        self.last_polls(world, partial(self.act, READER, POLL))
        return world.history

    def last_polls(self, world: World, poll: Callable[[], object]) -> None:
        """Poll until the reader has all rows or finds nothing new. Advance the clock by an hour before each poll."""
        world.history.end, useless = world.tick(), 0
        while useless < USELESS_POLLS:
            before = self.missing(world.history)
            world.clock += END_SECONDS
            poll()
            missing = self.missing(world.history)
            useless = 0 if missing < before else useless + 1
            if useless and not missing:
                return

    def missing(self, history: History) -> int:
        if self.way.copies:
            history.differs = sorted({str(key) for (key,) in self.control.run(DIFFERS).rows})
            return len(history.differs)
        return len(history.lost)

    def act(self, name: str, words: str) -> None:
        self.actors[name].words.extend(self.poll(words) if name == READER else words.split())
        self.actors[name].go_on(self.blockers)
        for other in self.actors.values():
            if other.busy:
                other.go_on(self.blockers)

    def poll(self, words: str) -> list[str]:
        """Return a word for each step of a poll. A reader that is killed in the poll does not run ``finish``."""
        return [words] * (1 if words == STATEMENT else self.way.steps - (words == KILLED and bool(self.way.finish)))

    def judged(self, history: History, with_stalls: bool = True) -> Judgement:
        rows = {key for transaction in history.transactions for key in transaction.keys}
        if not self.way.copies and (
            unknown := {key for poll in history.polls for key in poll.keys} - rows - self.before
        ):
            raise InputError(f"the reader returned {min(unknown)}, which is not the key of a committed row")
        judgement = judge(history, self.before, with_stalls)
        self.before |= rows
        return judgement


CONFORMING = of_text("reader: poll, A: insert, A: commit, reader: poll")


def conform(arena: Arena) -> None:
    """Check that a program follows the contract.

    The program polls an empty table, and then a table with one row. It must exit when its input ends.
    """
    with arena.table(Case("protocol", (SHORT,))):
        for step in CONFORMING:
            arena.act(step.session, step.words)
        reader = arena.actors[READER].source
        assert isinstance(reader, Program)
        reader.end_of_input()


def run_case(arena: Arena, case: Case, most: int | None = None) -> Outcome:
    """Run the schedules of a case until one of them loses rows or leaves a copy that differs from the table.

    The first schedule that shows each fault is run again on a new table.
    """
    outcome = Outcome(case.name)
    if note := arena.lacks(case):
        outcome.note = note
        return outcome
    remaining = hardest(case.schedules(arena.way.steps), most)
    while remaining and not {"lost", "differs"} & outcome.failures.keys():
        with arena.table(case):
            remaining = remaining[until_faulty(arena, remaining, outcome) :]
    for schedule in dict.fromkeys(failure.schedule for failure in outcome.failures.values()):
        with arena.table(case):
            add(outcome, schedule, arena.play(schedule), arena)
    return outcome


def until_faulty(arena: Arena, schedules: Sequence[Schedule], outcome: Outcome) -> int:
    """Run schedules until one of them loses rows, returns rows twice, or leaves a copy that differs from the table.

    Return the number of schedules that were run.
    """
    for count, schedule in enumerate(schedules, start=1):
        history = arena.play(schedule)
        writers = [event for event in history.events if event.session != READER]
        outcome.schedules += 1
        outcome.waited += any(event.waits_for for event in writers)
        outcome.failed += any(" fails: " in event.says for event in writers)
        if {"lost", "twice", "differs"} & set(add(outcome, schedule, history, arena).faults):
            return count
    return len(schedules)


def add(outcome: Outcome, schedule: Schedule, history: History, arena: Arena) -> Judgement:
    """Record the first schedule that shows each fault, and the longest stall.

    If that schedule is run again, record its last run.
    """
    judged = arena.judged(history)
    for name in judged.faults:
        earlier = outcome.failures.get(name)
        longer = name == "stalled" and earlier and judged.longest > earlier.judged.longest
        if earlier is None or longer or earlier.schedule == schedule:
            outcome.failures[name] = Failure(schedule, history, judged)
    return judged


RANDOM_LOAD = "random load"  # the name of the case
WRITER_COUNT = 8
LONGEST_PAUSE = 0.02  # seconds between two steps of a transaction; the pause before "wait" is up to ten times as long
KILLS = 0.02  # fraction of polls in which the reader is killed


@dataclass
class RealWorld(World):
    """A world that uses the clock of this machine, set forward for the final polls."""

    def now(self, behind: timedelta = timedelta()) -> str:
        return f"{datetime.now(UTC) + timedelta(seconds=self.clock) - behind:%Y-%m-%d %H:%M:%S.%f+00}"


def run_load(arena: Arena, seconds: float, seed: int) -> Outcome:
    """Run random transactions, and look for rows that are lost, delivered twice or out of order.

    Stalls depend on the machine, and are ignored.
    """
    world, chance = RealWorld(), random.Random(seed)
    kinds = [steps for steps in arena.way.writers if not arena.lacks(Case("", (steps,)))]
    with arena.table(Case("", ())), ExitStack() as stack:
        writers = [stack.enter_context(closing(Writer(f"W{number}", world, arena.session(), arena.way)))
                   for number in range(WRITER_COUNT)]  # fmt: skip
        reader = arena.actors[READER]
        reader.world = world
        until = time.monotonic() + seconds
        with ThreadPoolExecutor(WRITER_COUNT) as pool:
            jobs = [pool.submit(write, writer, kinds, until, chance.random()) for writer in writers]
            while not all(job.done() for job in jobs):
                poll(arena, reader, KILLED if chance.random() < KILLS else POLL)
        for job in jobs:
            job.result()
        arena.last_polls(world, partial(poll, arena, reader, POLL))
        judged = arena.judged(world.history, with_stalls=False)
    failures = {name: Failure((), History(), judged) for name in judged.faults}
    rows = f"{len(world.history.committed):,} rows in {len(world.history.polls):,} polls"
    return Outcome(RANDOM_LOAD, failures=failures, note=rows)


def poll(arena: Arena, reader: object, word: str) -> None:
    assert isinstance(reader, Polls)
    reader.words.extend(arena.poll(word))
    reader.go_on(nobody)


def write(writer: Writer, kinds: list[Transaction], until: float, seed: float) -> None:
    chance = random.Random(seed)
    pause = partial(chance.uniform, 0, LONGEST_PAUSE)
    while time.monotonic() < until:
        for words in chance.choice(kinds):
            time.sleep(pause() * (10 if words == "wait" else 1))
            writer.words.extend(words.split())
            writer.go_on(nobody)


def nobody(_pid: int) -> tuple[str, ...]:
    """Return no blockers, so that the reader and the writers wait for each statement to finish."""
    return ()
