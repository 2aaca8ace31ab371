"""The run: batch by batch, first the rows, then the position."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from inorder.interrupts import finishing_first
from inorder.reconnect import forever, once
from inorder.tail.position import PositionFile
from inorder.tail.sinks import Sink, sink_for
from inorder.tail.sources import FORMATS, Batch, FeedSource, Source, TableSource


@dataclass(frozen=True)
class Plan:
    """What was asked for: a table and a position file, or a feed."""

    dsn: str
    table: str | None
    position: Path | None
    feed: str | None
    owner: str | None = None  # of the feed
    output: str = "json"
    batch_rows: int = 10_000
    start: str = "beginning"
    accept_origin: bool = False
    follow: float | None = None  # seconds between polls
    command: str | None = None


def run(plan: Plan, told: Callable[[int], None]) -> None:
    """Deliver until there is nothing new, or for ever."""
    with ExitStack() as stack:
        sink = stack.enter_context(closing(sink_for(plan.command, told)))
        source = source_for(plan, stack)

        def work() -> None:
            deliver_all(source, sink, plan.batch_rows)
            sink.check()

        if plan.follow is None:
            once(plan.dsn, source.attach, work, writes=plan.feed is not None)
            source.close()
        else:
            forever(plan.dsn, source.attach, work, plan.follow, writes=plan.feed is not None)


def source_for(plan: Plan, stack: ExitStack) -> Source:
    """A table, whose position file stays locked as long as the run, or a feed."""
    form = FORMATS[plan.output]
    if plan.feed is not None:
        return FeedSource(plan.feed, plan.owner, form, plan.batch_rows)
    assert plan.table is not None and plan.position is not None
    file = stack.enter_context(PositionFile(plan.position))
    return TableSource(plan.table, file, form, plan.batch_rows, plan.start, plan.accept_origin)


def deliver_all(source: Source, sink: Sink, full: int) -> None:
    """All batches, up to one that is not full: there was nothing more then. The first may be an old one."""
    first = True
    while batch := source.next():
        with finishing_first():
            rows = deliver(source, sink, batch)
        if rows == 0 or (rows < full and not first):
            return
        first = False


def deliver(source: Source, sink: Sink, batch: Batch) -> int:
    """One batch: the rows, then the position. What a lost connection cut off goes on after the last row."""
    if sink.rows == 0 and batch.output:
        sink.rewind(batch.output)
    header = sink.at_start() and source.form.has_header
    count = 0
    with closing(source.rows(batch, header)) as rows:
        for count, row in enumerate(headed(map(bytes, rows)) if header else map(bytes, rows), 1):
            if sink.rows == 0:
                source.begin(batch, sink.mark())
            if count > sink.rows:
                sink.write(row)
    if count == 0:
        source.skip(batch)
        return 0
    sink.finish()
    source.finish(batch)
    return count


def headed(rows: Iterator[bytes]) -> Iterator[bytes]:
    """The header together with the first row; neither without rows.

    >>> list(headed(iter([b"id\\n", b"1\\n", b"2\\n"]))), list(headed(iter([b"id\\n"])))
    ([b'id\\n1\\n', b'2\\n'], [])
    """
    header = next(rows)
    for row in rows:
        yield header + row
        header = b""
