"""The options of ``inorder tail``."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import click

from inorder.errors import InputError
from inorder.options import FILE, FOLDER, Sections, count, dsn_option, duration, format_option, option, size
from inorder.tail.request import MOST_ROWS, OUTPUTS, Request

INTERVAL = 0.2  # seconds between two updates of the line
CLEAR_LINE = "\r\x1b[K"
ARROW = ("arrow", "parquet")  # formats that require the ADBC driver


class RowCount:
    """The number of rows written so far, as a line that is updated on standard error and removed at the end.

    The line is shown only if standard error is a terminal that can update lines, and the rows do not go to a terminal.
    """

    def __init__(self, dumb: bool) -> None:
        self.shown = not dumb and sys.stderr.isatty() and not sys.stdout.isatty()
        self.rows = 0
        self.began = self.last = time.monotonic()

    def __enter__(self) -> "RowCount":
        return self

    def __exit__(self, *_error: object) -> None:
        if self.shown:
            sys.stderr.write(CLEAR_LINE)
            sys.stderr.flush()

    def add(self, rows: int) -> None:
        self.rows += rows
        now = time.monotonic()
        if self.shown and now - self.last >= INTERVAL:
            self.last = now
            sys.stderr.write(f"{CLEAR_LINE}{self.rows:,} rows, {now - self.began:,.0f} s")
            sys.stderr.flush()


IN_DATABASE = "a feed has its table and its position in the database"


@click.command(
    cls=Sections, epilog="\b\nExample:\n  inorder tail events --position events.position --follow >> events.jsonl"
)
@click.argument("table", required=False)
@option(
    "--feed", section="Source", metavar="NAME",
    help="Read a feed created by feed_create(); its position is in the database.",
    excludes={
        "--position": IN_DATABASE, "--start": IN_DATABASE, "--accept-origin": IN_DATABASE,
        "--accept-output": IN_DATABASE, "--accept-table": "for a feed, call feed_seek(name, 'here')",
        "--order-by": "for a feed, feed_create() sets the order column",
        "--whole-transactions": "for a feed, feed_create() sets whole_transactions",
        "--shards": "a feed is in one database, on one node",
    },
)  # fmt: skip
@option("--owner", metavar="ROLE", requires="--feed", help="Owner of the feed.  [default: the current role]")
@dsn_option()
@option(
    "--changes", is_flag=True,
    excludes={
        "--feed": "use --position FILE, or read the changes with changes_batch_rows()",
        "--order-by": "changes have no order", "--shards": "changes of distributed tables are not logged",
    },
    help="Read the changes that a copy of TABLE needs: rows with the columns version and op, which is upsert, delete "
         "or resync. changes_enable() logs the updates and deletes.",
)  # fmt: skip
@option(
    "--order-by", metavar="COLUMN", excludes={
        "--whole-transactions": "", "--shards": "the values of several nodes have no common order",
    },
    help="Deliver rows in the order of this column, filled by a sequence, instead of the order of transactions.",
)  # fmt: skip
@option(
    "--shards", is_flag=True,
    help="Read all shards of a TABLE that Citus has distributed, from the coordinator; FILE keeps all positions.",
)  # fmt: skip
@option(
    "--position", section="Position", type=FILE, help="File with the position in TABLE; created if it does not exist."
)
@option("--start", type=click.Choice(["beginning", "now"]), default="beginning", help="Where a new position starts.")
@option(
    "--accept-origin", is_flag=True,
    help="Continue with a position from another server or timeline, after a promotion or pg_upgrade that lost no data.",
)  # fmt: skip
@option(
    "--accept-table", is_flag=True, excludes={"--shards": "each shard is a table of its own"},
    help="Continue even if the guard or the primary key of TABLE was created again, or partitions were attached. "
         "Rows that were in the partitions before are not delivered.",
)  # fmt: skip
@option(
    "--accept-output", is_flag=True,
    help="Continue even if the output is not the file or the directory that the position belongs to.",
)  # fmt: skip
@option(
    "--batch-rows", section="Batches", type=count(1, MOST_ROWS), default="10k",
    help="Maximum number of rows in a batch. A transaction is not split if TABLE has no key.",
)  # fmt: skip
@option(
    "--whole-transactions", "whole", is_flag=True,
    help="Do not split transactions: a batch may exceed --batch-rows by the rows of its last transaction.",
)  # fmt: skip
@format_option(OUTPUTS, "Output format; json has one object per line.", section="Output")
@option(
    "--directory", type=FOLDER, 
    excludes={"--exec": "it has a file for each batch", "--frame": "frames separate the batches in a pipe"},
    help="With --format parquet: the directory for the files, one per batch; created if it does not exist.",
)  # fmt: skip
@option(
    "--target-file-size", type=size(10_000), requires="--directory",
    help="Choose the number of rows per batch so that a file has about this size; with --follow, write a file per "
    "--interval, which is 1m by default.",
)  # fmt: skip
@option(
    "--misfits", type=click.Choice(["error", "null"]), default="error",
    help="With --format arrow or parquet: how to handle values that Arrow cannot represent, such as infinity.",
)  # fmt: skip
@option(
    "--exec", "command", metavar="COMMAND",
    help="Run a shell command for each batch, with the batch as its input; exit code 0 means delivered.",
)  # fmt: skip
@option(
    "--retries", type=count(0, MOST_ROWS), default="0", requires="--exec",
    help="Retry a failed command with the same batch, at most COUNT times: after 0.1 s, 0.2 s, … 10 s.",
)  # fmt: skip
@option(
    "--frame", is_flag=True, excludes={"--exec": "a command has a whole batch as its input"},
    help="For pipes: write a line with the name and the length of the batch before each batch.",
)  # fmt: skip
@option(
    "-f",
    "--follow",
    section="Following",
    is_flag=True,
    help="Wait for new rows until interrupted, and reconnect when the server restarts.",
)
@option(
    "--interval", type=duration(), requires="--follow",
    section="Following",
    help="Poll at this interval with --follow: 500ms, 5s, 2m.  [default: deliver rows as soon as they are committed]",
)  # fmt: skip
def tail(**options: Any) -> None:
    """Write the rows of an insert-only TABLE committed since the last run, in the order of their transactions.

    Requires TABLE with --position, or --feed. The database must have inorder (inorder install), and the table must be
    readable (inorder prepare). Ends when no new rows are left, unless --follow is given.

    Every committed row is delivered, and no other row, regardless of commit order. A regular file with --position
    receives each row exactly once, even if client, server or host crashes. Any other output receives each row at least
    once: the last unfinished batch may be repeated. Commands and pipes receive whole batches.
    """
    check(**options)
    if options["output"] in ARROW:
        take_standard_error()
    from inorder.tail.run import run  # noqa: PLC0415  # loads the driver, which --help does not need

    with RowCount(dumb=os.environ.get("TERM") == "dumb") as written:
        run(Request(**options), written.add)


def take_standard_error() -> None:
    """Reserve standard error for this tool and its commands until the process ends.

    The libpq in the ADBC driver prints server notices to file descriptor 2. A terminal would interpret control
    characters in these notices.
    """
    own_stderr = os.fdopen(os.dup(2), "w", buffering=1, encoding=sys.stderr.encoding, errors=sys.stderr.errors)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    sys.stderr = own_stderr


def check(
    table: str | None, position: Path | None, feed: str | None, output: str, directory: Path | None, **_others: object
) -> None:
    if feed is None and (table is None or position is None):
        raise InputError("give a TABLE and --position FILE, or --feed NAME")
    if feed is not None and table is not None:
        raise InputError(f"--feed cannot be used with TABLE: {IN_DATABASE}")
    if (output == "parquet") != (directory is not None):
        raise InputError("--format parquet and --directory require each other")
