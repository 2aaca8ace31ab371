"""``inorder prepare``: its options, and the call of the steps."""

import click

from inorder.errors import InputError
from inorder.text import lines
from inorder.units import parse_duration

MOST_TRIES = 1000


@click.command()
@click.argument("table")
@click.option("--column", metavar="NAME", default="xact", show_default=True,
              help="Column with the transaction number; added if there is none.")  # fmt: skip
@click.option("--method", type=click.Choice(["brin", "btree"]), default="brin", show_default=True,
              help="Index on the column: brin costs writers least, btree makes small batches cheap.")  # fmt: skip
@click.option("--lock-timeout", metavar="DURATION", default="500ms", show_default=True,
              help="How long a statement waits for a lock while writers wait behind it.")  # fmt: skip
@click.option("--tries", type=click.IntRange(1, MOST_TRIES), default=30, show_default=True,
              help="How often to try in all, with pauses of up to 10 s.")  # fmt: skip
@click.option("--undo", is_flag=True, help="Drop the guard, and the index that prepare has made.")
@click.option("--drop-column", is_flag=True, help="With --undo: drop the column, and the numbers of all rows with it.")
@click.option("--dry-run", is_flag=True, help="Print the statements that remain to be done, and do nothing.")
@click.option(
    "--dsn", metavar="DSN", default="", help="Connection string, URI or service=NAME.  [default: libpq's environment]"
)
def prepare(
    table: str, column: str, method: str, lock_timeout: str, tries: int, undo: bool, drop_column: bool, dry_run: bool,
    dsn: str,
) -> None:  # fmt: skip
    """Make an existing TABLE readable by feeds and exact counts, without a rewrite and while it is written to.

    Adds a column, builds its index concurrently, and creates the guard, as feed_prepare() says; before that, names
    the privileges that the role lacks. A statement that does not get its lock in time is tried again. What an
    interrupted run has done is not done again.
    """
    if drop_column and not undo:
        raise InputError("--drop-column requires --undo")
    # Loads the driver, which the help does not need.
    from inorder.prepare.steps import Plan, listed  # noqa: PLC0415
    from inorder.prepare.steps import prepare as run  # noqa: PLC0415

    seconds = parse_duration(lock_timeout, "--lock-timeout")
    plan = Plan(table, column, method, seconds, tries, undo, drop_column, dsn)
    if dry_run:
        for statement in listed(plan):
            click.echo(f"{statement};")
        return
    run(plan, lambda text: click.echo(lines(text), err=True))
    click.echo(f"{table} is {'as it was before' if undo and drop_column else 'not guarded' if undo else 'readable'}")
