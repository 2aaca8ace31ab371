"""``inorder tail``: reads its options, checks them, calls the rest."""

import os
from pathlib import Path
from typing import Any

import click

from inorder.errors import PIPE_CLOSED, InputError
from inorder.tail.formats import FORMATS
from inorder.tail.plan import Plan
from inorder.tail.progress import RowCount
from inorder.units import parse_count, parse_duration

MOST_ROWS = 2**31 - 1


@click.command()
@click.argument("table", required=False)
@click.option(
    "--position",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file that keeps how far TABLE was read; made if it is not there.",
)
@click.option("--feed", help="A feed made by feed_create() to follow instead; the database keeps its position.")
@click.option("--owner", metavar="ROLE", help="Role that owns the feed.  [default: the current role]")
@click.option("--dsn", default="", help="Connection string, URI or service=NAME.  [default: libpq's environment]")
@click.option(
    "--format", "output", type=click.Choice(list(FORMATS)), default="json", show_default=True, help="What to write."
)
@click.option(
    "--follow", is_flag=True, help="Do not end when there is nothing new; wait for the server if it restarts."
)
@click.option("--interval", help="With --follow, time between looks for something new: 500ms, 5s, 2m.  [default: 1s]")
@click.option("--batch-rows", default="10k", show_default=True, help="Rows after which the position moves.")
@click.option(
    "--start", type=click.Choice(["beginning", "now"]), help="Where a new position begins.  [default: beginning]"
)
@click.option(
    "--exec", "command", help="Run this shell command for each batch, with all of it as its input; 0 means delivered."
)
@click.option("--frame", is_flag=True, help="Into a pipe: a line before each batch that tells its length and its name.")
@click.option(
    "--accept-origin",
    is_flag=True,
    help="Go on though the position is of another server or timeline: after a promotion that lost nothing.",
)
@click.option(
    "--accept-output",
    is_flag=True,
    help="Go on though standard output is not the file that the position belongs to.",
)
def tail(**options: Any) -> None:
    """Write the rows of an insert-only TABLE in the order of their transactions, from where the last run stopped.

    Each row that commits comes, and nothing else, whatever the order of commits. Into a regular file it comes exactly
    once, even if client, server or host crashes; elsewhere the last unfinished batch may come again. A command and a
    pipe get whole batches.
    """
    plan = plan_of(**options)
    from inorder.tail.run import run  # noqa: PLC0415  # the driver takes longer to load than the help to print

    try:
        with RowCount(dumb=os.environ.get("TERM") == "dumb") as written:
            run(plan, written.add)
    except BrokenPipeError:  # the reader has enough
        raise SystemExit(PIPE_CLOSED) from None


def plan_of(
    table: str | None, position: Path | None, feed: str | None, owner: str | None, dsn: str, output: str,
    follow: bool, interval: str | None, batch_rows: str, start: str | None, command: str | None, frame: bool,
    accept_origin: bool, accept_output: bool,
) -> Plan:  # fmt: skip
    """The plan that the options ask for; what cannot be done is one sentence."""
    if feed is None and (table is None or position is None):
        raise InputError("give a TABLE and --position FILE, or --feed NAME")
    if feed is not None and (table is not None or position is not None or start or accept_origin or accept_output):
        raise InputError("--feed has its table and its position in the database: give no TABLE, --position, "
                         "--start, --accept-origin or --accept-output")  # fmt: skip
    if owner is not None and feed is None:
        raise InputError("--owner is only for --feed")
    if frame and command is not None:
        raise InputError("--frame is for a pipe: a command has a whole batch as its input")
    if interval is not None and not follow:
        raise InputError("--interval is only for --follow")
    return Plan(
        dsn=dsn,
        table=table,
        position=position,
        feed=feed,
        owner=owner,
        output=output,
        batch_rows=parse_count(batch_rows, "--batch-rows", 1, MOST_ROWS),
        start=start or "beginning",
        accept_origin=accept_origin,
        accept_output=accept_output,
        follow=parse_duration(interval or "1s", "--interval") if follow else None,
        command=command,
        frame=frame,
    )
