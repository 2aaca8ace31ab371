"""Parts of a batch, read at the same time on several connections, and handed out in their order."""

import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from typing import Any

import psycopg

from inorder.tail.rows import PartReader

AHEAD_BYTES = 8 * 1024 * 1024  # of rows that wait for their turn, for each job


class Stopped(Exception):  # noqa: N818  # no error: nobody wants the rows any more
    pass


class Part:
    def __init__(self, batch: Any) -> None:
        self.batch = batch
        self.blocks: deque[Any] = deque()  # Rows, or batches of Arrow
        self.is_read = False


class Relay:
    """Parts on their way from the jobs to the output. A job that is far ahead of the output waits."""

    def __init__(self, batches: Sequence[Any], most_bytes: int) -> None:
        self.parts = [Part(batch) for batch in batches]
        self.todo = deque(self.parts)
        self.current, self.most_bytes, self.held = self.parts[0], most_bytes, 0
        self.error: BaseException | None = None  # the first one of a job, or Stopped
        self.moved = threading.Condition()

    def put(self, part: Part, block: Any) -> None:
        """The part that the output has reached never waits for the others."""
        with self.moved:
            self.moved.wait_for(lambda: self.error or self.held + block.nbytes <= self.most_bytes
                                or (part is self.current and not part.blocks))  # fmt: skip
            if self.error:
                raise Stopped
            part.blocks.append(block)
            self.held += block.nbytes
            self.moved.notify_all()

    def end(self, part: Part) -> None:
        with self.moved:
            part.is_read = True
            self.moved.notify_all()

    def fail(self, error: BaseException) -> None:
        with self.moved:
            self.error = self.error or error
            self.moved.notify_all()

    def blocks(self, part: Part) -> Generator[Any, None, None]:
        self.current = part
        while True:
            with self.moved:
                self.moved.notify_all()
                self.moved.wait_for(lambda: self.error or part.blocks or part.is_read)
                if self.error:
                    raise self.error
                if not part.blocks:
                    return
                block = part.blocks.popleft()
                self.held -= block.nbytes
            yield block
            del block  # it may be large: not two at a time


class Jobs:
    def __init__(self, count: int, reader: Callable[[], PartReader]) -> None:
        self.count, self.reader = count, reader
        self.readers: dict[int, PartReader] = {}  # of each job, kept for the next batch

    def parts(self, batches: Sequence[Any]) -> Generator[Generator[Any, None, None], None, None]:
        """The rows of each part in turn; close it: an error of a job, or that nobody wants the rest, ends all jobs."""
        relay = Relay(batches, self.count * AHEAD_BYTES)
        jobs = [threading.Thread(target=self.work, args=(relay, job), daemon=True) for job in range(self.count)]
        for job in jobs:
            job.start()
        try:
            for part in relay.parts:
                with closing(relay.blocks(part)) as blocks:
                    yield blocks
        except BaseException:
            relay.fail(Stopped())
            self.cancel()
            raise
        finally:
            for job in jobs:
                job.join()
            if relay.error:
                self.close()

    def work(self, relay: Relay, job: int) -> None:
        try:
            if job not in self.readers:
                self.readers[job] = self.reader()
            while relay.todo and not relay.error:
                with suppress(IndexError):  # another job was faster
                    self.read(relay, self.readers[job], relay.todo.popleft())
        except BaseException as error:  # it is raised where the rows are taken
            relay.fail(error)

    def read(self, relay: Relay, reader: PartReader, part: Part) -> None:
        with closing(reader.rows(part.batch)) as blocks:
            for block in blocks:
                relay.put(part, block)
                del block
        relay.end(part)

    def cancel(self) -> None:
        for reader in list(self.readers.values()):
            with suppress(psycopg.Error):
                reader.cancel()

    def close(self) -> None:
        while self.readers:
            self.readers.popitem()[1].close()
