"""``inorder feeds``: its options, and the call of the reading."""

import sys
import time
from pathlib import Path

import click

from inorder.feeds.formats import FORMATS, Row
from inorder.files import require_writable, write_whole
from inorder.units import parse_duration


@click.command()
@click.option(
    "--dsn", metavar="DSN", default="", help="Connection string, URI or service=NAME.  [default: libpq's environment]"
)
@click.option(
    "--format", "output", type=click.Choice(list(FORMATS)), default="table", show_default=True, help="Output format."
)
@click.option("--watch", metavar="DURATION", help="Repeat at this interval until Ctrl-C: 2s, 1m.")
@click.option(
    "--out", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
    help="Replace FILE by each reading, atomically, instead of printing it.",
)  # fmt: skip
def feeds(dsn: str, output: str, watch: str | None, out: Path | None) -> None:
    """Show the backlog of each feed, its unfinished batch, and the oldest transaction that delays its rows.

    Rows are an estimate from the statistics of ANALYZE. Shows the feeds that the role may see: all of them to members
    of pg_monitor. With --watch it reconnects when the server restarts.
    """
    seconds = None if watch is None else parse_duration(watch, "--watch")
    if out is not None:
        require_writable(out)
    # Loads the driver, which the help does not need.
    from inorder.feeds.reading import Reading  # noqa: PLC0415
    from inorder.reconnect import forever, once  # noqa: PLC0415

    reading = Reading()

    def show() -> None:
        write(reading.rows(), output, out, clear=watch is not None and output == "table")

    if seconds is None:
        once(dsn, reading.attach, show)
    else:
        forever(dsn, reading.attach, show, lambda: time.sleep(seconds))


def write(rows: list[Row], output: str, out: Path | None, clear: bool) -> None:
    """Print a reading, or put it into the file."""
    text = FORMATS[output](rows)
    if out is not None:
        write_whole(out, text + "\n" if text else "")
        return
    if clear and sys.stdout.isatty():
        click.clear()
    if text:
        click.echo(text)
    sys.stdout.flush()
