"""The subcommands of ``inorder count`` and their options. Each subcommand calls the counter of a table."""

import csv
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import click

from inorder.groups import Group
from inorder.options import dsn_option, duration, format_option, option
from inorder.text import print_text

EVERY_MINUTE = "* * * * *"

of_table = click.argument("table")
formatted = format_option(["text", "json", "csv"], "Output format; json prints one object or, with --by, one per line.")
shards_option = option(
    "--shards", is_flag=True, excludes=["--by"], help="TABLE is distributed by Citus: include all its shards."
)


def by_option(help: str) -> Callable[[Any], Any]:
    return option("--by", metavar="COLUMNS", help=help)


@click.group(cls=Group)
def count() -> None:
    """Count the rows of a table exactly: all rows of an insert-only table, or groups of any table."""


@count.command(epilog="Example: inorder count show orders --by status --watch 2s")
@of_table
@by_option("Print a line for each group, by up to four comma-separated columns, such as status,tenant.")
@option("--watch", type=duration(), requires="--by",
        help="Repeat at this interval until Ctrl-C: 2s, 1m. Reconnects when the server restarts.")  # fmt: skip
@shards_option
@dsn_option()
@formatted
def show(table: str, by: str | None, watch: float | None, shards: bool, dsn: str, output: str) -> None:
    """Print the number of rows of TABLE."""
    from inorder.count.counter import SHOW  # noqa: PLC0415  # loads the driver, which --help does not need

    if by is None:
        print_number(table, SHOW, shards, dsn, output)
    else:
        print_groups(table, by, False, watch, dsn, output)


@count.command(epilog="Example: inorder count start orders --by status")
@of_table
@by_option("Count groups by up to four comma-separated columns, such as status,tenant; '' counts all rows.")
@shards_option
@dsn_option()
@formatted
def start(table: str, by: str | None, shards: bool, dsn: str, output: str) -> None:
    """Start the count of TABLE, and print it.

    Scans the table once. Blocks the writers of a table that is not enabled yet; with --by, blocks writers only while
    the triggers are created.
    """
    from inorder.count.counter import START  # noqa: PLC0415

    if by is None:
        print_number(table, START, shards, dsn, output)
    else:
        print_groups(table, by, True, None, dsn, output)


@count.command(epilog="Example: inorder count fold events --every 10s")
@of_table
@option("--every", type=duration(),
        help="Repeat at this interval until Ctrl-C: 500ms, 5s, 2m. Reports on stderr, and reconnects when the server "
        "restarts.")  # fmt: skip
@shards_option
@dsn_option()
@formatted
def fold(table: str, every: float | None, shards: bool, dsn: str, output: str) -> None:
    """Add the rows since the last fold to the stored count of TABLE, and print their number.

    A count reads all rows since the last fold: folds at regular intervals keep counts fast.
    """
    from inorder.connection.reconnect import forever  # noqa: PLC0415
    from inorder.count.counter import FOLD, counter_of  # noqa: PLC0415

    if every is None:
        print_number(table, FOLD, shards, dsn, output)
    else:
        counter = counter_of(table, shards)
        forever(dsn, counter.attach, counter.fold, lambda: time.sleep(every), writes=True)


@count.command(epilog="Example: inorder count stop orders --by status")
@of_table
@by_option("Drop the count of these groups, and its view.")
@shards_option
@dsn_option()
def stop(table: str, by: str | None, shards: bool, dsn: str) -> None:
    """Drop the count of TABLE."""
    from inorder.connection.reconnect import once  # noqa: PLC0415
    from inorder.count.counter import STOP, counter_of  # noqa: PLC0415
    from inorder.count.groups import GroupCounter, columns_of  # noqa: PLC0415

    if by is None:
        counter = counter_of(table, shards)
        once(dsn, counter.attach, lambda: counter.ask(STOP), writes=True)
    else:
        groups = GroupCounter(table, columns_of(by))
        once(dsn, groups.attach, groups.stop, writes=True)


@count.command(epilog="Example: inorder count cron events --schedule '*/5 * * * *'")
@of_table
@option("--schedule", metavar="CRON", default=EVERY_MINUTE, help="When to fold.")
@dsn_option()
def cron(table: str, schedule: str, dsn: str) -> None:
    """Print the SQL statement that schedules folds of TABLE with pg_cron."""
    from inorder.connection.reconnect import once  # noqa: PLC0415
    from inorder.count.counter import Counter  # noqa: PLC0415

    counter = Counter(table)
    print_text(once(dsn, counter.attach, lambda: counter.cron(schedule)))


def print_number(table: str, statement: Any, shards: bool, dsn: str, output: str) -> None:
    from inorder.connection.reconnect import once  # noqa: PLC0415
    from inorder.count.counter import SHOW, counter_of  # noqa: PLC0415

    counter = counter_of(table, shards)
    rows = once(dsn, counter.attach, lambda: counter.ask(statement), writes=statement is not SHOW)
    result = {"table": counter.table.quoted, "rows": rows}
    if output == "text":
        click.echo(rows)
    elif output == "json":
        click.echo(json.dumps(result))
    else:
        writer = csv.DictWriter(sys.stdout, list(result), lineterminator="\n")
        writer.writeheader()
        writer.writerow(result)


def print_groups(table: str, by: str, starts: bool, watch: float | None, dsn: str, output: str) -> None:
    from inorder.connection.reconnect import forever, once  # noqa: PLC0415
    from inorder.count.groups import GroupCounter, columns_of, show_groups  # noqa: PLC0415

    counter = GroupCounter(table, columns_of(by))

    def work() -> None:
        show_groups(counter.groups(), counter.columns, output, clear=watch is not None and output == "text")

    if starts:
        once(dsn, counter.attach, counter.start, writes=True)
    if watch is None:
        once(dsn, counter.attach, work)
    else:
        forever(dsn, counter.attach, work, lambda: time.sleep(watch))
