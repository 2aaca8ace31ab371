"""The run: batch by batch, first the rows, then the position."""

import time
from collections.abc import Callable
from contextlib import ExitStack, closing

from psycopg.abc import Buffer

from inorder.errors import InputError, Terminated
from inorder.interrupts import finishing_first, uninterrupted
from inorder.patience import patiently
from inorder.reconnect import forever, once
from inorder.stream import Rows
from inorder.tail.formats import FORMATS
from inorder.tail.output_file import FIRST_BYTES, FileSink, is_file
from inorder.tail.plan import Plan
from inorder.tail.position import PositionFile
from inorder.tail.shards import ShardsSource
from inorder.tail.sinks import DeviceSink, Sink, is_device
from inorder.tail.sources import Batch, FeedSource, Source, TableSource
from inorder.tail.whole import CommandSink, FeedFileSink, PipeSink, WholeBatches


def run(plan: Plan, report: Callable[[int], None]) -> None:
    """Deliver until there is nothing new, or until SIGTERM or SIGHUP."""
    writes = plan.feed is not None
    with ExitStack() as stack:
        sink = stack.enter_context(closing(sink_for(plan, report)))
        source = source_for(plan, stack, sink)
        stack.callback(settle, source)
        sink.settle(source.output, source.begun, plan.accept_output)
        if isinstance(sink, WholeBatches):
            sink.connect(source)

        def work() -> None:
            sink.check()
            deliver_all(source, sink)
            settle(source)
            sink.check()

        if plan.follow:
            try:
                forever(plan.dsn, source.attach, work, pause_for(plan.interval, source), writes=writes)
            except Terminated:
                if sink.rows:  # a second signal, in the midst of a batch
                    raise
                return
        once(plan.dsn, source.attach, work, writes=writes)
        source.keep()


def settle(source: Source) -> None:
    """No interrupt comes between the parts of this."""
    with uninterrupted():
        source.settle()


def pause_for(interval: float | None, source: Source) -> Callable[[], None]:
    """Between two polls: so many seconds, or until there are rows, at most a second."""
    return source.wait if interval is None else lambda: time.sleep(interval)


def sink_for(plan: Plan, report: Callable[[int], None]) -> Sink:
    """A command if there is one, or else what standard output is."""
    if plan.directory is not None:
        from inorder.tail.parquet import ParquetSink  # noqa: PLC0415  # pyarrow is for who asks for it

        return ParquetSink(report, plan)
    if plan.command is not None:
        return CommandSink(report, plan.command, plan.retries)
    if is_file() or is_device():
        if plan.frame:
            raise InputError("--frame is for a pipe: a file needs no frames, its last batch is completed or taken back")
        return DeviceSink(report) if is_device() else FileSink(report) if plan.feed is None else FeedFileSink(report)
    return PipeSink(report, plan.frame)


def source_for(plan: Plan, stack: ExitStack, sink: Sink) -> Source:
    """A table, whose position file stays locked as long as the run, or a feed."""
    form = FORMATS[plan.output]
    if plan.feed is not None:
        return stack.enter_context(closing(FeedSource(plan.feed, plan.owner, form, plan.batch_rows)))
    assert plan.table is not None and plan.position is not None
    file = stack.enter_context(PositionFile(plan.position))
    if plan.shards:
        return stack.enter_context(closing(ShardsSource(plan, file, sink.keep)))
    return TableSource(
        plan.table, file, form, plan.batch_rows, plan.start, plan.order_by, plan.accept_origin, sink.keep, plan.whole
    )


def deliver_all(source: Source, sink: Sink) -> None:
    """All batches, up to one that is not full and has all that had ended."""
    while batch := source.next():
        with finishing_first():
            rows = deliver(source, sink, batch)
        if not batch.is_part and (rows == 0 or rows < batch.full):
            return


def deliver(source: Source, sink: Sink, batch: Batch) -> int:
    """One batch: the rows, then the position."""
    count = patiently(source.session.connection, lambda: take(source, sink, batch))
    if count == 0:
        source.skip(batch)
        return 0
    size = sink.size_in_file()
    if count >= batch.full > 0 and size is not None:
        source.expect(batch, size)
    sink.finish()
    source.finish(batch, sink.mark())
    return count


def take(source: Source, sink: Sink, batch: Batch) -> int:
    """Its rows into the sink. What a lost connection or a conflict cut off goes on after the last row."""
    sink.again()
    header: Buffer | None = None if source.form.has_header else b""
    count = 0
    with closing(source.rows(batch)) as blocks:
        for rows in blocks:
            if header is None:
                header = rows.pop(0)
            taken, count = max(sink.rows - count, 0), count + len(rows)
            del rows[:taken]
            if rows:
                put(source, sink, batch, rows, header)
            del rows  # a row may be large: not two at a time
    return count


def put(source: Source, sink: Sink, batch: Batch, rows: Rows, header: Buffer) -> None:
    """Rows into the sink; before the first of a batch, the batch into the position."""
    if sink.rows > 0:
        sink.write(rows)
        return
    if not sink.at_start():
        header = b""
    start = sink.begin(batch.name, bytes(header[:FIRST_BYTES]) + bytes(rows[0][:FIRST_BYTES]))
    source.begin(batch, start, sink.mark())
    sink.write(rows, header)
