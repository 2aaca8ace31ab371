"""``inorder prepare``: options and checks."""

from typing import Any

import click

from inorder.options import dsn_option, lock_timeout_option, option, tries_option
from inorder.text import lines, print_text


@click.command(epilog="Example: inorder prepare app.orders --dry-run")
@click.argument("table")
@option("--column", metavar="NAME", default="xact",
        help="Column with the transaction number; added if there is none.")  # fmt: skip
@option("--changes", is_flag=True,
        excludes=dict.fromkeys(("--column", "--drop-column"), "the table gets no column"),
        help="Log the changes of TABLE with changes_enable(), for copies of a table with updates and deletes. The "
             "first batch of a reader is the whole table.")  # fmt: skip
@option("--feed", metavar="NAME", requires="--changes",
        excludes={"--undo": "feed_drop() drops a feed"},
        help="With --changes: create the feed, too, in the same transaction.")  # fmt: skip
@option("--insert-only", is_flag=True, excludes={"--undo": "", "--changes": "the table gets no guard"},
        help="Prepare TABLE despite warnings, such as that rows were updated or deleted. From now on DELETE is an "
             "error, and an UPDATE is not delivered.")  # fmt: skip
@lock_timeout_option("500ms")
@tries_option()
@option(
    "--undo",
    is_flag=True,
    help="Drop the guard, and the index that prepare has built. With --changes: drop the triggers, but not the log.",
)
@option("--drop-column", is_flag=True, requires="--undo",
        help="With --undo: drop the column, and thereby the transaction numbers of all rows.")  # fmt: skip
@option("--dry-run", is_flag=True, help="Print the statements that remain to be run, without running them.")
@dsn_option()
def prepare(dry_run: bool, **options: Any) -> None:
    """Make an existing TABLE readable by feeds and exact counts, online and without a rewrite.

    Runs the statements of feed_prepare(): adds a column, builds its index concurrently, and creates the guard, a
    trigger that keeps the table insert-only. With --changes, logs the changes of the table instead. First checks the
    privileges of the role, and warns of everything that would fail afterwards. After a warning, nothing is done unless
    --changes or --insert-only is given. A statement that does not get its lock in time is retried. The next run
    continues after the completed statements.
    """
    # These imports load the driver, which --help does not need.
    from inorder.prepare.steps import Request, listed  # noqa: PLC0415
    from inorder.prepare.steps import prepare as run  # noqa: PLC0415

    request = Request(**options)

    def say(text: str) -> None:
        click.echo(lines(text), err=True)

    if dry_run:
        for statement in listed(request, say):
            print_text(f"{statement};")
        return
    name = run(request, say)
    print_text(f"{name} is {outcome(request.changes, request.undo, request.drop_column)}")


def outcome(changes: bool, undo: bool, drop_column: bool) -> str:
    if changes:
        return "no longer logged; its log is kept" if undo else "logged: see inorder tail --changes"
    return "as it was before" if drop_column else "no longer guarded" if undo else "readable"
