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
OF_ALL = {"--by": "a fold is of all counts of a table"}


@click.command(epilog="Example: inorder count events --dsn service=shop")
@click.argument("table")
@option("--start", is_flag=True, excludes=ACTIONS,
        help="Start the exact count: scan once; blocks writers if TABLE is not enabled yet.")  # fmt: skip
@option("--stop", is_flag=True, excludes=ACTIONS, help="Drop the exact count.")
@option(
    "--fold",
    is_flag=True,
    excludes=dict.fromkeys(ACTIONS, "") | OF_ALL,
    help="Add the rows since the last fold to the stored number.",
)
@option(
    "--every",
    type=duration(),
    excludes=dict.fromkeys(ACTIONS, "") | OF_ALL,
    help="Fold at this interval until Ctrl-C: 500ms, 5s, 2m.",
)
@option(
    "--by",
    metavar="COLUMNS",
    help="Print the counts of groups, by up to four columns with commas between them, of any table: status,tenant.",
)
@option("--watch", type=duration(), requires="--by", excludes=ACTIONS,
        help="Repeat at this interval until Ctrl-C: 2s, 1m.")  # fmt: skip
@option("--shards", is_flag=True, excludes={"--cron": "pg_cron folds each shard on its node", "--by": ""},
        help="Add up the shards of a TABLE that Citus has distributed.")  # fmt: skip
@option(
    "--cron",
    is_flag=True,
    excludes=dict.fromkeys(ACTIONS, "") | OF_ALL,
    help="Print the statement that schedules the fold by pg_cron.",
)
@option("--schedule", metavar="CRON", requires="--cron", default=EVERY_MINUTE, help="Schedule for --cron.")
@dsn_option()
@format_option(["text", "json", "csv"])
def count(
    table: str, start: bool, stop: bool, fold: bool, every: float | None, by: str | None, watch: float | None,
    shards: bool, cron: bool, schedule: str, dsn: str, output: str,
) -> None:  # fmt: skip
    """Print the exact number of rows of an insert-only TABLE, or of groups of any table; or start, fold or stop it.

    --start and --fold print the number of rows they counted, with --by the groups. --every reports on stderr; it and
    --watch reconnect when the server restarts.
    """
    if by is not None:
        count_groups(table, by, start, stop, watch, dsn, output)
        return
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


def count_groups(
    table: str, by: str, start: bool, stop: bool, watch: float | None, dsn: str, output: str
) -> None:  # fmt: skip
    from inorder.connection.reconnect import forever, once  # noqa: PLC0415
    from inorder.count.groups import GroupCounter, columns_of, show_groups  # noqa: PLC0415

    counter = GroupCounter(table, columns_of(by))

    def work() -> None:
        show_groups(counter.groups(), counter.columns, output, clear=watch is not None and output == "text")

    if stop:
        once(dsn, counter.attach, counter.stop, writes=True)
        return
    if start:
        once(dsn, counter.attach, counter.start, writes=True)
    if watch is None:
        once(dsn, counter.attach, work)
    else:
        forever(dsn, counter.attach, work, lambda: time.sleep(watch))


def show(output: str, result: dict[str, Any]) -> None:
    if output == "text":
        click.echo(result["rows"])
    elif output == "json":
        click.echo(json.dumps(result))
    else:
        writer = csv.DictWriter(sys.stdout, list(result), lineterminator="\n")
        writer.writeheader()
        writer.writerow(result)
