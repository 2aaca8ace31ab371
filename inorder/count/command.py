"""``inorder count``: its options, their checks, and the call of the counter."""

import csv
import json
import sys
import time
from typing import Any

import click

from inorder.errors import InputError
from inorder.units import parse_duration

EVERY_MINUTE = "* * * * *"


@click.command()
@click.argument("table")
@click.option(
    "--start", is_flag=True, help="Start the exact count: scan once; blocks writers if TABLE is not enabled yet."
)
@click.option("--stop", is_flag=True, help="Drop the exact count.")
@click.option("--fold", is_flag=True, help="Add the rows since the last fold to the stored number.")
@click.option("--every", metavar="DURATION", help="Fold at this interval until Ctrl-C: 500ms, 5s, 2m.")
@click.option("--shards", is_flag=True, help="Add up the shards of a TABLE that Citus has distributed.")
@click.option("--cron", is_flag=True, help="Print the statement that schedules the fold by pg_cron.")
@click.option("--schedule", metavar="CRON", help=f"Schedule for --cron.  [default: '{EVERY_MINUTE}']")
@click.option(
    "--dsn", metavar="DSN", default="", help="Connection string, URI or service=NAME.  [default: libpq's environment]"
)
@click.option(
    "--format", "output", type=click.Choice(["text", "json", "csv"]), default="text", show_default=True,
    help="Output format.",
)  # fmt: skip
def count(
    table: str, start: bool, stop: bool, fold: bool, every: str | None, shards: bool, cron: bool,
    schedule: str | None, dsn: str,
    output: str,
) -> None:  # fmt: skip
    """Print the exact number of rows of an insert-only TABLE, or start, fold or stop its count.

    --start and --fold print the number of rows they counted. --every reports on stderr, and reconnects when the server
    restarts.
    """
    if sum((start, stop, fold, every is not None, cron)) > 1:
        raise InputError("--start, --stop, --fold, --every and --cron exclude each other")
    if cron and shards:
        raise InputError("--cron excludes --shards: pg_cron folds each shard on its node")
    if schedule is not None and not cron:
        raise InputError("--schedule requires --cron")
    # Loads the driver, which the help does not need.
    from inorder.count.counter import FOLD, SHOW, START, STOP, Counter  # noqa: PLC0415
    from inorder.count.shards import ShardsCounter  # noqa: PLC0415
    from inorder.reconnect import forever, once  # noqa: PLC0415

    counter = ShardsCounter(table) if shards else Counter(table)
    if every is not None:
        seconds = parse_duration(every, "--every")
        forever(dsn, counter.attach, counter.fold, lambda: time.sleep(seconds), writes=True)
    elif cron:
        click.echo(once(dsn, counter.attach, lambda: counter.cron(schedule or EVERY_MINUTE)))
    elif stop:
        once(dsn, counter.attach, lambda: counter.ask(STOP), writes=True)
    else:
        statement = START if start else FOLD if fold else SHOW
        rows = once(dsn, counter.attach, lambda: counter.ask(statement), writes=start or fold)
        show(output, {"table": counter.table.quoted, "rows": rows})


def show(output: str, result: dict[str, Any]) -> None:
    """Print the number, as text or as data."""
    if output == "text":
        click.echo(result["rows"])
    elif output == "json":
        click.echo(json.dumps(result))
    else:
        writer = csv.DictWriter(sys.stdout, list(result), lineterminator="\n")
        writer.writeheader()
        writer.writerow(result)
