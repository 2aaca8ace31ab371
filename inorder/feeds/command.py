"""``inorder feeds``: options and output."""

import sys
import time
from pathlib import Path

import click

from inorder.errors import FOUND
from inorder.feeds.formats import FORMATS, Row, hints, problems
from inorder.files import require_writable, write_whole
from inorder.options import FILE, dsn_option, duration, format_option, option
from inorder.text import print_text

# Polls without rows are recorded only twice a minute. After an idle period, the reported lag of a feed with new rows
# may be up to half a minute too high.
LEAST_CHECK = 60.0  # seconds


@click.command(epilog="Example: inorder feeds --watch 2s")
@dsn_option()
@format_option(FORMATS, "Output format; json has one object per line.")
@option("--check", type=duration(LEAST_CHECK), help="Exit with code 3 if a feed has been behind for longer than "
        "this, has a dead batch or has no table; or if the role sees no feed. At least 1min.")  # fmt: skip
@option("--watch", excludes=["--check"], type=duration(), help="Repeat at this interval until Ctrl-C: 2s, 1m.")
@option("-o", "--out", type=FILE, help="Write to FILE instead of stdout; FILE is replaced atomically each time.")
def feeds(dsn: str, output: str, check: float | None, watch: float | None, out: Path | None) -> None:
    """Show the backlog of each feed, its unfinished batch, and the oldest transaction that delays its rows.

    Counts up to 10,000 rows of a feed. Shows the feeds that the role may see; members of pg_monitor see all feeds.
    With --watch, the command reconnects when the server restarts.
    """
    if out is not None:
        require_writable(out)
    # These imports load the driver, which --help does not need.
    from inorder.connection.reconnect import forever, once  # noqa: PLC0415
    from inorder.feeds.reading import Reading  # noqa: PLC0415

    reading = Reading()

    def show() -> list[Row]:
        rows = reading.rows()
        write(rows, output, out, clear=watch is not None and output == "table")
        if watch is None and output == "table" and (hint := hints(rows)):
            click.echo(hint, err=True)
        if not rows and watch is None:
            click.echo("there is no feed that this role may see; HINT: SELECT feed_create(NAME, TABLE)", err=True)
        return rows

    if watch is None:
        rows = once(dsn, reading.attach, show)
        failures = [] if check is None else problems(rows, check)
        click.echo("".join(f"{problem}\n" for problem in failures), nl=False, err=True)
        if failures or (check is not None and not rows):
            sys.exit(FOUND)
    else:
        forever(dsn, reading.attach, show, lambda: time.sleep(watch))


def write(rows: list[Row], output: str, out: Path | None, clear: bool) -> None:
    text = FORMATS[output](rows)
    if out is not None:
        write_whole(out, text + "\n" if text else "")
        return
    if clear and sys.stdout.isatty():
        click.clear()
    if text:
        print_text(text)
    sys.stdout.flush()
