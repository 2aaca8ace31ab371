"""``inorder citus``: its options, and the call of the preparation."""

import click

from inorder.errors import InputError
from inorder.prepare.command import MOST_TRIES
from inorder.text import lines
from inorder.units import parse_duration


@click.command()
@click.argument("table")
@click.option("--column", metavar="NAME",
              help="Column with the transaction number.  [default: the only generated one]")  # fmt: skip
@click.option("--lock-timeout", metavar="DURATION", default="500ms", show_default=True,
              help="How long a statement waits for a lock while writers wait behind it.")  # fmt: skip
@click.option("--tries", type=click.IntRange(1, MOST_TRIES), default=30, show_default=True,
              help="How often to try in all at a shard, with pauses of up to 10 s.")  # fmt: skip
@click.option("--every", metavar="DURATION",
              help="Repeat at this interval until Ctrl-C, for shards that are moved and split: 5s, 1m.")  # fmt: skip
@click.option("--undo", is_flag=True, help="Drop the guard of each shard.")
@click.option("--dry-run", is_flag=True, help="Print the statements that remain to be done, and do nothing.")
@click.option(
    "--dsn", metavar="DSN", default="",
    help="Connection string, URI or service=NAME of the coordinator.  [default: libpq's environment]",
)  # fmt: skip
def citus(
    table: str, column: str | None, lock_timeout: str, tries: int, every: str | None, undo: bool, dry_run: bool,
    dsn: str,
) -> None:  # fmt: skip
    """Make each shard of the distributed TABLE readable, on its node: then tail --shards and count --shards read it.

    Its number must be GENERATED ALWAYS AS (xact_id_generated()) STORED. Run it again after shards were moved or split:
    what is readable is left as it is.
    """
    if undo and column is not None:
        raise InputError("--column excludes --undo")
    if every is not None and (undo or dry_run):
        raise InputError("--every excludes --undo and --dry-run")
    # Loads the driver, which the help does not need.
    from inorder.citus.preparation import Plan, repeat, run  # noqa: PLC0415

    plan = Plan(table, column, parse_duration(lock_timeout, "--lock-timeout"), tries, undo, dry_run, dsn)
    if every is not None:
        repeat(plan, parse_duration(every, "--every"))
    done = run(plan, click.echo if dry_run else lambda text: click.echo(lines(text), err=True))
    if not dry_run:
        click.echo(f"{table}: {done} shards are {'not guarded' if undo else 'readable'}")
