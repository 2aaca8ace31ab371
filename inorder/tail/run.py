"""The run: what is read and where it goes are opened, then all is delivered."""

from collections.abc import Callable
from contextlib import ExitStack, closing

from inorder.errors import InputError
from inorder.tail.delivery import Delivery
from inorder.tail.formats import FORMATS
from inorder.tail.output_file import FileSink, is_file
from inorder.tail.plan import Plan
from inorder.tail.position import PositionFile
from inorder.tail.shards import ShardsSource
from inorder.tail.sinks import DeviceSink, Sink, is_device
from inorder.tail.sources import FeedSource, Source, TableSource
from inorder.tail.whole import CommandSink, FeedFileSink, PipeSink


def run(plan: Plan, report: Callable[[int], None]) -> None:
    """Deliver until there is nothing new, or until SIGTERM or SIGHUP."""
    with ExitStack() as stack:
        sink = stack.enter_context(closing(sink_for(plan, report)))
        delivery = stack.enter_context(closing(Delivery(plan, source_for(plan, stack, sink), sink)))
        delivery.run()


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
