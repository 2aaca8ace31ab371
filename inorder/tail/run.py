"""Run ``inorder tail``: open the source and the output, then write the rows of each batch and save the position."""

import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

import psycopg

from inorder.connection.patience import CONFLICTS, TRIES, attempts, was_cut_off
from inorder.connection.reconnect import forever, once, report
from inorder.connection.session import first_line
from inorder.errors import InputError, Terminated
from inorder.interrupts import deferred, uninterrupted
from inorder.sources import installer
from inorder.tail.feed import FeedSource
from inorder.tail.formats import FORMATS
from inorder.tail.output_file import FIRST_BYTES, FileSink, is_file
from inorder.tail.position import PositionFile
from inorder.tail.request import Request
from inorder.tail.shards import ShardsSource
from inorder.tail.sinks import Sink, is_device, is_terminal, require_writable_output
from inorder.tail.source import Batch, Source
from inorder.tail.sources import ChangesSource, TableSource
from inorder.tail.state import decode
from inorder.tail.whole import CommandSink, FeedFileSink, PipeSink

FILE_SECONDS = 60.0  # polling interval if files have a target size: more frequent polls would write smaller files


def run(request: Request, report: Callable[[int], None]) -> None:
    """Deliver rows until no new rows are left or, with --follow, until SIGTERM or SIGHUP."""
    require_arrow(request)
    with ExitStack() as stack:
        sink = stack.enter_context(closing(sink_for(request, report)))
        delivery = stack.enter_context(closing(Delivery(request, source_for(request, stack, sink), sink)))
        delivery.run()


def require_arrow(request: Request) -> None:
    if FORMATS[request.output].is_arrow:
        try:
            import inorder.arrow.reader  # noqa: PLC0415, F401  # an optional package
        except ImportError as error:
            raise InputError(
                f"--format {request.output} requires pyarrow and ADBC ({error})\nHINT:  {installer('arrow')}"
            ) from None


def sink_for(request: Request, report: Callable[[int], None]) -> Sink:
    form = FORMATS[request.output]
    if request.directory is not None:
        from inorder.tail.parquet import ParquetSink  # noqa: PLC0415  # requires pyarrow

        return ParquetSink(report, request)
    if request.command is not None:
        return CommandSink(report, form, request.command, request.retries)
    require_writable_output()
    if is_file() and form.trailer:
        raise InputError(
            f"--format {request.output} is for a pipe or --exec: a file cannot be continued after its last batch\n"
            f"HINT:  For a file per batch: --exec 'cat > $INORDER_BATCH.{request.output}'."
        )
    if is_terminal() and not form.escape:
        raise InputError(f"a terminal cannot show the format {request.output}\nHINT:  Write to a pipe, or use --exec.")
    if is_file() or is_device():
        if request.frame:
            raise InputError("--frame is for a pipe: a file needs no frames, because an incomplete batch is removed")
        kind = Sink if is_device() else FileSink if request.feed is None else FeedFileSink
        return kind(report, form)
    return PipeSink(report, form, request.frame)


def source_for(request: Request, stack: ExitStack, sink: Sink) -> Source:
    """Open a feed, or a table with a position file. The position file is locked during the run."""
    if request.feed is not None:
        return stack.enter_context(closing(FeedSource(request)))
    assert request.table is not None and request.position is not None
    file = stack.enter_context(PositionFile(request.position))
    if request.shards:
        return stack.enter_context(closing(ShardsSource(request, file, sink.sync)))
    kind = ChangesSource if request.changes else TableSource
    return stack.enter_context(closing(kind(request, request.table, file, file.read(decode), sink.sync)))


class Delivery:
    def __init__(self, request: Request, source: Source, sink: Sink) -> None:
        self.request, self.source, self.sink = request, source, sink
        source.asks_ahead = sink.waits_for_nobody
        self.header = b""  # bytes at the start of the output
        self.tries = attempts()  # consecutive attempts to read a batch

    def run(self) -> None:
        self.sink.resume(self.source, self.request.accept_output)
        writes = self.request.feed is not None
        if not self.request.follow:
            once(self.request.dsn, self.source.attach, self.deliver_all, writes=writes)
            self.source.end()
        else:
            try:
                forever(self.request.dsn, self.source.attach, self.deliver_all, self.pause, writes=writes)
            except Terminated:
                if self.sink.rows:  # a second signal interrupted a batch
                    raise
        self.sink.end(self.header)

    def pause(self) -> None:
        """Sleep for the polling interval. Without an interval, wait at most a second for new rows."""
        interval = self.request.interval
        if interval is None and self.request.target_file_size is not None:
            interval = FILE_SECONDS
        if interval is None:
            self.source.wait()
        else:
            time.sleep(interval)

    def close(self) -> None:
        with uninterrupted():
            self.source.flush()

    def deliver_all(self) -> None:
        """Deliver batches until a batch includes every transaction that had ended before it, and is not full."""
        self.sink.check()
        is_last = False
        while not is_last and (batch := self.next()):
            with deferred(impatient=True):
                rows = self.deliver(batch)
            is_last = rows is not None and not batch.is_part and (rows == 0 or rows < batch.full)
        if not self.header and self.sink.form.trailer:
            self.header = self.source.header()
        self.close()
        self.sink.check()
        if self.request.follow:
            self.source.check_name()

    def next(self) -> Batch | None:
        if self.sink.wanted_rows is not None:
            self.source.max_rows = self.sink.wanted_rows
        return self.source.next()

    def deliver(self, batch: Batch) -> int | None:
        """Deliver a batch. Return its number of rows, or None if the read was cut off and a smaller batch follows."""
        source, sink = self.source, self.sink
        if (count := self.taken(batch)) is None:
            return None
        source.is_behind = count >= batch.full
        if count == 0:
            source.skip(batch)
            return 0
        size = sink.size_in_file()
        if count >= batch.full > 0 and size is not None:
            source.expect(batch, size)
        sink.finish()
        source.finish(batch, sink.mark())
        return count

    def taken(self, batch: Batch) -> int | None:
        """Write the rows to the sink, in at most TRIES attempts. Return None if a smaller batch follows."""
        for number in self.tries:
            try:
                count = self.take(batch)
            except psycopg.Error as error:
                may_pass = number < TRIES and not self.source.session.connection.closed
                if may_pass and was_cut_off(error) and self.is_shrunk(batch, error):
                    return None
                if may_pass and error.sqlstate in CONFLICTS:
                    continue
                self.tries = attempts()
                raise
            self.tries = attempts()
            return count
        raise AssertionError

    def is_shrunk(self, batch: Batch, error: psycopg.Error) -> bool:
        """Replace a batch whose read was cut off with a smaller batch. Return False if that is impossible."""
        if not self.sink.can_take_back or (limit := self.source.shrink(batch)) is None:
            return False
        self.sink.report(-self.sink.rows)
        self.sink.again()
        self.sink.take_back()
        report(f"trying again with batches of at most {limit:,} rows: {first_line(error)}")
        return True

    def take(self, batch: Batch) -> int:
        """Write the rows to the sink. After a lost connection or a conflict, continue after the last written row."""
        self.sink.again()
        if not self.source.is_fixed:
            self.sink.take_back()
        count = 0
        with closing(self.source.pieces(batch)) as pieces:
            for header, rows in pieces:
                written, count = max(self.sink.rows - count, 0), count + len(rows)
                if written < len(rows):
                    self.put(batch, rows[written:] if written else rows, bytes(header))
                del rows  # free the memory before more rows are read
        return count

    def put(self, batch: Batch, rows: Any, header: bytes) -> None:
        """Write rows to the sink. Before the first rows of a batch, let the source store the batch."""
        content = self.source.form.content(rows)
        if self.sink.rows > 0:
            self.sink.write(rows, content)
            return
        start = self.sink.begin(batch.name, header, bytes(content[:FIRST_BYTES]))
        self.source.begin(batch, start, self.sink.mark())
        self.sink.write(rows, content, header if self.sink.at_start() else b"")
        self.header = header
