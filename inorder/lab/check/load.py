"""A random load: writers of every kind at the same time, by the real clock, while the reader polls and is killed."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from inorder.lab.check.actors import Polls, World, Writer
from inorder.lab.check.arena import Arena, Finding, Outcome
from inorder.lab.check.history import FAULTS, History
from inorder.lab.check.schedule import KILLED, POLL, READER, Case, Transaction

WRITER_COUNT = 8
LONGEST_PAUSE = 0.02  # between two steps of a transaction; a long one waits ten times as long
KILLS = 0.02  # of the polls


@dataclass
class RealWorld(World):
    """The clock of this machine, which goes forward for the last polls."""

    def now(self, behind: timedelta = timedelta()) -> str:
        return f"{datetime.now(UTC) + timedelta(seconds=self.clock) - behind:%Y-%m-%d %H:%M:%S.%f+00}"


def run_load(arena: Arena, seconds: float, seed: int) -> Outcome:
    """Lost, twice and out of order: what is stalled, and how long, depends on the machine here."""
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
        judged = arena.judged(world.history)
    found = {name: Finding((), History(), judged) for name in FAULTS if name != "stalled" and getattr(judged, name)}
    rows = f"{len(world.history.committed):,} rows in {len(world.history.polls):,} polls"
    return Outcome("random load", found=found, note=rows)


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
    """A statement that waits for a lock is waited for."""
    return ()
