"""``inorder tail``: its options, their checks, and the call of run()."""

import os
from pathlib import Path
from typing import Any

import click

from inorder.errors import InputError
from inorder.tail.plan import OUTPUTS, Plan
from inorder.tail.progress import RowCount
from inorder.units import parse_count, parse_duration

MOST_ROWS = 2**31 - 1


@click.command()
@click.argument("table", required=False)
@click.option(
    "--position",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the position in TABLE; created if it does not exist.",
)
@click.option("--feed", metavar="NAME", help="Read a feed made by feed_create(); its position is in the database.")
@click.option("--owner", metavar="ROLE", help="Owner of the feed.  [default: the current role]")
@click.option(
    "--dsn", metavar="DSN", default="", help="Connection string, URI or service=NAME.  [default: libpq's environment]"
)
@click.option(
    "--format", "output", type=click.Choice(OUTPUTS), default="json", show_default=True, help="Output format."
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="With --format parquet: where the files are, one for each batch; made if it does not exist.",
)
@click.option(
    "--follow", is_flag=True, help="Wait for new rows until interrupted, and reconnect when the server restarts."
)
@click.option(
    "--interval", metavar="DURATION",
    help="Poll at this interval with --follow: 500ms, 5s, 2m.  [default: deliver rows as soon as they are committed]",
)  # fmt: skip
@click.option(
    "--batch-rows",
    metavar="COUNT",
    default="10k",
    show_default=True,
    help="Maximum number of rows in a batch. A transaction whose rows no key distinguishes is not split.",
)
@click.option(
    "--start", type=click.Choice(["beginning", "now"]), help="Where a new position starts.  [default: beginning]"
)
@click.option(
    "--order-by",
    metavar="COLUMN",
    help="Deliver rows in the order of this column, not of their transactions. It was drawn from a sequence.",
)
@click.option(
    "--whole-transactions", "whole", is_flag=True,
    help="End no batch inside a transaction: a batch has more rows than --batch-rows if the last transaction has them.",
)  # fmt: skip
@click.option(
    "--shards", is_flag=True,
    help="Read all shards of a TABLE that Citus has distributed, from the coordinator; FILE has a position in each.",
)  # fmt: skip
@click.option(
    "--exec", "command", metavar="COMMAND",
    help="Run a shell command for each batch, with the whole batch as its input; exit code 0 means delivered.",
)  # fmt: skip
@click.option(
    "--retries",
    metavar="COUNT",
    help="Run a command that failed again, with the same batch, at most COUNT times: after 0.1 s, 0.2 s, … 10 s.  "
    "[default: 0]",
)
@click.option("--frame", is_flag=True, help="Write a line with name and length before each batch, into a pipe.")
@click.option(
    "--accept-origin",
    is_flag=True,
    help="Continue with a position of another server or timeline, after a promotion or pg_upgrade that lost nothing.",
)
@click.option(
    "--accept-output",
    is_flag=True,
    help="Continue although standard output is not the file that the position belongs to.",
)
def tail(**options: Any) -> None:
    """Write the rows of an insert-only TABLE committed since the last run, in the order of their transactions.

    Every committed row is delivered, and no other, regardless of commit order. A regular file with --position receives
    each row exactly once, even if client, server or host crashes. Any other output receives it at least once: the last
    unfinished batch may be repeated. Commands and pipes receive whole batches.
    """
    plan = plan_of(**options)
    from inorder.tail.run import run  # noqa: PLC0415  # loads the driver, which the help does not need

    with RowCount(dumb=os.environ.get("TERM") == "dumb") as written:
        run(plan, written.add)


def check_order(feed: str | None, order_by: str | None, whole: bool, shards: bool) -> None:
    """What rows come together, and in which order, is for a table only; what is of several nodes has no order."""
    if feed is not None and order_by is not None:
        raise InputError("--order-by is for a TABLE: a feed has the order column that it was created with")
    if feed is not None and whole:
        raise InputError("--whole-transactions is for a TABLE: a feed has the whole_transactions it was created with")
    if order_by is not None and whole:
        raise InputError("--whole-transactions excludes --order-by")
    if shards and feed is not None:
        raise InputError("--shards is for a TABLE and --position: a feed is in one database, of one shard")
    if shards and order_by is not None:
        raise InputError("--shards excludes --order-by: the values of several nodes have no common order")


def check_directory(output: str, directory: Path | None, command: str | None, frame: bool) -> None:
    """Parquet files are in a directory, and nothing else is."""
    if (output == "parquet") != (directory is not None):
        raise InputError("--format parquet and --directory require each other")
    if directory is not None and (command is not None or frame):
        raise InputError("--format parquet writes files: it excludes --exec and --frame")


def check_command(command: str | None, frame: bool, retries: str | None) -> None:
    """What is for commands, and what is not."""
    if frame and command is not None:
        raise InputError("--frame is for a pipe and excludes --exec: a command has a whole batch as its input")
    if retries is not None and command is None:
        raise InputError("--retries requires --exec")


def plan_of(
    table: str | None, position: Path | None, feed: str | None, owner: str | None, dsn: str, output: str,
    directory: Path | None, follow: bool, interval: str | None, batch_rows: str, start: str | None,
    order_by: str | None, whole: bool, shards: bool,
    command: str | None, retries: str | None, frame: bool, accept_origin: bool, accept_output: bool,
) -> Plan:  # fmt: skip
    """The plan from the options, or an error in one sentence."""
    if feed is None and (table is None or position is None):
        raise InputError("give a TABLE and --position FILE, or --feed NAME")
    if feed is not None and (table is not None or position is not None or start or accept_origin or accept_output):
        raise InputError("--feed has its table and its position in the database: give no TABLE, --position, "
                         "--start, --accept-origin or --accept-output")  # fmt: skip
    check_order(feed, order_by, whole, shards)
    check_directory(output, directory, command, frame)
    if owner is not None and feed is None:
        raise InputError("--owner requires --feed")
    check_command(command, frame, retries)
    if interval is not None and not follow:
        raise InputError("--interval requires --follow")
    return Plan(
        dsn=dsn,
        table=table,
        position=position,
        feed=feed,
        owner=owner,
        output=output,
        directory=directory,
        batch_rows=parse_count(batch_rows, "--batch-rows", 1, MOST_ROWS),
        start=start or "beginning",
        order_by=order_by,
        whole=whole,
        shards=shards,
        accept_origin=accept_origin,
        accept_output=accept_output,
        follow=follow,
        interval=None if interval is None else parse_duration(interval, "--interval"),
        command=command,
        retries=0 if retries is None else parse_count(retries, "--retries", 0, MOST_ROWS),
        frame=frame,
    )
