"""``inorder count``: its options, their checks, and the call of the counter."""

import csv
import json
import sys
import time
from typing import Any

import click

from inorder.options import dsn_option, duration, format_option, option
from inorder.text import print_text

EVERY_MINUTE = "* * * * *"
ACTIONS = ("--start", "--stop", "--fold", "--every", "--cron")


@click.command(epilog="Example: inorder count events --dsn service=shop")
@click.argument("table")
@option("--start", is_flag=True, excludes=ACTIONS,
        help="Start the exact count: scan once; blocks writers if TABLE is not enabled yet.")  # fmt: skip
@option("--stop", is_flag=True, excludes=ACTIONS, help="Drop the exact count.")
@option("--fold", is_flag=True, excludes=ACTIONS, help="Add the rows since the last fold to the stored number.")
@option("--every", type=duration(), excludes=ACTIONS, help="Fold at this interval until Ctrl-C: 500ms, 5s, 2m.")
@option("--shards", is_flag=True, excludes={"--cron": "pg_cron folds each shard on its node"},
        help="Add up the shards of a TABLE that Citus has distributed.")  # fmt: skip
@option("--cron", is_flag=True, excludes=ACTIONS, help="Print the statement that schedules the fold by pg_cron.")
@option("--schedule", metavar="CRON", requires="--cron", default=EVERY_MINUTE, help="Schedule for --cron.")
@dsn_option()
@format_option(["text", "json", "csv"])
def count(
    table: str, start: bool, stop: bool, fold: bool, every: float | None, shards: bool, cron: bool, schedule: str,
    dsn: str, output: str,
) -> None:  # fmt: skip
    """Print the exact number of rows of an insert-only TABLE, or start, fold or stop its count.

    --start and --fold print the number of rows they counted. --every reports on stderr, and reconnects when the server
    restarts.
    """
    # Loads the driver, which the help does not need.
    from inorder.connection.reconnect import forever, once  # noqa: PLC0415
    from inorder.count.counter import FOLD, SHOW, START, STOP, Counter, ShardsCounter  # noqa: PLC0415

    counter = ShardsCounter(table) if shards else Counter(table)
    if every is not None:
        forever(dsn, counter.attach, counter.fold, lambda: time.sleep(every), writes=True)
    elif cron:
        print_text(once(dsn, counter.attach, lambda: counter.cron(schedule)))
    elif stop:
        once(dsn, counter.attach, lambda: counter.ask(STOP), writes=True)
    else:
        statement = START if start else FOLD if fold else SHOW
        rows = once(dsn, counter.attach, lambda: counter.ask(statement), writes=start or fold)
        show(output, {"table": counter.table.quoted, "rows": rows})


def show(output: str, result: dict[str, Any]) -> None:
    if output == "text":
        click.echo(result["rows"])
    elif output == "json":
        click.echo(json.dumps(result))
    else:
        writer = csv.DictWriter(sys.stdout, list(result), lineterminator="\n")
        writer.writeheader()
        writer.writerow(result)
